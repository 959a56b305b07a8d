package cuda

import (
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// launch queues a kernel on a grid of x*y blocks.
func launch[A kernelArgs](r *ring, name string, x, y, threads, shared int, a A) error {
	if x == 0 || y == 0 {
		return nil
	}
	p := (*A)(unsafe.Pointer(&r.arguments))
	*p = a
	r.complete(head(p))
	return r.start(name, x, y, threads, shared, int(unsafe.Sizeof(a)))
}

// launchItems queues a kernel over items on a grid of x*y blocks.
func launchItems[A kernelArgs, I item](r *ring, name string, x, y, threads, shared int, a A, items []I) error {
	p := (*itemArgs[A, I])(unsafe.Pointer(&r.arguments))
	*p = itemArgs[A, I]{own: a}
	r.complete(head(&p.own))
	size := int(unsafe.Sizeof(*p))
	if len(items) == 1 {
		p.one = items[0]
		return r.start(name, x, y, threads, shared, size)
	}
	data := unsafe.Slice((*byte)(unsafe.Pointer(&items[0])), len(items)*int(unsafe.Sizeof(items[0])))
	return r.table(data, func(table pointer) error {
		p.table = table
		return r.start(name, x, y, threads, shared, size)
	})
}

// complete sets what all kernels of the ring read.
func (r *ring) complete(a *args) { a.mods, a.logN = r.mods, uint32(r.logN) }

// head is the part that all arguments begin with.
func head[A kernelArgs](a *A) *args { return (*args)(unsafe.Pointer(a)) }

// argumentWords is room for the arguments of any kernel, in words of 64 bits.
const argumentWords = 32

// kernelArgs are the arguments of a family of kernels. Each type mirrors the structure
// of the same name in kernels/args.cuh, which says what the fields mean, and begins
// with args.
type kernelArgs interface {
	args | tableArgs | passTableArgs | splitArgs | inverseArgs | upArgs | relayoutArgs | elementArgs |
		constantArgs | combineArgs | automorphismArgs | digitArgs | basisArgs | extendArgs | sampleArgs |
		setArgs | productArgs | sumArgs | embedArgs | smallArgs | expandArgs | encryptArgs | innerArgs |
		divideArgs | collectArgs | packedArgs
}

type args struct {
	dst         driver.Pointer
	ds          uint64
	a           driver.Pointer
	as          uint64
	mods, limbs driver.Pointer
	tw          driver.Pointer
	ts          uint64
	logN, logN2 uint32
}

type tableArgs struct {
	args
	stride  uint64
	entries uint32
}

type passTableArgs struct {
	args
	stride      uint64
	logColumn   uint32
	first, each uint32
}

type splitArgs struct {
	args
	levels uint32
}

type inverseArgs struct {
	args
	last driver.Pointer
}

type upArgs struct {
	args
	digits driver.Pointer
}

type relayoutArgs struct {
	//lint:ignore U1000 head reads and writes it
	args
	logColumns uint32
}

type elementArgs struct {
	//lint:ignore U1000 head reads and writes it
	args
	b       driver.Pointer
	bs      uint64
	factors driver.Pointer
}

type constantArgs struct {
	//lint:ignore U1000 head reads and writes it
	args
	constants   driver.Pointer
	transformed uint32 // 0 or 1
}

type combineArgs struct {
	args
	factors, constants                  driver.Pointer
	terms, polys, logParts, count, more uint32
}

type automorphismArgs struct {
	args
	galois uint32
}

type digitArgs struct {
	args
	constants driver.Pointer
	sources   uint32
}

type basisArgs struct {
	args
	b                driver.Pointer
	bs               uint64
	constants        driver.Pointer
	sources, outputs uint32
}

type extendArgs struct {
	args
	conversions   driver.Pointer
	words, shares uint32
}

type sampleArgs struct {
	args
	seed         [8]uint32
	label, count uint32
}

type setArgs struct {
	args
	values driver.Pointer
	count  uint32
}

type productArgs struct {
	args
	b                 driver.Pointer
	bs                uint64
	at                driver.Pointer
	ai, bi            uint64
	terms, accumulate uint32
}

type embedArgs struct {
	args
	values, roots, coeffs driver.Pointer
	share, scale          float64
	count, each, logStep  uint32
}

type smallArgs struct {
	args
	jobs                     driver.Pointer
	labelE0, labelV, labelE1 uint32
}

type expandArgs struct {
	args
	transforms uint32
}

type encryptArgs struct {
	args
	jobs                                  driver.Pointer
	key                                   driver.Pointer
	keyStride                             uint64
	at                                    driver.Pointer
	small                                 driver.Pointer
	smallSize, messageSize, transformSize uint64
	first, maskLabel, last                uint32
}

type sumArgs struct {
	args
	terms, sums, flat, items uint32
}

type innerArgs struct {
	args
	at, sources, special        driver.Pointer
	digits, merged, lows, items uint32
}

type divideArgs struct {
	args
	digits, inverses driver.Pointer
	roots            driver.Pointer
	rs               uint64
	polys, group     uint32
}

type collectArgs struct {
	args
	polys uint32
}

type packedArgs struct {
	args
	packed, found driver.Pointer
	polys         uint32
}

// itemArgs mirrors struct Many of kernels/args.cuh.
type itemArgs[A kernelArgs, I item] struct {
	own   A
	table driver.Pointer
	one   I
}

// item is the operands of one item of a family of kernels. Each type mirrors the
// structure of the same name in kernels/args.cuh.
type item interface {
	tensorItem | innerItem | divideItem | collectItem | packedItem
}

type tensorItem struct{ a, b, dst tensor }

type innerItem struct{ key, low, x, extension tensor }

type divideItem struct {
	dst, low tensor
	numbers  divideNumbers
	from     tensor
}

type divideNumbers struct{ galois, lows uint64 }

type collectItem struct{ from tensor }

type packedItem struct{ residues, packed tensor }

// mostItems is how many items one launch takes: their operands are copied to the
// device without waiting.
const mostItems = pageable / int(unsafe.Sizeof(innerItem{}))

// tensor is where the residues of a batch lie: limb 0 of polynomial 0, and the
// residues from one polynomial to the next (0 for broadcast). It mirrors struct Slot of
// kernels/args.cuh.
type tensor struct {
	at     driver.Pointer
	stride uint64
}

// poly is the tensor from polynomial p on.
func (t tensor) poly(p int) tensor {
	t.at += pointer(4 * p * int(t.stride))
	return t
}

// modWords is the size of struct Mod of kernels/args.cuh in 32-bit words.
const modWords = 24

// bytesOf views words as bytes.
func bytesOf[T uint32 | int32 | uint64 | float64](w []T) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(w)*int(unsafe.Sizeof(w[0])))
}
