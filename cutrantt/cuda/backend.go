package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/shelves"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
	"github.com/hencedge/hencedge/kernels"
)

var (
	_ cutrantt.Backend    = (*backend)(nil)
	_ meter.Profiler      = (*backend)(nil)
	_ cutrantt.Preference = (*backend)(nil)
	_ cutrantt.Tuner      = (*backend)(nil)
	_ cutrantt.Ring       = (*ring)(nil)
	_ cutrantt.Health     = (*ring)(nil)
	_ cutrantt.Recorder   = (*ring)(nil)
	_ meter.Meter         = (*ring)(nil)
	_ cutrantt.Operand    = (*operand)(nil)
)

// ErrMemory: the GPU's memory, or pinned host memory, is exhausted.
var ErrMemory = cutrantt.ErrMemory

// backend is one GPU with its kernels loaded.
type backend struct {
	drv    *driver.Driver
	dev    driver.Device
	ctx    driver.Context
	about  Device
	shared int  // bytes of shared memory that one block may use
	tensor bool // mma of bytes (kernels/extend.cu)
	early  bool // the kernels wait for their predecessors themselves
	fuseUp bool // kernels/digits.cuh is used
	oneKey bool // kernels/onekey.cu is used
	graphs graphUse
	mapped bool // batches lie in host memory that the GPU uses in place
	// collectAt is how much memory in use makes a ring look for dropped batches.
	collectAt int
	scratch   int // bytes of intermediate results of one set of launches
	kernels   map[string]*kernel
	staging   staging
	stage     *shelves.Shelves // pinned memory for what is loaded soon
	tuning    tuning

	lost  atomic.Pointer[error] // what the context failed with
	calls atomic.Int64          // under way in the driver, or in memory of the context
}

// opened keeps one backend per device for the life of the process, as contexts
// and kernels are costly.
var opened struct {
	sync.Mutex
	m map[place]*backend
}

// place is a device as one driver counts it.
type place struct {
	library string
	ordinal int
}

// New opens the first GPU. The error names the step that failed: open, symbol,
// init, capability, module or self-test, and wraps cutrantt.ErrNotSupported.
func New() (cutrantt.Backend, error) { return Open(0) }

// Open opens the GPU with an ordinal; see New. A GPU that failed since it was
// opened is opened anew, with a new context; rings on the old one stay broken.
func Open(ordinal int) (cutrantt.Backend, error) {
	opened.Lock()
	defer opened.Unlock()
	at := place{os.Getenv(driver.LibraryVariable), ordinal}
	old := opened.m[at]
	if old != nil && old.err() == nil {
		return old, nil
	}
	var err error
	if old != nil {
		err = old.abandon()
	}
	var b *backend
	if err == nil {
		b, err = open(ordinal)
	}
	if err != nil {
		return nil, fmt.Errorf("cuda: %w: %w", cutrantt.ErrNotSupported, err)
	}
	if opened.m == nil {
		opened.m = make(map[place]*backend)
	}
	opened.m[at] = b
	return b, nil
}

func open(ordinal int) (*backend, error) {
	drv, err := start()
	if err != nil {
		return nil, err
	}
	b := &backend{drv: drv, kernels: make(map[string]*kernel)}
	b.staging.b = b
	b.stage = shelves.New(chunk, cutrantt.MostStaged/chunk)
	if err := b.inspect(ordinal); err != nil {
		return nil, fmt.Errorf("capability: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if b.ctx, err = drv.PrimaryContext(b.dev); err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	if err := b.prepare(); err != nil {
		// A context holds much memory, which on boards is the processor's.
		b.lost.CompareAndSwap(nil, &err)
		return nil, errors.Join(err, b.abandon())
	}
	return b, nil
}

// prepare makes a new context ready.
func (b *backend) prepare() error {
	if err := b.drv.SetCurrent(b.ctx); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if err := b.load(); err != nil {
		return fmt.Errorf("module: %w", err)
	}
	if err := selfTest(b); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	return nil
}

// start opens and initialises the driver.
func start() (*driver.Driver, error) {
	drv, err := driver.Open()
	if err != nil {
		return nil, err
	}
	if err := drv.Init(); err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	return drv, nil
}

// inspect finds the device and checks what it can do.
func (b *backend) inspect(ordinal int) error {
	n, err := b.drv.Count()
	if err != nil {
		return err
	}
	if ordinal < 0 || ordinal >= n {
		return fmt.Errorf("no device %d, this machine has %d", ordinal, n)
	}
	if b.about, err = describe(b.drv, ordinal); err != nil {
		return err
	}
	if err := b.about.usable(); err != nil {
		return err
	}
	if b.dev, err = b.drv.Device(ordinal); err != nil {
		return err
	}
	if b.shared, err = b.drv.Attribute(b.dev, driver.SharedOptInMemory); err != nil {
		return err
	}
	b.collectAt = max(256<<20, int(b.about.Memory/32))
	b.scratch = int(min(mostScratch, b.about.Memory/8))
	b.tensor = b.about.Capability >= 80
	b.fuseUp = b.tensor
	// kernels/onekey.cu is compiled for these
	b.oneKey = (b.about.Capability == 80 || b.about.Capability >= 90) && b.shared >= oneKeyShared
	b.early = b.about.Capability/10 == 9 // kernels/arith.cuh, in the machine code for sm_90
	if b.graphs, err = graphMode(b.drv); err != nil {
		return err
	}
	b.mapped, err = memoryMode(b.drv, b.dev, b.about.Integrated)
	return err
}

// load loads every module and finds every kernel.
func (b *backend) load() error {
	for _, m := range kernels.Modules {
		module, err := b.drv.LoadModule(m.Image())
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		for _, name := range m.Entries {
			f, err := b.drv.Function(module, name)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", m.Name, name, err)
			}
			b.kernels[name] = &kernel{fn: f}
		}
	}
	for _, p := range plans {
		for _, direction := range []string{"forward", "inverse", "encrypt_forward", "down"} {
			if err := b.allowShared(p.name(direction), p.shared()); err != nil {
				return err
			}
		}
	}
	return b.allowShared("onekey_4", oneKeyShared)
}

// allowShared lets a kernel, if there is one, have more shared memory than a block may
// without asking, if the device has so much.
func (b *backend) allowShared(name string, bytes int) error {
	k := b.kernels[name]
	if k == nil || bytes <= 48<<10 || bytes > b.shared {
		return nil
	}
	if err := b.drv.AllowShared(k.fn, bytes); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Columns is the n2 with which an H200 switches keys fastest (docs/benchmarks.md):
// small rings fill the GPU better with few columns, in large ones the transforms
// of more columns are cheaper. Encryption keeps henc.DefaultN2.
func (b *backend) Columns(logN int) int {
	if logN <= 14 {
		return 4
	}
	return 8
}

// SumColumns is the n2 with which an H200 bootstraps fastest, and for which there is a kernel of SumProducts
// (docs/lab/gpu.md).
func (b *backend) SumColumns(int) int { return sumsColumns }

// Ordinal is the number that Open takes.
func (b *backend) Ordinal() int { return b.about.Ordinal }

// Memory is the GPU's memory. Of an integrated GPU it is the computer's.
func (b *backend) Memory() uint64 { return b.about.Memory }

func (b *backend) Name() string { return "cuda" }
func (b *backend) Device() string {
	if b.mapped {
		return b.about.String() + ", batches in mapped host memory"
	}
	return b.about.String()
}

// NewRing checks the moduli and puts them on the device; tables are computed
// there by the first operation that needs them.
func (b *backend) NewRing(logN int, moduli []cutrantt.Modulus, opts cutrantt.Options) (cutrantt.Ring, error) {
	r, err := b.newRing(logN, moduli, opts)
	if err != nil {
		return nil, err // not a nil *ring in an interface
	}
	return r, nil
}

// maxLimbs is the most limbs of a launch: the y extent of a grid.
const maxLimbs = 65535

func (b *backend) newRing(logN int, moduli []cutrantt.Modulus, opts cutrantt.Options) (*ring, error) {
	c, err := check.NewRing(logN, moduli, opts)
	if err != nil {
		return nil, err
	}
	if len(moduli) > maxLimbs {
		return nil, fmt.Errorf(
			"%w: %d moduli, at most %d are possible", cutrantt.ErrNotSupported, len(moduli), maxLimbs,
		)
	}
	r := b.emptyRing(c, opts.Method)
	err = b.locked(func() (err error) {
		if err = r.open(); err != nil {
			return err
		}
		words := make([]uint32, 0, len(moduli)*modWords)
		for _, m := range moduli {
			words = append(words, modulusWords(m)...)
		}
		r.mods, err = r.constant(words)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// emptyRing makes a ring without memory and a stream, which open gives it.
func (b *backend) emptyRing(c *check.Ring, m cutrantt.Method) *ring {
	r := &ring{backend: b, check: c, n: c.N(), logN: c.LogN(), method: m}
	r.lists, r.bases, r.passes = make(map[string]pointer), make(map[string]basis), make(map[plan]table)
	r.conversions, r.fews, r.switchings = make(map[string]conversion), make(map[string]few), make(map[string]*switching)
	r.packings = make(map[string]packing)
	return r
}

// open needs the backend's context.
func (r *ring) open() (err error) {
	if r.pool, err = newPool(r.backend); err != nil {
		return err
	}
	r.launcher = r.backend.drv.NewLauncher(r.pool.stream, r.backend.early)
	r.pool.launcher = r.launcher
	return nil
}

// locked runs f on a thread with the backend's context. On a GPU that failed it
// does not: the error then is what it failed with.
func (b *backend) locked(f func() error) error {
	b.calls.Add(1)
	defer b.calls.Add(-1)
	if err := b.err(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := b.drv.SetCurrent(b.ctx)
	if err == nil {
		err = f()
	}
	if errors.Is(err, cutrantt.ErrDevice) {
		b.lost.CompareAndSwap(nil, &err)
	}
	return err
}

// err is what the GPU failed with, or nil.
func (b *backend) err() error {
	if p := b.lost.Load(); p != nil {
		return fmt.Errorf("%w, earlier: %w", cutrantt.ErrDevice, *p)
	}
	return nil
}

// abandonTime is how long calls may take to leave a context that failed.
var abandonTime = 10 * time.Second

// abandon gives up the context of a GPU that failed, when no call is under way
// in it: the memory that they use goes with it. Afterwards its rings call the driver
// no more. It fails where a call hangs.
func (b *backend) abandon() error {
	for start := time.Now(); b.calls.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > abandonTime {
			return fmt.Errorf("init: a call in the context that failed has not returned for %v", abandonTime)
		}
	}
	_ = b.drv.ResetContext(b.dev) // a failed context may refuse even this; opening it anew then fails and says why
	return nil
}
