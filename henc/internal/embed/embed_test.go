package embed

import (
	"fmt"
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc/internal/embed/embedtest"
	"github.com/hencedge/hencedge/henc/internal/simd"
	"github.com/hencedge/hencedge/internal/testenv"
)

func split(z []complex128) (re, im []float64) {
	for _, v := range z {
		re, im = append(re, real(v)), append(im, imag(v))
	}
	return re, im
}

func join(re, im []float64) []complex128 {
	z := make([]complex128, len(re))
	for i := range z {
		z[i] = complex(re[i], im[i])
	}
	return z
}

func toSlots(e *Embedding, a []complex128) []complex128 {
	re, im := split(a)
	zRe, zIm := make([]float64, len(a)), make([]float64, len(a))
	e.ToSlots(zRe, zIm, re, im)
	return join(zRe, zIm)
}

func fromSlots(e *Embedding, z []complex128) []complex128 {
	re, im := split(z)
	aRe, aIm := make([]float64, len(z)), make([]float64, len(z))
	e.FromSlots(aRe, aIm, re, im)
	return join(aRe, aIm)
}

// vectors are the vector codes of this machine by name.
func vectors(t testing.TB) map[string]*code {
	have := make(map[string]*code)
	for _, name := range simd.Have() {
		if codes[name] != nil {
			have[name] = codes[name]
		}
	}
	for _, name := range []string{simd.AVX512, simd.AVX2, simd.NEON} {
		if have[name] == nil {
			testenv.Without(t, name, "no such code here")
		}
	}
	return have
}

// TestVariantsAgree: vector code and plain Go give the same bits.
func TestVariantsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for name, c := range vectors(t) {
		for n := c.lanes; n <= 1<<13; n *= 2 {
			e, plain := newEmbedding(n, c), newEmbedding(n, nil)
			if (e.vec != nil) != (n >= c.lanes*c.lanes) {
				t.Fatalf("%s, %d slots: vector code is %v", name, n, e.vec)
			}
			re, im := split(embedtest.RandomSlots(r, n))
			var got, want [2][]float64
			for i := range got {
				got[i], want[i] = make([]float64, n), make([]float64, n)
			}
			e.ToSlots(got[0], got[1], re, im)
			plain.ToSlots(want[0], want[1], re, im)
			if !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
				t.Fatalf("%s, %d slots: to slots differs", name, n)
			}
			re2, im2 := slices.Clone(re), slices.Clone(im)
			e.FromSlots(got[0], got[1], re, im)
			plain.FromSlots(want[0], want[1], re2, im2)
			if !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
				t.Fatalf("%s, %d slots: from slots differs", name, n)
			}
			x := append(got[0], 0.5, 1.5, -0.5, 2.5, math.Inf(1), 1e300, -1e-300, 0x1p52+0.5)
			y := slices.Clone(x)
			scaleRound(c, x, 3)
			scaleRound(nil, y, 3)
			if !slices.Equal(x, y) {
				t.Fatalf("%s, %d slots: rounding differs", name, n)
			}
			for i := range got[1] {
				x[i], y[i] = got[1][i], got[1][i]
			}
			divide(c, x, 0x1.23456789p40)
			divide(nil, y, 0x1.23456789p40)
			if !slices.Equal(x, y) {
				t.Fatalf("%s, %d slots: quotients differ", name, n)
			}
		}
	}
}

func TestMagnitude(t *testing.T) {
	testMagnitude(t, nil)
	for _, c := range vectors(t) {
		testMagnitude(t, c)
	}
}

func testMagnitude(t *testing.T, code *code) {
	for _, tt := range []struct {
		x    float64
		ok   bool
		most float64
	}{
		{0, true, 1}, {-5, true, 5}, {1e300, true, 1e300}, {-0x1p52, true, 0x1p52}, {0x1p51 + 0.5, false, 0x1p51 + 0.5},
		{0.5, false, 1}, {-2.5, false, 2.5},
		{1e-320, false, 1}, {math.Inf(1), false, math.Inf(1)}, {math.Inf(-1), false, math.Inf(1)},
		{math.NaN(), false, math.NaN()},
	} {
		for _, n := range []int{1, 8, 9, 64} {
			for at := range n {
				c := make([]float64, n)
				c[0], c[at] = -1, tt.x
				want := math.Abs(tt.x)
				if at > 0 {
					want = tt.most
				}
				if got, ok := magnitude(code, c); ok != tt.ok || got != want && got == got {
					t.Fatalf("%v at %d of %d: %v, %v", tt.x, at, n, got, ok)
				}
				if Finite(c) != (tt.x-tt.x == 0) {
					t.Fatalf("%v at %d of %d: finite is %v", tt.x, at, n, Finite(c))
				}
			}
		}
	}
}

func BenchmarkTransforms(b *testing.B) {
	for _, n := range []int{1 << 12, 1 << 15} {
		re, im := split(embedtest.RandomSlots(rand.New(rand.NewPCG(1, 1)), n))
		aRe, aIm := make([]float64, n), make([]float64, n)
		for _, name := range simd.Have() {
			e := newEmbedding(n, codes[name])
			b.Run(fmt.Sprintf("to/%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					e.ToSlots(aRe, aIm, re, im)
				}
			})
			b.Run(fmt.Sprintf("from/%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					e.FromSlots(aRe, aIm, re, im)
				}
			})
		}
	}
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
		want := embedtest.DirectSlots(f)
		e := New(n / 2)
		a = toSlots(e, a)
		if d := embedtest.RMS(diff(a, want)) / embedtest.RMS(want); d > 1e-13 {
			t.Fatalf("N = %d: to slots is off by %g", n, d)
		}
		a = fromSlots(e, a)
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
		e, bound := New(n), float64(8*(logN-1)+2)*0x1p-53 // henc.EncodingError
		for _, k := range []int{0, 1, 2, n - 1, n, n + 1, 2*n - 1, r.IntN(2 * n)} {
			a, want := make([]complex128, n), make([]complex128, n)
			if k < n {
				a[k] = 1
			} else {
				a[k-n] = 1i
			}
			g := 1
			for j := range want {
				want[j] = complex(unitRoot(k*g%(4*n), 4*n))
				g = g * 5 % (4 * n)
			}
			if d := embedtest.RMS(diff(toSlots(e, a), want)); d > bound {
				t.Errorf("N = 2^%d: X^%d is off by 2^%.1f", logN, k, math.Log2(d))
			}
		}
		z := embedtest.RandomSlots(r, n)
		d := diff(toSlots(e, fromSlots(e, z)), z)
		worst := 0.0
		for _, v := range d {
			worst = max(worst, cmplx.Abs(v))
		}
		if rel := embedtest.RMS(d) / embedtest.RMS(z); rel > 2*bound || worst > 0x1p-47 {
			t.Errorf("N = 2^%d: there and back is off by rms 2^%.1f, most 2^%.1f", logN, math.Log2(rel),
				math.Log2(worst))
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
			re, im := unitRoot(k, m)
			wc, _ := cc.Float64()
			ws, _ := ss.Float64()
			if math.Abs(re-wc) > 0x1p-53 || math.Abs(im-ws) > 0x1p-53 {
				t.Fatalf("root %d of %d: %v, want (%v, %v)", k, m, complex(re, im), wc, ws)
			}
			cc, ss = add(mul(cc, c), mul(mul(ss, s), num(-1))), add(mul(cc, s), mul(ss, c))
		}
	}
}
