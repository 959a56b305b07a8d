package cuda

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// GraphsVariable is the environment variable that says whether operations of several
// kernels replay a CUDA graph: "on", "off" or "auto". "auto", the default, uses graphs
// for the encryptions that they make faster, if the driver has graphs. Results are the
// same.
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
