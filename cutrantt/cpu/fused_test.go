package cpu

import (
	"errors"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestSwitchKeys compares vector code with plain Go, which takes the steps of Ring:
// sums of one and of two polynomials, merged with a rescaling, turned, several items
// with one X and with two, and a case where the rows of digits are read in parts
// that serve several targets.
func TestSwitchKeys(t *testing.T) {
	for _, c := range []struct {
		what                           string
		logN, limbs, alpha, keep, lows int
		galois                         []uint64
	}{
		{"large", 15, 10, 5, 10, 2, []uint64{25}},
		{"merged", 11, 5, 2, 3, 2, []uint64{0}},
		{"merged, a sum of one, turned", 11, 5, 5, 4, 1, []uint64{5}},
		{"hoisted", 11, 4, 2, 4, 1, []uint64{5, 1, 25, 4095}},
		{"many digits", 10, 17, 1, 17, 1, []uint64{5}},
		{"no sum", 11, 3, 1, 3, 0, []uint64{3, 0}},
	} {
		want, err := switched(backend{}, c.logN, c.limbs, c.alpha, c.keep, c.lows, c.galois, t)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		for _, v := range variants() {
			got, err := switched(backend{vec: v}, c.logN, c.limbs, c.alpha, c.keep, c.lows, c.galois, t)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %s: the switched polynomials differ (%v)", c.what, v.name, err)
			}
		}
	}
}

// switched are the residues of key switches, one for each of galois: the first half
// of them has one X and the others another.
func switched(b backend, logN, limbs, alpha, keep, lows int, galois []uint64, t *testing.T) (all []uint32, err error) {
	r, err := b.NewRing(logN, testModuli(t, logN, limbs+2), cutrantt.Options{})
	if err != nil {
		return nil, err
	}
	g := cutrantt.Gadget{Alpha: alpha, Special: []int{limbs, limbs + 1}}
	k, err := key(r, max(2*g.Digits(limbs), 4))
	if err != nil {
		return nil, err
	}
	slice := func(p0, p1, l1 int) *cutrantt.Batch {
		v, serr := k.Slice(p0, p1, 0, l1)
		err = errors.Join(err, serr)
		return v
	}
	op, perr := r.Precompute(slice(0, 2*g.Digits(limbs), limbs+2))
	xs := [2]*cutrantt.Batch{slice(0, 1, limbs), slice(3, 4, limbs)}
	var low *cutrantt.Batch
	if lows > 0 {
		low = slice(1, 1+lows, limbs)
	}
	var items []cutrantt.KeySwitch
	var dsts []*cutrantt.Batch
	for i, e := range galois {
		dst, nerr := cutrantt.NewResult(r, 2, xs[0].Limbs()[:keep], cutrantt.NTT(1))
		err = errors.Join(err, nerr)
		dsts = append(dsts, dst)
		items = append(items, cutrantt.KeySwitch{Dst: dst, X: xs[2*i/len(galois)], Low: low, Key: op, Galois: e})
	}
	if err := errors.Join(err, perr); err != nil {
		return nil, err
	}
	if err := cutrantt.SwitchKeys(r, g, items); err != nil {
		return nil, err
	}
	for _, dst := range dsts {
		words, err := residues(r, []*cutrantt.Batch{dst}, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, words...)
	}
	return all, nil
}

// TestMemoryComesBack: NewBatch gives zeros also where it gives memory again.
func TestMemoryComesBack(t *testing.T) {
	r, err := New().NewRing(10, testModuli(t, 10, 1), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b, err := r.NewBatch(1, []int{0}, cutrantt.NTT(1))
		if err != nil {
			t.Fatal(err)
		}
		x := make([]uint32, b.Len())
		if err := r.Download(x, b); err != nil || slices.Max(x) != 0 {
			t.Fatalf("a new batch holds %d (%v)", slices.Max(x), err)
		}
		if err := r.SampleUniform(b, &[32]byte{1}, 1); err != nil {
			t.Fatal(err)
		}
		r.Free(b)
		r.Free(b)
	}
}
