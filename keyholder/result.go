package keyholder

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// Result is a verified and decrypted result of a program.
type Result struct {
	Program   string
	Device    string // that it is about, in a program for a class
	Evaluator string // who computed and signed it
	Unit      string // where the reader knows it

	KeyID [16]byte
	Epoch uint32

	BootEpoch, Sequence uint64 // order of the evaluator's results

	Start, End time.Time // the window that it was computed from
	Samples    uint32    // samples per channel in the window; the least of several
	// Fleet says how many devices, windows and samples a result across devices is computed
	// from; nil for others.
	Fleet *transport.Fleet

	Values []float64 // natural units
	Bound  float64   // promised |error| of each value; of a root it follows from the values

	ID     [32]byte   // of the sealed object
	Inputs [][32]byte // ids of the readings it was computed from; empty for more than transport.MaxInputs
	Sealed []byte     // the sealed object itself
	Bytes  int        // length of the sealed object, where Sealed is not at hand
	Packed int        // results that its object carries; 0: it is no pack

	file string // name of the object's file; empty: that of the result alone
}

// MarshalJSON returns the form that "results decrypt" prints.
func (r *Result) MarshalJSON() ([]byte, error) {
	j := resultJSON{
		Program: r.Program, Device: r.Device, Evaluator: r.Evaluator, Unit: r.Unit,
		KeyID: hex.EncodeToString(r.KeyID[:]), Epoch: r.Epoch,
		BootEpoch: r.BootEpoch, Sequence: r.Sequence, Start: r.Start.UTC(), End: r.End.UTC(), Samples: r.Samples,
		Values: r.Values, Bound: r.Bound, ID: hex.EncodeToString(r.ID[:]), Bytes: r.Size(), Packed: r.Packed,
	}
	if f := r.Fleet; f != nil {
		j.Fleet = &fleetJSON{f.Devices, f.Windows, f.Samples, hex.EncodeToString(f.Digest[:])}
	}
	for _, in := range r.Inputs {
		j.Inputs = append(j.Inputs, hex.EncodeToString(in[:]))
	}
	return json.Marshal(j)
}

// Size returns the length of the sealed object in bytes.
func (r *Result) Size() int { return max(len(r.Sealed), r.Bytes) }

// Identity returns what tells a result from every other one: a digest of what it was computed
// from, by which evaluator and program, or where its header does not say, of its number. The
// same windows computed again, under a new number, are the same result.
func (r *Result) Identity() [16]byte {
	if key, ok := seenKey(r.made()); ok {
		return key
	}
	h := sha256.New()
	fmt.Fprintf(h, "number %d:%s%d:%s%d:%s %d %d", len(r.Evaluator), r.Evaluator, len(r.Program), r.Program,
		len(r.Device), r.Device, r.BootEpoch, r.Sequence)
	return [16]byte(h.Sum(nil))
}

// resultJSON is the NDJSON form of a Result.
type resultJSON struct {
	Program   string     `json:"program"`
	Device    string     `json:"device,omitempty"`
	Evaluator string     `json:"evaluator"`
	Unit      string     `json:"unit,omitempty"`
	KeyID     string     `json:"key_id"`
	Epoch     uint32     `json:"epoch"`
	BootEpoch uint64     `json:"boot_epoch"`
	Sequence  uint64     `json:"sequence"`
	Start     time.Time  `json:"start"`
	End       time.Time  `json:"end"`
	Samples   uint32     `json:"samples"`
	Values    []float64  `json:"values"`
	Bound     float64    `json:"bound"`
	ID        string     `json:"id"`
	Inputs    []string   `json:"inputs,omitempty"`
	Fleet     *fleetJSON `json:"fleet,omitempty"`
	Bytes     int        `json:"bytes"` // of the object
	Packed    int        `json:"packed,omitempty"`
}

// fleetJSON is the NDJSON form of transport.Fleet.
type fleetJSON struct {
	Devices uint32 `json:"devices"`
	Windows uint32 `json:"windows"`
	Samples uint64 `json:"samples"`
	Digest  string `json:"inputs_digest"`
}

// promised returns the largest promised error of values.
func promised(out *program.Output, values []float64) float64 {
	most := 0.0
	for _, v := range values {
		most = max(most, out.BoundAt(v))
	}
	return most
}

// Save stores the sealed object of the result in dir, for "results decrypt" and "results
// verify". The file is named after program, evaluator and number, so that saving a result
// again writes the same file. The results of a pack are in one file.
func (r *Result) Save(dir string) (path string, err error) {
	m := transport.Meta{Program: r.Program, Device: r.Evaluator, BootEpoch: r.BootEpoch, Sequence: r.Sequence}
	path = filepath.Join(dir, cmp.Or(r.file, resultName(&m)))
	return path, writeFile(path, r.Sealed, publicMode)
}

const resultSuffix = ".cose"

// resultName returns the file name of a stored result. Names from a verified header
// contain no path separator.
func resultName(m *transport.Meta) string {
	return fmt.Sprintf("%s-%s-%d-%d%s", m.Program, m.Device, m.BootEpoch, m.Sequence, resultSuffix)
}

// made returns what the result was computed from, for seen.
func (r *Result) made() *transport.Meta {
	return &transport.Meta{Device: r.Evaluator, Program: r.Program, Inputs: r.Inputs, Fleet: r.Fleet}
}
