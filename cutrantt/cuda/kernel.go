package cuda

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// GraphsVariable is the environment variable that says whether operations of several
// kernels replay a CUDA graph: "on", "off" or "auto". "auto", the default, uses graphs
// for the encryptions that they make faster and for recordings (cutrantt.Recorder), if the
// driver has graphs. Results are the same.
const GraphsVariable = "CUTRANTT_CUDA_GRAPHS"

// graphUse says which operations are queued as graphs.
type graphUse int

const (
	graphsOff  graphUse = iota
	graphsAuto          // encryptions of one message up to degree 2^mostGraphLog
	graphsOn
)

func graphMode(drv *driver.Driver) (graphUse, error) {
	missing := drv.Graphs()
	switch mode := os.Getenv(GraphsVariable); mode {
	case "", "auto":
		if missing != nil {
			return graphsOff, nil
		}
		return graphsAuto, nil
	case "off":
		return graphsOff, nil
	case "on":
		if missing != nil {
			return graphsOff, fmt.Errorf("%s is on: %w", GraphsVariable, missing)
		}
		return graphsOn, nil
	default:
		return graphsOff, fmt.Errorf("%s is %q: use on, off or auto", GraphsVariable, mode)
	}
}

// kernel is a loaded kernel with what is known of its launches.
type kernel struct {
	fn       driver.Function
	launches atomic.Uint64
	shape    atomic.Uint64 // of the last launch: threads<<32 | dynamic shared memory
}

// launched counts a launch, or the node of a graph at every launch of it.
func (k *kernel) launched(threads, shared int) {
	k.launches.Add(1)
	k.shape.Store(uint64(threads)<<32 | uint64(uint32(shared)))
}

// CacheBytes is the L2 cache.
func (b *backend) CacheBytes() int64 { return int64(b.about.L2) }

// Kernels asks the driver about every kernel that was launched.
func (b *backend) Kernels() ([]meter.Kernel, error) {
	var out []meter.Kernel
	err := b.locked(func() error {
		most, err := b.drv.Attribute(b.dev, driver.ThreadsPerProcessor)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(b.kernels)) {
			k := b.kernels[name]
			if k.launches.Load() == 0 {
				continue
			}
			report, err := k.report(b.drv, most)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			report.Name = name
			out = append(out, report)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	return out, nil
}

// report returns what the driver says of k. most is how many threads a
// multiprocessor can hold.
func (k *kernel) report(drv *driver.Driver, most int) (r meter.Kernel, err error) {
	shape := k.shape.Load()
	dynamic := int(uint32(shape))
	r.Threads, r.Launches = int(shape>>32), k.launches.Load()
	for a, to := range map[driver.FunctionAttribute]*int{
		driver.FuncRegisters: &r.Registers, driver.FuncLocal: &r.LocalBytes,
		driver.FuncStaticShared: &r.SharedBytes, driver.FuncBinary: &r.Architecture,
	} {
		if *to, err = drv.FunctionAttribute(k.fn, a); err != nil {
			return r, err
		}
	}
	r.SharedBytes += dynamic
	if r.Blocks, err = drv.Occupancy(k.fn, r.Threads, dynamic); err != nil {
		return r, err
	}
	r.Occupancy = float64(r.Blocks*r.Threads) / float64(max(most, 1))
	return r, nil
}

// Err returns what the GPU failed with, or nil.
func (r *ring) Err() error { return r.backend.err() }

// Launches counts kernels.
func (r *ring) Launches() uint64 { return r.launches.Load() }

// begin is called before a kernel or a graph is queued; it starts the clock that
// Time set up.
func (r *ring) begin() error {
	if r.timed == 0 {
		return nil
	}
	e := r.timed
	r.timed = 0
	return r.backend.drv.Record(e, r.pool.stream)
}

// Time measures by events around the kernels that f queues. One call at a time
// can measure.
func (r *ring) Time(f func() error) (time.Duration, error) {
	r.timing.Lock()
	defer r.timing.Unlock()
	var t stopwatch
	err := r.exec(func() (err error) {
		if t, err = r.stopwatch(); err == nil {
			r.timed = t.from
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	defer t.destroy(r.backend)
	ferr := f()
	var d time.Duration
	err = r.exec(func() (err error) {
		if err = r.begin(); err != nil { // f queued no kernel
			return err
		}
		d, err = t.stop()
		return err
	})
	if ferr != nil {
		return 0, ferr
	}
	return d, err
}

// TimeRun collects the kernels of lead and of run and queues each of the two as one
// graph. A copy, a wait, or more kernels than a graph takes split it into parts. The
// clock starts after lead's kernels, so that the GPU is busy with them while the host
// queues run's. Other calls of the ring are collected meanwhile. Without graphs TimeRun
// is Time.
func (r *ring) TimeRun(lead, run func() error) (d time.Duration, parts int, err error) {
	if r.backend.graphs == graphsOff {
		d, err = r.Time(run)
		return d, 0, err
	}
	r.timing.Lock()
	defer r.timing.Unlock()
	var t stopwatch
	err = r.exec(func() (err error) {
		t, err = r.stopwatch()
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	defer t.destroy(r.backend)
	r.collect()
	defer r.releaseCollected()
	ferr := lead()
	if ferr == nil {
		ferr = r.exec(func() error {
			err := r.launcher.Flush()
			r.launcher.Mark(t.from)
			return err
		})
	}
	if ferr == nil {
		ferr = run()
	}
	err = r.exec(func() (err error) {
		if err = r.queueCollected(); err != nil || ferr != nil {
			return err
		}
		if parts = r.launcher.Queued(); parts == 0 { // run queued no kernel
			if err = t.drv.Record(t.from, t.stream); err != nil {
				return err
			}
		}
		d, err = t.stop()
		return err
	})
	if ferr != nil {
		err = ferr
	}
	if err != nil {
		return 0, 0, err
	}
	return d, parts, nil
}

// collect makes the kernels of all calls wait until queueCollected.
func (r *ring) collect() {
	_ = r.turns.do(func() error {
		r.held = true
		r.launcher.Hold()
		return nil
	})
}

// queueCollected queues what collect made wait. It is called by exec.
func (r *ring) queueCollected() error {
	if !r.held {
		return nil
	}
	r.held = false
	if err := r.launcher.Release(); err != nil {
		return fmt.Errorf("graph: %w", err)
	}
	return nil
}

// releaseCollected frees what collect made wait, even after an error.
func (r *ring) releaseCollected() {
	held := false
	_ = r.turns.do(func() error {
		held = r.held
		return nil
	})
	if !held { // only TimeRun, which calls this, changes it
		return
	}
	_ = r.exec(r.queueCollected)
	r.drop()
}

// recording is kernels that are queued as one graph. They were recorded on a ring of their own, with batches and keys
// of the ring that made it: so its memory, which their arguments name, serves nothing else. They run in the stream of
// that ring.
type recording struct {
	of, own   *ring
	graph     *driver.Graph
	constants map[string]pointer // copied once, by content
	batches   []*cutrantt.Batch  // of the ring of, used by the kernels
	keys      []*operand
}

// Record makes the tables in the first call of f, and records the second one.
func (r *ring) Record(f func(on cutrantt.Ring) error) (cutrantt.Recording, error) {
	if r.backend.graphs == graphsOff || r.recorded != nil || r.backend.mapped {
		return nil, fmt.Errorf("%w: recordings without graphs, or within one another", cutrantt.ErrNotSupported)
	}
	if err := r.Sync(); err != nil { // f uses what is under way, in another stream
		return nil, err
	}
	own := r.backend.emptyRing(r.check, r.method)
	own.mods = r.mods
	for i := range own.chosen {
		own.chosen[i].Store(r.chosen[i].Load())
	}
	c := &recording{of: r, own: own, constants: make(map[string]pointer)}
	own.recorded = c
	if err := r.backend.locked(own.open); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	if err := f(own); err != nil {
		return nil, err
	}
	if err := own.Sync(); err != nil {
		return nil, err
	}
	c.batches, c.keys = nil, nil
	own.collect()
	if err := f(own); err != nil {
		own.drop()
		return nil, err
	}
	err := own.exec(func() (err error) {
		own.held = false
		if c.graph, err = own.launcher.Record(); err != nil && !errors.Is(err, cutrantt.ErrDevice) {
			err = fmt.Errorf("%w: a recording: %w", cutrantt.ErrNotSupported, err)
		}
		return err
	})
	if err != nil {
		own.drop() // where exec did not get so far
		return nil, err
	}
	runtime.AddCleanup(c, func(g *driver.Graph) { // the pool ends with the memory of batches
		go func() { _ = r.backend.locked(func() error { return r.backend.drv.Destroy(g) }) }()
	}, c.graph)
	return c, nil
}

func (c *recording) Replay() error {
	r := c.of
	defer runtime.KeepAlive(c)
	if err := r.check.Batches(c.batches...); err != nil {
		return err
	}
	for _, o := range c.keys {
		if o.mem.Len() == 0 {
			return fmt.Errorf("%w: a key of the recording was released", cutrantt.ErrForeign)
		}
	}
	return r.exec(func() error {
		if err := r.begin(); err != nil {
			return err
		}
		r.launches.Add(uint64(c.graph.Kernels()))
		return r.backend.drv.Replay(c.graph, r.pool.stream)
	})
}

// base is the ring whose batches and keys a ring works with.
func (r *ring) base() *ring {
	if r.recorded != nil {
		return r.recorded.of
	}
	return r
}

// note keeps batches of another ring's memory, if c records.
func (c *recording) note(batches []*cutrantt.Batch) {
	if c == nil {
		return
	}
	for _, b := range batches {
		if b.Mem().(*memory).pool != c.own.pool {
			c.batches = append(c.batches, b)
		}
	}
}

// noteKey keeps a key, if c records.
func (c *recording) noteKey(o *operand) {
	if c != nil {
		c.keys = append(c.keys, o)
	}
}

// constant copies data to memory that keeps it for the life of the recording. What waits to be recorded goes on
// waiting: the copy is in the stream in which it will run.
func (c *recording) constant(data []byte) (pointer, error) {
	if at, ok := c.constants[string(data)]; ok {
		return at, nil
	}
	at, err := c.own.pool.fresh((len(data) + 3) / 4)
	if err != nil {
		return 0, err
	}
	err = c.of.exec(func() error {
		if err := c.of.backend.drv.CopyIn(at, data, c.of.pool.stream); err != nil {
			return err
		}
		return c.of.backend.drv.Wait(c.of.pool.stream)
	})
	if err == nil {
		c.constants[string(data)] = at
	}
	return at, err
}

// drop forgets what collect made wait.
func (r *ring) drop() {
	_ = r.turns.do(func() error {
		if r.held {
			r.held = false
			r.launcher.Drop()
		}
		return nil
	})
}

// stopwatch measures what the stream does between two events.
type stopwatch struct {
	drv      *driver.Driver
	stream   driver.Stream
	from, to driver.Event
}

func (r *ring) stopwatch() (t stopwatch, err error) {
	t.drv, t.stream = r.backend.drv, r.pool.stream
	if t.from, err = t.drv.NewEvent(); err != nil {
		return t, err
	}
	if t.to, err = t.drv.NewEvent(); err != nil {
		_ = t.drv.DestroyEvent(t.from)
	}
	return t, err
}

func (t *stopwatch) destroy(b *backend) {
	_ = b.locked(func() error { return errors.Join(t.drv.DestroyEvent(t.from), t.drv.DestroyEvent(t.to)) })
}

// stop returns the time from the first event, which was recorded, until everything in
// the queue has ended.
func (t *stopwatch) stop() (time.Duration, error) {
	if err := t.drv.Record(t.to, t.stream); err != nil {
		return 0, err
	}
	if err := t.drv.WaitEvent(t.to); err != nil {
		return 0, err
	}
	ms, err := t.drv.Elapsed(t.from, t.to)
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}
