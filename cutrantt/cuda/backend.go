package cuda

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
	"github.com/hencedge/hencedge/kernels"
)

var (
	_ cutrantt.Backend = (*backend)(nil)
	_ cutrantt.Ring    = (*ring)(nil)
	_ cutrantt.Operand = (*operand)(nil)
)

// ErrMemory: the GPU's memory, or pinned host memory, is exhausted.
var ErrMemory = driver.ErrMemory

// leastCapability is the oldest supported compute capability, times 10.
const leastCapability = 80

// backend is one GPU with its kernels loaded.
type backend struct {
	drv    *driver.Driver
	ctx    driver.Context
	device string
	shared int  // bytes of shared memory that one block may use
	tensor bool // mma of bytes (kernels/extend.cu)
	early  bool // the kernels wait for their predecessors themselves
	// collectAt is how much memory in use makes a ring look for dropped batches.
	collectAt int
	kernels   map[string]driver.Function
	staging   staging
}

// opened keeps one backend per device for the life of the process, as contexts
// and kernels are costly.
var opened struct {
	sync.Mutex
	m map[int]*backend
}

// New opens the first GPU. The error names the step that failed: open, symbol,
// init, capability, module or self-test, and wraps cutrantt.ErrNotSupported.
func New() (cutrantt.Backend, error) { return Open(0) }

// Open opens the GPU with an ordinal; see New.
func Open(ordinal int) (cutrantt.Backend, error) {
	opened.Lock()
	defer opened.Unlock()
	if b := opened.m[ordinal]; b != nil {
		return b, nil
	}
	b, err := open(ordinal)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w: %w", cutrantt.ErrNotSupported, err)
	}
	if opened.m == nil {
		opened.m = make(map[int]*backend)
	}
	opened.m[ordinal] = b
	return b, nil
}

func open(ordinal int) (*backend, error) {
	drv, err := driver.Open()
	if err != nil {
		return nil, err
	}
	if err := drv.Init(); err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	b := &backend{drv: drv, kernels: make(map[string]driver.Function)}
	b.staging.b = b
	dev, err := b.inspect(ordinal)
	if err != nil {
		return nil, fmt.Errorf("capability: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if b.ctx, err = drv.PrimaryContext(dev); err == nil {
		err = drv.SetCurrent(b.ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	if err := b.load(); err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	if err := selfTest(b); err != nil {
		return nil, fmt.Errorf("self-test: %w", err)
	}
	return b, nil
}

// inspect finds the device and checks what it can do.
func (b *backend) inspect(ordinal int) (driver.Device, error) {
	n, err := b.drv.Count()
	if err != nil {
		return 0, err
	}
	if ordinal < 0 || ordinal >= n {
		return 0, fmt.Errorf("no device %d, this machine has %d", ordinal, n)
	}
	dev, err := b.drv.Device(ordinal)
	if err != nil {
		return 0, err
	}
	name, err := b.drv.Name(dev)
	if err != nil {
		return 0, err
	}
	var value [4]int
	for i, a := range []driver.Attribute{driver.ComputeMajor, driver.ComputeMinor, driver.Multiprocessors, driver.SharedOptInMemory} {
		if value[i], err = b.drv.Attribute(dev, a); err != nil {
			return 0, err
		}
	}
	version, err := b.drv.Version()
	if err != nil {
		return 0, err
	}
	memory, err := b.drv.TotalMemory(dev)
	if err != nil {
		return 0, err
	}
	if 10*value[0]+value[1] < leastCapability {
		return 0, fmt.Errorf("%s has compute capability %d.%d, at least %d.%d is needed", name, value[0], value[1], leastCapability/10, leastCapability%10)
	}
	b.shared, b.tensor = value[3], value[0] >= 8
	b.collectAt = max(256<<20, int(memory/32))
	b.early = value[0] == 9 // kernels/arith.cuh, in the machine code for sm_90
	b.device = fmt.Sprintf("%s, compute capability %d.%d, %d multiprocessors, %d MiB, CUDA %d.%d", name, value[0], value[1], value[2], memory>>20, version/1000, version%1000/10)
	return dev, nil
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
			b.kernels[name] = f
		}
	}
	for _, p := range plans {
		if n := p.shared(); n > 48<<10 && n <= b.shared {
			for _, name := range []string{p.name("forward"), p.name("inverse")} {
				if err := b.drv.AllowShared(b.kernels[name], n); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

func (b *backend) Name() string   { return "cuda" }
func (b *backend) Device() string { return b.device }

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
		return nil, fmt.Errorf("%w: %d moduli, at most %d are possible", cutrantt.ErrNotSupported, len(moduli), maxLimbs)
	}
	r := &ring{backend: b, check: c, n: c.N(), logN: c.LogN(), method: opts.Method}
	r.lists, r.bases, r.passes = make(map[string]pointer), make(map[string]basis), make(map[plan]table)
	r.conversions = make(map[string]conversion)
	err = b.locked(func() (err error) {
		if r.pool, err = newPool(b); err != nil {
			return err
		}
		r.launcher = b.drv.NewLauncher(r.pool.stream, b.early)
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

// locked runs f on a thread with the backend's context.
func (b *backend) locked(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := b.drv.SetCurrent(b.ctx); err != nil {
		return err
	}
	return f()
}
