package cuda

import (
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// slot mirrors struct Slot of kernels/args.cuh: an operand of one item.
type slot struct {
	at     driver.Pointer
	stride uint64
}

// slots are the operands of one item; each kernel says what they are.
type slots [4]slot

// manyArgs mirrors struct Many of kernels/args.cuh.
type manyArgs struct {
	args
	table driver.Pointer
	roots driver.Pointer
	rs    uint64
	one   slots
}

// mostItems is how many items one launch takes: their slots are copied to the
// device without waiting.
const mostItems = pageable / int(unsafe.Sizeof(slots{}))

func (t tensor) slot() slot { return slot(t) }

// many queues a kernel over items on a grid of x*y blocks.
func (r *ring) many(name string, x, y, threads, shared int, a args, roots table, items []slots) error {
	m := &r.manyArgs
	*m = manyArgs{args: a, roots: roots.at, rs: roots.stride}
	m.mods, m.logN = r.mods, uint32(r.logN)
	if len(items) == 1 {
		m.one = items[0]
		return r.start(name, x, y, threads, shared, unsafe.Pointer(m), int(unsafe.Sizeof(*m)))
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&items[0])), len(items)*int(unsafe.Sizeof(items[0]))/8)
	return r.with(bytesOf(words), func(table pointer) error {
		m.table = table
		return r.start(name, x, y, threads, shared, unsafe.Pointer(m), int(unsafe.Sizeof(*m)))
	})
}

// manyColumns is ring.columns for kernels over items; plain is the table of
// twiddles in plain order besides.
func (r *ring) manyColumns(name string, polys int, limbs []int, n2 int, a args, plain table, items []slots) error {
	p, a, err := r.columnArgs(name, limbs, n2, a)
	if err != nil {
		return err
	}
	return r.many(p.name(name), polys*(r.n>>p.block), len(limbs), p.threads(), p.shared(), a, plain, items)
}
