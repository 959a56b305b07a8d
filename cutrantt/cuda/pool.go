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
	b      *backend
	stream driver.Stream

	mu    sync.Mutex
	free  map[int][]driver.Pointer // by size class, in bytes
	held  []driver.Pointer         // every block
	out   int                      // bytes handed out
	limit int                      // of out, at which dropped batches are collected
	least int                      // least limit
}

// newPool needs the backend's context on this thread.
func newPool(b *backend) (*pool, error) {
	s, err := b.drv.NewStream()
	if err != nil {
		return nil, err
	}
	p := &pool{b: b, stream: s, free: make(map[int][]driver.Pointer), limit: b.collectAt, least: b.collectAt}
	runtime.SetFinalizer(p, (*pool).destroy)
	return p, nil
}

// destroy gives everything back to the driver, which waits for the device.
func (p *pool) destroy() {
	go func() { // finalisers have to be quick
		_ = p.b.locked(func() error {
			err := p.b.drv.Wait(p.stream)
			for _, m := range p.held {
				err = errors.Join(err, p.b.drv.Free(m))
			}
			return errors.Join(err, p.b.drv.DestroyStream(p.stream))
		})
	}()
}

// class rounds a size up to four steps per octave, at least 512 bytes.
func class(bytes int) int {
	bytes = max(bytes, 512)
	step := 1 << (bits.Len(uint(bytes-1)) - 3)
	return (bytes + step - 1) / step * step
}

// get allocates memory for at least n words of any content. It needs the
// backend's context on this thread. Go's collector does not see device memory,
// so it is run when much has been handed out since it ran last.
func (p *pool) get(n int) (driver.Pointer, error) {
	size := class(4 * n)
	if p.full(size) {
		p.collect(size)
	}
	m, err := p.take(size)
	if errors.Is(err, ErrMemory) {
		p.collect(size)
		p.trim()
		m, err = p.take(size)
	}
	return m, err
}

// full reports whether size more bytes exceed the limit.
func (p *pool) full(size int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out+size > p.limit
}

// take hands out a free block, or asks the driver for one.
func (p *pool) take(size int) (m driver.Pointer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.free[size]; len(l) > 0 {
		m, p.free[size] = l[len(l)-1], l[:len(l)-1]
	} else if m, err = p.b.drv.Alloc(size); err != nil {
		return 0, err
	} else {
		p.held = append(p.held, m)
	}
	p.out += size
	return m, nil
}

// collect runs Go's collector, whose finalisers put dropped batches back, and
// waits a little for one of this size. The limit becomes twice what is in use.
func (p *pool) collect(size int) {
	runtime.GC()
	for range 10 { // the finalisers run on their own
		p.mu.Lock()
		ready := len(p.free[size]) > 0
		p.limit = max(p.least, 2*p.out)
		p.mu.Unlock()
		if ready {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// put takes back memory of n words.
func (p *pool) put(m driver.Pointer, n int) {
	size := class(4 * n)
	p.mu.Lock()
	p.free[size] = append(p.free[size], m)
	p.out -= size
	p.mu.Unlock()
}

// trim gives unused blocks back to the driver, when the stream is done.
func (p *pool) trim() {
	if p.b.drv.Wait(p.stream) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := make(map[driver.Pointer]bool)
	for size, l := range p.free {
		for _, m := range l {
			if p.b.drv.Free(m) == nil {
				gone[m] = true
			}
		}
		delete(p.free, size)
	}
	left := p.held[:0]
	for _, m := range p.held {
		if !gone[m] {
			left = append(left, m)
		}
	}
	p.held = left
}
