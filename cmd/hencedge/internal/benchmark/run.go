package benchmark

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Options select what Run measures. Backend is required; every other zero
// value means the default.
type Options struct {
	Backend  cutrantt.Backend
	Params   []henc.Parameters // default: every secure named set
	Ops      []string          // default: all of Ops
	Methods  []cutrantt.Method // Hadamard methods; default: all
	N2       int               // default: henc.DefaultN2
	Batch    int               // ciphertexts a call, of the operations that take several; default 1
	Workers  int               // default: GOMAXPROCS
	MinTime  time.Duration     // least timed time of a case; default 300 ms
	Cached   bool              // one set of inputs instead of memory-resident sets
	MaxBytes int64             // most memory for the inputs of a case; default 1 GiB
	Seed     uint64            // of the random inputs; the same seed gives the same inputs
}

func (o *Options) setDefaults() error {
	if o.Backend == nil {
		return errors.New("benchmark: no backend")
	}
	if len(o.Params) == 0 {
		for _, name := range henc.Names() {
			p, err := henc.Named(name)
			if err != nil {
				return err
			}
			o.Params = append(o.Params, p)
		}
	}
	if len(o.Ops) == 0 {
		o.Ops = Ops()
	}
	for _, op := range o.Ops {
		if !slices.Contains(Ops(), op) {
			return fmt.Errorf("benchmark: no operation %q", op)
		}
	}
	if len(o.Methods) == 0 {
		o.Methods = cutrantt.Methods()
	}
	if o.N2 == 0 {
		o.N2 = henc.DefaultN2
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.MinTime <= 0 {
		o.MinTime = 300 * time.Millisecond
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	return nil
}

// job is one case: one operation of one parameter set.
type job struct {
	op, method string
	limbs      int
	bytes      int64         // least traffic of a call
	footprint  int64         // memory of one set of inputs (and outputs that are reused)
	batch      int           // polynomials or ciphertexts a call; 0 means 1
	ring       cutrantt.Ring // that does the work; nil: the bed's
	// alone: one call between two events, since what a call does on the host
	// would count otherwise. host: the host's clock alone counts.
	alone, host bool
	parts       *parts // of a call, where they are told apart
	packed      *int   // set by check: the bytes of one ciphertext on the wire
	// setup makes the sets; run uses one of them; check compares the result
	// of run(0) with an independent path.
	setup func(sets int) (run func(set int) error, check func() error, err error)
	// release is called in the end, after an error too; nil: there is nothing to do.
	release func() error
}

// Run measures every selected case and hands each record to emit as soon as it
// is there. Before the records of an operation comes the copy record with the
// same traffic. A kernel whose result is wrong ends the run with an error.
func Run(ctx context.Context, o Options, emit func(Record) error) error {
	if err := o.setDefaults(); err != nil {
		return err
	}
	for _, p := range o.Params {
		b, err := newBed(p, o)
		if err != nil {
			return fmt.Errorf("benchmark %s: %w", p.Name(), err)
		}
		for _, op := range Ops() {
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
	return nil
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
