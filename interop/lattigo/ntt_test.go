package lattigo

import (
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// Our transform with n2 = 1 is Lattigo's bit for bit for every modulus of the
// set; with every other n2 it is the same up to the layout, and Ring.Convert
// agrees with the layout, which uses none of our arithmetic.
func TestTransform(t *testing.T) {
	eachSet(t, func(t *testing.T, r *rig) {
		n, moduli, rg := r.p.N(), r.p.Moduli(), r.ctx.Ring()
		all := r.b.allLimbs()
		coeffs := make([]uint32, len(all)*n) // natural order: n2 = 1
		want := make([][]uint64, len(all))
		for i, m := range moduli {
			f := coeffs[i*n : (i+1)*n]
			for j := range f {
				f[j] = r.rng.Uint32N(m.Q)
			}
			f[0], f[1], f[n-1] = m.Q-1, 0, m.Q-1
			want[i] = widen(f)
			r.b.layouts[i].sub.NTT(want[i], want[i])
		}
		newBatch := func(d cutrantt.Domain) *cutrantt.Batch { return must(rg.NewBatch(1, all, d))(t) }
		src := newBatch(cutrantt.Coeffs(1))
		check(t, rg.Upload(src, coeffs))
		full := newBatch(cutrantt.Coeffs(1))
		check(t, rg.Forward(full, src))
		got := make([]uint32, len(coeffs))
		check(t, rg.Download(got, full))
		for i := range all {
			if !slices.Equal(widen(got[i*n:(i+1)*n]), want[i]) {
				t.Fatalf("limb %d of ntt/1 differs from Lattigo's transform", i)
			}
		}
		for _, n2 := range []int{1, 2, 4, 8, 16} {
			split, converted := newBatch(cutrantt.Coeffs(n2)), newBatch(cutrantt.NTT(n2))
			check(t, rg.Convert(split, src))
			check(t, rg.Forward(split, split))
			check(t, rg.Convert(converted, full))
			viaLevels := make([]uint32, len(coeffs))
			check(t, rg.Download(got, split))
			check(t, rg.Download(viaLevels, converted))
			if !slices.Equal(got, viaLevels) {
				t.Fatalf("n2 = %d: Forward and Convert from ntt/1 differ", n2)
			}
			ours := make([]uint32, n)
			for i, m := range moduli {
				l := must(NewLayout(r.b.layouts[i].sub, n2, m.Psi))(t)
				check(t, l.FromLattigo(ours, want[i]))
				if !slices.Equal(ours, got[i*n:(i+1)*n]) {
					t.Fatalf("limb %d of ntt/%d differs from the layout of Lattigo's transform", i, n2)
				}
			}
		}
		// and back
		check(t, rg.Inverse(full, full))
		check(t, rg.Download(got, full))
		if !slices.Equal(got, coeffs) {
			t.Fatal("inverse of ntt/1 does not give the coefficients back")
		}
	})
}
