package cuda

import (
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestTablesComplete: a ring's first transform over limbs that are on the device
// already, so that no copy stands between the table's kernels and it, reads the whole
// table. Kernels read tables before they wait for those ahead of them; the emulator
// (make test-emulated) finds a read of what a kernel ahead may still write.
func TestTablesComplete(t *testing.T) {
	b := gpu(t).(*backend)
	const logN, limbs, n2 = 12, 2, 1
	r, err := b.newRing(logN, benchModuli(t, logN, limbs), cutrantt.Options{})
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(err)
	x, err := r.NewBatch(1, upTo(limbs), cutrantt.Coeffs(n2))
	do(err)
	want, got := make([]uint32, x.Len()), make([]uint32, x.Len())
	for i := range want {
		want[i] = uint32(i * i)
	}
	do(r.Upload(x, want))
	do(r.Neg(x, x)) // needs the list of limbs
	do(r.Forward(x, x))
	do(r.Inverse(x, x))
	do(r.Neg(x, x))
	do(r.Download(got, x))
	if !slices.Equal(got, want) {
		t.Error("residues differ after a ring's first transform and its inverse")
	}
}
