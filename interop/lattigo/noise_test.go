package lattigo

import (
	"math"
	"math/big"
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"

	"github.com/hencedge/hencedge/henc"
)

// The three secret polynomials of public-key encryption, laid open by a public
// key (0, D) with a constant D = 2^20 in place of a real one: then c0 = m + e0 and
// c1 = D*v + e1. v must be uniform ternary, e0 and e1 centred binomial, and all
// three independent. Under a real key e0 is hidden behind the other two, and an
// encryption without it would decrypt as well.
func TestEncryptionRandomness(t *testing.T) {
	const d = 1 << 20
	eachSet(t, func(t *testing.T, r *rig) {
		lpk := rlwe.NewPublicKey(r.lp)
		for i, l := range split(lpk.Value[1]) {
			for j := range l {
				l[j] = d // a constant in the transform domain
			}
			sub := r.b.layouts[i].sub
			sub.MForm(l, l)
		}
		enc := must(henc.NewEncryptor(r.ctx, must(r.b.PublicKeyFromLattigo(lpk))(t)))(t)
		ct, pt := r.encryptOurs(t, enc, r.values(), r.p.MaxLevel())
		rq, n := r.ringAt(r.p.MaxLevel()), r.p.N()

		e0 := rq.NewPoly()
		rq.Sub(ct.Value[0], pt.Value, e0)
		v, e1 := make([]float64, n), make([]float64, n)
		for j, x := range r.smallIntegers(t, ct.Value[1]) {
			v[j] = math.RoundToEven(x / d)
			e1[j] = x - d*v[j]
		}
		noise := [][]float64{r.smallIntegers(t, e0), e1}
		for i, e := range noise {
			sum, squares := moments(e)
			within(t, []string{"e0", "e1"}[i], math.Sqrt(squares/float64(n)), ourSigma)
			if math.Abs(sum) > 6*ourSigma*math.Sqrt(float64(n)) {
				t.Errorf("e%d: mean %.3g", i, sum/float64(n))
			}
			for j, x := range e {
				if math.Abs(x) > 21 {
					t.Fatalf("e%d: coefficient %d is %g, outside the support", i, j, x)
				}
			}
		}
		count := map[float64]int{}
		for _, x := range v {
			count[x]++
		}
		for x := -1.0; x <= 1; x++ {
			if off := float64(count[x]) - float64(n)/3; math.Abs(off) > 6*math.Sqrt(2*float64(n)/9) {
				t.Errorf("v: %d of %d coefficients are %g", count[x], n, x)
			}
		}
		if len(count) != 3 {
			t.Errorf("v takes %d values", len(count))
		}
		uncorrelated(t, "e0 and e1", noise[0], noise[1])
		uncorrelated(t, "e0 and v", noise[0], v)
		uncorrelated(t, "e1 and v", noise[1], v)
	})
}

// smallIntegers are the coefficients of a polynomial (NTT domain) that are below
// 2^40 in magnitude.
func (r *rig) smallIntegers(t *testing.T, p ring.Poly) []float64 {
	t.Helper()
	low := min(p.Level(), 3)
	limit := big.NewInt(1 << 40)
	out := make([]float64, r.p.N())
	for j, x := range r.integers(ring.Poly{Coeffs: p.Coeffs[:low+1]}) {
		if x.CmpAbs(limit) > 0 {
			t.Fatalf("coefficient %d is %v", j, x)
		}
		out[j] = float64(x.Int64())
	}
	return out
}

func moments(x []float64) (sum, squares float64) {
	for _, v := range x {
		sum += v
		squares += v * v
	}
	return sum, squares
}

// uncorrelated fails if the correlation is six deviations 1/sqrt(N) from 0.
func uncorrelated(t *testing.T, what string, a, b []float64) {
	t.Helper()
	dot := 0.0
	for i := range a {
		dot += a[i] * b[i]
	}
	_, aa := moments(a)
	_, bb := moments(b)
	if c := dot / math.Sqrt(aa*bb); !(math.Abs(c) < 6/math.Sqrt(float64(len(a)))) {
		t.Errorf("%s: correlation %.3g", what, c)
	}
}
