package cuda

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// MemoryVariable is the environment variable that says where batches lie:
// "device" for the GPU's own memory, "mapped" for host memory that the GPU reads
// and writes in place, "auto" or nothing for mapped memory on integrated GPUs.
const MemoryVariable = "CUTRANTT_CUDA_MEMORY"

// memoryMode reports whether batches lie in mapped host memory. An integrated
// GPU has no memory of its own: a copy to device memory would move each residue
// through the same chips twice. Mapped memory is not cached by such a GPU, which
// is why only batches lie there, whose residues a kernel reads once; tables, keys
// and intermediate results are read again and again and stay in device memory.
func memoryMode(drv *driver.Driver, dev driver.Device, integrated bool) (mapped bool, err error) {
	mode := os.Getenv(MemoryVariable)
	switch {
	case mode == "device" || (mode == "" || mode == "auto") && !integrated:
		return false, nil
	case mode != "" && mode != "auto" && mode != "mapped":
		return false, fmt.Errorf("%s is %q: use auto, device or mapped", MemoryVariable, mode)
	}
	for _, a := range []driver.Attribute{driver.MapHostMemory, driver.UnifiedAddressing} {
		can, err := drv.Attribute(dev, a)
		if err != nil {
			return false, err
		}
		if can == 0 {
			if mode == "mapped" {
				return false, fmt.Errorf("%s is mapped, and this GPU cannot use host memory in place", MemoryVariable)
			}
			return false, nil
		}
	}
	return true, nil
}

// memory is the handle in a batch.
type memory struct {
	owner *check.Ring
	pool  *pool
	at    driver.Pointer
	// mapped: the processor may use it too, at the same address, when the
	// stream is done with it.
	mapped bool

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
		m.pool.back(m.at, block{class(4 * m.words), m.mapped})
		m.words = 0
	}
}

// allocate makes device memory of n words, of any content, that goes back to
// the pool when nothing refers to it.
func (r *ring) allocate(n int) (*memory, error) { return r.allocateKind(n, false) }

func (r *ring) allocateKind(n int, mapped bool) (*memory, error) {
	at, err := r.pool.kind(block{class(4 * n), mapped})
	if err != nil {
		return nil, err
	}
	return r.own(at, n, mapped), nil
}

// reuse is allocateKind without a turn of the ring, for memory that came back before; nil: there
// is none. What used it was queued before it came back, and what will use it is queued in a
// later turn, so the stream keeps the order.
func (r *ring) reuse(n int, mapped bool) *memory {
	if r.backend.err() != nil {
		return nil // exec says so
	}
	at, ok := r.pool.again(block{class(4 * n), mapped})
	if !ok {
		return nil
	}
	return r.own(at, n, mapped)
}

func (r *ring) own(at driver.Pointer, n int, mapped bool) *memory {
	m := &memory{owner: r.check, pool: r.pool, at: at, mapped: mapped, words: n}
	runtime.SetFinalizer(m, (*memory).release)
	return m
}

func (r *ring) NewBatch(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	if err := r.check.Shape(polys, limbs, d); err != nil {
		return nil, err
	}
	r.tune(int(d.N2))
	n := polys * len(limbs) * r.n
	var m *memory
	err := r.exec(func() (err error) {
		if m, err = r.allocateKind(n, r.backend.mapped); err != nil {
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

// pointer is where the GPU finds the buffer: with unified addressing, at the
// processor's address.
func (b *buffer) pointer() driver.Pointer {
	return driver.Pointer(uintptr(unsafe.Pointer(&b.bytes[0])))
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

// mostTable is the most bytes of a table that stays on the device, keptTables how many do.
const (
	mostTable  = 4 << 10
	keptTables = 512
)

// kept is the tables that were copied to the device last.
type kept struct {
	at      pointer        // room for keptTables; 0 before the first
	places  map[string]int // by content
	content [keptTables]string
	next    int // the place that is taken next
}

// table is with for addresses and public constants. They come again when operations do, as the pool hands out memory in
// an order that repeats. So they are copied only if they are not there from before: a copy keeps the kernel that reads
// it from being placed while the one ahead still runs.
func (r *ring) table(data []byte, f func(x pointer) error) error {
	if r.recorded != nil || r.backend.mapped || len(data) == 0 || len(data) > mostTable {
		return r.with(data, f)
	}
	k := &r.kept
	place, ok := k.places[string(data)]
	if !ok {
		var err error
		if place, err = k.add(r, data); err != nil {
			return err
		}
	}
	return f(k.at + pointer(place*mostTable))
}

// add copies data to the next place. What reads the table that was there is ahead in the stream.
func (k *kept) add(r *ring, data []byte) (place int, err error) {
	if k.at == 0 {
		if k.at, err = r.pool.get(keptTables * mostTable / 4); err != nil {
			return 0, err
		}
		k.places = make(map[string]int, keptTables)
	}
	place = k.next
	k.next = (place + 1) % keptTables
	delete(k.places, k.content[place])
	k.content[place] = ""
	if err := r.backend.drv.CopyIn(k.at+pointer(place*mostTable), data, r.pool.stream); err != nil {
		return 0, err
	}
	k.content[place] = string(data)
	k.places[k.content[place]] = place
	return place, nil
}
