package embed

import (
	"math"
	"math/bits"
)

//go:generate go run -C ../../../cutrantt/cpu/_asm ./arm64 -out ../../../henc/internal/embed/zvector_arm64.s -stubs ../../../henc/internal/embed/zvector_arm64.go -pkg embed

// code is one variant of vector code for vectors of lanes numbers. The table of
// twiddles goes from distance to index: those of distance h begin at h.
type code struct {
	lanes int
	// down and up are one level, down2 and up2 two, over blocks of parts of size
	// numbers, size a multiple of lanes.
	down, up, down2, up2 func(re, im *float64, blocks, size int, cos, sin *float64)
	// tileDown and tileUp are the levels of distances below lanes with the reversal of
	// bits, for n a multiple of lanes^2; tileDown multiplies by factor.
	tileDown, tileUp func(dstRe, dstIm, srcRe, srcIm *float64, n int, reversed *uint32, cos, sin *float64,
		factor float64)
	// The others take n numbers, n > 0 a multiple of lanes.
	scaleRound, divide func(x *float64, n int, by float64)
	magnitude          func(x *float64, n int) (largest, bad uint64)
}

// takes reports whether c is vector code that works on n numbers.
func (c *code) takes(n int) bool { return c != nil && n > 0 && n%c.lanes == 0 }

func (c *code) fromSlots(e *Embedding, aRe, aIm, zRe, zIm []float64) {
	h := e.n / 2 // the next distance
	if bits.TrailingZeros(uint(e.n/c.lanes))%2 == 1 {
		c.down(&zRe[0], &zIm[0], e.n/2/h, h, &e.cos[0], &e.sin[0])
		h /= 2
	}
	for ; h >= 2*c.lanes; h /= 4 {
		c.down2(&zRe[0], &zIm[0], e.n/2/h, h/2, &e.cos[0], &e.sin[0])
	}
	c.tileDown(&aRe[0], &aIm[0], &zRe[0], &zIm[0], e.n, &e.reversed[0], &e.cos[0], &e.sin[0], 1/float64(e.n))
}

func (c *code) toSlots(e *Embedding, zRe, zIm, aRe, aIm []float64) {
	c.tileUp(&zRe[0], &zIm[0], &aRe[0], &aIm[0], e.n, &e.reversed[0], &e.cos[0], &e.sin[0], 1)
	h := c.lanes
	for ; 2*h < e.n; h *= 4 {
		c.up2(&zRe[0], &zIm[0], e.n/4/h, h, &e.cos[0], &e.sin[0])
	}
	if h < e.n {
		c.up(&zRe[0], &zIm[0], e.n/2/h, h, &e.cos[0], &e.sin[0])
	}
}

func (c *code) largest(x []float64) (largest float64, ok bool) {
	top, bad := c.magnitude(&x[0], len(x))
	return math.Float64frombits(top), bad == 0
}
