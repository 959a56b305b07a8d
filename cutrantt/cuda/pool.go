package cuda

import (
	"errors"
	"math/bits"
	"runtime"
	"sync"

	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// pool hands out device memory of one ring. Blocks that come back are handed
// out again without waiting, as all uses are ordered by the ring's stream. It
// owns the stream and is destroyed when nothing refers to it any more.
type pool struct {
	b      *backend
	stream driver.Stream

	mu   sync.Mutex
	free map[int][]driver.Pointer // by size class, in bytes
	held []driver.Pointer         // every block
}

// newPool needs the backend's context on this thread.
func newPool(b *backend) (*pool, error) {
	s, err := b.drv.NewStream()
	if err != nil {
		return nil, err
	}
	p := &pool{b: b, stream: s, free: make(map[int][]driver.Pointer)}
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
// backend's context on this thread.
func (p *pool) get(n int) (driver.Pointer, error) {
	size := class(4 * n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.free[size]; len(l) > 0 {
		m := l[len(l)-1]
		p.free[size] = l[:len(l)-1]
		return m, nil
	}
	m, err := p.b.drv.Alloc(size)
	if errors.Is(err, ErrMemory) && p.trim() {
		m, err = p.b.drv.Alloc(size)
	}
	if err != nil {
		return 0, err
	}
	p.held = append(p.held, m)
	return m, nil
}

// put takes back memory of n words.
func (p *pool) put(m driver.Pointer, n int) {
	size := class(4 * n)
	p.mu.Lock()
	p.free[size] = append(p.free[size], m)
	p.mu.Unlock()
}

// trim gives unused blocks back to the driver and reports whether it did.
func (p *pool) trim() bool {
	if p.b.drv.Wait(p.stream) != nil {
		return false
	}
	gone := make(map[driver.Pointer]bool)
	for size, l := range p.free {
		for _, m := range l {
			gone[m] = p.b.drv.Free(m) == nil
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
	return len(gone) > 0
}
