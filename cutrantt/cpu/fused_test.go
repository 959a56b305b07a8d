package cpu

import (
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestSwitchKeysLarge compares vector code with plain Go, which takes the steps of
// Ring, where the rows of digits are read in parts that serve several targets.
func TestSwitchKeysLarge(t *testing.T) {
	const logN, limbs, special = 15, 10, 2
	ms := testModuli(t, logN, limbs+special)
	if groupSize(limbs, 1<<logN) == 1 {
		t.Fatal("the case is too small for its purpose")
	}
	g := cutrantt.Gadget{Alpha: 5, Special: []int{limbs, limbs + 1}}
	run := func(b backend) []uint32 {
		r, err := b.NewRing(logN, ms, cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		k, err := key(r, 4)
		if err != nil {
			t.Fatal(err)
		}
		op, err := r.Precompute(k)
		if err != nil {
			t.Fatal(err)
		}
		x, err := k.Slice(0, 1, 0, limbs)
		if err != nil {
			t.Fatal(err)
		}
		low, err := k.Slice(1, 3, 0, limbs)
		if err != nil {
			t.Fatal(err)
		}
		dst, err := cutrantt.NewResult(r, 2, x.Limbs(), cutrantt.NTT(1))
		if err != nil {
			t.Fatal(err)
		}
		words, err := residues(r, []*cutrantt.Batch{dst}, cutrantt.SwitchKeys(r, g, []cutrantt.KeySwitch{{Dst: dst, X: x, Low: low, Key: op, Galois: 25}}))
		if err != nil {
			t.Fatal(err)
		}
		return words
	}
	want := run(backend{})
	for _, c := range variants() {
		if !slices.Equal(run(backend{vec: c}), want) {
			t.Errorf("%s: the switched polynomials differ", c.name)
		}
	}
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
