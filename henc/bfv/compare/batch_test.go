package compare_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/compare"
)

// batch makes the keys for windows up to top, besides those of the rig.
func (r *rig) batch(t testing.TB, top int) (compare.Window, *compare.Batch) {
	t.Helper()
	w := must(compare.NewWindow(r.ctx.Parameters(), top))(t)
	return w, must(compare.NewBatch(r.ctx, r.keys, w))(t)
}

// newBatchRig has the keys of all windows too.
func newBatchRig(t testing.TB, p bfv.Parameters) *rig {
	t.Helper()
	r := newRig(t, p)
	var elements []uint64
	for k := 1; k < p.N()/2; k *= 2 {
		elements = append(elements, henc.GaloisElement(p.Base(), -k))
	}
	for g, k := range must(r.key.GaloisKeys(elements))(t) {
		r.keys.Galois[g] = k
	}
	return r
}

func (r *rig) window(t testing.TB, w compare.Window, numbers []int) *bfv.Ciphertext {
	t.Helper()
	return must(r.enc.Encrypt(must(w.Encode(r.ctx, numbers))(t), nil))(t)
}

// TestBatch compares windows of encrypted numbers, at the ends of their ranges and equal ones among them. Slots without
// an answer are random, and noise stays within its bound.
func TestBatch(t *testing.T) {
	p := toy(t, 6)
	r := newBatchRig(t, p)
	for _, top := range []int{1, 3, 9, 255, 1<<16 - 1} {
		w, b := r.batch(t, top)
		var x, y []int
		for i := range w.Numbers() - 1 {
			u, v := i*7919%(top+1), i*104729%(top+1)
			switch i % 4 {
			case 1:
				v = u
			case 2:
				v = min(u+1, top)
			case 3:
				u, v = top*(i/4%2), top*(i/8%2)
			}
			x, y = append(x, u), append(y, v)
		}
		out := must(b.Less(r.window(t, w, x), r.window(t, w, y), len(x), rand.Reader))(t)
		if noise, limit := must(r.dec.Noise(out))(t), p.Noise().Largest(out.Noise); noise > limit {
			t.Errorf("noise of %g, above the bound %g", noise, limit)
		}
		if said, got := w.Budget(p), p.Noise().Budget(out.Noise); got < said {
			t.Errorf("a budget of %.1f bits, predicted were %.1f", got, said)
		}
		slots := must(r.dec.Slots(out))(t)
		answers := map[int]bool{}
		for i := range x {
			if got := slots[w.Slot(i)]; got != truth(x[i] < y[i]) {
				t.Errorf("%d < %d up to %d: %d", x[i], y[i], top, got)
			}
			answers[w.Slot(i)] = true
		}
		small := 0
		for s, v := range slots {
			if !answers[s] && v < 16 {
				small++
			}
		}
		if small > len(slots)/50 {
			t.Errorf("up to %d: %d of %d slots without an answer are below 16", top, small, len(slots))
		}
	}
}

// TestBatchRefused covers what does not belong together.
func TestBatchRefused(t *testing.T) {
	p := toy(t, 4)
	r := newBatchRig(t, p)
	wide := must(compare.NewWindow(p, 1<<16-1))(t)
	if _, err := compare.NewBatch(r.ctx, r.keys, wide); !errors.Is(err, bfv.ErrNoise) {
		t.Errorf("too few primes: %v", err)
	}
	w, b := r.batch(t, 9)
	x := r.window(t, w, []int{1, 2, 3})
	for _, count := range []int{0, -1, w.Numbers() + 1} {
		if _, err := b.Less(x, x, count, rand.Reader); !errors.Is(err, compare.ErrWindow) {
			t.Errorf("%d numbers: %v", count, err)
		}
	}
	if _, err := b.Less(nil, x, 3, rand.Reader); err == nil {
		t.Error("compared with nothing")
	}
	if _, err := b.Less(x, nil, 3, rand.Reader); err == nil {
		t.Error("compared nothing")
	}
	if _, err := b.Less(x, x, 3, bytes.NewReader(nil)); err == nil {
		t.Error("without randomness")
	}
	other := must(compare.NewWindow(must(bfv.Named("bfv13", 0))(t), 9))(t)
	if _, err := compare.NewBatch(r.ctx, r.keys, other); !errors.Is(err, compare.ErrWindow) {
		t.Errorf("other slots: %v", err)
	}
	if _, err := other.Encode(r.ctx, []int{1}); !errors.Is(err, compare.ErrWindow) {
		t.Errorf("encoded for other slots: %v", err)
	}
	if _, err := compare.NewBatch(r.ctx, nil, w); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("no keys: %v", err)
	}
	delete(r.keys.Galois, w.Elements(p)[0])
	if _, err := compare.NewBatch(r.ctx, r.keys, w); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

// BenchmarkBatch times the comparison of two full windows of 16-bit numbers at 128 bits, and checks an answer of each.
func BenchmarkBatch(b *testing.B) {
	r := newBatchRig(b, must(bfv.Named("bfv13", 0))(b))
	w, batch := r.batch(b, 1<<16-1)
	lower, upper := make([]int, w.Numbers()), make([]int, w.Numbers())
	for i := range lower {
		lower[i], upper[i] = 200*i, 200*i+i%2
	}
	x, y := r.window(b, w, lower), r.window(b, w, upper)
	for b.Loop() {
		ct := must(batch.Less(x, y, w.Numbers(), rand.Reader))(b)
		b.StopTimer()
		slots := must(r.dec.Slots(ct))(b)
		for i := range lower {
			if got := slots[w.Slot(i)]; got != uint64(i%2) {
				b.Fatalf("%d < %d: %d", lower[i], upper[i], got)
			}
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(w.Numbers()), "numbers")
}

// TestZeroValues: nothing panics without a context, parameters or a window.
func TestZeroValues(t *testing.T) {
	var none compare.Window
	p := toy(t, 4)
	w := must(compare.NewWindow(p, 9))(t)
	for _, w := range []compare.Window{none, w} {
		for _, p := range []bfv.Parameters{{}, p} {
			_, _, _ = w.Budget(p), w.Elements(p), w.Cost()
		}
		_, _, _, _ = w.Numbers(), w.Lanes(), w.Top(), w.Bits()
		for _, i := range []int{-1, 0, 1 << 40} {
			_ = w.Slot(i)
		}
		for _, ctx := range []*bfv.Context{nil, new(bfv.Context)} {
			if _, err := w.Encode(ctx, []int{1}); err == nil {
				t.Error("encoded without a context")
			}
			if _, err := compare.NewBatch(ctx, nil, w); err == nil {
				t.Error("a batch without a context")
			}
		}
	}
	if _, err := none.Encode(newRig(t, p).ctx, []int{0}); !errors.Is(err, compare.ErrWindow) {
		t.Errorf("encoded without a window: %v", err)
	}
	for _, b := range []*compare.Batch{nil, new(compare.Batch)} {
		if _, err := b.Less(nil, nil, 1, rand.Reader); err == nil {
			t.Error("compared without a batch")
		}
	}
	if _, err := compare.NewWindow(bfv.Parameters{}, 1); !errors.Is(err, compare.ErrWindow) {
		t.Errorf("no parameters: %v", err)
	}
}
