// Package embed is the special Fourier transform of the canonical embedding, on
// numbers whose real and imaginary parts stand in slices of their own. Plain Go and
// vector code give the same bits: both take every product and every sum on its own.
package embed

import (
	"math"
	"math/bits"
	"sync"

	"github.com/hencedge/hencedge/internal/taint"
)

// Embedding is the transform over n = N/2 slots. With zeta = exp(i*pi/N), it maps
// a_k = f_k + i*f_(k+n), which holds the N real coefficients of f, to the slots
//
//	z_j = f(zeta^(5^j)) = sum over k < n of a_k * zeta^(k*5^j)
//
// (zeta^(5^j*n) = i for every j, because 5^j = 1 mod 4). Read as
// transform-by-halves, z over n slots is two such sums over n/2 slots joined by
// twiddles exp(2*pi*i*(5^j mod 4*len)/(4*len)), len = 2, 4, ..., n.
//
// Rounding: every twiddle is within 2^-52.5 of its value, so by Higham, Accuracy
// and Stability of Numerical Algorithms, theorem 24.2, the Euclidean norm of the
// error of one transform is at most 8*log2(n)*2^-53 of that of its result.
//
// An Embedding is safe for concurrent use.
type Embedding struct {
	n    int
	vec  *code // nil for plain Go
	once sync.Once
	// cos[h+j] and sin[h+j] are twiddle j < h of distance h = len/2.
	cos, sin []float64
	// reversed[m] is m < n/lanes^2 with its bits reversed, for vector code.
	reversed []uint32

	pairs sync.Once
	roots []float64
}

// New is the transform over n slots, a power of two. Its tables are made by the
// first transform.
func New(n int) *Embedding { return newEmbedding(n, selected()) }

// newEmbedding is New with the given vector code, nil for plain Go.
func newEmbedding(n int, c *code) *Embedding {
	if c != nil && n < c.lanes*c.lanes {
		c = nil
	}
	return &Embedding{n: n, vec: c}
}

// Slots is n.
func (e *Embedding) Slots() int { return e.n }

func (e *Embedding) init() {
	e.cos, e.sin = make([]float64, max(e.n, 1)), make([]float64, max(e.n, 1))
	for h := 1; h < e.n; h *= 2 {
		power := 1
		for j := range h {
			e.cos[h+j], e.sin[h+j] = unitRoot(power, 8*h)
			power = power * 5 & (8*h - 1)
		}
	}
	if e.vec != nil {
		e.reversed = make([]uint32, e.n/(e.vec.lanes*e.vec.lanes))
		for m := range e.reversed {
			e.reversed[m] = uint32(reverse(m, len(e.reversed)))
		}
	}
}

// Roots returns the twiddles as a cutrantt.Embedding has them, the same table at each call.
func (e *Embedding) Roots() []float64 {
	e.once.Do(e.init)
	e.pairs.Do(func() {
		e.roots = make([]float64, 2*e.n)
		for i := range e.n {
			e.roots[2*i], e.roots[2*i+1] = e.cos[i], e.sin[i]
		}
	})
	return e.roots
}

// reverse reverses the bits of i < n, n a power of two.
func reverse(i, n int) int {
	return int(bits.Reverse64(uint64(i)) >> (64 - bits.Len(uint(n-1))))
}

// unitRoot is the cosine and sine of 2*pi*k/m for m a power of two >= 8 and 0 <= k <
// m. The angle is reduced to the first octant in integers, so the result does not
// lose accuracy with k.
func unitRoot(k, m int) (re, im float64) {
	octant, r := k/(m/8), k%(m/8)
	if octant&1 == 1 {
		r = m/8 - r
	}
	s, c := math.Sincos(2 * math.Pi * (float64(r) / float64(m)))
	switch octant {
	case 0:
		return c, s
	case 1:
		return s, c
	case 2:
		return -s, c
	case 3:
		return -c, s
	case 4:
		return -c, -s
	case 5:
		return -s, -c
	case 6:
		return s, -c
	default:
		return c, -s
	}
}

// ToSlots sets (zRe, zIm) to the slots of the numbers (aRe, aIm). All have n
// entries, and the result lies apart from the source.
func (e *Embedding) ToSlots(zRe, zIm, aRe, aIm []float64) {
	e.once.Do(e.init)
	if e.vec != nil {
		e.vec.toSlots(e, zRe, zIm, aRe, aIm)
		return
	}
	e.genericToSlots(zRe, zIm, aRe, aIm)
}

// FromSlots is the inverse of ToSlots. It uses up (zRe, zIm).
func (e *Embedding) FromSlots(aRe, aIm, zRe, zIm []float64) {
	e.once.Do(e.init)
	if e.vec != nil {
		e.vec.fromSlots(e, aRe, aIm, zRe, zIm)
		return
	}
	e.genericFromSlots(aRe, aIm, zRe, zIm)
}

// ScaleRound multiplies x by scale and rounds to integers, ties to even.
func ScaleRound(x []float64, scale float64) { scaleRound(selected(), x, scale) }

func scaleRound(c *code, x []float64, scale float64) {
	if c.takes(len(x)) {
		c.scaleRound(&x[0], len(x), scale)
		return
	}
	for i, v := range x {
		x[i] = math.RoundToEven(v * scale)
	}
}

// Divide divides x by the number by.
func Divide(x []float64, by float64) { divide(selected(), x, by) }

func divide(c *code, x []float64, by float64) {
	if c.takes(len(x)) {
		c.divide(&x[0], len(x), by)
		return
	}
	for i := range x {
		x[i] /= by
	}
}

// Finite reports whether no number of x is infinite or NaN, without a branch on one.
func Finite(x []float64) bool {
	largest, _ := Magnitude(x)
	return finite(largest)
}

// finite makes public whether the largest of many numbers is finite.
func finite(largest float64) bool { return taint.Outcome(largest-largest == 0) }

// Magnitude is the largest magnitude in c and whether all of x is finite and
// integral, without a branch on a value.
func Magnitude(x []float64) (largest float64, ok bool) { return magnitude(selected(), x) }

func magnitude(c *code, x []float64) (largest float64, ok bool) {
	if c.takes(len(x)) {
		largest, ok = c.largest(x)
	} else {
		largest, ok = genericMagnitude(x)
	}
	return largest, taint.Outcome(ok) && finite(largest)
}

// genericMagnitude: below 2^52, adding and subtracting 2^52 rounds to an integer;
// from there on every float64 is one. Infinities and NaNs are the largest.
func genericMagnitude(x []float64) (largest float64, ok bool) {
	const whole = 1 << 52
	least := math.Float64bits(whole)
	var top, bad uint64
	for _, v := range x {
		b := math.Float64bits(v) &^ (1 << 63)
		a := math.Float64frombits(b)
		below := uint64(int64(b-least) >> 63)
		bad |= (math.Float64bits(a+whole-whole) ^ b) & below
		top = max(top, b)
	}
	return math.Float64frombits(top), bad == 0
}

// genericToSlots: butterflies take (u, v) to (u + t*v, u - t*v). The conversions to
// float64 keep compilers from fusing a product with a sum.
func (e *Embedding) genericToSlots(zRe, zIm, aRe, aIm []float64) {
	for i := range zRe {
		j := reverse(i, e.n)
		zRe[i], zIm[i] = aRe[j], aIm[j]
	}
	for h := 1; h < e.n; h *= 2 {
		c, s := e.cos[h:2*h], e.sin[h:2*h]
		for i := 0; i < e.n; i += 2 * h {
			loRe, loIm, hiRe, hiIm := zRe[i:i+h], zIm[i:i+h], zRe[i+h:i+2*h], zIm[i+h:i+2*h]
			for j := range h {
				re := float64(hiRe[j]*c[j]) - float64(hiIm[j]*s[j])
				im := float64(hiRe[j]*s[j]) + float64(hiIm[j]*c[j])
				hiRe[j], hiIm[j] = loRe[j]-re, loIm[j]-im
				loRe[j], loIm[j] = loRe[j]+re, loIm[j]+im
			}
		}
	}
}

// genericFromSlots: the same butterflies undone from the last.
func (e *Embedding) genericFromSlots(aRe, aIm, zRe, zIm []float64) {
	for h := e.n / 2; h >= 1; h /= 2 {
		c, s := e.cos[h:2*h], e.sin[h:2*h]
		for i := 0; i < e.n; i += 2 * h {
			loRe, loIm, hiRe, hiIm := zRe[i:i+h], zIm[i:i+h], zRe[i+h:i+2*h], zIm[i+h:i+2*h]
			for j := range h {
				re, im := loRe[j]-hiRe[j], loIm[j]-hiIm[j]
				loRe[j], loIm[j] = loRe[j]+hiRe[j], loIm[j]+hiIm[j]
				hiRe[j] = float64(re*c[j]) + float64(im*s[j])
				hiIm[j] = float64(im*c[j]) - float64(re*s[j])
			}
		}
	}
	inv := 1 / float64(e.n) // exact, n is a power of two
	for i := range aRe {
		j := reverse(i, e.n)
		aRe[i], aIm[i] = zRe[j]*inv, zIm[j]*inv
	}
}
