//go:build !race

// The race detector drops pooled memory on purpose, so these counts do not hold there.

package agent

import (
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// TestWindowAllocations: from the samples to the file in the spool, a window in the
// steady state allocates nothing that grows with it. What remains is a few hundred
// small objects: the seed (HKDF and its hashes), descriptors of batches and of the work
// on them, header and frame of the signed object, the names, headers and descriptors of
// two files (window and state), and the spool's entry.
func TestWindowAllocations(t *testing.T) {
	const mostBytes, mostObjects = 20 << 10, 300
	for _, n2 := range []int{1, 16} { // encryption as a whole and step by step
		cfg := testConfig(t)
		cfg.Streams[0].Window = config.Window{Samples: 512}
		cfg = withSpool(t, cfg, filepath.Join(t.TempDir(), "spool"))
		deps, k := testDeps(t, &fakeClient{})
		ctx, err := henc.NewContext(k.ctx.Parameters(), henc.WithN2(n2))
		if err != nil {
			t.Fatal(err)
		}
		b, err := k.ctx.MarshalPublicKey(k.public)
		if err != nil {
			t.Fatal(err)
		}
		if deps.PublicKey, err = ctx.UnmarshalPublicKey(b); err != nil {
			t.Fatal(err)
		}
		deps.Context = ctx
		bytes, objects := windowAllocations(t, cfg, deps)
		t.Logf("n2 = %d: %d bytes in %d objects; a ciphertext has %d bytes, the samples %d", n2, bytes, objects,
			ctx.Parameters().CiphertextBytes(cfg.Streams[0].LevelAt(ctx.Parameters().Depth()), false), 8*3*512)
		if bytes > mostBytes || objects > mostObjects {
			t.Errorf("n2 = %d: a window allocates %d bytes in %d objects, want at most %d in %d", n2, bytes, objects,
				mostBytes, mostObjects)
		}
	}
}

// windowAllocations gives the bytes and objects that a window allocates.
func windowAllocations(t *testing.T, cfg *config.Agent, deps Deps) (bytes, objects uint64) {
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	s := a.streams[0]
	r, at := source.Row{Values: []float64{1, 2, 3}}, noon
	window := func() {
		for {
			at = at.Add(100 * time.Millisecond)
			r.At = at
			if done := s.Collector.Add(r); done != nil {
				a.encrypt(t.Context(), s, done[0])
				return
			}
		}
	}
	const warm, count = 30, 30                       // pools belong to processors
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector empties pools
	for range warm {
		window()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range count {
		window()
	}
	runtime.ReadMemStats(&after)
	if st := s.stats(); st.Windows != warm+count || a.spool.Stats().Objects != int(st.Windows) ||
		a.spool.Health() != nil {
		t.Fatalf("%d windows, %+v", st.Windows, a.spool.Stats())
	}
	return (after.TotalAlloc - before.TotalAlloc) / count, (after.Mallocs - before.Mallocs) / count
}
