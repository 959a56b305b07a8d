package conformance

import (
	"errors"
	"math"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// TestRefuseRing covers what NewRing refuses.
func TestRefuseRing(t *testing.T) {
	ms := moduli(t, 10, 2)
	good := ms[0]
	with := func(q, psi uint32) []cutrantt.Modulus { return []cutrantt.Modulus{good, {Q: q, Psi: psi}} }
	square := uint32(uint64(good.Psi) * uint64(good.Psi) % uint64(good.Q))
	big := moduli(t, 11, 1)[0]
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		for _, c := range []struct {
			what string
			logN int
			ms   []cutrantt.Modulus
			opts cutrantt.Options
			want error
		}{
			{"small degree", 9, ms, cutrantt.Options{}, cutrantt.ErrNotSupported},
			{"large degree", 18, ms, cutrantt.Options{}, cutrantt.ErrNotSupported},
			{"negative degree", -1, ms, cutrantt.Options{}, cutrantt.ErrNotSupported},
			{"unknown method", 10, ms, cutrantt.Options{Method: 99}, cutrantt.ErrNotSupported},
			{"negative workers", 10, ms, cutrantt.Options{Workers: -1}, cutrantt.ErrNotSupported},
			{"no moduli", 10, nil, cutrantt.Options{}, cutrantt.ErrModulus},
			{"twice the same", 10, []cutrantt.Modulus{good, good}, cutrantt.Options{}, cutrantt.ErrModulus},
			{"zero", 10, with(0, 0), cutrantt.Options{}, cutrantt.ErrModulus},
			{"one", 10, with(1, 1), cutrantt.Options{}, cutrantt.ErrModulus},
			{"two", 10, with(2, 1), cutrantt.Options{}, cutrantt.ErrModulus},
			{"composite", 10, with(2048*3+1, 3), cutrantt.Options{}, cutrantt.ErrModulus},
			{"composite with a root", 10, with(12289*40961, 393041032), cutrantt.Options{}, cutrantt.ErrModulus},
			{"prime, wrong residue", 10, with(1000003, 2), cutrantt.Options{}, cutrantt.ErrModulus},
			{"above 2^30", 10, with(2147473409, 3), cutrantt.Options{}, cutrantt.ErrModulus},
			{"psi of order N", 10, with(ms[1].Q, square), cutrantt.Options{}, cutrantt.ErrModulus},
			{"psi of half the order", 10, []cutrantt.Modulus{{Q: good.Q, Psi: square}}, cutrantt.Options{},
				cutrantt.ErrModulus},
			{"psi of twice the order", 10, []cutrantt.Modulus{big}, cutrantt.Options{}, cutrantt.ErrModulus},
			{"psi zero", 10, with(ms[1].Q, 0), cutrantt.Options{}, cutrantt.ErrModulus},
			{"psi not reduced", 10, with(ms[1].Q, ms[1].Psi+ms[1].Q), cutrantt.Options{}, cutrantt.ErrModulus},
		} {
			r, err := b.NewRing(c.logN, c.ms, c.opts)
			wantErr(t, c.what, err, c.want)
			if r != nil {
				t.Errorf("%s: a ring and an error", c.what)
			}
		}
	})
}

// TestRefuse covers what every operation refuses, by its sentinel, without a
// panic and without leaving residues out of range.
func TestRefuse(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		ms := moduli(t, 10, 3)
		g := newRig(t, b, 10, ms, cutrantt.MethodAuto)
		r := g.ring
		make1 := func(polys int, d cutrantt.Domain, limbs ...int) *cutrantt.Batch {
			x, err := r.NewBatch(polys, limbs, d)
			g.ok(err)
			return x
		}
		coeff, ntt := cutrantt.Coeffs(16), cutrantt.NTT(16)
		x, y, z := make1(2, coeff, 0, 1), make1(2, coeff, 0, 1), make1(2, coeff, 0, 1)
		fx, fy := make1(2, ntt, 0, 1), make1(2, ntt, 0, 1)
		f1 := make1(2, cutrantt.NTT(1), 0, 1)
		single, triple := make1(1, coeff, 0, 1), make1(3, coeff, 0, 1)
		other, turned, longer := make1(2, coeff, 0, 2), make1(2, coeff, 1, 0), make1(2, coeff, 0, 1, 2)
		c8 := make1(2, cutrantt.Coeffs(8), 0, 1)
		slice := func(b *cutrantt.Batch, p0, p1, l0, l1 int) *cutrantt.Batch {
			v, err := b.Slice(p0, p1, l0, l1)
			g.ok(err)
			return v
		}
		far := newRig(t, b, 10, ms, cutrantt.MethodAuto)
		foreign, err := far.ring.NewBatch(2, []int{0, 1}, coeff)
		g.ok(err)
		stranger, err := g.ref.NewBatch(2, []int{0, 1}, coeff)
		g.ok(err)
		freed := make1(2, coeff, 0, 1)
		r.Free(freed)
		odd := slice(x, 0, 2, 0, 2)
		odd.SetDomain(cutrantt.Domain{N2: 3})
		forged := cutrantt.MakeBatch(cutrantt.Shape{Polys: 9, Limbs: []int{0, 1}, Domain: coeff}, r.N(), x.Mem())
		op, err := r.Precompute(fx)
		g.ok(err)
		farOp, err := far.ring.Precompute(mustNTT(t, far.ring))
		g.ok(err)
		words := make([]uint32, x.Len())
		bad := make([]uint32, x.Len())
		bad[len(bad)-1] = ms[1].Q
		seed := &[32]byte{}
		n := r.N()
		floats := func(v float64) []float64 { f := make([]float64, n); f[n-1] = v; return f }
		smalls := func(v int32) []int32 { f := make([]int32, n); f[n-1] = v; return f }

		shape, domain, foreignErr, rng := cutrantt.ErrShape, cutrantt.ErrDomain, cutrantt.ErrForeign, cutrantt.ErrRange
		for _, c := range []struct {
			what string
			err  error
			want error
		}{
			{"new: no polynomials", second(r.NewBatch(0, []int{0}, coeff)), shape},
			{"new: negative", second(r.NewBatch(-1, []int{0}, coeff)), shape},
			{"new: no limbs", second(r.NewBatch(1, nil, coeff)), shape},
			{"new: unknown limb", second(r.NewBatch(1, []int{3}, coeff)), shape},
			{"new: negative limb", second(r.NewBatch(1, []int{-1}, coeff)), shape},
			{"new: limb twice", second(r.NewBatch(1, []int{1, 1}, coeff)), shape},
			{"new: no domain", second(r.NewBatch(1, []int{0}, cutrantt.Domain{})), domain},
			{"new: enormous", second(r.NewBatch(math.MaxInt, []int{0, 1}, coeff)), shape},
			{"slice: too far", second(x.Slice(0, 3, 0, 2)), shape},
			{"slice: turned", second(x.Slice(1, 0, 0, 2)), shape},
			{"slice: negative", second(x.Slice(0, 1, -1, 2)), shape},

			{"upload: short", r.Upload(x, words[1:]), shape},
			{"upload: long", r.Upload(x, append(words, 0)), shape},
			{"upload: residue q", r.Upload(x, bad), rng},
			{"upload: foreign", r.Upload(foreign, words), foreignErr},
			{"upload: nil", r.Upload(nil, words), foreignErr},
			{"download: short", r.Download(words[1:], x), shape},
			{"download: foreign", r.Download(words, foreign), foreignErr},
			{"copy: polynomials", r.Copy(x, single), shape},
			{"copy: limbs", r.Copy(x, other), shape},
			{"copy: order of limbs", r.Copy(x, turned), shape},
			{"wipe: foreign", r.Wipe(foreign), foreignErr},
			{"wipe: nil", r.Wipe(nil), foreignErr},
			{"wipe: empty batch", r.Wipe(&cutrantt.Batch{}), foreignErr},
			{"wipe: freed", r.Wipe(freed), foreignErr},
			{"wipe: forged", r.Wipe(forged), foreignErr},
			{"wipe: unknown domain", r.Wipe(odd), domain},

			{"forward: transformed", r.Forward(fx, fx), domain},
			{"forward: polynomials", r.Forward(single, x), shape},
			{"forward: no broadcast", r.Forward(x, single), shape},
			{"forward: limbs", r.Forward(other, x), shape},
			{"forward: foreign source", r.Forward(x, foreign), foreignErr},
			{"forward: another backend", r.Forward(x, stranger), foreignErr},
			{"forward: nil", r.Forward(nil, nil), foreignErr},
			{"forward: partly overlapping", r.Forward(slice(triple, 0, 2, 0, 2), slice(triple, 1, 3, 0, 2)), shape},
			{"inverse: coefficients", r.Inverse(x, x), domain},
			{"inverse: limbs", r.Inverse(longer, fx), shape},
			{"inverse: freed", r.Inverse(freed, fx), foreignErr},
			{"convert: limbs", r.Convert(fx, other), shape},
			{"convert: polynomials", r.Convert(fx, single), shape},
			{"convert: unknown domain", r.Convert(odd, x), domain},

			{"add: two domains", r.Add(z, x, fx), domain},
			{"add: two layouts", r.Add(z, x, c8), domain},
			{"add: limbs", r.Add(z, x, other), shape},
			{"add: polynomials", r.Add(z, x, triple), shape},
			{"add: dst limbs", r.Add(longer, x, y), shape},
			{"add: overlap", r.Add(slice(triple, 1, 3, 0, 2), slice(triple, 0, 2, 0, 2), x), shape},
			{"add: broadcast overlap", r.Add(triple, slice(triple, 0, 1, 0, 2), triple), shape},
			{"sub: foreign", r.Sub(z, x, foreign), foreignErr},
			{"neg: polynomials", r.Neg(z, single), shape},
			{"neg: nil", r.Neg(z, nil), foreignErr},
			{"mulscalar: few", r.MulScalar(z, x, []uint32{1}), shape},
			{"mulscalar: range", r.MulScalar(z, x, []uint32{1, ms[1].Q}), rng},
			{"addscalar: many", r.AddScalar(z, x, []uint32{1, 1, 1}), shape},
			{"addscalar: range", r.AddScalar(z, x, []uint32{ms[0].Q, 1}), rng},
			{"addscalar: nil", r.AddScalar(nil, x, []uint32{1, 1}), foreignErr},

			{"mul: coefficients", r.Mul(z, x, y), domain},
			{"mul: two domains", r.Mul(z, fx, f1), domain},
			{"mul: limbs", r.Mul(longer, fx, fy), shape},
			{"mul: nil", r.Mul(fx, nil, fy), foreignErr},
			{"muladd: dst domain", r.MulAdd(f1, fx, fy), domain},
			{"muladd: dst coefficients", r.MulAdd(z, fx, fy), domain},
			{"precompute: coefficients", second(r.Precompute(x)), domain},
			{"precompute: foreign", second(r.Precompute(foreign)), foreignErr},
			{"precompute: nil", second(r.Precompute(nil)), foreignErr},
			{"muloperand: nil", r.MulOperand(fy, fx, nil), foreignErr},
			{"muloperand: of another ring", r.MulOperand(fy, fx, farOp), foreignErr},
			{"muloperand: count", r.MulOperand(fy, fx, op), shape},
			{"muloperand: coefficients", r.MulOperand(slice(fy, 0, 1, 0, 2), x, op), domain},
			{"muloperand: other n2", r.MulOperand(slice(fy, 0, 1, 0, 2), f1, op), domain},
			{"muloperand: dst limbs", r.MulOperand(slice(longer, 0, 1, 0, 3), fx, op), shape},
			{"muloperand: missing limb", r.MulOperand(make1(1, ntt, 2), make1(2, ntt, 2), op), shape},
			{"muloperand: overlap", r.MulOperand(slice(fx, 0, 1, 0, 2), fx, op), shape},

			{"automorphism: even", r.Automorphism(z, x, 2), rng},
			{"automorphism: 2N+1", r.Automorphism(z, x, uint64(2*n+1)), rng},
			{"automorphism: huge", r.Automorphism(z, x, math.MaxUint64), rng},
			{"automorphism: in place", r.Automorphism(x, x, 3), shape},
			{"automorphism: limbs", r.Automorphism(other, x, 3), shape},
			{"automorphism: foreign", r.Automorphism(z, foreign, 3), foreignErr},

			{"extend: transformed", r.Extend(longer, fx), domain},
			{"extend: to another layout", r.Extend(c8, x), domain},
			{"extend: polynomials", r.Extend(longer, single), shape},
			{"extend: overlap", r.Extend(longer, slice(longer, 0, 2, 0, 2)), shape},
			{"extend: nothing", r.Extend(x, slice(longer, 0, 2, 0, 0)), shape},
			{"extend: nil", r.Extend(nil, x), foreignErr},
			{"divround: nothing dropped", r.DivRound(x, y), shape},
			{"divround: other limbs", r.DivRound(turned, longer), shape},
			{"divround: polynomials", r.DivRound(single, longer), shape},
			{"divround: wrong place", r.DivRound(slice(longer, 0, 2, 0, 1), slice(longer, 0, 2, 1, 3)), shape},
			{"divround: more limbs", r.DivRound(longer, x), shape},
			{"divround: freed", r.DivRound(freed, longer), foreignErr},

			{"setsmall: transformed", r.SetSmall(slice(fx, 0, 1, 0, 2), smalls(0)), domain},
			{"setsmall: two polynomials", r.SetSmall(x, smalls(0)), shape},
			{"setsmall: short", r.SetSmall(single, smalls(0)[1:]), shape},
			{"setsmall: 2^30", r.SetSmall(single, smalls(1<<30)), rng},
			{"setsmall: -2^30", r.SetSmall(single, smalls(-1<<30)), rng},
			{"setsmall: least", r.SetSmall(single, smalls(math.MinInt32)), rng},
			{"setsmall: largest", r.SetSmall(single, smalls(math.MaxInt32)), rng},
			{"setfloats: short", r.SetFloats(single, floats(0)[1:]), shape},
			{"setfloats: half", r.SetFloats(single, floats(0.5)), rng},
			{"setfloats: nan", r.SetFloats(single, floats(math.NaN())), rng},
			{"setfloats: inf", r.SetFloats(single, floats(math.Inf(1))), rng},
			{"setfloats: -inf", r.SetFloats(single, floats(math.Inf(-1))), rng},
			{"setfloats: transformed", r.SetFloats(slice(fx, 0, 1, 0, 2), floats(0)), domain},
			{"uniform: two polynomials", r.SampleUniform(x, seed, 0), shape},
			{"uniform: no seed", r.SampleUniform(single, nil, 0), rng},
			{"ternary: transformed", r.SampleTernary(slice(fx, 0, 1, 0, 2), seed, 0), domain},
			{"ternary: no seed", r.SampleTernary(single, nil, 0), rng},
			{"cbd: foreign", r.SampleCBD(foreign, seed, 0), foreignErr},
			{"cbd: no seed", r.SampleCBD(single, nil, 0), rng},
		} {
			wantErr(t, c.what, c.err, c.want)
		}
		for _, batch := range []*cutrantt.Batch{x, y, z, fx, fy, f1, single, triple, other, turned, longer, c8} {
			words, limbs := download(t, r, batch), batch.Limbs()
			for i, v := range words {
				if q := ms[limbs[i/n%len(limbs)]].Q; v >= q {
					t.Fatalf("a refused call left %d, modulus %d", v, q)
				}
			}
		}
	})
}

// TestRefuseMethod: an explicit method is not replaced where it does not exist.
func TestRefuseMethod(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		for _, m := range cutrantt.Methods() {
			g := newRig(t, b, 10, moduli(t, 10, 1), m)
			for _, n2 := range columns {
				x, err := g.ring.NewBatch(1, []int{0}, cutrantt.NTT(n2))
				g.ok(err)
				_, perr := g.ring.Precompute(x)
				for _, err := range []error{g.ring.Mul(x, x, x), g.ring.MulAdd(x, x, x), perr} {
					if m.Supports(n2) {
						g.ok(err)
					} else {
						wantErr(t, m.String(), err, cutrantt.ErrNotSupported)
					}
				}
			}
		}
	})
}

// TestEmpty: empty views are legal and do nothing.
func TestEmpty(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, moduli(t, 10, 2), cutrantt.MethodAuto)
		r := g.ring
		x := g.batch(upTo(2), cutrantt.Coeffs(16), random, random).got
		for _, c := range [][4]int{{0, 0, 0, 2}, {1, 1, 0, 1}, {0, 2, 2, 2}} {
			v, err := x.Slice(c[0], c[1], c[2], c[3])
			g.ok(err)
			w, err := x.Slice(c[0], c[1], c[2], c[3])
			g.ok(err)
			for _, err := range []error{
				r.Upload(v, nil), r.Download(nil, v), r.Wipe(v), r.Copy(v, w), r.Add(v, v, w), r.Neg(v, w),
				r.Forward(v, v), r.Mul(v, v, v), r.Inverse(v, v), r.Convert(v, w), r.Automorphism(v, w, 3),
			} {
				g.ok(err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func mustNTT(t testing.TB, r cutrantt.Ring) *cutrantt.Batch {
	t.Helper()
	x, err := r.NewBatch(2, []int{0, 1}, cutrantt.NTT(16))
	if err != nil {
		t.Fatal(err)
	}
	return x
}
