package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
)

// queued is an encryption whose messages and seeds are on the device already,
// with one destination for each set.
type queued struct {
	r          *ring
	e          *encryption
	input      []pointer
	small, mid secrets
	k          int
}

// newQueued prepares sets of k random messages each.
func newQueued(b *testing.B, r *ring, public bool, n2, limbs, k int) *queued {
	b.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	q := &queued{r: r, k: k}
	q.e = &encryption{kinds: 3, product: "public", n2: n2, limbs: upTo(limbs), positions: upTo(limbs), labels: cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3, Mask: 4}}
	if !public {
		q.e.kinds, q.e.product = 1, "seeded"
	}
	q.e.key = r.tensor(r.randomBatches(b, 2, upTo(limbs), cutrantt.NTT(n2))[0])
	size := int(unsafe.Sizeof(job{}))
	do := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	do(r.exec(func() (err error) {
		q.small.words, q.mid.words = k*10*r.n/4, q.e.kinds*k*limbs*r.n
		if q.small.at, err = r.pool.get(q.small.words); err != nil {
			return err
		}
		if q.mid.at, err = r.pool.get(q.mid.words); err != nil {
			return err
		}
		for range benchSets {
			input, err := r.pool.get(k * (size/4 + 2*r.n))
			if err != nil {
				return err
			}
			for i := range k {
				out, err := r.pool.get(2 * limbs * r.n)
				if err != nil {
					return err
				}
				at := input + pointer(k*size+8*r.n*i)
				rec := [1]job{{x: at, dst: out, ds: uint64(limbs * r.n)}}
				for w := range rec[0].seed {
					rec[0].seed[w], rec[0].mask[w] = byte(rng.Uint32()), byte(rng.Uint32())
				}
				message := make([]float64, r.n)
				for w := range message {
					message[w] = math.RoundToEven((rng.Float64() - 0.5) * 0x1p51)
				}
				if err := r.backend.drv.CopyIn(input+pointer(size*i), unsafe.Slice((*byte)(unsafe.Pointer(&rec[0])), size), r.pool.stream); err != nil {
					return err
				}
				if err := r.backend.drv.CopyIn(at, bytesOf(message), r.pool.stream); err != nil {
					return err
				}
			}
			q.input = append(q.input, input)
		}
		return r.backend.drv.Wait(r.pool.stream)
	}))
	return q
}

// run queues the encryption of a set in groups of limbs; nothing is wiped, so
// that it can be repeated.
func (q *queued) run(set, group int) error {
	return q.r.exec(func() error { return q.r.encryptQueued(q.e, q.k, q.input[set], q.small, q.mid, group, false) })
}

// BenchmarkEncryptQueued times whole encryptions of encoded messages on the
// device: sampling, transforms, products and sums.
func BenchmarkEncryptQueued(b *testing.B) {
	only := os.Getenv("X")
	for _, c := range []struct{ logN, limbs, k int }{{16, 66, 1}, {13, 5, 1}, {13, 6, 1}, {13, 6, 64}} {
		for _, public := range []bool{true, false} {
			for _, n2 := range []int{16, 1} {
				if n2 == 1 && c.logN == 16 {
					continue
				}
				r := benchRing(b, c.logN, c.limbs, cutrantt.MethodAuto)
				q := newQueued(b, r, public, n2, c.limbs, c.k)
				names := []string{q.e.product}
				if public && n2 == 16 && only != "" {
					names = append(names, strings.Split(only, ",")...)
				}
				for _, name := range names {
					q.e.product = name
					for _, group := range []int{66, 33, 22, 17, 11} {
						if group != 66 && (c.logN < 16) {
							continue
						}
						b.Run(fmt.Sprintf("%s/N=2^%d/limbs=%d/k=%d/n2=%d/group=%d", name, c.logN, c.limbs, c.k, n2, group), func(b *testing.B) {
							timeGPU(b, r, benchSets, func(i int) error { return q.run(i, group) })
						})
					}
				}
			}
		}
	}
}
