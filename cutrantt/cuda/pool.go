package cuda

import (
	"errors"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// pool hands out device memory of one ring. Blocks that come back are handed
// out again without waiting, as all uses are ordered by the ring's stream. It
// owns the stream and is destroyed when nothing refers to it any more.
type pool struct {
	b        *backend
	stream   driver.Stream
	launcher *driver.Launcher // of the ring; its graphs are destroyed with the stream
	loader   *loader          // of the ring, once it has loaded packed residues

	mu    sync.Mutex
	free  map[block][]driver.Pointer
	held  map[driver.Pointer]bool // every block: whether it is mapped host memory
	out   int                     // bytes handed out
	limit int                     // of out, at which dropped batches are collected
	least int                     // least limit
}

// block is a kind of memory: its size class in bytes, and whether it is host
// memory that the GPU uses in place.
type block struct {
	size   int
	mapped bool
}

// newPool needs the backend's context on this thread.
func newPool(b *backend) (*pool, error) {
	s, err := b.drv.NewStream()
	if err != nil {
		return nil, err
	}
	p := &pool{
		b: b, stream: s, free: make(map[block][]driver.Pointer), held: make(map[driver.Pointer]bool),
		limit: b.collectAt, least: b.collectAt,
	}
	runtime.SetFinalizer(p, (*pool).destroy)
	return p, nil
}

// destroy gives everything back to the driver, which waits for the device.
func (p *pool) destroy() {
	go func() { // finalisers have to be quick
		_ = p.b.locked(func() error {
			err := p.b.drv.Wait(p.stream)
			if p.loader != nil {
				err = errors.Join(err, p.loader.close(p.b))
			}
			for m, mapped := range p.held {
				err = errors.Join(err, p.release(m, mapped))
			}
			if p.launcher != nil {
				err = errors.Join(err, p.launcher.Forget())
			}
			return errors.Join(err, p.b.drv.DestroyStream(p.stream))
		})
	}()
}

// release gives one block back to the driver.
func (p *pool) release(m driver.Pointer, mapped bool) error {
	if mapped {
		return p.b.drv.FreeMapped(m)
	}
	return p.b.drv.Free(m)
}

// class rounds a size up to four steps per octave, at least 512 bytes.
func class(bytes int) int {
	bytes = max(bytes, 512)
	step := 1 << (bits.Len(uint(bytes-1)) - 3)
	return (bytes + step - 1) / step * step
}

// get allocates device memory for at least n words of any content. It needs the
// backend's context on this thread. Go's collector does not see device memory,
// so it is run when much has been handed out since it ran last.
func (p *pool) get(n int) (driver.Pointer, error) { return p.kind(block{class(4 * n), false}) }

// kind is get for a kind of memory.
func (p *pool) kind(k block) (driver.Pointer, error) {
	if p.full(k.size) {
		p.collect(k)
	}
	m, err := p.take(k)
	if errors.Is(err, ErrMemory) {
		p.collect(k)
		p.trim()
		m, err = p.take(k)
	}
	return m, err
}

// fresh allocates device memory for n words that nothing has used, until the pool ends. It needs the backend's
// context.
func (p *pool) fresh(n int) (driver.Pointer, error) {
	size := class(4 * n)
	m, err := p.b.drv.Alloc(size)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[m] = false
	p.out += size
	return m, nil
}

// full reports whether size more bytes exceed the limit.
func (p *pool) full(size int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out+size > p.limit
}

// take hands out a free block, or asks the driver for one.
func (p *pool) take(k block) (m driver.Pointer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.free[k]; len(l) > 0 {
		m, p.free[k] = l[len(l)-1], l[:len(l)-1]
		p.out += k.size
		return m, nil
	}
	if k.mapped {
		m, err = p.b.drv.AllocMapped(k.size)
	} else {
		m, err = p.b.drv.Alloc(k.size)
	}
	if err != nil {
		return 0, err
	}
	p.held[m] = k.mapped
	p.out += k.size
	return m, nil
}

// again hands out a free block without asking the driver, below the limit.
func (p *pool) again(k block) (m driver.Pointer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.free[k]
	if len(l) == 0 || p.out+k.size > p.limit {
		return 0, false
	}
	m, p.free[k] = l[len(l)-1], l[:len(l)-1]
	p.out += k.size
	return m, true
}

// collect runs Go's collector, whose finalisers put dropped batches back, and
// waits a little for one of this size. The limit becomes twice what is in use.
func (p *pool) collect(k block) {
	runtime.GC()
	for range 10 { // the finalisers run on their own
		p.mu.Lock()
		ready := len(p.free[k]) > 0
		p.limit = max(p.least, 2*p.out)
		p.mu.Unlock()
		if ready {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// put takes back memory of n words that get gave.
func (p *pool) put(m driver.Pointer, n int) { p.back(m, block{class(4 * n), false}) }

// back takes back a block of a kind.
func (p *pool) back(m driver.Pointer, k block) {
	p.mu.Lock()
	p.free[k] = append(p.free[k], m)
	p.out -= k.size
	p.mu.Unlock()
}

// trim gives unused blocks back to the driver, when the stream is done.
func (p *pool) trim() {
	if p.b.drv.Wait(p.stream) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, l := range p.free {
		for _, m := range l {
			if p.release(m, k.mapped) == nil {
				delete(p.held, m)
			}
		}
		delete(p.free, k)
	}
}
