package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
)

// newMetered prepares sets of k encryptions of random messages each.
func newMetered(b *testing.B, r *ring, public bool, n2, limbs, k int) *metered {
	b.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	jobs := make([]cutrantt.Encryption, benchSets*k)
	for i := range jobs {
		j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 0x1p50, Seed: &[32]byte{}, Mask: &[32]byte{}}
		for w := range j.Seed {
			j.Seed[w], j.Mask[w] = byte(rng.Uint32()), byte(rng.Uint32())
		}
		for w := range j.Message {
			j.Message[w] = math.RoundToEven((rng.Float64() - 0.5) * 0x1p51)
		}
		jobs[i] = j
	}
	labels := cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3, Mask: 4}
	key := r.randomBatches(b, 2, upTo(limbs), cutrantt.NTT(n2))[0]
	var e *encryption
	pk, err := r.Precompute(key)
	if err == nil && public {
		e, err = r.publicEncryption(pk, upTo(limbs), labels, jobs)
	} else if err == nil {
		if key, err = key.Slice(0, 1, 0, limbs); err == nil {
			e, err = r.seededEncryption(key, upTo(limbs), labels, jobs)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	m, err := r.metered(e, jobs, k)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Release(); err != nil {
			b.Error(err)
		}
	})
	return m
}

// paperPrimes are the 66 primes of bench-paper16-insecure (logQ 1692): those just
// above a power of 2 cost the sampler of c1 most.
var paperPrimes = []uint32{
	1040056321, 1038745601, 36175873, 61734913, 30539777, 72744961, 16121857, 140771329, 27918337, 81788929, 21626881,
	103284737, 31326209, 72613889, 40370177, 55443457, 38535169, 58851329, 24772609, 90439681, 16384001, 138412033,
	26214401, 85590017, 28311553, 80084993, 29884417, 75104257, 14155777, 160038913, 11272193, 199229441, 33292289,
	67502081, 32899073, 68681729, 20054017, 112066561, 20316161, 111149057, 37224449, 60424193, 13238273, 169869313,
	10223617, 220594177, 13631489, 165019649, 35389441, 63700993, 12451841, 180748289, 21495809, 104857601, 27000833,
	83361793, 14942209, 150863873, 22806529, 98697217, 19529729, 115212289, 28704769, 78512129, 16515073, 136314881,
}

// paperRing is a ring of these primes and degree 2^16.
func paperRing(b *testing.B) *ring {
	b.Helper()
	backend := gpu(b)
	var ms []cutrantt.Modulus
	for _, q := range paperPrimes {
		for g := uint32(3); g < 100; g++ {
			if m := (cutrantt.Modulus{Q: q, Psi: powMod(g, (q-1)>>17, q)}); m.Check(16) == nil {
				ms = append(ms, m)
				break
			}
		}
	}
	r, err := backend.NewRing(16, ms, cutrantt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return r.(*ring)
}

// BenchmarkEncryptQueued times whole encryptions of encoded messages on the
// device: sampling, transforms, products and sums, and the wiping.
func BenchmarkEncryptQueued(b *testing.B) {
	for _, c := range []struct{ logN, limbs, k int }{{16, 66, 1}, {14, 12, 1}, {13, 5, 1}, {13, 6, 1}, {13, 6, 64}} {
		for _, public := range []bool{true, false} {
			for _, n2 := range []int{16, 1} {
				if n2 == 1 && c.logN == 16 {
					continue
				}
				var r *ring
				if c.logN == 16 {
					r = paperRing(b)
				} else {
					r = benchRing(b, c.logN, c.limbs, cutrantt.MethodAuto)
				}
				m := newMetered(b, r, public, n2, c.limbs, c.k)
				name := fmt.Sprintf("%s/N=2^%d/limbs=%d/k=%d/n2=%d", m.e.product, c.logN, c.limbs, c.k, n2)
				b.Run(name, func(b *testing.B) { timeGPU(b, r, benchSets, m.Queue) })
			}
		}
	}
}

// BenchmarkSeededAlone times seeded encryptions of 66 limbs of 2^16 one by one, as
// "hencedge bench" does: from the first kernel to the wiped memory.
func BenchmarkSeededAlone(b *testing.B) {
	r, limbs := paperRing(b), upTo(len(paperPrimes))
	key := r.randomBatches(b, 1, limbs, cutrantt.NTT(16))[0]
	rng := rand.New(rand.NewPCG(7, 8))
	jobs, out := make([][]cutrantt.Encryption, benchSets), make([][]*cutrantt.Batch, benchSets)
	for i := range jobs {
		j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40, Seed: &[32]byte{byte(i), 1},
			Mask: &[32]byte{byte(i), 2}}
		for k := range j.Message {
			j.Message[k] = float64(rng.Int64N(1<<41) - 1<<40)
		}
		jobs[i] = []cutrantt.Encryption{j}
	}
	encrypt := func(i int) (err error) {
		for _, x := range out[i] {
			r.Free(x)
		}
		out[i], err = r.EncryptSeeded(key, limbs, cutrantt.EncryptionLabels{E0: 2, Mask: 4}, jobs[i])
		return err
	}
	if err := runOf(2*benchSets, encrypt)(); err != nil { // tables and memory
		b.Fatal(err)
	}
	set := 0
	reportRuns(b, 1, func() (time.Duration, error) {
		set = (set + 1) % benchSets
		return r.Time(func() error { return encrypt(set) })
	})
}
