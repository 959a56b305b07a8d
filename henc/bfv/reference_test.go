package bfv_test

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// poly is a polynomial with integer coefficients, of the ring's degree.
type poly []*big.Int

// times is the product of a and b modulo X^N + 1. Both are evaluated at a power of two that separates the
// coefficients of the product, with an offset that makes them positive.
func (a poly) times(b poly) poly {
	n, length := len(a), 0
	for i := range a {
		length = max(length, a[i].BitLen(), b[i].BitLen())
	}
	words := (2*length + 16 + bits.UintSize - 1) / bits.UintSize // room for N < 2^14 terms and a sign
	width := uint(words * bits.UintSize)
	half := new(big.Int).Lsh(big.NewInt(1), width-1)
	zero := slices.Repeat(poly{new(big.Int)}, 2*n)
	raised := func(p poly) *big.Int { // the value of p, and half for each coefficient
		x := make([]big.Word, len(p)*words)
		for i, v := range p {
			copy(x[i*words:], new(big.Int).Add(v, half).Bits())
		}
		return new(big.Int).SetBits(x)
	}
	at := func(p poly) *big.Int { return new(big.Int).Sub(raised(p), raised(zero[:len(p)])) }
	x := new(big.Int).Mul(at(a), at(b))
	digits := x.Add(x, raised(zero)).Bits()
	out := make(poly, n)
	for i := range out {
		digit := func(i int) *big.Int {
			lo, hi := min(i*words, len(digits)), min((i+1)*words, len(digits))
			return new(big.Int).Sub(new(big.Int).SetBits(slices.Clone(digits[lo:hi])), half)
		}
		out[i] = digit(i)
		out[i].Sub(out[i], digit(n+i))
	}
	return out
}

// each is f of every coefficient.
func (a poly) each(f func(x *big.Int) *big.Int) poly {
	out := make(poly, len(a))
	for i, x := range a {
		out[i] = f(x)
	}
	return out
}

func (a poly) plus(b poly) poly {
	out := make(poly, len(a))
	for i := range a {
		out[i] = new(big.Int).Add(a[i], b[i])
	}
	return out
}

// centred is x modulo m, in [-m/2, m/2).
func centred(x, m *big.Int) *big.Int {
	r := new(big.Int).Mod(x, m)
	if new(big.Int).Lsh(r, 1).Cmp(m) >= 0 {
		r.Sub(r, m)
	}
	return r
}

// rounded is a*x/b rounded, halves up.
func rounded(a, b *big.Int) func(x *big.Int) *big.Int {
	return func(x *big.Int) *big.Int {
		twice := new(big.Int).Lsh(new(big.Int).Mul(a, x), 1)
		return twice.Add(twice, b).Div(twice, new(big.Int).Lsh(b, 1))
	}
}

// integers is the scheme over the integers.
type integers struct {
	t, q *big.Int
	s    poly
}

func (r *rig) integers(t testing.TB) integers {
	ref := integers{t: big.NewInt(int64(r.p.T())), q: r.p.Base().QProduct(r.p.Base().MaxLevel())}
	for _, v := range must(r.key.Coefficients())(t) {
		ref.s = append(ref.s, big.NewInt(int64(v)))
	}
	return ref
}

// read returns the two polynomials of ct, centred modulo Q.
func (r *rig) read(t testing.TB, ct *bfv.Ciphertext) [2]poly {
	t.Helper()
	ring, n := r.ctx.Base().Ring(), r.p.N()
	c := must(ring.NewBatch(2, ct.Value.Limbs(), cutrantt.Coeffs(1)))(t)
	check(t, ring.Convert(c, ct.Value))
	host := make([]uint32, c.Len())
	check(t, ring.Download(host, c))
	q := r.p.Base().QProduct(r.p.Base().MaxLevel() - ct.Down)
	var out [2]poly
	for p := range out {
		out[p] = make(poly, n)
		for i := range n {
			x := new(big.Int)
			for l, prime := range r.p.Base().Q()[:len(c.Limbs())] {
				m := big.NewInt(int64(prime))
				hat := new(big.Int).Div(q, m)
				y := new(big.Int).ModInverse(hat, m)
				y.Mul(y, big.NewInt(int64(host[(p*len(c.Limbs())+l)*n+i]))).Mod(y, m)
				x.Add(x, y.Mul(y, hat))
			}
			out[p][i] = centred(x, q)
		}
	}
	return out
}

// phase is c0 + c1*s modulo Q, centred.
func (ref integers) phase(c [2]poly) poly {
	return c[0].plus(c[1].times(ref.s)).each(func(x *big.Int) *big.Int { return centred(x, ref.q) })
}

// decrypt is round(t/Q*x) modulo t, and the largest coefficient of x - round(Q/t*m), rounded up.
func (ref integers) decrypt(x poly) (m poly, noise *big.Int) {
	m = x.each(rounded(ref.t, ref.q)).each(func(v *big.Int) *big.Int { return centred(v, ref.t) })
	exact := m.each(rounded(ref.q, ref.t))
	noise = new(big.Int)
	for i := range x {
		if d := centred(new(big.Int).Sub(x[i], exact[i]), ref.q); d.CmpAbs(noise) > 0 {
			noise.Abs(d)
		}
	}
	return m, noise
}

// TestReference compares encryption, decryption, noise and products with arithmetic over the integers.
func TestReference(t *testing.T) {
	for _, plain := range []uint32{12289, 65537, 786433} {
		r := newRig(t, toy(t, plain))
		ref := r.integers(t)
		x, y := r.values(r.p.N(), 3), r.values(r.p.N(), 4)
		a := must(r.enc.Encrypt(must(r.ctx.EncodeCoeffs(x))(t), nil))(t)
		b := must(r.seeded.Encrypt(must(r.ctx.EncodeCoeffs(y))(t), nil))(t)
		same := func(what string, ct *bfv.Ciphertext, want poly) {
			t.Helper()
			m, noise := ref.decrypt(ref.phase(r.read(t, ct)))
			got := must(r.dec.Coeffs(ct))(t)
			for i := range m {
				w := new(big.Int).Mod(want[i], ref.t).Uint64()
				if g := new(big.Int).Mod(m[i], ref.t).Uint64(); g != w || got[i] != w {
					t.Fatalf("t = %d: %s: coefficient %d is %d over the integers, decrypted %d, want %d", plain, what,
						i, g, got[i], w)
				}
			}
			measured := must(r.dec.Noise(ct))(t)
			exact, _ := new(big.Float).SetInt(noise).Float64()
			if d := measured - exact; d > 1+exact*1e-9 || d < -1-exact*1e-9 {
				t.Errorf("t = %d: %s: noise of %g, measured %g", plain, what, exact, measured)
			}
		}
		px, py := toPoly(x), toPoly(y)
		same("encrypted", a, px)
		same("seeded", b, py)
		same("product", must(r.ev.Mul(a, b))(t), px.times(py))
		same("square", must(r.ev.Mul(a, a))(t), px.times(px))
		shift := must(r.ctx.Monomial(3 - 2*r.p.N()))(t)
		cube := make(poly, r.p.N())
		for i := range cube {
			cube[i] = new(big.Int)
		}
		cube[3].SetInt64(1)
		same("shifted", must(r.ev.MulPlain(a, shift))(t), px.times(cube))
		same("sum of products", must(r.ev.SumPlain([]*bfv.Ciphertext{a, b}, []*bfv.Factor{shift, shift}))(t),
			px.plus(py).times(cube))
	}
}

// TestProductExactly compares the degree-2 product, before relinearisation, with its definition over the integers:
// b' = round(B/Q*b), d = round(t/B*(a times b')).
func TestProductExactly(t *testing.T) {
	r := newRig(t, toy(t, 65537), henc.WithN2(1))
	ref := r.integers(t)
	a, b := r.slots(t, r.values(r.p.N(), 5)), r.slots(t, r.values(r.p.N(), 6))
	ca, cb := r.read(t, a), r.read(t, b)
	aux := big.NewInt(1)
	for _, m := range r.ctx.Base().Ring().Moduli()[len(r.p.Base().Moduli()):r.ctx.PlainLimb()] {
		aux.Mul(aux, big.NewInt(int64(m.Q)))
	}
	for i := range cb {
		cb[i] = cb[i].each(rounded(aux, ref.q))
	}
	down := func(x poly) poly { return x.each(rounded(ref.t, aux)) }
	d := [3]poly{
		down(ca[0].times(cb[0])), down(ca[0].times(cb[1]).plus(ca[1].times(cb[0]))), down(ca[1].times(cb[1])),
	}
	// Under s, (d0, d1, d2) and the relinearised product differ by the noise of the key switch alone.
	whole := d[0].plus(d[1].times(ref.s)).plus(d[2].times(ref.s).times(ref.s))
	got := ref.phase(r.read(t, must(r.ev.Mul(a, b))(t)))
	limit := r.p.Noise().Largest(r.p.Noise().Switch(bfv.Noise{}))
	for i := range got {
		diff, _ := new(big.Float).SetInt(centred(new(big.Int).Sub(got[i], whole[i]), ref.q)).Float64()
		if diff > limit || diff < -limit {
			t.Fatalf("coefficient %d is off by %g, a key switch by at most %g", i, diff, limit)
		}
	}
}

func toPoly(values []uint64) poly {
	out := make(poly, len(values))
	for i, v := range values {
		out[i] = new(big.Int).SetUint64(v)
	}
	return out
}

// TestModSwitch compares switched ciphertexts with rounding over the integers. They decrypt at every level that the
// bound allows, and at no other are they made; the bytes go with the level, and nothing computes with them.
func TestModSwitch(t *testing.T) {
	for plain, columns := range map[uint32][]int{65537: {1}, 786433: {16}, 1073707009: {1}} {
		for _, n2 := range columns {
			r := newRig(t, toy(t, plain), henc.WithN2(n2))
			base, top := r.p.Base(), r.p.Base().MaxLevel()
			x := r.values(r.p.N(), 9)
			fresh := r.slots(t, x)
			used := must(r.ev.Mul(fresh, fresh))(t)
			for _, a := range []*bfv.Ciphertext{fresh, used} {
				from := r.read(t, a)
				for down := range top + 1 {
					small, err := r.ev.ModSwitch(a, down)
					noise := r.p.Noise().ModSwitch(a.Noise, down)
					if fits := r.p.Noise().BudgetAt(noise, down) >= 0; fits != (err == nil) ||
						!fits && !errors.Is(err, bfv.ErrNoise) {
						t.Fatalf("t = %d, %d levels down: %v, and it fits: %t", plain, down, err, fits)
					}
					if err != nil {
						continue
					}
					r.expect(t, fmt.Sprintf("t = %d, %d levels down", plain, down), small, func(i int) uint64 {
						if a == fresh {
							return x[i]
						}
						return x[i] * x[i] % uint64(plain)
					})
					dropped := new(big.Int).Div(base.QProduct(top), base.QProduct(top-down))
					for p, got := range r.read(t, small) {
						want := from[p].each(rounded(big.NewInt(1), dropped))
						for i := range got {
							off := centred(new(big.Int).Sub(got[i], want[i]), base.QProduct(top-down))
							if off.CmpAbs(big.NewInt(1)) > 0 || off.Sign() != 0 && down == 0 {
								t.Fatalf("%d levels down: coefficient %d is %v, not %v", down, i, got[i], want[i])
							}
						}
					}
					body := must(r.ctx.Marshal(small))(t)
					if most := base.CiphertextBytes(top-down, false); len(body) > most || len(body) < most-60 {
						t.Errorf("%d levels down: %d bytes, not about %d", down, len(body), most)
					}
					again := must(r.ctx.Unmarshal(body, small.Noise))(t)
					if again.Down != down {
						t.Errorf("%d levels down: read as %d levels down", down, again.Down)
					}
					if _, err := r.ev.Add(again, again); (err == nil) != (down == 0) ||
						down > 0 && !errors.Is(err, henc.ErrLevel) {
						t.Errorf("added %d levels down: %v", down, err)
					}
				}
			}
			for _, down := range []int{-1, top + 1} {
				if _, err := r.ev.ModSwitch(fresh, down); !errors.Is(err, henc.ErrLevel) {
					t.Errorf("%d levels down: %v", down, err)
				}
			}
			if plain == 1073707009 {
				continue // noise of the product leaves no room
			}
			if _, err := r.ev.ModSwitch(fresh, top-r.p.LowestLevel()); err != nil {
				t.Errorf("t = %d, at level %d: %v", plain, r.p.LowestLevel(), err)
			}
		}
	}
	for name, want := range map[string]int{"bfv13": 0, "bfv14": 0} {
		if level := must(bfv.Named(name, 0))(t).LowestLevel(); level != want {
			t.Errorf("%s: results are at level %d, want %d", name, level, want)
		}
	}
}
