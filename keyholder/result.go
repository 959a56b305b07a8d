package keyholder

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// Result is a verified and decrypted result of a program.
type Result struct {
	Program   string
	Evaluator string // who computed and signed it
	Unit      string // where the reader knows it

	KeyID [16]byte
	Epoch uint32

	BootEpoch, Sequence uint64 // order of the evaluator's results

	Start, End time.Time // the window that it was computed from
	Samples    uint32    // samples per channel in the window

	Values []float64 // natural units
	Bound  float64   // promised |error| of each value

	ID     [32]byte   // of the sealed object
	Inputs [][32]byte // ids of the readings it was computed from
	Sealed []byte     // the sealed object itself
}

// resultJSON is the NDJSON form of a Result.
type resultJSON struct {
	Program   string    `json:"program"`
	Evaluator string    `json:"evaluator"`
	Unit      string    `json:"unit,omitempty"`
	KeyID     string    `json:"key_id"`
	Epoch     uint32    `json:"epoch"`
	BootEpoch uint64    `json:"boot_epoch"`
	Sequence  uint64    `json:"sequence"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Samples   uint32    `json:"samples"`
	Values    []float64 `json:"values"`
	Bound     float64   `json:"bound"`
	ID        string    `json:"id"`
	Inputs    []string  `json:"inputs,omitempty"`
	Bytes     int       `json:"bytes"`
}

// MarshalJSON writes the form that "results decrypt" prints.
func (r *Result) MarshalJSON() ([]byte, error) {
	j := resultJSON{
		Program: r.Program, Evaluator: r.Evaluator, Unit: r.Unit, KeyID: hex.EncodeToString(r.KeyID[:]), Epoch: r.Epoch,
		BootEpoch: r.BootEpoch, Sequence: r.Sequence, Start: r.Start.UTC(), End: r.End.UTC(), Samples: r.Samples,
		Values: r.Values, Bound: r.Bound, ID: hex.EncodeToString(r.ID[:]), Bytes: len(r.Sealed),
	}
	for _, in := range r.Inputs {
		j.Inputs = append(j.Inputs, hex.EncodeToString(in[:]))
	}
	return json.Marshal(j)
}

// apply turns decrypted slots into values as the result's signed header says:
// value_i = A*slot[Slot+i] + B, or its square root. A negative argument of the
// root is noise around zero and reads as 0.
func apply(post *transport.Post, slots []float64) ([]float64, error) {
	if post == nil {
		return nil, fmt.Errorf("%w: its header does not say how to read the values", ErrNotResult)
	}
	if post.Slot < 0 || post.Count < 1 || post.Slot > len(slots)-post.Count {
		return nil, fmt.Errorf("%w: %d values from slot %d, the ciphertext has %d slots", ErrTampered, post.Count, post.Slot, len(slots))
	}
	values := make([]float64, post.Count)
	for i := range values {
		v := post.A*slots[post.Slot+i] + post.B
		if post.Sqrt {
			v = math.Sqrt(max(v, 0))
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%w: value %d is not finite", ErrTampered, i)
		}
		values[i] = v
	}
	return values, nil
}

// Save stores the sealed result in dir, named after program, evaluator and
// number, for "results decrypt" and "results verify". Storing it again replaces
// it by the same bytes.
func (r *Result) Save(dir string) (path string, err error) {
	m := transport.Meta{Program: r.Program, Device: r.Evaluator, BootEpoch: r.BootEpoch, Sequence: r.Sequence}
	path = filepath.Join(dir, resultName(&m))
	return path, writeFile(path, r.Sealed, publicMode)
}

const resultSuffix = ".cose"

// resultName is the file name of a stored result. Names from a verified header hold no
// path separator.
func resultName(m *transport.Meta) string {
	return fmt.Sprintf("%s-%s-%d-%d%s", m.Program, m.Device, m.BootEpoch, m.Sequence, resultSuffix)
}

// made is what a result was made of, for seen.
func (r *Result) made() *transport.Meta {
	return &transport.Meta{Device: r.Evaluator, Program: r.Program, Inputs: r.Inputs}
}
