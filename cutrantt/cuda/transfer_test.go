package cuda

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
)

// TestTransfers: residues that go to the device and come back, in one part, in
// several and from views, are the same, also for several callers at once; a copy
// that fails is an error. The driver is one for tests, whose copies are real.
func TestTransfers(t *testing.T) {
	t.Setenv(TuningVariable, "off")
	d := cudatest.New(t)
	d.Working()
	d.Use()
	b, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	const limbs = 3
	r, err := b.newRing(14, benchModuli(t, 14, limbs), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, polys := range []int{1, 2, 23, 64} { // 64 polynomials are three parts
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			x, err := r.NewBatch(polys, upTo(limbs), cutrantt.Coeffs(16))
			if err != nil {
				t.Error(err)
				return
			}
			want := make([]uint32, 0, x.Len())
			for len(want) < x.Len() {
				want = append(want, rng.Uint32N(1<<29))
			}
			got := make([]uint32, x.Len())
			if err := errors.Join(r.Upload(x, want), r.Download(got, x)); err != nil || !slices.Equal(got, want) {
				t.Errorf("%d polynomials: %v, or other residues", polys, err)
			}
			view, err := x.Slice(polys/2, polys, 1, limbs)
			if err != nil {
				t.Error(err)
				return
			}
			part := make([]uint32, view.Len())
			if err := r.Download(part, view); err != nil {
				t.Error(err)
			}
			for p := polys / 2; p < polys; p++ {
				at := (p*limbs + 1) * r.n
				if !slices.Equal(part[:(limbs-1)*r.n], want[at:at+(limbs-1)*r.n]) {
					t.Errorf("polynomial %d of a view differs", p)
				}
				part = part[(limbs-1)*r.n:]
			}
		})
	}
	all.Wait()
	x, err := r.NewBatch(64, upTo(limbs), cutrantt.Coeffs(16))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventSynchronize"} {
		for _, skip := range []string{"0", "1", "2"} {
			d.Set("fail " + call + " 2 " + skip + " 1")
			if err := r.Download(make([]uint32, x.Len()), x); !errors.Is(err, ErrMemory) {
				t.Errorf("%s fails after %s: %v", call, skip, err)
			}
		}
	}
	d.Set()
	if err := r.Download(make([]uint32, x.Len()), x); err != nil {
		t.Error(err)
	}
}
