package henc_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

type (
	group     = *henc.Ciphertexts
	single    = *henc.Ciphertext
	evaluator = *henc.Evaluator
)

// residuesOf downloads a ciphertext.
func residuesOf(t *testing.T, ctx *henc.Context, ct single) []uint32 {
	t.Helper()
	w := make([]uint32, ct.Value.Len())
	check(t, ctx.Ring().Download(w, ct.Value))
	return w
}

// TestBatches: a batch under three key sets gives what the single operations
// give, residue by residue, and each result decrypts under its own key.
func TestBatches(t *testing.T) {
	for _, set := range []string{"toy", "toy-single"} {
		for _, n2 := range []int{16, 4, 1} {
			r := newRig(t, set, n2)
			ctx, p := r.ctx, r.p
			const n = 3
			evs, decs := make([]*henc.Evaluator, n), make([]*secret.Decryptor, n)
			a, b := make([]*henc.Ciphertext, n), make([]*henc.Ciphertext, n)
			x, y := make([][]complex128, n), make([][]complex128, n)
			for i := range n {
				key := must(secret.Generate(ctx, seedOf("batch "+string(rune('a'+i)))))(t)
				evs[i] = henc.NewEvaluator(ctx, must(key.EvaluationKeys([]int{1, 2}, false))(t))
				decs[i] = secret.NewDecryptor(ctx, key)
				enc := must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
				x[i], y[i] = uniform(p.Slots(), uint64(i)), uniform(p.Slots(), uint64(10+i))
				a[i] = must(enc.EncryptComplex(x[i], p.MaxLevel(), 0, nil))(t)
				b[i] = must(enc.EncryptComplex(y[i], p.MaxLevel(), 0, nil))(t)
			}
			b[1] = a[1] // a square among products
			y[1] = x[1]
			be := must(henc.NewBatchEvaluator(evs))(t)
			apart, others := must(be.Of(a, p.MaxLevel()))(t), must(be.Of(b, p.MaxLevel()))(t)
			joined := must(be.Clone(apart))(t)
			pt := must(ctx.Encoder().EncodeReal(reals(p.Slots(), 7), p.MaxLevel(), 0x1p20))(t)
			type one func(ev evaluator, a, b single) (single, error)
			type all func(a, b group) (group, error)
			merged, rotated := map[*henc.Ciphertexts]*henc.Ciphertexts{}, map[*henc.Ciphertexts]*henc.Ciphertexts{}
			for op, f := range map[string]struct {
				one one
				all all
			}{
				"add": {(evaluator).Add, be.Add},
				"add itself": {func(ev evaluator, a, _ single) (single, error) { return ev.Add(a, a) },
					func(a, _ group) (group, error) { return be.Add(a, a) }},
				"subtract": {(evaluator).Sub, be.Sub},
				"multiply": {(evaluator).Mul, be.Mul},
				"multiply and rescale": {(evaluator).MulRescale, func(a, b group) (_ group, err error) {
					merged[a], err = be.MulRescale(a, b)
					return merged[a], err
				}},
				"multiply and rescale after": {func(ev evaluator, a, b single) (single, error) {
					return ev.Rescale(must(ev.Mul(a, b))(t))
				}, func(a, b group) (group, error) { return be.Rescale(must(be.Mul(a, b))(t)) }},
				"multiply by plaintext": {func(ev evaluator, a, _ single) (single, error) { return ev.MulPlain(a, pt) },
					func(a, _ group) (group, error) { return be.MulPlain(a, pt) }},
				"multiply by a constant": {func(ev evaluator, a, _ single) (single, error) {
					return ev.MulConst(a, -3, 1)
				},
					func(a, _ group) (group, error) { return be.MulConst(a, -3, 1) }},
				"drop a level": {func(ev evaluator, a, _ single) (single, error) { return ev.DropLevel(a, 1) },
					func(a, _ group) (group, error) { return be.DropLevel(a, 1) }},
				"rotate": {func(ev evaluator, a, _ single) (single, error) { return ev.Rotate(a, 2) },
					func(a, _ group) (_ group, err error) {
						rotated[a], err = be.Rotate(a, 2)
						return rotated[a], err
					}},
				"rotate by 0": {func(_ evaluator, a, _ single) (single, error) { return a, nil },
					func(a, _ group) (group, error) { return be.Rotate(a, 0) }},
				"rotate by several": {func(ev evaluator, a, _ single) (single, error) { return ev.Rotate(a, 1) },
					func(a, _ group) (group, error) {
						return must(be.RotateMany(a, []int{2, 0, 1}))(t)[2], nil
					}},
				"sum slots": {func(ev evaluator, a, _ single) (single, error) { return ev.SumSlots(a, 4, 1) },
					func(a, _ group) (group, error) { return be.SumSlots(a, 4, 1) }},
				"sum one slot": {func(ev evaluator, a, _ single) (single, error) { return ev.SumSlots(a, 1, 1) },
					func(a, _ group) (group, error) { return be.SumSlots(a, 1, 1) }},
			} {
				for where, x := range map[string]*henc.Ciphertexts{"apart": apart, "joined": joined} {
					got, err := f.all(x, others)
					check(t, err)
					for i := range n {
						want, ct := must(f.one(evs[i], a[i], b[i]))(t), got.At(i)
						if !slices.Equal(residuesOf(t, ctx, ct), residuesOf(t, ctx, want)) || ct.Level != want.Level ||
							ct.Scale != want.Scale {
							t.Fatalf("%s, n2 = %d: %s, %s: item %d is not what the single operation gives", set, n2, op,
								where, i)
						}
						if !slices.Equal(residuesOf(t, ctx, x.At(i)), residuesOf(t, ctx, a[i])) {
							t.Fatalf("%s, n2 = %d: %s, %s: item %d of the operand changed", set, n2, op, where, i)
						}
					}
					if got.Level() > 0 { // read at a lower level
						low := must(be.Of([]*henc.Ciphertext{got.At(0), got.At(1), got.At(2)}, got.Level()-1))(t)
						want := must(be.DropLevel(got, 1))(t)
						sum := must(be.Sub(low, want))(t)
						if slices.Max(residuesOf(t, ctx, sum.At(2))) != 0 {
							t.Fatalf("%s: %s: leading limbs are not those of DropLevel", set, op)
						}
					}
				}
			}
			for i := range n {
				want := make([]complex128, p.Slots())
				for j := range want {
					want[j] = x[i][j] * y[i][j]
				}
				if e := maxError(must(decs[i].DecryptComplex(merged[joined].At(i)))(t), want); e > 1e-3 {
					t.Errorf("%s, n2 = %d: product %d is off by %g", set, n2, i, e)
				}
				copy(want, x[i][2:])
				copy(want[len(want)-2:], x[i][:2])
				if e := maxError(must(decs[i].DecryptComplex(rotated[apart].At(i)))(t), want); e > 1e-3 {
					t.Errorf("%s, n2 = %d: rotation %d is off by %g", set, n2, i, e)
				}
			}
		}
	}
}

// TestBatchesRefuse: items that do not fit each other.
func TestBatchesRefuse(t *testing.T) {
	r := newRig(t, "toy", 16)
	ev := r.evaluator(t)
	x := must(r.enc.EncryptReal(reals(r.p.Slots(), 1), r.p.MaxLevel(), 0, nil))(t)
	low := must(ev.DropLevel(x, 1))(t)
	other := henc.NewEvaluator(newRig(t, "toy", 4).ctx, nil)
	type cts = []*henc.Ciphertext
	type evals = []*henc.Evaluator
	for _, c := range []struct {
		what  string
		evs   evals
		a     cts
		level int
		want  error
	}{
		{"two evaluators for one ciphertext", evals{ev, ev}, cts{x}, x.Level, henc.ErrParams},
		{"a level above", evals{ev, ev}, cts{x, low}, x.Level, henc.ErrLevel},
		{"a level below 0", evals{ev}, cts{x}, -1, henc.ErrLevel},
		{"two scales", evals{ev, ev}, cts{x, x.WithScale(x.Scale / 2)}, x.Level, henc.ErrScale},
		{"nothing", nil, nil, 0, henc.ErrParams},
		{"two contexts", evals{ev, other}, cts{x, x}, x.Level, henc.ErrParams},
		{"no ciphertext", evals{ev}, cts{nil}, x.Level, henc.ErrDegree},
		{"no evaluator", evals{nil}, cts{x}, x.Level, henc.ErrParams},
		{"no keys", evals{ev, henc.NewEvaluator(r.ctx, nil)}, cts{x, x}, x.Level, henc.ErrNoKey},
	} {
		for op, f := range map[string]func(be *henc.BatchEvaluator, a group) (group, error){
			"multiply": func(be *henc.BatchEvaluator, a group) (group, error) { return be.Mul(a, a) },
			"rotate":   func(be *henc.BatchEvaluator, a group) (group, error) { return be.Rotate(a, 1) },
		} {
			be, err := henc.NewBatchEvaluator(c.evs)
			if err == nil {
				var a *henc.Ciphertexts
				if a, err = be.Of(c.a, c.level); err == nil {
					_, err = f(be, a)
				}
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %s: %v", c.what, op, err)
			}
		}
	}
	be := must(henc.NewBatchEvaluator(evals{ev, ev}))(t)
	a := must(be.Of(cts{x, x}, x.Level))(t)
	one := must(must(henc.NewBatchEvaluator(evals{ev}))(t).Of(cts{x}, x.Level))(t)
	for what, c := range map[string]struct {
		err  error
		want error
	}{
		"levels of a sum":     {errOf(be.Add(a, must(be.DropLevel(a, 1))(t))), henc.ErrLevel},
		"scales of a sum":     {errOf(be.Sub(a, a.WithScale(2*a.Scale()))), henc.ErrScale},
		"rescale at level 0":  {errOf(be.Rescale(must(be.DropLevel(a, x.Level))(t))), henc.ErrLevel},
		"drop too many":       {errOf(be.DropLevel(a, x.Level+1)), henc.ErrLevel},
		"three slots":         {errOf(be.SumSlots(a, 3, 1)), henc.ErrMessage},
		"another number":      {errOf(be.Add(a, one)), henc.ErrParams},
		"a scale without end": {errOf(be.Clone(a.WithScale(math.Inf(1)))), henc.ErrScale},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }
