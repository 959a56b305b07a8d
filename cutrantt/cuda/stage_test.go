package cuda

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
)

// TestStageFails: without pinned memory nothing is staged, and the ring goes on. What is staged keeps its memory, also
// when the GPU has failed, until it is given back.
func TestStageFails(t *testing.T) {
	d := cudatest.New(t)
	b := faulty(t, d)
	r, err := b.newRing(12, benchModuli(t, 12, 2), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := [][]byte{bytes.Repeat([]byte{7}, 100<<10), bytes.Repeat([]byte{8}, 10)}
	d.Set("fail cuMemAllocHost_v2 2")
	if staged, done := r.Stage(src); staged != nil || done != nil || b.calls.Load() != 0 {
		t.Errorf("without memory: %d bytes staged, %d calls", len(staged), b.calls.Load())
	}
	d.Set()
	if err := loadNothing(r); err != nil {
		t.Errorf("after that: %v", err)
	}
	staged, done := r.Stage(src)
	if !bytes.Equal(staged, bytes.Join(src, nil)) {
		t.Fatalf("%d bytes staged", len(staged))
	}
	failure := fmt.Errorf("%w: in a test", cutrantt.ErrDevice)
	b.lost.Store(&failure)
	if more, _ := r.Stage(src); more != nil {
		t.Error("staged for a GPU that failed")
	}
	defer func(old time.Duration) { abandonTime = old }(abandonTime)
	abandonTime = 5 * time.Millisecond
	if b.abandon() == nil {
		t.Error("the context was given up under what is staged")
	}
	if !bytes.Equal(staged, bytes.Join(src, nil)) {
		t.Error("what is staged has changed")
	}
	done()
	if err := b.abandon(); err != nil {
		t.Error(err)
	}
}

// TestStageTogether: many who stage at once get places of their own, and no more shelves than they need.
func TestStageTogether(t *testing.T) {
	b := faulty(t, cudatest.New(t))
	r, err := b.newRing(12, benchModuli(t, 12, 2), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := count(t, b, cudatest.HostBlocks)
	const size, each, callers = 300 << 10, 30, 20
	var all sync.WaitGroup
	for k := range callers {
		all.Go(func() {
			for range each {
				src := bytes.Repeat([]byte{byte(k + 1)}, size)
				staged, done := r.Stage([][]byte{src})
				if done == nil {
					t.Error("there was no room")
					return
				}
				time.Sleep(time.Duration(k) * 10 * time.Microsecond)
				if !bytes.Equal(staged, src) {
					t.Errorf("the bytes of caller %d have changed", k)
				}
				done()
			}
		})
	}
	all.Wait()
	if n, want := count(t, b, cudatest.HostBlocks)-before, (callers+11)/12; n > want {
		t.Errorf("%d buffers for %d callers, want at most %d", n, callers, want)
	}
}
