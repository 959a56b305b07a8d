package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

func pw(x, e, q uint64) uint64 {
	r := uint64(1)
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r = r * x % q
		}
		x = x * x % q
	}
	return r
}

func testModuli(t testing.TB, logN, count int) (ms []cutrantt.Modulus) {
	step := uint32(2) << logN
	for q := uint32(cutrantt.MaxQ) - step + 1; len(ms) < count; q -= step {
		for g := uint64(3); g < 50; g += 2 {
			m := cutrantt.Modulus{Q: q, Psi: uint32(pw(g, uint64(q-1)/uint64(step), uint64(q)))}
			if m.Check(logN) == nil {
				ms = append(ms, m)
				break
			}
		}
	}
	return ms
}

func TestSmoke(t *testing.T) {
	for logN := 10; logN <= 12; logN++ {
		ms := testModuli(t, logN, 2)
		for _, method := range cutrantt.Methods() {
			r, err := New().NewRing(logN, ms, cutrantt.Options{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			for n2 := 1; n2 <= 16; n2 *= 2 {
				n, n1 := r.N(), r.N()/n2
				if !method.Supports(n2) {
					continue
				}
				f, _ := r.NewBatch(1, []int{0, 1}, cutrantt.Coeffs(n2))
				g, _ := r.NewBatch(1, []int{0, 1}, cutrantt.Coeffs(n2))
				F := make([]uint32, 2*n)
				G := make([]uint32, 2*n)
				want := make([]uint32, 2*n)
				for i := range F {
					F[i] = rand.Uint32N(ms[i/n].Q)
				}
				for _, c := range []int{0, 1, 17, n - 1} { // sparse
					for l := range 2 {
						x := rand.Uint32N(ms[l].Q)
						G[l*n+c%n2*n1+c/n2] = x
						for k := range n {
							v := uint64(F[l*n+k%n2*n1+k/n2]) * uint64(x) % uint64(ms[l].Q)
							d := k + c
							if d >= n {
								d -= n
								v = uint64(ms[l].Q) - v
							}
							p := l*n + d%n2*n1 + d/n2
							want[p] = uint32((uint64(want[p]) + v) % uint64(ms[l].Q))
						}
					}
				}
				for _, err := range []error{r.Upload(f, F), r.Upload(g, G), r.Forward(f, f), r.Forward(g, g), r.Mul(f, f, g), r.Inverse(f, f)} {
					if err != nil {
						t.Fatal(err)
					}
				}
				got := make([]uint32, 2*n)
				if err := r.Download(got, f); err != nil {
					t.Fatal(err)
				}
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("logN %d n2 %d %v: %d: %d %d", logN, n2, method, i, got[i], want[i])
					}
				}
			}
		}
	}
}
