package cuda

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
)

// TuningVariable is the environment variable that switches the measurement of
// Hadamard methods off with "off"; every choice then is the table's.
const TuningVariable = "CUTRANTT_AUTOTUNE"

// maxLogN2 is log2 of the most columns.
const maxLogN2 = 4

// tuning remembers which Hadamard method is fastest on this GPU for a degree
// and n2. Every method gives the same residues, so a choice changes nothing but
// time. It is made once: from the cache file, or by measuring.
type tuning struct {
	mu     sync.Mutex
	loaded bool
	cache  cacheFile
	made   map[size]cutrantt.Choice
}

// size is what a choice depends on.
type size struct{ logN, n2 int }

// tune settles the Hadamard method of a ring for n2, the first time that it
// makes a batch of that many columns. It is not called while work is queued.
func (r *ring) tune(n2 int) {
	if r.method != cutrantt.MethodAuto || r.chosen[log2(n2)].Load() != 0 || r.backend.err() != nil {
		return
	}
	m := r.backend.tuning.choose(r.backend, size{r.logN, n2}, r.check.Moduli())
	r.chosen[log2(n2)].CompareAndSwap(0, uint32(m))
}

// resolved is the method that runs. It never changes once it was asked for.
func (r *ring) resolved(n2 int) cutrantt.Method {
	if r.method != cutrantt.MethodAuto {
		return r.method
	}
	r.chosen[log2(n2)].CompareAndSwap(0, uint32(autoMethod(n2)))
	return cutrantt.Method(r.chosen[log2(n2)].Load())
}

// fixed is the method of products with operands. Where the ring may choose it is
// never Toom-Cook-4: encryption and key switching in few kernels read operands as
// they are, and need no evaluations of them.
func (r *ring) fixed(n2 int) cutrantt.Method {
	if m := r.resolved(n2); r.method != cutrantt.MethodAuto || m != cutrantt.MethodToomCook4 {
		return m
	}
	return autoMethod(n2)
}

// choose is the method for s; the moduli are those of a ring that asks.
func (t *tuning) choose(b *backend, s size, moduli []cutrantt.Modulus) cutrantt.Method {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.made[s]; ok {
		return c.Method
	}
	if t.made == nil {
		t.made = make(map[size]cutrantt.Choice)
	}
	c := cutrantt.Choice{LogN: s.logN, N2: s.n2, Method: autoMethod(s.n2), Source: cutrantt.ChoiceDefault}
	if !tuningOff() && s.n2 > 1 {
		t.load(b)
		if m, ok := t.cache.method(s); ok {
			c.Method, c.Source = m, cutrantt.ChoiceCached
		} else if m, err := fastest(b, s, moduli); err == nil {
			c.Method, c.Source = m, cutrantt.ChoiceMeasured
			t.cache.add(s, m)
			_ = t.cache.save(cachePath(b.about)) // without a home the next process measures again
		}
	}
	t.made[s] = c
	return c.Method
}

func tuningOff() bool { return os.Getenv(TuningVariable) == "off" }

// load reads the cache once; it needs the lock.
func (t *tuning) load(b *backend) {
	if !t.loaded {
		t.loaded = true
		t.cache = loadCache(cachePath(b.about), b.about)
	}
}

// Choices returns the methods that MethodAuto stands for, by degree and n2. Some were
// measured by this process, the others by earlier ones.
func (b *backend) Choices() []cutrantt.Choice {
	t := &b.tuning
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []cutrantt.Choice
	for _, c := range t.made {
		out = append(out, c)
	}
	if !tuningOff() {
		t.load(b)
		for logN := cutrantt.MinLogN; logN <= cutrantt.MaxLogN; logN++ {
			for _, n2 := range []int{1, 2, 4, 8, 16} {
				m, ok := t.cache.method(size{logN, n2})
				if _, here := t.made[size{logN, n2}]; ok && !here {
					out = append(out, cutrantt.Choice{LogN: logN, N2: n2, Method: m, Source: cutrantt.ChoiceCached})
				}
			}
		}
	}
	slices.SortFunc(
		out, func(x, y cutrantt.Choice) int { return cmp.Or(cmp.Compare(x.LogN, y.LogN), cmp.Compare(y.N2, x.N2)) },
	)
	return out
}

// The measurement: limbs at most, residues of a batch at least (so that the GPU
// is filled and launches do not count), calls before the clock and on it, and
// how much faster than the table's choice another method must be to replace it.
const (
	tuneLimbs  = 24
	tuneFill   = 1 << 21
	tuneWarm   = 2
	tuneCalls  = 7
	tuneMargin = 0.95
)

// fastest times the products of every method on random residues. It takes a few
// milliseconds.
func fastest(b *backend, s size, moduli []cutrantt.Modulus) (cutrantt.Method, error) {
	moduli = moduli[:min(len(moduli), tuneLimbs)]
	table := autoMethod(s.n2)
	best := table
	least, err := timeMethod(b, s, moduli, table)
	if err != nil {
		return table, err
	}
	least = time.Duration(tuneMargin * float64(least))
	for _, m := range cutrantt.Methods() {
		if m == table || m == cutrantt.MethodSchoolbook || !m.Supports(s.n2) {
			continue // reducing every term never wins
		}
		d, err := timeMethod(b, s, moduli, m)
		if err != nil {
			return table, err
		}
		if d < least {
			best, least = m, d
		}
	}
	return best, nil
}

// timeMethod is the shortest time of one method.
func timeMethod(b *backend, s size, moduli []cutrantt.Modulus, m cutrantt.Method) (time.Duration, error) {
	r, err := b.newRing(s.logN, moduli, cutrantt.Options{Method: m})
	if err != nil {
		return 0, err
	}
	limbs := make([]int, len(moduli))
	for i := range limbs {
		limbs[i] = i
	}
	polys := max(1, min(512, tuneFill/(len(limbs)*r.n)))
	x, err := r.NewBatch(polys, limbs, cutrantt.NTT(s.n2))
	if err != nil {
		return 0, err
	}
	defer r.Free(x)
	for p := range polys {
		view, err := x.Slice(p, p+1, 0, len(limbs))
		if err == nil {
			err = r.SampleUniform(view, &[32]byte{1}, uint32(p)) // nobody's secret
		}
		if err != nil {
			return 0, err
		}
	}
	least := time.Duration(1<<63 - 1)
	for call := range tuneWarm + tuneCalls {
		d, err := r.Time(func() error { return r.Mul(x, x, x) })
		if err != nil {
			return 0, err
		}
		if call >= tuneWarm {
			least = min(least, d)
		}
	}
	return least, nil
}
