package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

type pointer = driver.Pointer

// ring is one stream's worth of work. Operations queue their kernels in turns.
type ring struct {
	backend *backend
	check   *check.Ring
	n, logN int
	method  cutrantt.Method

	turns       turns // guard what follows, up to arguments, and the launcher
	pool        *pool
	mods        pointer            // struct Mod for each modulus
	lists       map[string]pointer // lists of limbs on the device
	kept        kept
	bases       map[string]basis      // constants of Extend and DivRound
	conversions map[string]conversion // the same for the tensor cores
	plain       table                 // twiddles in plain order
	passes      map[plan]table        // and in the order of the passes
	fews        map[string]few
	switchings  map[string]*switching // the shapes of key switches
	packings    map[string]packing    // of packed residues, by limbs
	embedding   embedding
	arguments   [argumentWords]uint64 // of the launch under way

	launcher *driver.Launcher
	launches atomic.Uint64
	timing   sync.Mutex                  // of Time
	timed    driver.Event                // to be recorded before the next kernel; 0: none
	held     bool                        // TimeRun collects the kernels of all calls
	chosen   [maxLogN2 + 1]atomic.Uint32 // Hadamard method for each log2 n2, once it is known
	recorded *recording                  // which this ring is for; nil: none
}

func (r *ring) Backend() cutrantt.Backend  { return r.backend }
func (r *ring) LogN() int                  { return r.logN }
func (r *ring) N() int                     { return r.n }
func (r *ring) Moduli() []cutrantt.Modulus { return r.check.Moduli() }
func (r *ring) Method() cutrantt.Method    { return r.method }

// exec runs f, which queues work, alone and with the backend's context. The
// batches stay alive until it is queued.
func (r *ring) exec(f func() error, batches ...*cutrantt.Batch) error {
	defer runtime.KeepAlive(batches)
	r.recorded.note(batches)
	err := r.turns.do(func() error {
		r.evict()
		return r.backend.locked(func() error { return r.replayed(r.backend.graphs == graphsOn, f) })
	})
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	return nil
}

// replayed runs f and, where a graph is wanted, queues its kernels as graphs: two or
// more with no copy between them make one (see GraphsVariable). Within TimeRun they
// wait for those of other calls.
func (r *ring) replayed(graph bool, f func() error) error {
	if !graph || r.held {
		return f()
	}
	r.launcher.Hold()
	err := f()
	if e := r.launcher.Release(); err == nil && e != nil {
		err = fmt.Errorf("graph: %w", e)
	}
	return err
}

// start queues a kernel with its one argument, the first size bytes of r.arguments,
// which are copied.
func (r *ring) start(name string, x, y, threads, shared, size int) error {
	k := r.backend.kernels[name]
	if k == nil {
		return fmt.Errorf("no kernel %q", name)
	}
	if err := r.begin(); err != nil {
		return err
	}
	err := r.launcher.Launch(k.fn, x, y, threads, shared, unsafe.Pointer(&r.arguments), size)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	k.launched(threads, shared)
	r.launches.Add(1)
	return nil
}

// tensor is where a checked batch lies.
func (r *ring) tensor(b *cutrantt.Batch) tensor {
	at := b.Mem().(*memory).at
	return tensor{at + pointer(4*b.Offset(0, 0)), uint64(b.Offset(1, 0) - b.Offset(0, 0))}
}

// source is a tensor that is broadcast if it has one polynomial.
func (r *ring) source(b *cutrantt.Batch) tensor {
	t := r.tensor(b)
	if b.Polys() == 1 {
		t.stride = 0
	}
	return t
}

// limb is the tensor from limb l on, of a ring of degree n.
func (t tensor) limb(l, n int) tensor {
	t.at += pointer(4 * l * n)
	return t
}

// scratch is contiguous memory for polys polynomials of limbs limbs; release
// puts it back.
func (r *ring) scratch(polys, limbs int) (t tensor, release func(), err error) {
	n := max(polys*limbs*r.n, 1)
	at, err := r.pool.get(n)
	return tensor{at, uint64(limbs * r.n)}, func() { r.pool.put(at, n) }, err
}

// maxLists bounds the caches of limb lists and bases; programs use few.
const maxLists = 4096

// evict empties caches that have grown too large. The memory goes back to the
// pool, whose order of use is the stream's.
func (r *ring) evict() {
	if len(r.lists) > maxLists {
		for key, p := range r.lists {
			r.pool.put(p, len(key)/2)
		}
		clear(r.lists)
	}
	if len(r.bases) > maxLists {
		for _, b := range r.bases {
			r.pool.put(b.at, b.words)
		}
		clear(r.bases)
	}
	if len(r.conversions) > maxLists || len(r.fews) > maxLists {
		for _, c := range r.conversions {
			r.pool.put(c.at, c.words)
		}
		clear(r.conversions)
		for _, f := range r.fews {
			if f.at != 0 {
				r.pool.put(f.at, f.words)
			}
		}
		clear(r.fews)
		for _, s := range r.switchings { // they refer to these
			r.pool.put(s.sources, s.words)
		}
		clear(r.switchings)
	}
}

// list puts a list of numbers below 2^16 on the device, once.
func (r *ring) list(v []int) (pointer, error) {
	if len(v) == 0 {
		return 0, nil
	}
	var buf [256]byte
	key := buf[:0]
	for _, l := range v {
		key = append(key, byte(l), byte(l>>8))
	}
	if p, ok := r.lists[string(key)]; ok {
		return p, nil
	}
	w := make([]uint32, len(v))
	for i, l := range v {
		w[i] = uint32(l)
	}
	p, err := r.constant(w)
	if err == nil {
		r.lists[string(key)] = p
	}
	return p, err
}

// turns has calls done one at a time, in the order in which they come. A call that comes while
// another is under way leaves its work to the goroutine that is at it: if each were woken for
// its own, the stream would be without work for as long as waking takes. The zero value is
// ready.
type turns struct {
	mu      sync.Mutex // not held during a call
	busy    bool       // a goroutine is at work, or was told to go on
	waiting []*turn
}

// turn is the work of a call that waits.
type turn struct {
	f    func() error
	err  error
	done bool          // f was called; else the waiting goroutine has to go on
	wake chan struct{} // closed after the others are set
}

// mostTurns is how many calls of others a goroutine does before it goes its way.
const mostTurns = 16

// do calls f alone and returns its error.
func (t *turns) do(f func() error) error {
	t.mu.Lock()
	if t.busy {
		own := &turn{f: f, wake: make(chan struct{})}
		t.waiting = append(t.waiting, own)
		t.mu.Unlock()
		if <-own.wake; own.done {
			return own.err
		}
	} else {
		t.busy = true
		t.mu.Unlock()
	}
	err := f()
	for range mostTurns {
		next := t.next()
		if next == nil {
			return err
		}
		next.err, next.done = next.f(), true
		close(next.wake)
	}
	if next := t.next(); next != nil {
		close(next.wake)
	}
	return err
}

// next takes out the first turn that waits; nil: there is none, and the work is over.
func (t *turns) next() *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.busy = false
		return nil
	}
	first := t.waiting[0]
	t.waiting[0] = nil
	t.waiting = t.waiting[1:]
	return first
}
