package lattigo

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
)

// Lattigo accepts every named set and derives the same roots of unity. The
// benchmark set is insecure: only its parameters are compared, no key of it is
// made here.
func TestParameters(t *testing.T) {
	for _, name := range slices.Concat(henc.Names(), henc.InsecureNames(), henc.BootstrapNames()) {
		t.Run(name, func(t *testing.T) {
			p, err := henc.NamedInsecure(name)
			if err != nil {
				t.Fatal(err)
			}
			lp, err := ckks.NewParametersFromLiteral(ParametersLiteral(p))
			if err != nil {
				t.Fatal(err)
			}
			if lp.N() != p.N() || lp.MaxSlots() != p.Slots() || lp.DefaultScale().Float64() != p.DefaultScale() {
				t.Errorf("N %d, slots %d, scale %g; want %d, %d, %g",
					lp.N(), lp.MaxSlots(), lp.DefaultScale().Float64(), p.N(), p.Slots(), p.DefaultScale())
			}
			if lp.QCount() != len(p.Q()) || lp.PCount() != len(p.P()) {
				t.Fatalf("%d and %d primes, want %d and %d", lp.QCount(), lp.PCount(), len(p.Q()), len(p.P()))
			}
			subs := slices.Clone(lp.RingQ().SubRings)
			if lp.RingP() != nil {
				subs = append(subs, lp.RingP().SubRings...)
			}
			for i, m := range p.Moduli() {
				if subs[i].Modulus != uint64(m.Q) || RootOf(subs[i]) != uint64(m.Psi) {
					t.Errorf("modulus %d is %d with root %d, want %d with %d", i, subs[i].Modulus,
						RootOf(subs[i]), m.Q, m.Psi)
				}
			}
			if p.Alpha() > 0 {
				for level := range p.MaxLevel() + 1 {
					want := lp.BaseRNSDecompositionVectorSize(p.LimbsAt(level)-1, lp.MaxLevelP())
					if got := p.Dnum(level); got != want {
						t.Errorf("level %d: %d digits, Lattigo has %d", level, got, want)
					}
				}
			}
			if got, want := fmt.Sprintf("%.6f", p.LogQP()), fmt.Sprintf("%.6f", lp.LogQP()); got != want {
				t.Errorf("log2(QP) %s, Lattigo has %s", got, want)
			}
			// Squaring and rescaling from the highest level for computing, with Lattigo's 128-bit scales.
			scale := lp.DefaultScale()
			for level := p.MaxLevel() - p.UpperLevels(); level > 0; level-- {
				scale = scale.Mul(scale)
				for i := p.LimbsAt(level - 1); i < p.LimbsAt(level); i++ {
					scale = scale.Div(rlwe.NewScale(lp.Q()[i]))
				}
				if got, want := p.ScaleAt(level-1), scale.Float64(); got != want {
					t.Errorf("scale at level %d is %v, Lattigo has %v", level-1, got, want)
				}
			}
			for _, rotation := range []int{0, 1, 2, -1, 7, p.Slots() - 1, p.Slots() / 2} {
				if got, want := henc.GaloisElement(p, rotation), lp.GaloisElement(rotation); got != want {
					t.Errorf("rotation %d: galois element %d, Lattigo has %d", rotation, got, want)
				}
			}
			if got, want := henc.ConjugationElement(p), lp.GaloisElementForComplexConjugation(); got != want {
				t.Errorf("conjugation: galois element %d, Lattigo has %d", got, want)
			}
		})
	}
}
