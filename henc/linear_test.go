package henc_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// linearCases are sets of diagonals of matrices over 512 slots, with the number of keys that
// baby and giant steps should need.
func linearCases() map[string]struct {
	diagonals []int
	keys      int
} {
	upTo := func(lo, hi, stride int) (ks []int) {
		for k := lo; k <= hi; k++ {
			ks = append(ks, k*stride)
		}
		return ks
	}
	return map[string]struct {
		diagonals []int
		keys      int
	}{
		"diagonal":     {[]int{0}, 0},
		"one shift":    {[]int{7}, 1},
		"shift back":   {[]int{-5}, 1},
		"neighbours":   {[]int{-1, 0, 1}, 3},
		"factor":       {upTo(-7, 7, 1), 7 + 1},
		"blocks":       {upTo(-7, 7, 1), 7 + 1},      // of 8 slots that repeat
		"wide factor":  {upTo(-31, 31, 1), 15 + 3},   // giant steps back by 2 and 1, and on by 1
		"last factor":  {upTo(-7, 7, 64)[7:], 3 + 1}, // 0..7 times 64 is the whole cycle
		"high factor":  {upTo(-7, 7, 8), 7 + 1},
		"gaps":         {[]int{3, 100, 101, 200, -30}, 5 + 3},
		"far from 0":   {[]int{96, 104, 112, 120}, 4},
		"negative far": {[]int{-96, -104, -112, -120}, 5},
	}
}

// TestLinearTransform compares the product with the sum over diagonals in complex128, with
// the keys that the transform names and no others.
func TestLinearTransform(t *testing.T) {
	for name, c := range linearCases() {
		for _, n2 := range []int{1, 4, 16} {
			t.Run(fmt.Sprintf("%s/%d", name, n2), func(t *testing.T) {
				r := newRig(t, "toy", n2)
				n, level := r.p.Slots(), r.p.MaxLevel()
				diagonals, z := map[int][]complex128{}, uniform(n, 5)
				want := make([]complex128, n)
				for i, k := range c.diagonals {
					d := uniform(n, uint64(10+i))
					for j := range d {
						if name == "blocks" {
							d[j] = d[j%8]
						}
					}
					diagonals[k] = d
					for j := range want {
						want[j] += d[j] * z[((j+k)%n+n)%n]
					}
				}
				lt := must(henc.NewLinearTransform(r.ctx, diagonals, level, r.p.RescaleFactor(level)))(t)
				defer lt.Free()
				if lt.Level() != level || lt.Scale() != r.p.RescaleFactor(level) || lt.Diagonals() != len(c.diagonals) {
					t.Errorf("level %d, scale %g, %d diagonals", lt.Level(), lt.Scale(), lt.Diagonals())
				}
				ks := lt.Rotations()
				if len(ks) > c.keys || !slices.Equal(ks, henc.TransformRotations(n, c.diagonals)) {
					t.Errorf("rotations %v, want at most %d; without the matrix %v", ks, c.keys,
						henc.TransformRotations(n, c.diagonals))
				}
				ev := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(ks, false))(t))
				ct := must(r.seeded.EncryptComplex(z, level, 0, seedOf("linear")))(t)
				out := must(ev.Rescale(must(ev.Transform(ct, lt))(t)))(t)
				if out.Level != level-1 || math.Abs(out.Scale/ct.Scale-1) > 1e-15 {
					t.Errorf("level %d, scale %g", out.Level, out.Scale)
				}
				if e := math.Log2(maxError(must(r.dec.DecryptComplex(out))(t), want)); e > -34 {
					t.Errorf("error 2^%.1f", e)
				}
				least := henc.LeastTransformRotations(n, c.diagonals)
				if len(least) > len(ks) || name == "factor" && len(least) != 4 { // -8, 1, 2, 4
					t.Errorf("the fewest rotations are %v of %v", least, ks)
				}
				slow := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(least, false))(t))
				out = must(slow.Rescale(must(slow.Transform(ct, lt))(t)))(t)
				if e := math.Log2(maxError(must(r.dec.DecryptComplex(out))(t), want)); e > -34 {
					t.Errorf("with the fewest keys: error 2^%.1f", e)
				}
				if len(least) > 0 {
					few := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(least[1:], false))(t))
					if _, err := few.Transform(ct, lt); !errors.Is(err, henc.ErrNoKey) {
						t.Errorf("without the key of %d: %v", least[0], err)
					}
				}
				if name == "wide factor" { // without one giant step's key the others are made of steps by 16
					without := slices.DeleteFunc(ks, func(k int) bool { return k == -32 })
					horner := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(without, false))(t))
					out = must(horner.Rescale(must(horner.Transform(ct, lt))(t)))(t)
					if e := math.Log2(maxError(must(r.dec.DecryptComplex(out))(t), want)); e > -34 {
						t.Errorf("without the key of -32: error 2^%.1f", e)
					}
				}
			})
		}
	}
}

func TestLinearTransformRefuses(t *testing.T) {
	r := newRig(t, "toy", 1)
	n, level := r.p.Slots(), r.p.MaxLevel()
	one := uniform(n, 1)
	infinite := append([]complex128{complex(math.Inf(1), 0)}, one[1:]...)
	for name, c := range map[string]struct {
		diagonals map[int][]complex128
		level     int
		scale     float64
		want      error
	}{
		"none":     {nil, level, 0x1p40, henc.ErrMessage},
		"short":    {map[int][]complex128{0: one[1:]}, level, 0x1p40, henc.ErrMessage},
		"twice":    {map[int][]complex128{1: one, 1 - n: one}, level, 0x1p40, henc.ErrMessage},
		"infinite": {map[int][]complex128{0: infinite}, level, 0x1p40, henc.ErrMessage},
		"level":    {map[int][]complex128{0: one}, level + 1, 0x1p40, henc.ErrLevel},
		"scale":    {map[int][]complex128{0: one}, level, 0.5, henc.ErrScale},
	} {
		if _, err := henc.NewLinearTransform(r.ctx, c.diagonals, c.level, c.scale); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := henc.NewLinearTransform(nil, map[int][]complex128{0: one}, 0, 1); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no context: %v", err)
	}
	lt := must(henc.NewLinearTransform(r.ctx, map[int][]complex128{0: one}, level, 0x1p60))(t)
	ev := r.evaluator(t)
	ct := must(r.seeded.EncryptComplex(one, level, 0, seedOf("linear")))(t)
	if _, err := ev.Transform(must(ev.DropLevel(ct, 1))(t), lt); !errors.Is(err, henc.ErrLevel) {
		t.Errorf("level: %v", err)
	}
	if _, err := ev.Transform(ct.WithScale(0x1p120), lt); !errors.Is(err, henc.ErrScale) {
		t.Errorf("scale: %v", err)
	}
	other := newRig(t, "toy", 16)
	foreign := must(other.seeded.EncryptComplex(one, level, 0, seedOf("l")))(t)
	if _, err := other.evaluator(t).Transform(foreign, lt); !errors.Is(err, henc.ErrParams) {
		t.Errorf("context: %v", err)
	}
	if _, err := ev.Transform(ct, nil); !errors.Is(err, henc.ErrParams) {
		t.Errorf("nil: %v", err)
	}
}

// TestBatchAddConst compares with AddConst of each item.
func TestBatchAddConst(t *testing.T) {
	r := newRig(t, "toy", 16)
	ev, level := r.evaluator(t), r.p.MaxLevel()
	be := must(henc.NewBatchEvaluator([]*henc.Evaluator{ev, ev}))(t)
	x := []*henc.Ciphertext{
		must(r.seeded.EncryptComplex(uniform(r.p.Slots(), 1), level, 0, seedOf("one")))(t),
		must(r.seeded.EncryptComplex(uniform(r.p.Slots(), 2), level, 0, seedOf("two")))(t),
	}
	both := must(be.AddConst(must(be.Of(x, level))(t), -0.375))(t)
	for i, ct := range x {
		want := must(r.ctx.MarshalCiphertext(must(ev.AddConst(ct, -0.375))(t)))(t)
		if got := must(r.ctx.MarshalCiphertext(both.At(i)))(t); !slices.Equal(got, want) {
			t.Errorf("item %d differs", i)
		}
	}
	if _, err := be.AddConst(both, math.NaN()); !errors.Is(err, henc.ErrMessage) {
		t.Errorf("NaN: %v", err)
	}
	if _, err := be.AddConst(nil, 1); !errors.Is(err, henc.ErrParams) {
		t.Errorf("nil: %v", err)
	}
}

// TestBatchTransform: the items of a batch, under different evaluators and keys, give the residues that each gives
// alone, from items that lie together and from separate ones.
func TestBatchTransform(t *testing.T) {
	for name, c := range linearCases() {
		for _, n2 := range []int{1, 4, 16} {
			r := newRig(t, "toy", n2)
			n, level := r.p.Slots(), r.p.MaxLevel()
			diagonals := map[int][]complex128{}
			for i, k := range c.diagonals {
				diagonals[k] = uniform(n, uint64(10+i))
			}
			lt := must(henc.NewLinearTransform(r.ctx, diagonals, level, r.p.RescaleFactor(level)))(t)
			all := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(lt.Rotations(), true))(t))
			few := henc.NewEvaluator(r.ctx,
				must(r.key.EvaluationKeys(henc.LeastTransformRotations(n, c.diagonals), true))(t))
			evs := []*henc.Evaluator{all, all, few}
			be := must(henc.NewBatchEvaluator(evs))(t)
			x := make([]*henc.Ciphertext, len(evs))
			for i := range x {
				x[i] = must(r.seeded.EncryptComplex(uniform(n, uint64(i)), level, 0, seedOf(fmt.Sprint(i))))(t)
			}
			separate := must(be.Of(x, level))(t)
			together := must(be.Clone(separate))(t)
			for _, a := range []*henc.Ciphertexts{separate, together} {
				got, turned := must(be.Transform(a, lt))(t), must(be.Conjugate(a))(t)
				for i, ev := range evs {
					r.same(t, fmt.Sprintf("%s/%d: item %d", name, n2, i), got.At(i), must(ev.Transform(x[i], lt))(t))
					want := must(ev.Conjugate(x[i]))(t)
					r.same(t, fmt.Sprintf("%s/%d: conjugate %d", name, n2, i), turned.At(i), want)
				}
			}
			lt.Free()
		}
	}
}

// same compares residues, levels and scales.
func (r *rig) same(t *testing.T, what string, got, want *henc.Ciphertext) {
	t.Helper()
	if !slices.Equal(must(r.ctx.MarshalCiphertext(got))(t), must(r.ctx.MarshalCiphertext(want))(t)) {
		t.Errorf("%s differs", what)
	}
}

func TestBatchTransformRefuses(t *testing.T) {
	r := newRig(t, "toy", 1)
	level, one := r.p.MaxLevel(), uniform(r.p.Slots(), 1)
	lt := must(henc.NewLinearTransform(r.ctx, map[int][]complex128{0: one, 1: one}, level, 0x1p60))(t)
	ev := r.evaluator(t)
	be := must(henc.NewBatchEvaluator([]*henc.Evaluator{ev, henc.NewEvaluator(r.ctx, nil)}))(t)
	ct := must(r.seeded.EncryptComplex(one, level, 0, seedOf("linear")))(t)
	both := must(be.Of([]*henc.Ciphertext{ct, ct}, level))(t)
	if _, err := be.Transform(both, lt); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("no keys for one item: %v", err)
	}
	if _, err := be.Conjugate(both); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("no key for one conjugate: %v", err)
	}
	if _, err := be.Transform(both, nil); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no transform: %v", err)
	}
	if _, err := be.Transform(must(be.AtLevel(both, level-1))(t), lt); !errors.Is(err, henc.ErrLevel) {
		t.Errorf("level: %v", err)
	}
	if _, err := be.Transform(both.WithScale(0x1p120), lt); !errors.Is(err, henc.ErrScale) {
		t.Errorf("scale: %v", err)
	}
	if _, err := (*henc.BatchEvaluator)(nil).Transform(both, lt); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no evaluator: %v", err)
	}
}

// TestPartAndTake: parts of a batch and residues that become one share memory with it.
func TestPartAndTake(t *testing.T) {
	r := newRig(t, "toy", 1)
	ev, level := r.evaluator(t), r.p.MaxLevel()
	be := must(henc.NewBatchEvaluator([]*henc.Evaluator{ev, ev, ev}))(t)
	cts := make([]*henc.Ciphertext, 3)
	for i := range cts {
		cts[i] = must(r.seeded.EncryptComplex(uniform(r.p.Slots(), uint64(i)), level, 0, seedOf(fmt.Sprint(i))))(t)
	}
	separate := must(be.Of(cts, level))(t)
	for _, a := range []*henc.Ciphertexts{separate, must(be.Clone(separate))(t)} {
		two := must(henc.NewBatchEvaluator([]*henc.Evaluator{ev, ev}))(t)
		sum := must(two.Add(a.Part(1, 3), a.Part(0, 2)))(t)
		for i := range 2 {
			r.same(t, fmt.Sprint("sum ", i), sum.At(i), must(ev.Add(cts[i+1], cts[i]))(t))
		}
		for _, lohi := range [][2]int{{-1, 1}, {0, 4}, {1, 1}, {2, 1}} {
			if a.Part(lohi[0], lohi[1]) != nil {
				t.Errorf("part %v of three items", lohi)
			}
		}
	}
	whole := must(r.ctx.Ring().NewBatch(6, r.p.QLimbs(level), r.ctx.Domain()))(t)
	taken := must(be.Take(whole, level, 0x1p40))(t)
	if taken.Len() != 3 || taken.Level() != level || taken.Scale() != 0x1p40 || taken.At(2).Value.Mem() != whole.Mem() {
		t.Errorf("%d items at level %d and scale %g", taken.Len(), taken.Level(), taken.Scale())
	}
	be.Free(taken)
	for want, b := range map[error]*cutrantt.Batch{
		henc.ErrDegree: nil,
		henc.ErrLevel:  must(r.ctx.Ring().NewBatch(6, r.p.QLimbs(level-1), r.ctx.Domain()))(t),
	} {
		if _, err := be.Take(b, level, 0x1p40); !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
	}
	if _, err := (*henc.BatchEvaluator)(nil).Take(nil, 0, 1); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no evaluator: %v", err)
	}
}
