package engine

import (
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
)

// ownMemory is the processor as a device with its own memory.
type ownMemory struct{ cutrantt.Backend }

func (ownMemory) Memory() uint64 { return 1 << 30 }

func (m ownMemory) NewRing(logN int, moduli []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := m.Backend.NewRing(logN, moduli, o)
	return ownRing{r, m}, err
}

type ownRing struct {
	cutrantt.Ring
	backend cutrantt.Backend
}

func (r ownRing) Backend() cutrantt.Backend { return r.backend }

// TestRuns: devices take as many runs at a time as Runs says before there are any.
func TestRuns(t *testing.T) {
	for _, c := range []struct{ workers, batch, places, processor, gpu int }{
		{1, 0, 0, 1, 2}, {2, 256, 0, 2, 512}, {1, 256, 8, 8 + 32, 2048}, {2, 2000, 8, 16 + 32, 4000},
		{3, 4, 16, 48 + 64, 128}, {16, 4, 8, 128 + 128, 64}, {16, 4, 4096, mostAdded, mostAdded},
	} {
		o := Options{Workers: c.workers, Batch: c.batch, Places: c.places, Logger: testrig.Quiet(), Now: time.Now}
		if processor, gpu := o.Runs(); processor != c.processor || gpu != c.gpu {
			t.Errorf("%+v: %d runs on the processor and %d on a GPU", c, processor, gpu)
		}
		for _, d := range []struct {
			backend cutrantt.Backend
			runs    int
		}{{cpu.New(), c.processor}, {ownMemory{cpu.New()}, c.gpu}} {
			ctx, err := henc.NewContext(parameters(t), henc.WithBackend(d.backend))
			if err != nil {
				t.Fatal(err)
			}
			e, err := New([]Keys{{Context: ctx, Evaluation: &henc.EvaluationKeys{}}}, o)
			if err != nil {
				t.Fatal(err)
			}
			if n := e.Parallel(); n != d.runs {
				t.Errorf("%+v on %T: %d runs, want %d", c, d.backend, n, d.runs)
			}
		}
	}
}
