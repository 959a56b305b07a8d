package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
)

// TestConcurrentLoss: when a GPU fails in the middle of the work of several goroutines,
// on one ring and on others, in whatever state each of them is, all of them get the
// error, all of them may open the GPU anew, and what they open is one backend that
// works. Rings are dropped meanwhile.
func TestConcurrentLoss(t *testing.T) {
	t.Setenv(TuningVariable, "off")
	d := cudatest.WithGraphs(t)
	d.Working()
	d.Use()
	one, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	const goroutines = 4
	ms := benchModuli(t, 12, 6)
	for round := range 12 {
		b := one.(*backend)
		b.graphs = graphUse(round % 3)
		common, err := b.newRing(12, ms, cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d.Set(fmt.Sprintf("fail * 719 %d 1 # %d", 37*round, round))
		var all sync.WaitGroup
		var fresh [goroutines]cutrantt.Backend
		for i := range goroutines {
			all.Go(func() {
				for begin := time.Now(); ; {
					r, err := common, error(nil)
					if i%2 == 1 {
						r, err = b.newRing(12, ms, cutrantt.Options{})
					}
					if err == nil {
						err = operations(r, 2)
					}
					if err != nil {
						if !errors.Is(err, cutrantt.ErrDevice) {
							t.Errorf("round %d: %v", round, err)
						}
						break
					}
					if time.Since(begin) > time.Minute {
						t.Errorf("round %d: nothing fails", round)
						return
					}
				}
				var err error
				if fresh[i], err = Open(0); err != nil {
					t.Errorf("round %d: opened anew: %v", round, err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		for _, x := range fresh {
			if x != fresh[0] || x == one {
				t.Fatalf("round %d: backends %p, %p, %p before", round, x, fresh[0], one)
			}
		}
		if cutrantt.Broken(common) == nil {
			t.Errorf("round %d: a ring of the context that failed says that it works", round)
		}
		one = fresh[0]
		runtime.GC()
	}
	b := one.(*backend)
	until(t, "the rings go", func() bool { runtime.GC(); return count(t, b, cudatest.Streams) == 0 })
	if n := count(t, b, cudatest.DeviceBlocks); n != 0 {
		t.Errorf("%d blocks of device memory are left", n)
	}
}
