package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/internal/testenv"
)

// measured is a ring with sets of batches whose tables are there.
type measured struct {
	*testing.T
	b        *backend
	r        *ring
	src, dst []*cutrantt.Batch
}

func newMeasured(t *testing.T, b *backend) *measured {
	t.Helper()
	r, err := b.newRing(12, benchModuli(t, 12, 3), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return (&measured{T: t, b: b, r: r}).fresh()
}

// fresh is m with sets of its own.
func (m *measured) fresh() *measured {
	t, r := m.T, m.r
	t.Helper()
	m = &measured{T: t, b: m.b, r: r}
	for range 5 {
		for to, d := range map[*[]*cutrantt.Batch]cutrantt.Domain{&m.src: cutrantt.Coeffs(16),
			&m.dst: cutrantt.NTT(16)} {
			x, err := r.NewBatch(1, upTo(3), d)
			if err != nil {
				t.Fatal(err)
			}
			*to = append(*to, x)
		}
	}
	if err := m.calls(5)(); err != nil {
		t.Fatal(err)
	}
	return m
}

// calls are transforms, of one kernel each, that rotate through the sets.
func (m *measured) calls(n int) func() error {
	return func() error {
		for i := range n {
			if err := m.r.Forward(m.dst[i%len(m.dst)], m.src[i%len(m.src)]); err != nil {
				return err
			}
		}
		return nil
	}
}

// queued is how many kernels and graphs f queues.
func (m *measured) queued(f func()) (kernels, graphs int) {
	m.Helper()
	kernels, graphs = count(m.T, m.b, cudatest.KernelLaunches), count(m.T, m.b, cudatest.GraphLaunches)
	f()
	return count(m.T, m.b, cudatest.KernelLaunches) - kernels, count(m.T, m.b, cudatest.GraphLaunches) - graphs
}

// idle: nothing is held, so that a call queues its kernel at once.
func (m *measured) idle(what string) {
	m.Helper()
	var err error
	kernels, graphs := m.queued(func() { err = m.calls(1)() })
	if m.r.held || err != nil || kernels != 1 || graphs != 0 {
		m.Errorf("%s: held %v; a call then queues %d kernels and %d graphs: %v", what, m.r.held, kernels, graphs, err)
	}
}

// TestRunIsOneGraph: the kernels of a run are queued as one graph, those before it as
// another one, which is the same one where the shapes are; what parts a run makes it
// several.
func TestRunIsOneGraph(t *testing.T) {
	d := cudatest.WithGraphs(t)
	b := faulty(t, d)
	m := newMeasured(t, b)
	host := make([]uint32, m.src[0].Len())
	upload := func() error { return m.r.Upload(m.src[0], host) }
	nothing := func() error { return nil }
	for _, c := range []struct {
		name                  string
		use                   graphUse
		lead, run             func() error
		parts, kernels, graph int // that are queued, one by one and as graphs
		kept                  int // graphs of now and before
	}{
		{"one run", graphsAuto, m.calls(20), m.calls(20), 1, 0, 2, 1},
		{"again", graphsAuto, m.calls(20), m.calls(20), 1, 0, 2, 1},
		{"with graphs always", graphsOn, m.calls(20), m.calls(20), 1, 0, 2, 1},
		{"a shorter lead", graphsAuto, m.calls(3), m.calls(20), 1, 0, 2, 2},
		{"no lead", graphsAuto, nothing, m.calls(20), 1, 0, 1, 2},
		{"one kernel", graphsAuto, m.calls(1), m.calls(1), 1, 2, 0, 2},
		{"nothing", graphsAuto, m.calls(3), nothing, 0, 0, 1, 2},
		{"a copy within", graphsAuto, nothing, func() error { return firstError(m.calls(3), upload, m.calls(20)) }, 2,
			0, 2, 2},
		{"copies around", graphsAuto, upload, func() error { return firstError(upload, m.calls(20), upload) }, 1, 0, 1,
			2},
		{"more than waits", graphsAuto, nothing, m.calls(4096 + 20), 2, 0, 2, 3},
		{"without graphs", graphsOff, m.calls(7), m.calls(20), 0, 20, 0, 3},
	} {
		b.graphs = c.use
		var parts int
		var err error
		kernels, graphs := m.queued(func() { _, parts, err = m.r.TimeRun(c.lead, c.run) })
		if err != nil || parts != c.parts || kernels != c.kernels || graphs != c.graph ||
			m.r.launcher.Kept() != c.kept {
			t.Errorf("%s: %d parts, %d kernels and %d graphs queued, %d kept: %v", c.name, parts, kernels, graphs,
				m.r.launcher.Kept(), err)
		}
		want := c.parts
		if c.use == graphsOff {
			want = c.kernels
		}
		if n := count(t, b, cudatest.Timed); n != want {
			t.Errorf("%s: %d launches were timed, not %d", c.name, n, want)
		}
		b.graphs = graphsAuto
		m.idle(c.name)
	}
}

// TestRunWithoutGraphs: where the driver has no graphs, a run is what Time makes of it.
func TestRunWithoutGraphs(t *testing.T) {
	b := faulty(t, cudatest.New(t))
	m := newMeasured(t, b)
	var timed bool
	kernels, graphs := m.queued(func() {
		d, parts, err := m.r.TimeRun(m.calls(7), m.calls(20))
		timed = d > 0 && parts == 0 && err == nil
	})
	if !timed || kernels != 20 || graphs != 0 {
		t.Errorf("timed %v; %d kernels and %d graphs", timed, kernels, graphs)
	}
	m.idle("afterwards")
}

// TestRunFails: whatever fails in a run, nothing waits afterwards, calls before the
// failure are queued, and no event is left but those that cannot be destroyed.
func TestRunFails(t *testing.T) {
	d := cudatest.WithGraphs(t)
	b := faulty(t, d)
	bad := errors.New("bad")
	m := newMeasured(t, b)
	fails := func() error { return firstError(m.calls(3), func() error { return bad }) }
	panics := func() error { _ = m.calls(3)(); panic(bad) }
	events := count(t, b, cudatest.Events)
	for name, c := range map[string]struct {
		lead, run func() error
		graphs    int
	}{"lead": {fails, m.calls(5), 1}, "run": {m.calls(5), fails, 2}, "run at once": {m.calls(5), func() error {
		return bad
	}, 1}, "a panic in lead": {panics, nil, 1}, "a panic in run": {m.calls(5), panics, 2}} {
		var err error
		kernels, graphs := m.queued(func() {
			defer func() {
				if p := recover(); p != nil {
					err = p.(error)
				}
			}()
			_, _, err = m.r.TimeRun(c.lead, c.run)
		})
		if !errors.Is(err, bad) || kernels != 0 || graphs != c.graphs {
			t.Errorf("%s: %v; %d kernels and %d graphs", name, err, kernels, graphs)
		}
		m.idle(name)
		if _, parts, err := m.r.TimeRun(m.calls(5), m.calls(5)); err != nil || parts != 1 ||
			count(t, b, cudatest.Timed) != 1 {
			t.Errorf("after %s: %d parts, %v", name, parts, err)
		}
	}
	failures := 0
	for skip := 0; ; skip++ {
		d.Set(fmt.Sprintf("fail * 2 %d 1 # %d", skip, skip))
		_, parts, err := m.r.TimeRun(m.calls(20), m.calls(21))
		d.Set()
		m.idle(fmt.Sprint("failure after ", skip))
		left := count(t, b, cudatest.Events) - events
		events += left
		if g, e := count(t, b, cudatest.Graphs), count(t, b, cudatest.ExecutableGraphs); err != nil && left != 0 ||
			left > 2 || g != e {
			t.Fatalf("failure after %d calls (%v): %d events are left; %d graphs, %d executable ones", skip,
				err, left, g, e)
		}
		if err == nil && parts != 1 {
			t.Errorf("failure after %d calls that is none: %d parts", skip, parts)
		}
		if err != nil && !errors.Is(err, cutrantt.ErrMemory) {
			t.Fatal(err)
		}
		if err != nil {
			failures++
		} else if skip > failures+40 {
			break
		}
	}
	t.Log(failures, "calls failed")
	if failures < 45 { // of making a graph of 20, and then one of 21
		t.Errorf("%d calls failed", failures)
	}
	for skip := range 60 { // the GPU is lost
		d.Set(fmt.Sprintf("fail * 719 %d 1 # lost %d", skip, skip))
		_, _, err := m.r.TimeRun(m.calls(20), m.calls(20))
		d.Set()
		if m.r.held || err != nil && (!errors.Is(err, cutrantt.ErrDevice) || cutrantt.Broken(m.r) == nil) {
			t.Fatalf("lost after %d calls: held %v, %v, %v", skip, m.r.held, err, cutrantt.Broken(m.r))
		}
		if err == nil && cutrantt.Broken(m.r) == nil {
			continue // fewer calls were made
		}
		if err := b.abandon(); err != nil {
			t.Fatal(err)
		}
		if b, err = open(0); err != nil {
			t.Fatal(err)
		}
		m = newMeasured(t, b)
	}
}

// TestRunShared: others use the ring while a run collects its kernels, and sometimes
// wait for them; all that is theirs is queued.
func TestRunShared(t *testing.T) {
	b := faulty(t, cudatest.WithGraphs(t))
	m := newMeasured(t, b)
	var all sync.WaitGroup
	const rounds = 60
	users := []*measured{m.fresh(), m.fresh(), m.fresh()}
	before := m.r.Launches()
	for i, m := range users {
		all.Go(func() {
			for range rounds {
				var err error
				if i == 2 {
					err = errors.Join(m.calls(5)(), m.r.Sync())
				} else {
					_, _, err = m.r.TimeRun(m.calls(5), m.calls(5))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := m.r.Launches() - before; n != rounds*25 {
		t.Errorf("%d kernels, %d were called for", n, rounds*25)
	}
	m.idle("afterwards")
}

// TestRunResults: what is computed in a run is what is computed without, in place and
// not, with scratch memory, copies and encryptions, and beside another user of the ring.
func TestRunResults(t *testing.T) {
	b := gpu(t).(*backend)
	if err := b.drv.Graphs(); err != nil {
		testenv.Missing(t, "cuda-graphs", err)
	}
	old := b.graphs
	t.Cleanup(func() { b.graphs = old })
	const logN, q, p, n2 = 12, 4, 2, 4
	d, limbs, all := cutrantt.NTT(n2), upTo(q), upTo(q+p)
	var out [3][]uint32
	for i, use := range []graphUse{graphsOff, graphsAuto, graphsOn} {
		b.graphs = use
		r, err := b.newRing(logN, benchModuli(t, logN, q+p), cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		batch := func(polys int, limbs []int) *cutrantt.Batch {
			x, err := r.NewBatch(polys, limbs, d)
			if err != nil {
				t.Fatal(err)
			}
			for k := range polys {
				part, err := x.Slice(k, k+1, 0, len(limbs))
				if err != nil {
					t.Fatal(err)
				}
				if err := r.SampleUniform(part, &[32]byte{byte(polys)}, uint32(k)); err != nil {
					t.Fatal(err)
				}
			}
			return x
		}
		x, y, tensor, own := batch(2, limbs), batch(2, limbs), batch(3, limbs), batch(1, limbs)
		g := cutrantt.Gadget{Alpha: p, Special: all[q:]}
		key, err := r.Precompute(batch(2*g.Digits(q), all))
		if err != nil {
			t.Fatal(err)
		}
		pk, err := r.Precompute(x)
		if err != nil {
			t.Fatal(err)
		}
		low, _ := tensor.Slice(0, 2, 0, q)
		high, _ := tensor.Slice(2, 3, 0, q)
		var got []uint32
		keep := func(x *cutrantt.Batch) error {
			w := make([]uint32, x.Len())
			err := r.Download(w, x)
			got = append(got, w...)
			return err
		}
		type list = []*cutrantt.Batch
		product := func() error { // x*y in place of x
			return firstError(
				func() error { return cutrantt.MulTensor(r, list{tensor}, list{x}, list{y}) },
				func() error {
					return cutrantt.SwitchKeys(r, g, []cutrantt.KeySwitch{{Dst: x, X: high, Low: low, Key: key}})
				},
			)
		}
		turn := func() error {
			return firstError(func() error { return r.Inverse(y, y) }, func() error { return r.Forward(y, y) })
		}
		encrypt := func() error {
			j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 20, Seed: &[32]byte{3}}
			for i := range j.Message {
				j.Message[i] = float64(i)
			}
			cts, err := r.EncryptPublic(pk, limbs, cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3},
				[]cutrantt.Encryption{j})
			if err != nil {
				return err
			}
			defer r.Free(cts[0])
			return firstError(func() error { return r.Add(x, x, cts[0]) }, func() error { return r.Forward(own, own) })
		}
		own.SetDomain(cutrantt.Coeffs(n2))
		for _, f := range []func() error{
			func() error { return firstError(product, product, turn, product) },
			func() error {
				return firstError(product, func() error { own.SetDomain(cutrantt.Coeffs(n2)); return encrypt() },
					product, turn)
			},
			func() error { return firstError(product, func() error { return keep(x) }, turn, product) },
		} {
			end := make(chan error, 1)
			go func() { // somebody else
				z, err := r.NewBatch(1, limbs, d)
				for range 5 {
					err = errors.Join(err, r.Add(z, z, z), r.Sync())
				}
				end <- err
			}()
			parts := 0
			if use == graphsOff {
				err = errors.Join(f(), f())
			} else {
				_, parts, err = r.TimeRun(f, f)
			}
			if err := errors.Join(err, <-end); err != nil || (parts == 0) != (use == graphsOff) {
				t.Fatalf("graphs %d: %d parts, %v", use, parts, err)
			}
			for _, x := range []*cutrantt.Batch{x, y, own} {
				if err := keep(x); err != nil {
					t.Fatal(err)
				}
			}
		}
		out[i] = got
	}
	if !slices.Equal(out[0], out[1]) || !slices.Equal(out[0], out[2]) {
		t.Error("other residues in a run")
	}
}
