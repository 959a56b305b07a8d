package cuda

import (
	"runtime"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// memory is the handle in a batch.
type memory struct {
	owner *check.Ring
	pool  *pool
	at    driver.Pointer

	mu    sync.Mutex
	words int // 0 once freed
}

func (m *memory) Owner() *check.Ring { return m.owner }

func (m *memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.words
}

// release puts the memory back into the pool, once.
func (m *memory) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.words > 0 {
		m.pool.put(m.at, m.words)
		m.words = 0
	}
}

// allocate makes memory of n words, of any content, that goes back to the pool
// when nothing refers to it.
func (r *ring) allocate(n int) (*memory, error) {
	at, err := r.pool.get(n)
	if err != nil {
		return nil, err
	}
	m := &memory{owner: r.check, pool: r.pool, at: at, words: n}
	runtime.SetFinalizer(m, (*memory).release)
	return m, nil
}

func (r *ring) NewBatch(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	if err := r.check.Shape(polys, limbs, d); err != nil {
		return nil, err
	}
	n := polys * len(limbs) * r.n
	var m *memory
	err := r.exec(func() (err error) {
		if m, err = r.allocate(n); err != nil {
			return err
		}
		return r.backend.drv.Fill(m.at, 0, n, r.pool.stream)
	})
	if err != nil {
		return nil, err
	}
	return cutrantt.MakeBatch(cutrantt.Shape{Polys: polys, Limbs: limbs, Domain: d}, r.n, m), nil
}

func (r *ring) Free(b *cutrantt.Batch) {
	if r.check.Batches(b) == nil {
		b.Mem().(*memory).release()
	}
}

// chunk is the size of a pinned staging buffer.
const chunk = 4 << 20

// staging keeps pinned buffers for the transfers of all rings of a backend.
type staging struct {
	b    *backend
	mu   sync.Mutex
	free []*buffer
}

// buffer is pinned memory with the event after which it may be used again.
type buffer struct {
	bytes []byte
	done  driver.Event
}

func (s *staging) get() (*buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b, nil
	}
	bytes, err := s.b.drv.AllocHost(chunk)
	if err != nil {
		return nil, err
	}
	done, err := s.b.drv.NewEvent()
	if err != nil {
		_ = s.b.drv.FreeHost(bytes)
		return nil, err
	}
	return &buffer{bytes, done}, nil
}

// put clears what was used, which may have been secret.
func (s *staging) put(b *buffer, used int) {
	clear(b.bytes[:used])
	s.mu.Lock()
	s.free = append(s.free, b)
	s.mu.Unlock()
}

// pair returns two buffers, for transfers that overlap the host's copying.
func (s *staging) pair() (p [2]*buffer, err error) {
	if p[0], err = s.get(); err != nil {
		return p, err
	}
	if p[1], err = s.get(); err != nil {
		s.put(p[0], 0)
	}
	return p, err
}

// segment is a contiguous part of a transfer.
type segment struct {
	device driver.Pointer
	host   int // first residue on the host
	n      int
	limb   int // position of its limb
}

// segments are the limbs of a batch.
func (r *ring) segments(b *cutrantt.Batch) []segment {
	base := b.Mem().(*memory).at
	var s []segment
	host := 0
	for p := range b.Polys() {
		for l := range b.Limbs() {
			s = append(s, segment{base + driver.Pointer(4*b.Offset(p, l)), host, r.n, l})
			host += r.n
		}
	}
	return s
}
