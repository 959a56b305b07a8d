// Package cpu is the backend of cutrantt for processors: plain Go for every GOARCH,
// and code with vectors for amd64 (AVX-512, AVX2) and arm64 (NEON), which gives the same
// bits. New takes the best that the processor has; CUTRANTT_CPU names another.
//
// In plain Go products with constants (twiddles, scalars) are Plantard products: two
// 64-bit multiplications, fully reduced. Sums of products are accumulated in 64 bits
// and take one Barrett reduction. Vector code works on 32-bit lanes: Shoup products
// with constants, sums of 64 bits for even and odd lanes with one Montgomery
// reduction, whose factor 2^32 is part of the constants. On amd64 the transforms for
// primes below 2^28 work on signed residues that grow from level to level. NEON has a product that keeps
// the upper half of signed numbers, so there residues are signed between the levels of a
// transform. Vector code is written by the module _asm and drives transforms, element-wise
// operations, products (with n2 > 1 by the
// lazy method), base conversion, encryption and key switching; the other methods of
// products are plain Go.
//
// Work is split over limbs and columns, or over rows where an operation joins the
// columns. Conditional corrections are minima, so that no branch or address depends
// on a residue.
package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

var (
	_ cutrantt.Backend    = backend{}
	_ cutrantt.Preference = backend{}
	_ cutrantt.Ring       = (*ring)(nil)
	_ cutrantt.Direct     = (*ring)(nil)
	_ cutrantt.Operand    = (*operand)(nil)
)

type backend struct {
	vec *vectorCode // nil: plain Go
	err error       // why NewRing fails
}

// New returns the backend with the fastest code for this CPU, or the code that the
// environment variable CUTRANTT_CPU names (VariantVariable); where the machine
// cannot run that, NewRing fails with cutrantt.ErrNotSupported.
func New() cutrantt.Backend { return selected() }

func (backend) Name() string { return "cpu" }

func (b backend) Device() string {
	code := "generic Go"
	if b.vec != nil {
		code = b.vec.about
	}
	return fmt.Sprintf("%s/%s, %s, %d CPUs", runtime.GOOS, runtime.GOARCH, code, runtime.NumCPU())
}

// Columns is 1. Here a multiplication is as cheap as in the transform itself, so
// that the levels that n2 > 1 saves cost less than its longer products. Measured
// by BenchmarkColumns in plain Go on one core of an AMD EPYC, in ns per residue of
// one limb, for N = 2^13 and 5 limbs:
//
//	                          n2 = 1     2     4     8    16
//	encrypt (3 NTT, 1x2 products)  27    32    31    29    32
//	key switch (3 NTT, 3x2)        31    50    50    48    61
//
// With AVX-512 (module bench, shape A) a public-key encryption takes 205, 478, 513
// and 520 us for n2 = 1, 2, 4 and 16, a product with relinearisation 451, 715, 1080
// and 1459 us; only n2 = 1 has the fused forms of both.
func (backend) Columns(int) int { return 1 }

// NewRing checks the moduli; tables are built by the first operation that
// needs them and shared by all rings of the process.
func (b backend) NewRing(logN int, moduli []cutrantt.Modulus, opts cutrantt.Options) (cutrantt.Ring, error) {
	if b.err != nil {
		return nil, b.err
	}
	c, err := check.NewRing(logN, moduli, opts)
	if err != nil {
		return nil, err
	}
	r := &ring{
		backend: b, vec: b.vec, check: c, n: c.N(), logN: c.LogN(), method: opts.Method,
		workers: opts.Workers, moduli: make([]*modulus, len(moduli)),
	}
	if r.workers == 0 {
		r.workers = runtime.GOMAXPROCS(0)
	}
	for i, m := range moduli {
		r.moduli[i] = sharedModulus(m, logN)
	}
	return r, nil
}

type ring struct {
	backend cutrantt.Backend
	vec     *vectorCode // nil: plain Go
	check   *check.Ring
	n, logN int
	moduli  []*modulus
	method  cutrantt.Method
	workers int
	busy    atomic.Int64 // goroutines in run
	pools   sync.Map     // memory of freed batches: *sync.Pool by number of residues

	dividers, looseDividers plans[divider] // the second for transforms with n2 = 1 in vector code
	switches                plans[switchPlan]
	turns                   plans[turn] // by Galois element
}

func (r *ring) Backend() cutrantt.Backend  { return r.backend }
func (r *ring) LogN() int                  { return r.logN }
func (r *ring) N() int                     { return r.n }
func (r *ring) Moduli() []cutrantt.Modulus { return r.check.Moduli() }
func (r *ring) Method() cutrantt.Method    { return r.method }

// Sync returns at once: every call is finished when it returns.
func (r *ring) Sync() error { return nil }

// minParallel is the least work, in residues touched times passes over them,
// that is worth a second goroutine (starting one costs about a microsecond).
const minParallel = 1 << 14

// run calls f(0) ... f(n-1), each about cost residues of work, on the ring's
// workers, and returns when all are done. Workers that are busy with other calls do not
// help: where many calls run at a time, their goroutines would only take turns.
func (r *ring) run(n, cost int, f func(i int)) {
	workers := min(r.workers, n, n*cost/minParallel+1)
	if workers > 1 {
		others := int(r.busy.Add(1)) - 1
		defer r.busy.Add(-1)
		workers = min(workers, r.workers-others)
	}
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	r.busy.Add(int64(workers - 1))
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(func() {
			defer r.busy.Add(-1)
			work()
		})
	}
	work()
	wg.Wait()
}

// eachLimb runs f for every (poly, limb) of a batch of the given counts.
func (r *ring) eachLimb(polys, limbs, cost int, f func(poly, limb int)) {
	r.run(polys*limbs, cost, func(i int) { f(i/limbs, i%limbs) })
}
