package henc

import (
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// directSlots evaluates the real polynomial f at zeta^(5^j), j < N/2, term by term.
func directSlots(f []float64) []complex128 {
	n := len(f)
	root := make([]complex128, 2*n)
	for k := range root {
		s, c := math.Sincos(math.Pi * float64(k) / float64(n))
		root[k] = complex(c, s)
	}
	z := make([]complex128, n/2)
	g := 1
	for j := range z {
		var re, im float64
		for k, v := range f {
			w := root[k*g%(2*n)]
			re += v * real(w)
			im += v * imag(w)
		}
		z[j] = complex(re, im)
		g = g * 5 % (2 * n)
	}
	return z
}

func randomSlots(r *rand.Rand, n int) []complex128 {
	z := make([]complex128, n)
	for i := range z {
		z[i] = complex(2*r.Float64()-1, 2*r.Float64()-1)
	}
	return z
}

func rms(z []complex128) float64 {
	s := 0.0
	for _, v := range z {
		s += real(v)*real(v) + imag(v)*imag(v)
	}
	return math.Sqrt(s / float64(len(z)))
}

func diff(a, b []complex128) []complex128 {
	d := make([]complex128, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}

func TestEmbeddingAgainstDirectEvaluation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, logN := range []int{1, 2, 3, 4, 8, 11} {
		n := 1 << logN
		f := make([]float64, n)
		for i := range f {
			f[i] = 2*r.Float64() - 1
		}
		a := make([]complex128, n/2)
		for i := range a {
			a[i] = complex(f[i], f[n/2+i])
		}
		want := directSlots(f)
		e := newEmbedding(n / 2)
		e.toSlots(a)
		if d := rms(diff(a, want)) / rms(want); d > 1e-13 {
			t.Fatalf("N = %d: to slots is off by %g", n, d)
		}
		e.fromSlots(a)
		for i, v := range a {
			if math.Abs(real(v)-f[i]) > 1e-13 || math.Abs(imag(v)-f[n/2+i]) > 1e-13 {
				t.Fatalf("N = %d: coefficient %d is %v", n, i, v)
			}
		}
	}
}

// TestEmbeddingError checks the stated bound on large rings: monomials X^k have
// slots zeta^(k*5^j), known to the last bit, and random vectors return.
func TestEmbeddingError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, logN := range []int{10, 13, 16, 17} {
		n := 1 << (logN - 1)
		e, bound := newEmbedding(n), EncodingError(logN)
		for _, k := range []int{0, 1, 2, n - 1, n, n + 1, 2*n - 1, r.IntN(2 * n)} {
			a, want := make([]complex128, n), make([]complex128, n)
			if k < n {
				a[k] = 1
			} else {
				a[k-n] = 1i
			}
			g := 1
			for j := range want {
				want[j] = unitRoot(k*g%(4*n), 4*n)
				g = g * 5 % (4 * n)
			}
			e.toSlots(a)
			if d := rms(diff(a, want)); d > bound {
				t.Errorf("N = 2^%d: X^%d is off by 2^%.1f", logN, k, math.Log2(d))
			}
		}
		z := randomSlots(r, n)
		got := append([]complex128(nil), z...)
		e.fromSlots(got)
		e.toSlots(got)
		d := diff(got, z)
		worst := 0.0
		for _, v := range d {
			worst = max(worst, cmplx.Abs(v))
		}
		if rel := rms(d) / rms(z); rel > 2*bound || worst > 0x1p-47 {
			t.Errorf("N = 2^%d: there and back is off by rms 2^%.1f, most 2^%.1f", logN, math.Log2(rel), math.Log2(worst))
		}
	}
}

// TestUnitRoot compares roots with 200-bit ones, made by halving angles.
func TestUnitRoot(t *testing.T) {
	const prec = 200
	num := func(x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }
	mul := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(prec).Mul(a, b) }
	add := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(prec).Add(a, b) }
	c, s := num(0), num(1) // the angle 2*pi/4
	for m := 8; m <= 1<<18; m *= 2 {
		c2 := new(big.Float).SetPrec(prec).Sqrt(mul(add(num(1), c), num(0.5)))
		s2 := new(big.Float).SetPrec(prec).Quo(s, mul(c2, num(2)))
		c, s = c2, s2
		cc, ss := num(1), num(0)
		for k := 0; k < min(m, 3000); k++ {
			got := unitRoot(k, m)
			wc, _ := cc.Float64()
			ws, _ := ss.Float64()
			if math.Abs(real(got)-wc) > 0x1p-53 || math.Abs(imag(got)-ws) > 0x1p-53 {
				t.Fatalf("root %d of %d: %v, want (%v, %v)", k, m, got, wc, ws)
			}
			cc, ss = add(mul(cc, c), mul(mul(ss, s), num(-1))), add(mul(cc, s), mul(ss, c))
		}
	}
}
