package henc_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// residuesOf downloads a ciphertext.
func residuesOf(t *testing.T, ctx *henc.Context, ct *henc.Ciphertext) []uint32 {
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
				evs[i] = henc.NewEvaluator(ctx, must(key.EvaluationKeys([]int{3}, false))(t))
				decs[i] = secret.NewDecryptor(ctx, key)
				enc := must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
				x[i], y[i] = uniform(p.Slots(), uint64(i)), uniform(p.Slots(), uint64(10+i))
				a[i] = must(enc.EncryptComplex(x[i], p.MaxLevel(), 0, nil))(t)
				b[i] = must(enc.EncryptComplex(y[i], p.MaxLevel(), 0, nil))(t)
			}
			b[1] = a[1] // a square among products
			y[1] = x[1]
			equal := func(op string, got []*henc.Ciphertext, err error, single func(i int) (*henc.Ciphertext, error)) {
				t.Helper()
				check(t, err)
				for i, ct := range got {
					want := must(single(i))(t)
					if !slices.Equal(residuesOf(t, ctx, ct), residuesOf(t, ctx, want)) || ct.Level != want.Level ||
						ct.Scale != want.Scale {
						t.Fatalf("%s, n2 = %d: %s: item %d is not what the single operation gives", set, n2, op, i)
					}
				}
			}
			products, err := henc.MulBatch(evs, a, b)
			equal("multiply", products, err, func(i int) (*henc.Ciphertext, error) { return evs[i].Mul(a[i], b[i]) })
			lower, err := henc.RescaleBatch(evs, products)
			equal("rescale", lower, err, func(i int) (*henc.Ciphertext, error) { return evs[i].Rescale(products[i]) })
			merged, err := henc.MulRescaleBatch(evs, a, b)
			equal("multiply and rescale", merged, err, func(i int) (*henc.Ciphertext, error) {
				return evs[i].MulRescale(a[i], b[i])
			})
			rotated, err := henc.RotateBatch(evs, a, 3)
			equal("rotate", rotated, err, func(i int) (*henc.Ciphertext, error) { return evs[i].Rotate(a[i], 3) })
			still, err := henc.RotateBatch(evs, a, 0)
			equal("rotate by 0", still, err, func(i int) (*henc.Ciphertext, error) { return a[i], nil })
			for i := range n {
				want := make([]complex128, p.Slots())
				for j := range want {
					want[j] = x[i][j] * y[i][j]
				}
				if e := maxError(must(decs[i].DecryptComplex(merged[i]))(t), want); e > 1e-3 {
					t.Errorf("%s, n2 = %d: product %d is off by %g", set, n2, i, e)
				}
				copy(want, x[i][3:])
				copy(want[len(want)-3:], x[i][:3])
				if e := maxError(must(decs[i].DecryptComplex(rotated[i]))(t), want); e > 1e-3 {
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
		what string
		evs  evals
		a    cts
		want error
	}{
		{"two evaluators for one ciphertext", evals{ev, ev}, cts{x}, henc.ErrParams},
		{"two levels", evals{ev, ev}, cts{x, low}, henc.ErrLevel},
		{"two contexts", evals{ev, other}, cts{x, x}, henc.ErrDomain},
		{"no ciphertext", evals{ev}, cts{nil}, henc.ErrDegree},
		{"no evaluator", evals{nil}, cts{x}, henc.ErrParams},
		{"no keys", evals{ev, henc.NewEvaluator(r.ctx, nil)}, cts{x, x}, henc.ErrNoKey},
	} {
		if _, err := henc.MulBatch(c.evs, c.a, c.a); !errors.Is(err, c.want) {
			t.Errorf("%s: multiply: %v", c.what, err)
		}
		if _, err := henc.RotateBatch(c.evs, c.a, 1); !errors.Is(err, c.want) {
			t.Errorf("%s: rotate: %v", c.what, err)
		}
	}
	if out, err := henc.MulRescaleBatch(nil, nil, nil); err != nil || len(out) != 0 {
		t.Errorf("an empty batch: %v, %v", out, err)
	}
	if _, err := henc.RescaleBatch(evals{ev}, cts{must(ev.DropLevel(x, x.Level))(t)}); !errors.Is(err, henc.ErrLevel) {
		t.Errorf("rescale at level 0: %v", err)
	}
}
