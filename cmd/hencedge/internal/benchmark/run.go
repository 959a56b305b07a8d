package benchmark

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/hencedge/hencedge/internal/meter"
)

// Run measures every selected case and hands each record to emit as soon as it
// is there. Before the records of an operation comes the copy record with the
// same traffic. A kernel whose result is wrong ends the run with an error.
func Run(ctx context.Context, o Options, emit func(Record) error) error {
	if err := o.setDefaults(); err != nil {
		return err
	}
	done, total := 0, len(o.Params)*len(Ops())
	for _, p := range o.Params {
		b, err := newBed(p, o)
		if err != nil {
			return fmt.Errorf("benchmark %s: %w", p.Name(), err)
		}
		for _, op := range Ops() {
			o.tell(done, total)
			done++
			if op == "copy" {
				continue
			}
			jobs := b.batches(b.jobs(op), o.Batch)
			if len(jobs) == 0 {
				continue
			}
			if slices.Contains(o.Ops, "copy") && (len(o.Ops) == 1 || slices.Contains(o.Ops, op)) {
				jobs = append([]job{b.copyJob(op, jobs[0])}, jobs...)
			}
			if err := b.emitAll(ctx, jobs, emit); err != nil {
				return err
			}
		}
	}
	o.tell(total, total)
	return nil
}

// tell calls Progress.
func (o *Options) tell(done, total int) {
	if o.Progress != nil {
		o.Progress(done, total)
	}
}

// emitAll times the selected jobs; a copy that comes before others with the same
// traffic is their limit.
func (b *bed) emitAll(ctx context.Context, jobs []job, emit func(Record) error) error {
	var copied Record
	for _, j := range jobs {
		if !slices.Contains(b.o.Ops, j.op) {
			continue
		}
		r, err := b.time(ctx, j)
		if err != nil {
			return fmt.Errorf("benchmark %s %s %s: %w", b.name, j.op, j.method, err)
		}
		if r.Op == "copy" {
			copied = r
		} else {
			r.limit(copied)
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// limit sets the distance to a copy.
func (r *Record) limit(copied Record) {
	if copied.MedianUS > 0 && copied.Clock == r.Clock {
		r.CopyUS = copied.MedianUS * float64(r.Bytes) / float64(copied.Bytes)
		r.OfCopy = r.MedianUS / r.CopyUS
	}
}

// cache is the size of the cache that inputs have to exceed.
func (b *bed) cache() int64 {
	if p, ok := b.o.Backend.(meter.Profiler); ok {
		return p.CacheBytes()
	}
	return lastLevelCache("/sys/devices/system/cpu/cpu0/cache")
}

// time runs one case.
func (b *bed) time(ctx context.Context, j job) (_ Record, err error) {
	if j.release != nil {
		defer func() { err = errors.Join(err, j.release()) }()
	}
	sets, resident := 1, "cache"
	if !b.o.Cached {
		sets, resident = setCount(j.footprint, b.cache(), b.o.MaxBytes), "memory"
	}
	run, check, err := j.setup(sets)
	if err != nil {
		return Record{}, err
	}
	ring := j.ring
	if ring == nil {
		ring = b.ring
	}
	r := Record{
		Op: j.op, Method: j.method, Params: b.name, LogN: ring.LogN(), Limbs: j.limbs, Dnum: b.dnum(),
		Batch:   max(j.batch, 1),
		Backend: b.o.Backend.Name(), Device: b.o.Backend.Device(), Workers: b.o.Workers, N2: b.o.N2, Resident: resident,
		Bytes: j.bytes, Clock: ClockHost,
	}
	// What the set-up left behind must not be collected on the clock.
	runtime.GC()
	wall, err := measure(ctx, b.o.MinTime, sets, func(i int) error {
		if err := run(i); err != nil {
			return err
		}
		return ring.Sync()
	})
	if err != nil {
		return Record{}, err
	}
	wall.fill(&r)
	if j.parts != nil {
		r.Split = j.parts.medians()
	}
	if m, ok := ring.(meter.Meter); ok {
		before := m.Launches()
		if err := errors.Join(run(0), ring.Sync()); err != nil {
			return Record{}, err
		}
		launches := m.Launches() - before
		r.Launches = float64(launches)
		if !j.host {
			s, graphCalls, err := measureDevice(ctx, m, b.o.MinTime, sets, launches, j.alone, run)
			if err != nil {
				return Record{}, err
			}
			s.fill(&r)
			r.GraphCalls = graphCalls
			r.Clock, r.WallUS, r.WallP95US = ClockDevice, us(wall.median), us(wall.p95)
		}
	}
	if err := run(0); err != nil {
		return Record{}, err
	}
	if err := check(); err != nil {
		return Record{}, err
	}
	if j.packed != nil {
		r.CiphertextBytes = *j.packed
	}
	return r, nil
}
