package cpu

import (
	"sync"
	"sync/atomic"
)

// minParallel is the least work, in residues touched times passes over them,
// that is worth a second goroutine (starting one costs about a microsecond).
const minParallel = 1 << 14

// run calls f(0) ... f(n-1), each about cost residues of work, on the ring's
// workers, and returns when all are done.
func (r *ring) run(n, cost int, f func(i int)) {
	workers := min(r.workers, n, n*cost/minParallel+1)
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
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// eachLimb runs f for every (poly, limb) of a batch of the given counts.
func (r *ring) eachLimb(polys, limbs, cost int, f func(poly, limb int)) {
	r.run(polys*limbs, cost, func(i int) { f(i/limbs, i%limbs) })
}
