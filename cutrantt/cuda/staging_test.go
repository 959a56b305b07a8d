package cuda

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestStaging: transfers and encryptions that go through the two staging buffers
// several times use neither before the GPU is done with it. TestTransfers and
// TestEncryptStaging say what becomes of the buffers when calls fail.
func TestStaging(t *testing.T) {
	b := gpu(t).(*backend)
	const logN, limbs, n2 = 13, 2, 16
	r, err := b.newRing(logN, benchModuli(t, logN, limbs), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	x, err := r.NewBatch(5*chunk/(4*limbs*r.n), upTo(limbs), cutrantt.Coeffs(n2)) // five parts
	do(err)
	want, got := make([]uint32, x.Len()), make([]uint32, x.Len())
	for i := range want {
		want[i] = rng.Uint32N(1 << 29)
	}
	do(r.Upload(x, want))
	do(r.Download(got, x))
	if !slices.Equal(got, want) {
		t.Error("residues of five parts differ")
	}

	s, err := r.NewBatch(1, upTo(limbs), cutrantt.NTT(n2))
	do(err)
	do(r.SampleUniform(s, &[32]byte{1}, 1))
	jobs := make([]cutrantt.Encryption, 3*windowBytes/(8*r.n)+1) // four windows
	for i := range jobs {
		j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40, Seed: &[32]byte{byte(i), 9},
			Mask: &[32]byte{byte(i), 8}}
		for k := range j.Message {
			j.Message[k] = float64(rng.IntN(1 << 40))
		}
		jobs[i] = j
	}
	labels := cutrantt.EncryptionLabels{E0: 2, Mask: 4}
	all, err := r.EncryptSeeded(s, upTo(limbs), labels, jobs)
	do(err)
	for _, i := range []int{0, 1, len(jobs) / 3, len(jobs) / 2, len(jobs) - 1} {
		one, err := r.EncryptSeeded(s, upTo(limbs), labels, jobs[i:i+1])
		do(err)
		a, b := make([]uint32, one[0].Len()), make([]uint32, one[0].Len())
		do(r.Download(a, all[i]))
		do(r.Download(b, one[0]))
		if !slices.Equal(a, b) {
			t.Errorf("message %d of %d differs from the same one alone", i, len(jobs))
		}
	}
}
