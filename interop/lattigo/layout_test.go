package lattigo

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tuneinsight/lattigo/v6/ring"

	"github.com/hencedge/hencedge/cutrantt"
)

func newSubRing(t *testing.T, logN int, q uint64) *ring.SubRing {
	t.Helper()
	r, err := ring.NewRing(1<<logN, []uint64{q})
	if err != nil {
		t.Fatal(err)
	}
	return r.SubRings[0]
}

// blockOf is block b of f in ntt/n2 by definition: f mod (X^n2 - w_b),
// w_b = psi^(n2*(2*brv(b)+1)).
func blockOf(f []uint64, n2, b int, psi, q uint64) []uint64 {
	n1 := len(f) / n2
	logn1 := bits.Len(uint(n1)) - 1
	brv := bits.Reverse64(uint64(b)) >> (64 - logn1)
	w := ring.ModExp(psi, uint64(n2)*(2*brv+1), q)
	out := make([]uint64, n2)
	for c := range out {
		for r := n1 - 1; r >= 0; r-- { // Horner
			out[c] = (out[c]*w + f[r*n2+c]) % q
		}
	}
	return out
}

// The layout against Lattigo's ring and the definition of the blocks alone.
func TestLayoutAgainstDefinition(t *testing.T) {
	for _, tc := range []struct {
		logN int
		q    uint64
	}{{10, 1073692673}, {12, 1073668097}, {13, 536903681}, {13, 18137089}} {
		sub := newSubRing(t, tc.logN, tc.q)
		n, q, psi := 1<<tc.logN, tc.q, RootOf(sub)
		if ring.ModExp(psi, uint64(n), q) != q-1 {
			t.Fatalf("root %d modulo %d does not have order %d", psi, q, 2*n)
		}
		rng := rand.New(rand.NewPCG(1, uint64(tc.logN)))
		f := make([]uint64, n)
		for i := range f {
			f[i] = rng.Uint64N(q)
		}
		f[0], f[1], f[n-1] = q-1, 0, q-1
		want := make([]uint64, n)
		sub.NTT(f, want)
		for _, n2 := range []int{1, 2, 4, 8, 16} {
			t.Run(fmt.Sprintf("N=2^%d/q=%d/n2=%d", tc.logN, q, n2), func(t *testing.T) {
				l, err := NewLayout(sub, n2, uint32(psi))
				if err != nil {
					t.Fatal(err)
				}
				ours := make([]uint32, n)
				if err := l.FromLattigo(ours, want); err != nil {
					t.Fatal(err)
				}
				n1 := n / n2
				for k := range 64 {
					b := rng.IntN(n1)
					switch k {
					case 0:
						b = 0
					case 1:
						b = n1 - 1
					}
					for c, v := range blockOf(f, n2, b, psi, q) {
						if got := uint64(ours[c*n1+b]); got != v {
							t.Fatalf("block %d coefficient %d is %d, want %d", b, c, got, v)
						}
					}
				}
				back := make([]uint64, n)
				if err := l.ToLattigo(back, ours); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(back, want) {
					t.Fatal("round trip differs")
				}
			})
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	sub := newSubRing(t, 10, 1073692673)
	psi := uint32(RootOf(sub))
	for _, tc := range []struct {
		n2  int
		psi uint32
	}{{0, psi}, {3, psi}, {32, psi}, {16, psi + 1}} {
		if _, err := NewLayout(sub, tc.n2, tc.psi); !errors.Is(err, ErrLayout) {
			t.Errorf("n2 = %d, psi = %d: %v, want ErrLayout", tc.n2, tc.psi, err)
		}
	}
	l, err := NewLayout(sub, 16, psi)
	if err != nil {
		t.Fatal(err)
	}
	n := sub.N
	if err := l.ToLattigo(make([]uint64, n), make([]uint32, n-1)); !errors.Is(err, ErrLayout) {
		t.Errorf("short source: %v", err)
	}
	if err := l.FromLattigo(make([]uint32, n+1), make([]uint64, n)); !errors.Is(err, ErrLayout) {
		t.Errorf("long destination: %v", err)
	}
	ours, theirs := make([]uint32, n), make([]uint64, n)
	ours[n-1], theirs[7] = uint32(sub.Modulus), sub.Modulus
	if err := l.ToLattigo(make([]uint64, n), ours); !errors.Is(err, cutrantt.ErrRange) {
		t.Errorf("residue q: %v", err)
	}
	if err := l.FromLattigo(make([]uint32, n), theirs); !errors.Is(err, cutrantt.ErrRange) {
		t.Errorf("residue q: %v", err)
	}
}
