package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/internal/testenv"
)

// gpu opens the GPU, or skips.
func gpu(t testing.TB) cutrantt.Backend {
	t.Helper()
	b, err := New()
	if err != nil {
		testenv.Missing(t, "cuda", err)
	}
	return b
}

// TestOpenFails: without a GPU the error says which step failed.
func TestOpenFails(t *testing.T) {
	_, err := Open(1000)
	if !errors.Is(err, cutrantt.ErrNotSupported) {
		t.Fatalf("device 1000: %v", err)
	}
	for _, step := range []string{"open: ", "symbol: ", "init: ", "capability: "} {
		if strings.Contains(err.Error(), step) {
			return
		}
	}
	t.Errorf("no step in %q", err)
}

// twin is one ring on the GPU and one on the CPU.
type twin struct {
	*testing.T
	rng  *rand.Rand
	ring [2]cutrantt.Ring
}

func newTwin(t *testing.T, logN, moduli int) *twin {
	w := &twin{T: t, rng: rand.New(rand.NewPCG(uint64(logN), uint64(moduli)))}
	ms := benchModuli(t, logN, moduli)
	for i, b := range []cutrantt.Backend{gpu(t), cpu.New()} {
		r, err := b.NewRing(logN, ms, cutrantt.Options{})
		w.ok(err)
		w.ring[i] = r
	}
	return w
}

func (w *twin) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// batch is a random batch on both.
func (w *twin) batch(polys int, limbs []int, d cutrantt.Domain) (b [2]*cutrantt.Batch) {
	w.Helper()
	var x []uint32
	for range polys {
		for _, l := range limbs {
			for range w.ring[0].N() {
				x = append(x, w.rng.Uint32N(w.ring[0].Moduli()[l].Q))
			}
		}
	}
	for i, r := range w.ring {
		var err error
		b[i], err = r.NewBatch(polys, limbs, d)
		w.ok(err)
		w.ok(r.Upload(b[i], x))
	}
	return b
}

// same runs f on both rings and compares b.
func (w *twin) same(what string, b [2]*cutrantt.Batch, f func(r cutrantt.Ring, i int) error) {
	w.Helper()
	var out [2][]uint32
	for i, r := range w.ring {
		w.ok(f(r, i))
		out[i] = make([]uint32, b[i].Len())
		w.ok(r.Download(out[i], b[i]))
	}
	if !slices.Equal(out[0], out[1]) {
		w.Fatalf("%s: differs from the CPU", what)
	}
}

// TestAgainstCPU compares every hot operation with the CPU on whole random
// batches of realistic shapes, where the conformance suite checks single blocks.
func TestAgainstCPU(t *testing.T) {
	for _, c := range []struct{ logN, q, p, n2 int }{{12, 3, 1, 16}, {13, 5, 2, 16}, {13, 5, 2, 1}, {14, 12, 3, 8},
		{15, 18, 5, 4}, {16, 40, 23, 16}, {16, 6, 2, 1}, {17, 4, 2, 2}} {
		if testing.Short() && c.logN > 13 {
			continue
		}
		w := newTwin(t, c.logN, c.q+c.p)
		q, all := upTo(c.q), upTo(c.q+c.p)
		coeff, ntt := cutrantt.Coeffs(c.n2), cutrantt.NTT(c.n2)
		x, y := w.batch(2, all, coeff), w.batch(2, all, coeff)
		w.same("forward", y, func(r cutrantt.Ring, i int) error { return r.Forward(y[i], x[i]) })
		w.same("inverse", x, func(r cutrantt.Ring, i int) error { return r.Inverse(x[i], y[i]) })
		low := w.batch(2, q, ntt)
		w.same("divround", low, func(r cutrantt.Ring, i int) error { return r.DivRound(low[i], y[i]) })
		special := w.batch(1, all[c.q:], coeff)
		wide := w.batch(1, all, coeff)
		w.same("extend", wide, func(r cutrantt.Ring, i int) error { return r.Extend(wide[i], special[i]) })
		digits, key := w.batch(3, q, ntt), w.batch(6, all, ntt)
		w.same("muloperand", low, func(r cutrantt.Ring, i int) error {
			o, err := r.Precompute(key[i])
			if err != nil {
				return err
			}
			defer o.Release()
			return r.MulOperand(low[i], digits[i], o)
		})
		w.same("muladd", digits, func(r cutrantt.Ring, i int) error {
			return r.MulAdd(digits[i], digits[i], digits[i])
		})
		turned := w.batch(2, q, ntt)
		w.same("automorphism", turned, func(r cutrantt.Ring, i int) error {
			return r.Automorphism(turned[i], low[i], 5)
		})
		w.switches(c.q, c.p, c.n2)
		full := w.batch(2, q, cutrantt.NTT(16))
		w.same("convert", full, func(r cutrantt.Ring, i int) error { return r.Convert(full[i], low[i]) })
		one, seed := w.batch(1, q, coeff), &[32]byte{byte(c.logN), 9}
		w.same("cbd", one, func(r cutrantt.Ring, i int) error { return r.SampleCBD(one[i], seed, 7) })
		w.same("ternary", one, func(r cutrantt.Ring, i int) error { return r.SampleTernary(one[i], seed, 8) })
		w.same("uniform", one, func(r cutrantt.Ring, i int) error { return r.SampleUniform(one[i], seed, 9) })
	}
}

// switches compares the fused operations.
func (w *twin) switches(q, p, n2 int) {
	w.Helper()
	d, limbs, all := cutrantt.NTT(n2), upTo(q), upTo(q+p)
	a, b, t := w.batch(2, limbs, d), w.batch(2, limbs, d), w.batch(3, limbs, d)
	type list = []*cutrantt.Batch
	w.same("tensor", t, func(r cutrantt.Ring, i int) error {
		return cutrantt.MulTensor(r, list{t[i]}, list{a[i]}, list{b[i]})
	})
	w.same("square", t, func(r cutrantt.Ring, i int) error {
		return cutrantt.MulTensor(r, list{t[i]}, list{a[i]}, list{a[i]})
	})
	g := cutrantt.Gadget{Alpha: min(p, 31), Special: all[q:]}
	key := w.batch(2*g.Digits(q), all, d)
	for _, keep := range []int{q, q - 2} {
		for _, galois := range []uint64{1, 5, uint64(2*w.ring[0].N() - 1)} {
			dst := w.batch(2, limbs[:keep], d)
			w.same("key switch", dst, func(r cutrantt.Ring, i int) error {
				o, err := r.Precompute(key[i])
				if err != nil {
					return err
				}
				defer o.Release()
				x, err := t[i].Slice(2, 3, 0, q)
				if err != nil {
					return err
				}
				low, err := t[i].Slice(0, 2, 0, q)
				if err != nil {
					return err
				}
				return cutrantt.SwitchKeys(r, g,
					[]cutrantt.KeySwitch{{Dst: dst[i], X: x, Low: low, Key: o, Galois: galois}})
			})
		}
	}
}

// TestUp: key switches whose digits have few limbs give the processor's residues with
// the extension in the transform, as in a kernel of its own: one at a time and several.
func TestUp(t *testing.T) {
	b := gpu(t).(*backend)
	defer func(on bool) { b.fuseUp = on }(b.fuseUp)
	if b.kernels["up_11"] == nil || !b.tensor {
		testenv.Missing(t, "cuda-fused", "no fused key switch on this GPU")
	}
	for _, c := range []struct{ logN, q, p, n2 int }{{12, 5, 2, 2}, {12, 7, 3, 1}, {12, 9, 4, 1}, {12, 5, 5, 1}} {
		for _, on := range []bool{true, false} {
			b.fuseUp = on
			name := numbered("up", log2(1<<c.logN/c.n2))
			before := b.kernels[name].launches.Load()
			w := newTwin(t, c.logN, c.q+c.p)
			w.switches(c.q, c.p, c.n2)
			w.several(c.q, c.p, c.n2, 3)
			if ran := b.kernels[name].launches.Load() > before; ran != (on && c.p <= mostUpLimbs) {
				t.Errorf("%+v: fused %t, %s ran: %t", c, on, name, ran)
			}
		}
	}
}

// TestOneKeyKernel: many key switches under one key take kernels/onekey.cu where it is
// for them, and give the processor's residues with it and without.
func TestOneKeyKernel(t *testing.T) {
	b := gpu(t).(*backend)
	if !b.oneKey {
		testenv.Missing(t, "cuda-onekey", "not compiled for this GPU")
	}
	defer func() { b.oneKey = true }()
	for _, c := range []struct {
		logN, q, p, n2, items int
		ran                   bool
	}{{11, 7, 2, 4, leastOneKey + 1, true}, {11, 7, 2, 4, leastOneKey - 1, false}, {10, 5, 2, 8, leastOneKey, false},
		{10, 9, 2, 4, leastOneKey, false}, {10, 3, 2, 4, mostOneKey + 5, true}} {
		for _, on := range []bool{true, false} {
			if !on && !c.ran {
				continue // the same kernels again
			}
			b.oneKey = on
			before := b.kernels["onekey_4"].launches.Load()
			newTwin(t, c.logN, c.q+c.p).several(c.q, c.p, c.n2, c.items)
			if ran := b.kernels["onekey_4"].launches.Load() > before; ran != (on && c.ran) {
				t.Errorf("%+v: allowed %t, it ran: %t", c, on, ran)
			}
		}
	}
}

// several compares a key switch of so many items.
func (w *twin) several(q, p, n2, count int) {
	w.Helper()
	d, all := cutrantt.NTT(n2), upTo(q+p)
	g := cutrantt.Gadget{Alpha: p, Special: all[q:]}
	key, x, dst := w.batch(2*g.Digits(q), all, d), w.batch(count, all[:q], d), w.batch(2*count, all[:q], d)
	w.same(fmt.Sprintf("key switch of %d", count), dst, func(r cutrantt.Ring, i int) error {
		o, err := r.Precompute(key[i])
		if err != nil {
			return err
		}
		defer o.Release()
		var items []cutrantt.KeySwitch
		for k := range count {
			one, err := x[i].Slice(k, k+1, 0, q)
			if err != nil {
				return err
			}
			to, err := dst[i].Slice(2*k, 2*k+2, 0, q)
			if err != nil {
				return err
			}
			items = append(items, cutrantt.KeySwitch{Dst: to, X: one, Key: o, Galois: 1})
		}
		return cutrantt.SwitchKeys(r, g, items)
	})
}

// TestMemoryReuse: repeated work takes no new memory from the driver, and
// batches that nothing refers to come back.
func TestMemoryReuse(t *testing.T) {
	b := gpu(t)
	r, err := b.NewRing(12, benchModuli(t, 12, 3), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	work := func() {
		x, err := r.NewBatch(2, upTo(3), cutrantt.NTT(16))
		if err != nil {
			t.Fatal(err)
		}
		y, err := r.NewBatch(2, upTo(2), cutrantt.NTT(16))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Mul(x, x, x), r.DivRound(y, x), r.Sync()); err != nil {
			t.Fatal(err)
		}
		r.Free(x)
		r.Free(y)
	}
	held := func() int {
		p := r.(*ring).pool
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.held)
	}
	work()
	before := held()
	for range 20 {
		work()
	}
	if n := held(); n != before {
		t.Errorf("%d blocks of device memory, %d before", n, before)
	}
	p := r.(*ring).pool
	p.limit, p.least = 256<<20, 256<<20
	batches := 2000 // of 12 MiB: 24 GiB in all, dropped without Free
	if testing.Short() {
		batches = 200
	}
	for range batches {
		if _, err := r.NewBatch(256, upTo(3), cutrantt.NTT(16)); err != nil {
			t.Fatal(err)
		}
	}
	if n := held(); n > before+min(200, batches/4) {
		t.Errorf("%d blocks after %d batches were dropped", n, batches)
	}
}

// TestOutOfMemory fills the GPU: the error is ErrMemory, and when memory is
// freed the ring works again.
func TestOutOfMemory(t *testing.T) {
	if os.Getenv("CUTRANTT_TEST_FILL") == "" {
		testenv.Missing(t, "cuda-fill", "CUTRANTT_TEST_FILL is not set")
	}
	b := gpu(t)
	r, err := b.NewRing(17, benchModuli(t, 17, 64), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var held []*cutrantt.Batch
	for len(held) < 64 {
		x, err := r.NewBatch(128, upTo(64), cutrantt.Coeffs(16)) // 4 GiB
		if err != nil {
			if !errors.Is(err, ErrMemory) {
				t.Fatalf("after %d batches: %v", len(held), err)
			}
			break
		}
		held = append(held, x)
	}
	t.Logf("%d batches of 4 GiB", len(held))
	for _, x := range held {
		r.Free(x)
	}
	x, err := r.NewBatch(192, upTo(64), cutrantt.Coeffs(16)) // another size: the freed ones go back first
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Wipe(x), r.Sync()); err != nil {
		t.Error(err)
	}
}
