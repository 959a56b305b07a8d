package henc_test

import (
	"errors"
	"fmt"
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
			t.Run(fmt.Sprintf("%s/%d", set, n2), func(t *testing.T) {
				r := newBatchRig(t, set, n2)
				for op, f := range r.operations(t) {
					for where, x := range map[string]*henc.Ciphertexts{"apart": r.apart, "joined": r.joined} {
						r.compare(t, op+", "+where, f, x)
					}
				}
				r.decrypt(t)
			})
		}
	}
}

// batchItems is how many items the batches of the tests have.
const batchItems = 3

// batchRig is a batch of products and a square, under three key sets.
type batchRig struct {
	*rig
	evs  []*henc.Evaluator
	decs []*secret.Decryptor
	be   *henc.BatchEvaluator
	x, y [][]complex128
	a, b []*henc.Ciphertext
	pt   *henc.Plaintext

	apart, joined, others *henc.Ciphertexts                       // a in two ways, and b
	merged, rotated       map[*henc.Ciphertexts]*henc.Ciphertexts // products and rotations, by operand
}

func newBatchRig(t *testing.T, set string, n2 int) *batchRig {
	t.Helper()
	r := &batchRig{rig: newRig(t, set, n2), merged: map[*henc.Ciphertexts]*henc.Ciphertexts{},
		rotated: map[*henc.Ciphertexts]*henc.Ciphertexts{}}
	ctx, p := r.ctx, r.p
	for i := range batchItems {
		key := must(secret.Generate(ctx, seedOf("batch "+string(rune('a'+i)))))(t)
		r.evs = append(r.evs, henc.NewEvaluator(ctx, must(key.EvaluationKeys([]int{1, 2}, false))(t)))
		r.decs = append(r.decs, secret.NewDecryptor(ctx, key))
		enc := must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
		r.x, r.y = append(r.x, uniform(p.Slots(), uint64(i))), append(r.y, uniform(p.Slots(), uint64(10+i)))
		r.a = append(r.a, must(enc.EncryptComplex(r.x[i], p.MaxLevel(), 0, nil))(t))
		r.b = append(r.b, must(enc.EncryptComplex(r.y[i], p.MaxLevel(), 0, nil))(t))
	}
	r.b[1], r.y[1] = r.a[1], r.x[1] // a square among products
	r.be = must(henc.NewBatchEvaluator(r.evs))(t)
	r.apart, r.others = must(r.be.Of(r.a, p.MaxLevel()))(t), must(r.be.Of(r.b, p.MaxLevel()))(t)
	r.joined = must(r.be.Clone(r.apart))(t)
	r.pt = must(ctx.Encoder().EncodeReal(reals(p.Slots(), 7), p.MaxLevel(), 0x1p20))(t)
	return r
}

// batchOperation is an operation on one item and the same on all.
type batchOperation struct {
	one func(ev evaluator, a, b single) (single, error)
	all func(a, b group) (group, error)
}

func (r *batchRig) operations(t *testing.T) map[string]batchOperation {
	return map[string]batchOperation{
		"add": {(evaluator).Add, r.be.Add},
		"add itself": {func(ev evaluator, a, _ single) (single, error) { return ev.Add(a, a) },
			func(a, _ group) (group, error) { return r.be.Add(a, a) }},
		"subtract": {(evaluator).Sub, r.be.Sub},
		"multiply": {(evaluator).Mul, r.be.Mul},
		"multiply and rescale": {(evaluator).MulRescale, func(a, b group) (_ group, err error) {
			r.merged[a], err = r.be.MulRescale(a, b)
			return r.merged[a], err
		}},
		"multiply and rescale after": {func(ev evaluator, a, b single) (single, error) {
			return ev.Rescale(must(ev.Mul(a, b))(t))
		}, func(a, b group) (group, error) { return r.be.Rescale(must(r.be.Mul(a, b))(t)) }},
		"multiply by plaintext": {func(ev evaluator, a, _ single) (single, error) { return ev.MulPlain(a, r.pt) },
			func(a, _ group) (group, error) { return r.be.MulPlain(a, r.pt) }},
		"multiply by a constant": {func(ev evaluator, a, _ single) (single, error) {
			return ev.MulConst(a, -3, 1)
		},
			func(a, _ group) (group, error) { return r.be.MulConst(a, -3, 1) }},
		"drop a level": {func(ev evaluator, a, _ single) (single, error) { return ev.DropLevel(a, 1) },
			func(a, _ group) (group, error) { return r.be.DropLevel(a, 1) }},
		"rotate": {func(ev evaluator, a, _ single) (single, error) { return ev.Rotate(a, 2) },
			func(a, _ group) (_ group, err error) {
				r.rotated[a], err = r.be.Rotate(a, 2)
				return r.rotated[a], err
			}},
		"rotate by 0": {func(_ evaluator, a, _ single) (single, error) { return a, nil },
			func(a, _ group) (group, error) { return r.be.Rotate(a, 0) }},
		"rotate by several": {func(ev evaluator, a, _ single) (single, error) { return ev.Rotate(a, 1) },
			func(a, _ group) (group, error) {
				return must(r.be.RotateMany(a, []int{2, 0, 1}))(t)[2], nil
			}},
		"sum slots": {func(ev evaluator, a, _ single) (single, error) { return ev.SumSlots(a, 4, 1) },
			func(a, _ group) (group, error) { return r.be.SumSlots(a, 4, 1) }},
		"sum one slot": {func(ev evaluator, a, _ single) (single, error) { return ev.SumSlots(a, 1, 1) },
			func(a, _ group) (group, error) { return r.be.SumSlots(a, 1, 1) }},
	}
}

// compare runs an operation on a batch and on its items.
func (r *batchRig) compare(t *testing.T, name string, f batchOperation, x group) {
	t.Helper()
	got, err := f.all(x, r.others)
	check(t, err)
	for i := range batchItems {
		want, ct := must(f.one(r.evs[i], r.a[i], r.b[i]))(t), got.At(i)
		if !slices.Equal(residuesOf(t, r.ctx, ct), residuesOf(t, r.ctx, want)) || ct.Level != want.Level ||
			ct.Scale != want.Scale {
			t.Fatalf("%s: item %d is not what the single operation gives", name, i)
		}
		if !slices.Equal(residuesOf(t, r.ctx, x.At(i)), residuesOf(t, r.ctx, r.a[i])) {
			t.Fatalf("%s: item %d of the operand changed", name, i)
		}
	}
	if got.Level() > 0 { // read at a lower level
		low := must(r.be.Of([]*henc.Ciphertext{got.At(0), got.At(1), got.At(2)}, got.Level()-1))(t)
		want := must(r.be.DropLevel(got, 1))(t)
		sum := must(r.be.Sub(low, want))(t)
		if slices.Max(residuesOf(t, r.ctx, sum.At(2))) != 0 {
			t.Fatalf("%s: leading limbs are not those of DropLevel", name)
		}
	}
}

// decrypt decrypts a product and a rotation, each item under its own key.
func (r *batchRig) decrypt(t *testing.T) {
	t.Helper()
	for i := range batchItems {
		want := make([]complex128, r.p.Slots())
		for j := range want {
			want[j] = r.x[i][j] * r.y[i][j]
		}
		if e := maxError(must(r.decs[i].DecryptComplex(r.merged[r.joined].At(i)))(t), want); e > 1e-3 {
			t.Errorf("product %d is off by %g", i, e)
		}
		copy(want, r.x[i][2:])
		copy(want[len(want)-2:], r.x[i][:2])
		if e := maxError(must(r.decs[i].DecryptComplex(r.rotated[r.apart].At(i)))(t), want); e > 1e-3 {
			t.Errorf("rotation %d is off by %g", i, e)
		}
	}
}

// TestMulSumRescale: a sum of products and multiples decrypts to that under each item's key. One product alone is
// MulRescale's residue by residue, multiples alone are those of MulConst, Add and Rescale, and a constant is that of
// AddConst. The operands do not change.
func TestMulSumRescale(t *testing.T) {
	for _, n2 := range []int{16, 1} {
		r := newBatchRig(t, "toy", n2)
		before := residuesOf(t, r.ctx, r.apart.At(0))
		half := henc.Multiple{Of: r.others, By: 0.5, Scale: r.apart.Scale()}
		for where, a := range map[string]group{"apart": r.apart, "joined": r.joined} {
			products := [][2]group{{a, r.others}, {r.others, r.others}, {a, a}}
			got := must(r.be.MulSumRescale(products, []henc.Multiple{half}, 0.25))(t)
			alone := must(r.be.MulRescale(a, r.others))(t)
			if got.Level() != alone.Level() || got.Scale() != alone.Scale() {
				t.Errorf("%s: level %d, scale %g", where, got.Level(), got.Scale())
			}
			third := henc.Multiple{Of: a, By: -3, Scale: r.apart.Scale()}
			multiples := must(r.be.Add(must(r.be.MulConst(r.others, 0.5, half.Scale))(t),
				must(r.be.MulConst(a, -3, third.Scale))(t)))(t)
			r.equal(t, where+": one product", must(r.be.MulSumRescale(products[:1], nil, 0))(t), alone)
			r.equal(t, where+": one product and a constant", must(r.be.MulSumRescale(products[:1], nil, -2.5))(t),
				must(r.be.AddConst(alone, -2.5))(t))
			r.equal(t, where+": multiples", must(r.be.MulSumRescale(nil, []henc.Multiple{half, third}, 0))(t),
				must(r.be.Rescale(multiples))(t))
			r.equal(t, where+": multiples and a constant",
				must(r.be.MulSumRescale(nil, []henc.Multiple{half, third}, 1.5))(t),
				must(r.be.AddConst(must(r.be.Rescale(multiples))(t), 1.5))(t))
			r.equal(t, where+": all and a constant", got,
				must(r.be.AddConst(must(r.be.MulSumRescale(products, []henc.Multiple{half}, 0))(t), 0.25))(t))
			for i := range batchItems {
				want := make([]complex128, r.p.Slots())
				for j, x := range r.x[i] {
					y := r.y[i][j]
					want[j] = x*y + y*y + x*x + 0.5*y + 0.25
				}
				if e := maxError(must(r.decs[i].DecryptComplex(got.At(i)))(t), want); e > 1e-3 {
					t.Errorf("%s: item %d is off by %g", where, i, e)
				}
			}
		}
		if !slices.Equal(residuesOf(t, r.ctx, r.apart.At(0)), before) {
			t.Error("an operand changed")
		}
		r.refuseSums(t, half)
	}
}

// equal compares batches residue by residue.
func (r *batchRig) equal(t *testing.T, what string, got, want group) {
	t.Helper()
	if got.Level() != want.Level() || got.Scale() != want.Scale() {
		t.Errorf("%s: level %d, scale %g, want %d, %g", what, got.Level(), got.Scale(), want.Level(), want.Scale())
	}
	for i := range batchItems {
		if !slices.Equal(residuesOf(t, r.ctx, got.At(i)), residuesOf(t, r.ctx, want.At(i))) {
			t.Errorf("%s: item %d has other residues", what, i)
		}
	}
}

// refuseSums: products, multiples and constants that MulSumRescale does not take.
func (r *batchRig) refuseSums(t *testing.T, half henc.Multiple) {
	t.Helper()
	low := must(r.be.DropLevel(r.apart, 1))(t)
	some := []henc.Multiple{half}
	for what, c := range map[string]struct {
		err  error
		want error
	}{
		"nothing": {errOf(r.be.MulSumRescale(nil, nil, 1)), henc.ErrParams},
		"levels of products": {errOf(r.be.MulSumRescale([][2]group{{r.apart, r.apart}, {low, low}}, nil, 0)),
			henc.ErrLevel},
		"levels of a product":     {errOf(r.be.MulSumRescale([][2]group{{r.apart, low}}, nil, 0)), henc.ErrLevel},
		"the level of a multiple": {errOf(r.be.MulSumRescale([][2]group{{low, low}}, some, 0)), henc.ErrLevel},
		"the scale of a multiple": {errOf(r.be.MulSumRescale([][2]group{{r.apart, r.apart}},
			[]henc.Multiple{{Of: r.apart, By: 1, Scale: 2}}, 0)), henc.ErrScale},
		"a scale below 1": {errOf(r.be.MulSumRescale(nil, []henc.Multiple{{Of: r.apart, By: 1, Scale: 0.5}}, 0)),
			henc.ErrScale},
		"no ciphertexts": {errOf(r.be.MulSumRescale(nil, []henc.Multiple{{By: 1, Scale: 1}}, 0)), henc.ErrParams},
		"level 0": {errOf(r.be.MulSumRescale(nil, []henc.Multiple{{
			Of: must(r.be.DropLevel(r.apart, r.apart.Level()))(t), By: 1, Scale: 1}}, 1)), henc.ErrLevel},
		"a constant too large": {errOf(r.be.MulSumRescale(nil, some, math.Inf(1))), henc.ErrMessage},
		"scales of products": {errOf(r.be.MulSumRescale([][2]group{{r.apart, r.apart},
			{r.apart, r.apart.WithScale(2 * r.apart.Scale())}}, nil, 0)), henc.ErrScale},
		"nil factors": {errOf(r.be.MulSumRescale([][2]group{{nil, r.apart}}, nil, 0)), henc.ErrParams},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
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
