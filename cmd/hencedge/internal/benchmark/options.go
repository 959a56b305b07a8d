package benchmark

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Options select what Run measures. Backend is required; every other zero
// value means the default.
type Options struct {
	Backend  cutrantt.Backend
	Params   []henc.Parameters // default: every secure named set
	Ops      []string          // default: all of Ops
	Methods  []cutrantt.Method // Hadamard methods; default: all
	N2       int               // default: henc.DefaultN2
	Batch    int               // ciphertexts a call, of the operations that take several; default 1
	Workers  int               // default: GOMAXPROCS
	MinTime  time.Duration     // least timed time of a case; default 300 ms
	Cached   bool              // one set of inputs instead of memory-resident sets
	MaxBytes int64             // most memory for the inputs of a case; default 1 GiB
	Seed     uint64            // of the random inputs; the same seed gives the same inputs

	// Progress, where set, is told how many of the operations of all parameter sets, or cases of
	// a table, are measured.
	Progress func(done, total int)
}

func (o *Options) setDefaults() error {
	if o.Backend == nil {
		return errors.New("benchmark: no backend")
	}
	if len(o.Params) == 0 {
		for _, name := range henc.Names() {
			p, err := henc.Named(name)
			if err != nil {
				return err
			}
			o.Params = append(o.Params, p)
		}
	}
	if len(o.Ops) == 0 {
		o.Ops = Ops()
	}
	for _, op := range o.Ops {
		if !slices.Contains(Ops(), op) {
			return fmt.Errorf("benchmark: no operation %q", op)
		}
	}
	if len(o.Methods) == 0 {
		o.Methods = cutrantt.Methods()
	}
	if o.N2 == 0 {
		o.N2 = henc.DefaultN2
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.MinTime <= 0 {
		o.MinTime = 300 * time.Millisecond
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	return nil
}
