package store

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

// columns are those of a result, in the order of encode and decode. Times are Unix
// nanoseconds. Numbers of 64 bits without sign are stored as those with a sign that have the
// same bits. value is the first value and more a JSON list of the others; NULL stands for
// NaN, and for no others.
var columns = []string{"identity", "program", "device", "evaluator", "unit", "key_id", "epoch", "boot_epoch",
	"sequence", "start_ns", "end_ns", "samples", "value", "more", "bound", "object", "inputs", "bytes", "packed",
	"fleet_devices", "fleet_windows", "fleet_samples", "fleet_digest"}

var (
	insertSQL = "INSERT INTO results (" + strings.Join(columns, ", ") + ") VALUES (?" +
		strings.Repeat(", ?", len(columns)-1) + ") ON CONFLICT DO NOTHING"
	selectSQL = "SELECT id, " + strings.Join(columns[1:], ", ") + " FROM results"
)

// byIdentity finds a row by its identity and its start.
const byIdentity = "identity = ? AND start_ns = ?"

// seriesSQL takes a row, which a condition finds, into its series.
func seriesSQL(where string) string {
	return `INSERT INTO series (program, device, evaluator, unit, start_ns, end_ns, samples, value, bound,
		result)
	SELECT program, device, evaluator, unit, start_ns, end_ns, samples, value, bound, id FROM results
	WHERE ` + where + `
	ON CONFLICT (program, device) DO UPDATE SET evaluator = excluded.evaluator, unit = excluded.unit,
		start_ns = excluded.start_ns, end_ns = excluded.end_ns, samples = excluded.samples, value = excluded.value,
		bound = excluded.bound, result = excluded.result WHERE excluded.start_ns >= series.start_ns`
}

// encode returns the columns of a result.
func encode(r *keyholder.Result) []any {
	identity := r.Identity()
	var value, more any
	if len(r.Values) > 0 {
		value = number(r.Values[0])
	}
	if len(r.Values) > 1 {
		more = list(r.Values[1:])
	}
	inputs := make([]byte, 0, len(r.Inputs)*len(r.ID))
	for i := range r.Inputs {
		inputs = append(inputs, r.Inputs[i][:]...)
	}
	size := r.Size()
	unit := strings.ToValidUTF8(strings.ReplaceAll(r.Unit, "\x00", ""), "\ufffd") // which PostgreSQL wants
	row := []any{identity[:], r.Program, r.Device, r.Evaluator, unit, r.KeyID[:], int64(r.Epoch),
		int64(r.BootEpoch), int64(r.Sequence), r.Start.UnixNano(), r.End.UnixNano(), int64(r.Samples), value, more,
		number(r.Bound), r.ID[:], inputs, int64(size), int64(r.Packed)}
	if f := r.Fleet; f != nil {
		return append(row, int64(f.Devices), int64(f.Windows), int64(f.Samples), f.Digest[:])
	}
	return append(row, nil, nil, nil, nil)
}

// number returns a value for a column: nil for NaN.
func number(v float64) any {
	if math.IsNaN(v) {
		return nil
	}
	return v
}

// list returns values as a JSON list.
func list(values []float64) string {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = number(v)
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "[]" // infinite values, which Result has not
	}
	return string(b)
}

// decode reads a row of selectSQL.
func decode(rows *sql.Rows) (id int64, r *keyholder.Result, err error) {
	r = new(keyholder.Result)
	var keyID, object, inputs, digest []byte
	var epoch, boot, sequence, start, end, samples, size, packed int64
	var value, bound sql.NullFloat64
	var more sql.NullString
	var devices, windows, fleet sql.NullInt64
	if err := rows.Scan(&id, &r.Program, &r.Device, &r.Evaluator, &r.Unit, &keyID, &epoch, &boot, &sequence, &start,
		&end, &samples, &value, &more, &bound, &object, &inputs, &size, &packed, &devices, &windows, &fleet,
		&digest); err != nil {
		return 0, nil, err
	}
	r.Epoch, r.BootEpoch, r.Sequence = uint32(epoch), uint64(boot), uint64(sequence)
	r.Start, r.End, r.Samples = time.Unix(0, start).UTC(), time.Unix(0, end).UTC(), uint32(samples)
	r.Bound, r.Bytes, r.Packed = float(bound), int(size), int(packed)
	r.Values = []float64{float(value)}
	if more.Valid {
		var rest []*float64
		if err := json.Unmarshal([]byte(more.String), &rest); err != nil {
			return 0, nil, fmt.Errorf("row %d: its values: %w", id, err)
		}
		for _, v := range rest {
			if v == nil {
				v = new(float64)
				*v = math.NaN()
			}
			r.Values = append(r.Values, *v)
		}
	}
	copy(r.KeyID[:], keyID)
	copy(r.ID[:], object)
	for ; len(inputs) >= 32; inputs = inputs[32:] {
		r.Inputs = append(r.Inputs, [32]byte(inputs[:32]))
	}
	if devices.Valid {
		r.Fleet = &transport.Fleet{Devices: uint32(devices.Int64), Windows: uint32(windows.Int64),
			Samples: uint64(fleet.Int64)}
		copy(r.Fleet.Digest[:], digest)
	}
	return id, r, nil
}

func float(v sql.NullFloat64) float64 {
	if !v.Valid {
		return math.NaN()
	}
	return v.Float64
}
