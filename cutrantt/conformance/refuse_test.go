package conformance

import (
	"errors"
	"math"
	"slices"
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
		o := newRefuser(t, b)
		for _, c := range slices.Concat(o.shapes(), o.transfers(), o.transforms(), o.sums(), o.products(),
			o.automorphisms(), o.bases(), o.messages()) {
			wantErr(t, c.what, c.err, c.want)
		}
		for _, batch := range []*cutrantt.Batch{o.x, o.y, o.z, o.fx, o.fy, o.f1, o.single, o.triple, o.other,
			o.turned, o.longer, o.c8} {
			words, limbs := download(t, o.ring, batch), batch.Limbs()
			for i, v := range words {
				if q := o.ms[limbs[i/o.n%len(limbs)]].Q; v >= q {
					t.Fatalf("a refused call left %d, modulus %d", v, q)
				}
			}
		}
	})
}

// refused is a call, what it returned and what it must return.
type refused struct {
	what string
	err  error
	want error
}

var errShape, errDomain, errForeign, errRange = cutrantt.ErrShape, cutrantt.ErrDomain, cutrantt.ErrForeign,
	cutrantt.ErrRange

// refuser has batches that do not go together.
type refuser struct {
	*rig
	far        *rig // the same ring again
	ms         []cutrantt.Modulus
	n          int
	coeff, ntt cutrantt.Domain

	x, y, z, fx, fy, f1   *cutrantt.Batch // two polynomials with two limbs, three of them transformed
	single, triple        *cutrantt.Batch // one polynomial, three
	other, turned, longer *cutrantt.Batch // other limbs
	c8                    *cutrantt.Batch // another layout
	foreign, stranger     *cutrantt.Batch // of another ring, of another backend
	freed, odd, forged    *cutrantt.Batch // freed, of an unknown domain, larger than its memory
	op, farOp             cutrantt.Operand
	words, bad            []uint32 // for x; the last of bad is the modulus
	seed                  *[32]byte
}

func newRefuser(t *testing.T, b cutrantt.Backend) *refuser {
	t.Helper()
	o := &refuser{ms: moduli(t, 10, 3), coeff: cutrantt.Coeffs(16), ntt: cutrantt.NTT(16), seed: &[32]byte{}}
	o.rig = newRig(t, b, 10, o.ms, cutrantt.MethodAuto)
	o.far = newRig(t, b, 10, o.ms, cutrantt.MethodAuto)
	o.n = o.ring.N()
	for _, to := range []**cutrantt.Batch{&o.x, &o.y, &o.z, &o.freed} {
		*to = o.batch(2, o.coeff, 0, 1)
	}
	o.fx, o.fy, o.f1 = o.batch(2, o.ntt, 0, 1), o.batch(2, o.ntt, 0, 1), o.batch(2, cutrantt.NTT(1), 0, 1)
	o.single, o.triple = o.batch(1, o.coeff, 0, 1), o.batch(3, o.coeff, 0, 1)
	o.other, o.turned, o.longer = o.batch(2, o.coeff, 0, 2), o.batch(2, o.coeff, 1, 0), o.batch(2, o.coeff, 0, 1, 2)
	o.c8 = o.batch(2, cutrantt.Coeffs(8), 0, 1)
	var err error
	o.foreign, err = o.far.ring.NewBatch(2, []int{0, 1}, o.coeff)
	o.ok(err)
	o.stranger, err = o.ref.NewBatch(2, []int{0, 1}, o.coeff)
	o.ok(err)
	o.ring.Free(o.freed)
	o.odd = o.slice(o.x, 0, 2, 0, 2)
	o.odd.SetDomain(cutrantt.Domain{N2: 3})
	o.forged = cutrantt.MakeBatch(cutrantt.Shape{Polys: 9, Limbs: []int{0, 1}, Domain: o.coeff}, o.n, o.x.Mem())
	o.op, err = o.ring.Precompute(o.fx)
	o.ok(err)
	o.farOp, err = o.far.ring.Precompute(mustNTT(t, o.far.ring))
	o.ok(err)
	o.words, o.bad = make([]uint32, o.x.Len()), make([]uint32, o.x.Len())
	o.bad[len(o.bad)-1] = o.ms[1].Q
	return o
}

func (o *refuser) batch(polys int, d cutrantt.Domain, limbs ...int) *cutrantt.Batch {
	x, err := o.ring.NewBatch(polys, limbs, d)
	o.ok(err)
	return x
}

func (o *refuser) slice(b *cutrantt.Batch, p0, p1, l0, l1 int) *cutrantt.Batch {
	v, err := b.Slice(p0, p1, l0, l1)
	o.ok(err)
	return v
}

// floats returns the coefficients of one polynomial, of which the last is v.
func (o *refuser) floats(v float64) []float64 { f := make([]float64, o.n); f[o.n-1] = v; return f }

func (o *refuser) smalls(v int32) []int32 { f := make([]int32, o.n); f[o.n-1] = v; return f }

// shapes are shapes that no batch has.
func (o *refuser) shapes() []refused {
	return []refused{
		{"new: no polynomials", second(o.ring.NewBatch(0, []int{0}, o.coeff)), errShape},
		{"new: negative", second(o.ring.NewBatch(-1, []int{0}, o.coeff)), errShape},
		{"new: no limbs", second(o.ring.NewBatch(1, nil, o.coeff)), errShape},
		{"new: unknown limb", second(o.ring.NewBatch(1, []int{3}, o.coeff)), errShape},
		{"new: negative limb", second(o.ring.NewBatch(1, []int{-1}, o.coeff)), errShape},
		{"new: limb twice", second(o.ring.NewBatch(1, []int{1, 1}, o.coeff)), errShape},
		{"new: no domain", second(o.ring.NewBatch(1, []int{0}, cutrantt.Domain{})), errDomain},
		{"new: enormous", second(o.ring.NewBatch(math.MaxInt, []int{0, 1}, o.coeff)), errShape},
		{"slice: too far", second(o.x.Slice(0, 3, 0, 2)), errShape},
		{"slice: turned", second(o.x.Slice(1, 0, 0, 2)), errShape},
		{"slice: negative", second(o.x.Slice(0, 1, -1, 2)), errShape},
	}
}

// transfers are words that do not fit, and batches that are not of this ring.
func (o *refuser) transfers() []refused {
	return []refused{
		{"upload: short", o.ring.Upload(o.x, o.words[1:]), errShape},
		{"upload: long", o.ring.Upload(o.x, append(o.words, 0)), errShape},
		{"upload: residue q", o.ring.Upload(o.x, o.bad), errRange},
		{"upload: foreign", o.ring.Upload(o.foreign, o.words), errForeign},
		{"upload: nil", o.ring.Upload(nil, o.words), errForeign},
		{"download: short", o.ring.Download(o.words[1:], o.x), errShape},
		{"download: foreign", o.ring.Download(o.words, o.foreign), errForeign},
		{"copy: polynomials", o.ring.Copy(o.x, o.single), errShape},
		{"copy: limbs", o.ring.Copy(o.x, o.other), errShape},
		{"copy: order of limbs", o.ring.Copy(o.x, o.turned), errShape},
		{"wipe: foreign", o.ring.Wipe(o.foreign), errForeign},
		{"wipe: nil", o.ring.Wipe(nil), errForeign},
		{"wipe: empty batch", o.ring.Wipe(&cutrantt.Batch{}), errForeign},
		{"wipe: freed", o.ring.Wipe(o.freed), errForeign},
		{"wipe: forged", o.ring.Wipe(o.forged), errForeign},
		{"wipe: unknown domain", o.ring.Wipe(o.odd), errDomain},
	}
}

// transforms are transforms from or to the wrong domain, shape or memory.
func (o *refuser) transforms() []refused {
	return []refused{
		{"forward: transformed", o.ring.Forward(o.fx, o.fx), errDomain},
		{"forward: polynomials", o.ring.Forward(o.single, o.x), errShape},
		{"forward: no broadcast", o.ring.Forward(o.x, o.single), errShape},
		{"forward: limbs", o.ring.Forward(o.other, o.x), errShape},
		{"forward: foreign source", o.ring.Forward(o.x, o.foreign), errForeign},
		{"forward: another backend", o.ring.Forward(o.x, o.stranger), errForeign},
		{"forward: nil", o.ring.Forward(nil, nil), errForeign},
		{"forward: partly overlapping", o.ring.Forward(o.slice(o.triple, 0, 2, 0, 2), o.slice(o.triple, 1, 3, 0, 2)),
			errShape},
		{"inverse: coefficients", o.ring.Inverse(o.x, o.x), errDomain},
		{"inverse: limbs", o.ring.Inverse(o.longer, o.fx), errShape},
		{"inverse: freed", o.ring.Inverse(o.freed, o.fx), errForeign},
		{"convert: limbs", o.ring.Convert(o.fx, o.other), errShape},
		{"convert: polynomials", o.ring.Convert(o.fx, o.single), errShape},
		{"convert: unknown domain", o.ring.Convert(o.odd, o.x), errDomain},
	}
}

// sums are sums and multiples of batches that do not match.
func (o *refuser) sums() []refused {
	return []refused{
		{"add: two domains", o.ring.Add(o.z, o.x, o.fx), errDomain},
		{"add: two layouts", o.ring.Add(o.z, o.x, o.c8), errDomain},
		{"add: limbs", o.ring.Add(o.z, o.x, o.other), errShape},
		{"add: polynomials", o.ring.Add(o.z, o.x, o.triple), errShape},
		{"add: dst limbs", o.ring.Add(o.longer, o.x, o.y), errShape},
		{"add: overlap", o.ring.Add(o.slice(o.triple, 1, 3, 0, 2), o.slice(o.triple, 0, 2, 0, 2), o.x), errShape},
		{"add: broadcast overlap", o.ring.Add(o.triple, o.slice(o.triple, 0, 1, 0, 2), o.triple), errShape},
		{"sub: foreign", o.ring.Sub(o.z, o.x, o.foreign), errForeign},
		{"neg: polynomials", o.ring.Neg(o.z, o.single), errShape},
		{"neg: nil", o.ring.Neg(o.z, nil), errForeign},
		{"mulscalar: few", o.ring.MulScalar(o.z, o.x, []uint32{1}), errShape},
		{"mulscalar: range", o.ring.MulScalar(o.z, o.x, []uint32{1, o.ms[1].Q}), errRange},
		{"addscalar: many", o.ring.AddScalar(o.z, o.x, []uint32{1, 1, 1}), errShape},
		{"addscalar: range", o.ring.AddScalar(o.z, o.x, []uint32{o.ms[0].Q, 1}), errRange},
		{"addscalar: nil", o.ring.AddScalar(nil, o.x, []uint32{1, 1}), errForeign},
	}
}

// products are products of batches or operands that do not match.
func (o *refuser) products() []refused {
	return []refused{
		{"mul: coefficients", o.ring.Mul(o.z, o.x, o.y), errDomain},
		{"mul: two domains", o.ring.Mul(o.z, o.fx, o.f1), errDomain},
		{"mul: limbs", o.ring.Mul(o.longer, o.fx, o.fy), errShape},
		{"mul: nil", o.ring.Mul(o.fx, nil, o.fy), errForeign},
		{"muladd: dst domain", o.ring.MulAdd(o.f1, o.fx, o.fy), errDomain},
		{"muladd: dst coefficients", o.ring.MulAdd(o.z, o.fx, o.fy), errDomain},
		{"precompute: coefficients", second(o.ring.Precompute(o.x)), errDomain},
		{"precompute: foreign", second(o.ring.Precompute(o.foreign)), errForeign},
		{"precompute: nil", second(o.ring.Precompute(nil)), errForeign},
		{"muloperand: nil", o.ring.MulOperand(o.fy, o.fx, nil), errForeign},
		{"muloperand: of another ring", o.ring.MulOperand(o.fy, o.fx, o.farOp), errForeign},
		{"muloperand: count", o.ring.MulOperand(o.fy, o.fx, o.op), errShape},
		{"muloperand: coefficients", o.ring.MulOperand(o.slice(o.fy, 0, 1, 0, 2), o.x, o.op), errDomain},
		{"muloperand: other n2", o.ring.MulOperand(o.slice(o.fy, 0, 1, 0, 2), o.f1, o.op), errDomain},
		{"muloperand: dst limbs", o.ring.MulOperand(o.slice(o.longer, 0, 1, 0, 3), o.fx, o.op), errShape},
		{"muloperand: missing limb", o.ring.MulOperand(o.batch(1, o.ntt, 2), o.batch(2, o.ntt, 2), o.op), errShape},
		{"muloperand: overlap", o.ring.MulOperand(o.slice(o.fx, 0, 1, 0, 2), o.fx, o.op), errShape},
	}
}

// automorphisms are automorphisms that do not exist, or in place.
func (o *refuser) automorphisms() []refused {
	return []refused{
		{"automorphism: even", o.ring.Automorphism(o.z, o.x, 2), errRange},
		{"automorphism: 2N+1", o.ring.Automorphism(o.z, o.x, uint64(2*o.n+1)), errRange},
		{"automorphism: huge", o.ring.Automorphism(o.z, o.x, math.MaxUint64), errRange},
		{"automorphism: in place", o.ring.Automorphism(o.x, o.x, 3), errShape},
		{"automorphism: limbs", o.ring.Automorphism(o.other, o.x, 3), errShape},
		{"automorphism: foreign", o.ring.Automorphism(o.z, o.foreign, 3), errForeign},
	}
}

// bases are changes of basis from or to the wrong limbs.
func (o *refuser) bases() []refused {
	return []refused{
		{"extend: transformed", o.ring.Extend(o.longer, o.fx), errDomain},
		{"extend: to another layout", o.ring.Extend(o.c8, o.x), errDomain},
		{"extend: polynomials", o.ring.Extend(o.longer, o.single), errShape},
		{"extend: overlap", o.ring.Extend(o.longer, o.slice(o.longer, 0, 2, 0, 2)), errShape},
		{"extend: nothing", o.ring.Extend(o.x, o.slice(o.longer, 0, 2, 0, 0)), errShape},
		{"extend: nil", o.ring.Extend(nil, o.x), errForeign},
		{"divround: nothing dropped", o.ring.DivRound(o.x, o.y), errShape},
		{"divround: other limbs", o.ring.DivRound(o.turned, o.longer), errShape},
		{"divround: polynomials", o.ring.DivRound(o.single, o.longer), errShape},
		{"divround: wrong place", o.ring.DivRound(o.slice(o.longer, 0, 2, 0, 1), o.slice(o.longer, 0, 2, 1, 3)),
			errShape},
		{"divround: more limbs", o.ring.DivRound(o.longer, o.x), errShape},
		{"divround: freed", o.ring.DivRound(o.freed, o.longer), errForeign},
	}
}

// messages are messages and seeds that give no polynomial.
func (o *refuser) messages() []refused {
	return []refused{
		{"setsmall: transformed", o.ring.SetSmall(o.slice(o.fx, 0, 1, 0, 2), o.smalls(0)), errDomain},
		{"setsmall: two polynomials", o.ring.SetSmall(o.x, o.smalls(0)), errShape},
		{"setsmall: short", o.ring.SetSmall(o.single, o.smalls(0)[1:]), errShape},
		{"setsmall: 2^30", o.ring.SetSmall(o.single, o.smalls(1<<30)), errRange},
		{"setsmall: -2^30", o.ring.SetSmall(o.single, o.smalls(-1<<30)), errRange},
		{"setsmall: least", o.ring.SetSmall(o.single, o.smalls(math.MinInt32)), errRange},
		{"setsmall: largest", o.ring.SetSmall(o.single, o.smalls(math.MaxInt32)), errRange},
		{"setfloats: short", o.ring.SetFloats(o.single, o.floats(0)[1:]), errShape},
		{"setfloats: half", o.ring.SetFloats(o.single, o.floats(0.5)), errRange},
		{"setfloats: nan", o.ring.SetFloats(o.single, o.floats(math.NaN())), errRange},
		{"setfloats: inf", o.ring.SetFloats(o.single, o.floats(math.Inf(1))), errRange},
		{"setfloats: -inf", o.ring.SetFloats(o.single, o.floats(math.Inf(-1))), errRange},
		{"setfloats: transformed", o.ring.SetFloats(o.slice(o.fx, 0, 1, 0, 2), o.floats(0)), errDomain},
		{"uniform: two polynomials", o.ring.SampleUniform(o.x, o.seed, 0), errShape},
		{"uniform: no seed", o.ring.SampleUniform(o.single, nil, 0), errRange},
		{"ternary: transformed", o.ring.SampleTernary(o.slice(o.fx, 0, 1, 0, 2), o.seed, 0), errDomain},
		{"ternary: no seed", o.ring.SampleTernary(o.single, nil, 0), errRange},
		{"cbd: foreign", o.ring.SampleCBD(o.foreign, o.seed, 0), errForeign},
		{"cbd: no seed", o.ring.SampleCBD(o.single, nil, 0), errRange},
	}
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
