package cpu

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"sync"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
)

//go:generate go run -C _asm ./arm64 -out ../zvector_arm64.s -stubs ../zvector_arm64.go -pkg cpu

// vectorCode is the code of one variant with vectors. Its functions work on
// residues that lie at the pointers they get; the slices' lengths are the caller's
// business. The comments of the functions are in the generated files.
type vectorCode struct {
	name  string
	about string // for people
	index int    // of its tables in modulus.vectors

	merged int  // most levels of a pass, 2 or 3
	piece  int  // residues of one polynomial that stand together in an operand
	signed bool // transform takes (-q, q) too, as numbers with a sign

	// pair is a twiddle as the transforms take it, fill the twiddles of block b of the
	// last five levels in 32 words, each by the given pair.
	pair func(m *barrett, w uint32) uint64
	fill func(s []uint64, w []uint32, b int, pair func(w uint32) uint64)

	// forward[k] and inverse[k] merge k levels, inverseEnd[k] the last k of the
	// inverse with its scaling.
	forward, inverse [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32)
	inverseEnd       [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32, scale *uint64)
	// forwardLast and inverseFirst are the five levels at the other end: [0] for a
	// multiple of two blocks, [1] for a multiple of four.
	forwardLast  [2]func(x *uint32, blocks int, s *uint64, q uint32)
	inverseFirst [2]func(dst, src *uint32, blocks int, s *uint64, q uint32)

	compact *compactCode // for large columns; nil: the functions above take all sizes
	finish  *finishCode  // nil: divisions do not end in a transform
	lazy    *lazyCode    // for primes below 2^28; nil: the functions above take all primes

	add, sub func(dst, x, y *uint32, n int, q uint32)
	scale    func(dst, x *uint32, n int, w *uint64, q uint32)
	subScale func(dst, x, y *uint32, n int, w *uint64, q uint32)
	// subScaleAdd is nil where it is subScale and add.
	subScaleAdd func(dst, x, y, z *uint32, n int, w *uint64, q uint32)

	mul, mulAdd, mulSub func(dst, x, y *uint32, n int, mu, s uint64, q uint32)
	// tensor is nil where products are made one by one.
	tensor     func(dst, a, b *uint32, dstStride, aStride, bStride, n int, mu, s uint64, q uint32)
	permute    func(dst, src, from, lanes *uint32, n int)
	operandAdd func(dst, x, y *uint32, yStep, n int, qinv, q uint32)
	// inner[k-1] has k results.
	inner [2]func(dst, x, y *uint32, dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32)
	// innerOwn is inner[1] with x_at at own. It may be nil.
	innerOwn func(dst, x, y, own *uint32, at, dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32)
	digits   func(dst, src *uint32, dstStride, srcStride, limbs, n int, c *uint64, v *uint32, q uint32)
	extend   func(dst, y *uint32, stride, limbs, n int, v *uint32, h *uint64, qinv, q uint32)
	// rounds is the second half of digits, extendFew[k-1] is extend of k rows and
	// extendMany[k-2] extend to k moduli, both to [0, 4q). All may be nil.
	rounds     func(src *uint32, stride, limbs, n int, c *uint64, v *uint32, q uint32)
	extendFew  [2]func(dst, y *uint32, stride, n int, v *uint32, c *uint64, q uint32)
	extendMany [3]func(dst, y *uint32, dstStride, stride, limbs, n int, v *uint32, c *uint64, cStride int, q uint32)

	liftSmall func(dst *uint32, src *int32, n int, q uint32)
	split     func(high *int32, low *uint32, m *float64, e *int32, n int)
	liftWide  func(dst *uint32, high *int32, low *uint32, n int, w *uint64, bias, q uint32)
}

// compactCode is the last five levels for compact streams: compactWords a block, and the
// constants c.
type compactCode struct {
	from         int // columns of that size and larger ones
	fill         func(w []uint32, pair func(w uint32) uint64) (stream, c []uint64)
	forwardLast  func(x *uint32, blocks int, s, c *uint64, q uint32)
	inverseFirst func(dst, src *uint32, blocks int, s, c *uint64, q uint32)
}

// shoup is w in [0, q) as a Shoup pair: floor(w*2^32/q) in the low half.
func (b *barrett) shoup(w uint32) uint64 {
	return uint64(w)<<32 | uint64(w)<<32/uint64(b.q)
}

// vector is the constants mu and s of vector products (see _asm/products.go).
func (b *barrett) vector() (mu, s uint64) {
	s = uint64(max(bits.Len32(b.q), 2) - 2)
	return 1 << (32 + s) / uint64(b.q), s
}

// sums is vector for sums of two products (see _asm/fused.go).
func (b *barrett) sums() (mu, s uint64) {
	s = uint64(max(bits.Len32(b.q), 2) - 1)
	return 1 << (32 + s) / uint64(b.q), s
}

// montgomery is w*2^32 mod q, w in [0, q): sums of products with it that are divided
// by 2^32 modulo q are sums of products with w.
func (b *barrett) montgomery(w uint32) uint32 { return b.reduce(uint64(w) << 32) }

// splitWide is vectorCode.split in plain Go.
func splitWide(high *int32, low *uint32, m *float64, e *int32, n int) {
	h, l := unsafe.Slice(high, n), unsafe.Slice(low, n)
	x, y := unsafe.Slice(m, n), unsafe.Slice(e, n)
	for i := range h {
		v := int64(x[i]) + int64(y[i])
		h[i], l[i] = int32(v>>32), uint32(v)
	}
}

// VariantVariable is the environment variable that selects the code New runs:
// "generic" for plain Go, or the name of a vector variant. Unset or empty means the
// best one that the CPU has. It is read once.
const VariantVariable = "CUTRANTT_CPU"

const generic = "generic"

// variants are the vector variants of this machine, best first.
var variants = sync.OnceValue(vectorCodes)

// Variants are the names that NewVariant accepts on this machine, best first;
// "generic" is the last and always there.
func Variants() []string {
	var names []string
	for _, c := range variants() {
		names = append(names, c.name)
	}
	return append(names, generic)
}

// NewVariant returns the backend that runs one variant. All give the same bits. It
// fails with cutrantt.ErrNotSupported where the machine cannot run it.
func NewVariant(name string) (cutrantt.Backend, error) {
	if name == generic {
		return backend{}, nil
	}
	for _, c := range variants() {
		if c.name == name {
			return backend{vec: c}, nil
		}
	}
	return nil, fmt.Errorf(
		"%w: variant %q of the CPU backend; this machine has %s", cutrantt.ErrNotSupported, name,
		strings.Join(Variants(), ", "),
	)
}

// selected is the backend of New.
var selected = sync.OnceValue(func() backend {
	name := os.Getenv(VariantVariable)
	if name == "" {
		name = Variants()[0]
	}
	b, err := NewVariant(name)
	if err != nil {
		return backend{err: fmt.Errorf("%s: %w", VariantVariable, err)}
	}
	return b.(backend)
})

// variant is the name of the code that b runs.
func (b backend) variant() string {
	if b.vec == nil {
		return generic
	}
	return b.vec.name
}
