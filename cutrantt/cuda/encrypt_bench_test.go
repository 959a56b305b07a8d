package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	jobs       [][]cutrantt.Encryption
	out        [][]pointer
	small, mid secrets
	k          int
}

// newQueued prepares sets of k random messages each.
func newQueued(b testing.TB, r *ring, public bool, n2, limbs, k int) *queued {
	b.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	q := &queued{r: r, k: k}
	q.e = &encryption{kinds: 3, product: "public", n2: n2, limbs: upTo(limbs), positions: upTo(limbs), labels: cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3, Mask: 4}}
	if !public {
		q.e.kinds, q.e.product = 1, "seeded"
	}
	q.e.drawn = r.drawnFirst(q.e, k)
	q.e.key = r.tensor(r.randomBatches(b, 2, upTo(limbs), cutrantt.NTT(n2))[0])
	size := int(unsafe.Sizeof(job{}))
	do := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	do(r.exec(func() (err error) {
		q.small.words, q.mid.words = k*10*r.n/4+1+k*limbs, q.e.kinds*k*limbs*r.n
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
			jobs, to := make([]cutrantt.Encryption, k), make([]pointer, k)
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
				jobs[i], to[i] = cutrantt.Encryption{Message: message, Bound: 1 << 51, Seed: &rec[0].seed, Mask: &rec[0].mask}, out
				if err := r.backend.drv.CopyIn(input+pointer(size*i), unsafe.Slice((*byte)(unsafe.Pointer(&rec[0])), size), r.pool.stream); err != nil {
					return err
				}
				if err := r.backend.drv.CopyIn(at, bytesOf(message), r.pool.stream); err != nil {
					return err
				}
			}
			q.input, q.jobs, q.out = append(q.input, input), append(q.jobs, jobs), append(q.out, to)
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
// device: sampling, transforms, products and sums.
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
				q := newQueued(b, r, public, n2, c.limbs, c.k)
				name := fmt.Sprintf("%s/N=2^%d/limbs=%d/k=%d/n2=%d", q.e.product, c.logN, c.limbs, c.k, n2)
				run := func(b *testing.B) {
					timeGPU(b, r, benchSets, func(i int) error { return q.run(i, c.limbs) })
				}
				drawn := q.e.drawn
				if len(drawn) == 0 {
					b.Run(name, run)
					continue
				}
				inTurn(b, name+"/drawn-first", func(on bool) {
					q.e.drawn = nil
					if on {
						q.e.drawn = drawn
					}
				}, run)
			}
		}
	}
}

// BenchmarkSeededAlone times seeded encryptions of 66 limbs of 2^16 one by one, as
// "hencedge bench" does: from the first kernel to the wiped memory. It goes through
// numbers of limbs that the first kernel draws, twice, and through which ones: those
// with the fewest rejections of all limbs, of the first half and of the last. "first"
// is the first kernel alone.
func BenchmarkSeededAlone(b *testing.B) {
	r := paperRing(b)
	q := newQueued(b, r, false, 16, len(paperPrimes), 1)
	half := len(paperPrimes) / 2
	jobs := make([][]cutrantt.Encryption, benchSets)
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range jobs {
		j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40, Seed: &[32]byte{byte(i), 1}, Mask: &[32]byte{byte(i), 2}}
		for k := range j.Message {
			j.Message[k] = float64(rng.Int64N(1<<41) - 1<<40)
		}
		jobs[i] = []cutrantt.Encryption{j}
	}
	key, err := r.NewBatch(1, upTo(len(paperPrimes)), cutrantt.NTT(16))
	if err != nil {
		b.Fatal(err)
	}
	if err := r.SampleUniform(key, &[32]byte{1}, 1); err != nil {
		b.Fatal(err)
	}
	out := make([][]*cutrantt.Batch, benchSets)
	encrypt := func(i int, drawn []int) (err error) {
		for _, x := range out[i] {
			r.Free(x)
		}
		e := &encryption{kinds: 1, product: "seeded", n2: 16, limbs: upTo(len(paperPrimes)), key: r.tensor(key), labels: q.e.labels, drawn: drawn}
		out[i], err = r.encryptAll(e, e.limbs, jobs[i])
		return err
	}
	// choose gives count limbs of [lo, hi).
	choose := func(count, lo, hi int) []int {
		defer func(n int) { r.backend.draws = n }(r.backend.draws)
		r.backend.draws = count * r.n / seededTile
		part := *q.e
		part.limbs = part.limbs[lo:hi]
		at := append([]int{}, r.drawnFirst(&part, 1)...) // not nil: none is a choice, too
		for i := range at {
			at[i] += lo
		}
		return at
	}
	for round := range 2 {
		for _, c := range []struct {
			count, lo, hi int
		}{
			{0, 0, 66}, {2, 0, 66}, {4, 0, 66}, {6, 0, 66}, {8, 0, 66}, {10, 0, 66}, {12, 0, 66}, {16, 0, 66}, {24, 0, 66}, {32, 0, 66},
			{4, 0, half}, {8, 0, half}, {12, 0, half}, {16, 0, half}, {4, half, 66}, {8, half, 66}, {12, half, 66}, {16, half, 66},
		} {
			drawn := choose(c.count, c.lo, c.hi)
			if len(drawn) != c.count {
				b.Fatalf("%d limbs for %d", len(drawn), c.count)
			}
			name := fmt.Sprintf("limbs=%d/of=%d-%d/%d", c.count, c.lo, c.hi, round+1)
			b.Run(name, func(b *testing.B) {
				timeAlone(b, r, func(i int) error { return encrypt(i, drawn) })
			})
			if c.lo == 0 && c.hi == 66 {
				b.Run("first/"+name, func(b *testing.B) {
					e := *q.e
					e.drawn = drawn
					timeAlone(b, r, func(i int) error {
						return r.exec(func() error { return r.encryptFirst(&e, 1, q.input[i], q.small) })
					})
				})
			}
		}
	}
}

// timeAlone reports the time of single calls of f, from the first kernel to the end:
// the median and the 95th percentile of 400.
func timeAlone(b *testing.B, r *ring, f func(set int) error) {
	b.Helper()
	var times []float64
	for i := range 400 + 2*benchSets {
		d, err := r.Time(func() error { return f(i % benchSets) })
		if err != nil {
			b.Fatal(err)
		}
		if i >= 2*benchSets {
			times = append(times, float64(d.Nanoseconds())/1000)
		}
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)/2], "gpu-us")
	b.ReportMetric(times[len(times)*95/100], "p95-us")
	b.ReportMetric(0, "ns/op")
}
