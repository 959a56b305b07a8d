package henc_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

// linearCases are sets of diagonals of matrices over 512 slots, with the number of keys that
// baby and giant steps need, and those of giant steps that Horner's rule does without.
func linearCases() map[string]struct {
	diagonals []int
	keys      int
	extra     []int
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
		extra     []int
	}{
		"diagonal":     {[]int{0}, 0, nil},
		"one shift":    {[]int{7}, 1, nil},
		"shift back":   {[]int{-5}, 1, nil},
		"neighbours":   {[]int{-1, 0, 1}, 3, nil},
		"factor":       {upTo(-7, 7, 1), 7 + 1, nil},
		"blocks":       {upTo(-7, 7, 1), 7 + 1, nil},           // of 8 slots that repeat
		"wide factor":  {upTo(-31, 31, 1), 15 + 3, []int{-32}}, // giant steps back by 2 and 1, and on by 1
		"one side":     {upTo(0, 31, 1), 7 + 3, []int{16, 24}},
		"both back":    {[]int{-9, -3, 0, 1}, 3 + 2, []int{-16}}, // giant steps -2, -1 and 0
		"last factor":  {upTo(-7, 7, 64)[7:], 3 + 1, nil},        // 0..7 times 64 is the whole cycle
		"high factor":  {upTo(-7, 7, 8), 7 + 1, nil},
		"gaps":         {[]int{3, 100, 101, 200, -30}, 5 + 3, []int{96, 192}}, // giant steps -1, 0, 3 and 6
		"far from 0":   {[]int{96, 104, 112, 120}, 4, []int{96}},
		"negative far": {[]int{-96, -104, -112, -120}, 5, []int{384, 416}},
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
				if len(ks) != c.keys || !slices.Equal(ks, henc.TransformRotations(n, c.diagonals)) {
					t.Errorf("rotations %v, want %d; without the matrix %v", ks, c.keys,
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
				r.checkRescaled(t, ev, ct, lt, out)
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
			})
		}
	}
}

// checkRescaled: rescaled at once, a transform is out, but for a rounding, and has its level and scale.
func (r *rig) checkRescaled(t *testing.T, ev *henc.Evaluator, ct *henc.Ciphertext, lt *henc.LinearTransform,
	out *henc.Ciphertext,
) {
	t.Helper()
	be := must(henc.NewBatchEvaluator([]*henc.Evaluator{ev}))(t)
	x := must(be.Of([]*henc.Ciphertext{ct}, ct.Level))(t)
	got := must(be.TransformRescale(x, lt, 1))(t)
	if got.Level() != out.Level || got.Scale() != out.Scale {
		t.Errorf("rescaled at once: level %d, scale %g, want %d, %g", got.Level(), got.Scale(), out.Level, out.Scale)
	}
	want := must(r.dec.DecryptComplex(out))(t)
	if e := math.Log2(maxError(must(r.dec.DecryptComplex(got.At(0)))(t), want)); e > -34 {
		t.Errorf("rescaled at once: error 2^%.1f", e)
	}
	for _, levels := range []int{-1, ct.Level + 1} {
		if _, err := be.TransformRescale(x, lt, levels); !errors.Is(err, henc.ErrLevel) {
			t.Errorf("%d rescalings: %v", levels, err)
		}
	}
}

// TestLinearTransformWays: giant steps go side by side with all their keys. Without one of the keys that Horner's rule
// does without, whichever it is, they go by that rule: the same slots, other roundings.
func TestLinearTransformWays(t *testing.T) {
	for name, c := range linearCases() {
		for _, n2 := range []int{1, 4} {
			r := newRig(t, "toy", n2)
			n, level := r.p.Slots(), r.p.MaxLevel()
			lt := r.randomTransform(t, c.diagonals)
			ct := must(r.seeded.EncryptComplex(uniform(n, 5), level, 0, seedOf("ways")))(t)
			keys := append(henc.LeastTransformRotations(n, c.diagonals), lt.Rotations()...)
			transform := func(without ...int) *henc.Ciphertext {
				ks := slices.DeleteFunc(slices.Clone(keys), func(k int) bool { return slices.Contains(without, k) })
				ev := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(ks, false))(t))
				return must(ev.Transform(ct, lt))(t)
			}
			all := transform()
			if len(c.extra) == 0 {
				continue
			}
			horner := transform(c.extra...)
			if slices.Equal(r.bytes(t, horner), r.bytes(t, all)) {
				t.Errorf("%s/%d: the keys %v change nothing", name, n2, c.extra)
			}
			want := must(r.dec.DecryptComplex(must(r.evaluator(t).Rescale(all))(t)))(t)
			for _, k := range c.extra {
				out := transform(k)
				r.same(t, fmt.Sprintf("%s/%d: without the key of %d", name, n2, k), out, horner)
				slots := must(r.dec.DecryptComplex(must(r.evaluator(t).Rescale(out))(t)))(t)
				if e := math.Log2(maxError(slots, want)); e > -34 {
					t.Errorf("%s/%d: without the key of %d: error 2^%.1f", name, n2, k, e)
				}
			}
			lt.Free()
		}
	}
}

// randomTransform has random diagonals, at the highest level.
func (r *rig) randomTransform(t *testing.T, diagonals []int) *henc.LinearTransform {
	t.Helper()
	values, level := map[int][]complex128{}, r.p.MaxLevel()
	for i, k := range diagonals {
		values[k] = uniform(r.p.Slots(), uint64(10+i))
	}
	return must(henc.NewLinearTransform(r.ctx, values, level, r.p.RescaleFactor(level)))(t)
}

// counting is a backend whose ring does key switches step by step and counts them.
type counting struct {
	cutrantt.Backend
	switches *int
}

type countingRing struct {
	cutrantt.Ring
	switches *int
}

func (b counting) NewRing(logN int, moduli []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := b.Backend.NewRing(logN, moduli, o)
	return countingRing{r, b.switches}, err
}

func (r countingRing) MulOperand(dst, a *cutrantt.Batch, key cutrantt.Operand) error {
	*r.switches++
	return r.Ring.MulOperand(dst, a, key)
}

// TestTransformSwitches counts the key switches, and compares the result with that of a ring that does them at once.
func TestTransformSwitches(t *testing.T) {
	fused, switches := newRig(t, "toy", 1), 0
	ctx := must(henc.NewContext(fused.p, henc.WithBackend(counting{cpu.New(), &switches}), henc.WithN2(1)))(t)
	key := must(secret.Generate(ctx, seedOf("key toy")))(t)
	r := &rig{ctx: ctx, p: fused.p, key: key, seeded: secret.NewSeededEncryptor(ctx, key)}
	n, level := r.p.Slots(), r.p.MaxLevel()
	for name, c := range linearCases() {
		result := func(r *rig) *henc.Ciphertext {
			lt := r.randomTransform(t, c.diagonals)
			ct := must(r.seeded.EncryptComplex(uniform(n, 5), level, 0, seedOf("switches")))(t)
			ev := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(lt.Rotations(), false))(t))
			defer lt.Free()
			switches = 0
			return must(ev.Transform(ct, lt))(t)
		}
		got := result(r)
		if want := henc.TransformSwitches(n, c.diagonals); switches != want || want != c.keys {
			t.Errorf("%s: %d key switches, TransformSwitches says %d, want %d", name, switches, want, c.keys)
		}
		if !slices.Equal(r.bytes(t, got), fused.bytes(t, result(fused))) {
			t.Errorf("%s: another result at once", name)
		}
	}
	if got := henc.TransformSwitches(n, nil); got != 0 {
		t.Errorf("%d key switches of no diagonals", got)
	}
}

// TestTransformFails: whichever step fails, the error comes out and all memory goes back, whatever way the items take.
func TestTransformFails(t *testing.T) {
	s := newSpy()
	p := must(parameters("toy"))(t)
	ctx := must(henc.NewContext(p, henc.WithBackend(s), henc.WithN2(4)))(t)
	key := must(secret.Generate(ctx, seedOf("fails")))(t)
	r := &rig{ctx: ctx, p: p, key: key}
	ks := linearCases()["both back"].diagonals
	lt := r.randomTransform(t, ks)
	defer lt.Free()
	all := henc.NewEvaluator(ctx, must(key.EvaluationKeys(lt.Rotations(), false))(t))
	few := henc.NewEvaluator(ctx, must(key.EvaluationKeys(henc.LeastTransformRotations(p.Slots(), ks), false))(t))
	enc := secret.NewSeededEncryptor(ctx, key)
	ct := must(enc.EncryptComplex(uniform(p.Slots(), 5), p.MaxLevel(), 0, seedOf("fails")))(t)
	for name, evs := range map[string][]*henc.Evaluator{
		"side by side": {all}, "horner": {few}, "both": {all, few},
	} {
		be := must(henc.NewBatchEvaluator(evs))(t)
		x := must(be.Of([]*henc.Ciphertext{ct, ct}[:len(evs)], p.MaxLevel()))(t)
		s.ring.reset(0)
		must(be.Transform(x, lt))(t) // prepares the keys
		for failAt := 1; ; failAt++ {
			s.ring.reset(failAt)
			out, err := be.Transform(x, lt)
			if err == nil {
				if failAt < 20 {
					t.Errorf("%s: only %d steps", name, failAt-1)
				}
				break
			}
			if !errors.Is(err, errSpy) || out != nil || len(s.ring.live) > 0 {
				t.Fatalf("%s, step %d: %v, %d batches are left", name, failAt, err, len(s.ring.live))
			}
		}
	}
}

// TestGPUTransformLaunches: on a GPU the giant steps take one set of launches, however many they are, and whatever the
// number of items.
func TestGPUTransformLaunches(t *testing.T) {
	p := must(parameters("toy"))(t)
	ctx := must(henc.NewContext(p, henc.WithBackend(gpu(t)), henc.WithN2(4)))(t)
	key := must(secret.Generate(ctx, seedOf("launches")))(t)
	r := &rig{ctx: ctx, p: p, key: key}
	enc := secret.NewSeededEncryptor(ctx, key)
	ring := ctx.Ring().(interface {
		cutrantt.Fused
		Launches() uint64
	})
	x := must(ctx.Ring().NewBatch(2, []int{0}, cutrantt.NTT(4)))(t)
	sum := must(ring.NewResult(2, []int{0}, x.Domain()))(t)
	factor := must(ctx.Ring().NewBatch(1, []int{0}, x.Domain()))(t)
	err := ring.SumProducts([]*cutrantt.Batch{sum}, []*cutrantt.Batch{x}, [][]*cutrantt.Batch{{factor}}, false)
	if errors.Is(err, cutrantt.ErrNotSupported) { // nor does it switch keys at once
		testenv.Missing(t, "cuda-fused", err)
	}
	launches := func(diagonals []int, items int, without ...int) (n uint64) {
		lt := r.randomTransform(t, diagonals)
		defer lt.Free()
		ks := slices.DeleteFunc(lt.Rotations(), func(k int) bool { return slices.Contains(without, k) })
		ev := henc.NewEvaluator(ctx, must(key.EvaluationKeys(ks, false))(t))
		be := must(henc.NewBatchEvaluator(slices.Repeat([]*henc.Evaluator{ev}, items)))(t)
		ct := must(enc.EncryptComplex(uniform(p.Slots(), 5), p.MaxLevel(), 0, seedOf("launches")))(t)
		x := must(be.Clone(must(be.Of(slices.Repeat([]*henc.Ciphertext{ct}, items), p.MaxLevel()))(t)))(t)
		for range 2 { // the first makes tables
			before := ring.Launches()
			must(be.Transform(x, lt))(t)
			n = ring.Launches() - before
		}
		return n
	}
	three := linearCases()["wide factor"]
	alone := launches([]int{-1, 0, 1}, 1) // one giant step
	side := launches(three.diagonals, 1)
	if side != alone {
		t.Errorf("%d launches with three giant steps, %d with one", side, alone)
	}
	if n := launches(three.diagonals, 3); n != side {
		t.Errorf("%d launches for three items, %d for one", n, side)
	}
	if n := launches(three.diagonals, 1, three.extra...); n <= side+4 {
		t.Errorf("%d launches by Horner's rule, %d side by side", n, side)
	} else {
		t.Logf("63 diagonals: %d launches side by side, %d by Horner's rule", side, n)
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
			lt := r.randomTransform(t, c.diagonals)
			all := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(lt.Rotations(), true))(t))
			few := henc.NewEvaluator(r.ctx,
				must(r.key.EvaluationKeys(henc.LeastTransformRotations(n, c.diagonals), true))(t))
			evs := []*henc.Evaluator{all, all, few}
			if len(c.extra) > 0 { // Horner's rule for this one, with all keys of baby steps
				ks := append(henc.LeastTransformRotations(n, c.diagonals), lt.Rotations()...)
				ks = slices.DeleteFunc(ks, func(k int) bool { return k == c.extra[0] })
				evs = append(evs, henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(ks, true))(t)))
			}
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
	if !slices.Equal(r.bytes(t, got), r.bytes(t, want)) {
		t.Errorf("%s differs", what)
	}
}

func (r *rig) bytes(t *testing.T, ct *henc.Ciphertext) []byte {
	t.Helper()
	return must(r.ctx.MarshalCiphertext(ct))(t)
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
