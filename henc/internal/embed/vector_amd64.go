package embed

import (
	"math"
	"math/bits"
	"os"
	"sync"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C ../../../cutrantt/cpu/_asm ./embed -out ../../../henc/internal/embed/zvector_amd64.s -stubs ../../../henc/internal/embed/zvector_amd64.go -pkg embed

// vectorized reports whether the AVX-512 code is used. CUTRANTT_CPU=generic (or avx2)
// switches it off, as in package cutrantt/cpu.
var vectorized = sync.OnceValue(func() bool {
	name := os.Getenv("CUTRANTT_CPU")
	return (name == "" || name == "avx512") && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL
})

func (e *Embedding) vectorFromSlots(aRe, aIm, zRe, zIm []float64) {
	h := e.n / 2 // the next distance
	if bits.TrailingZeros(uint(e.n))%2 == 0 {
		downAVX512(&zRe[0], &zIm[0], e.n/2/h, h, &e.cos[0], &e.sin[0])
		h /= 2
	}
	for ; h >= 16; h /= 4 {
		down2AVX512(&zRe[0], &zIm[0], e.n/2/h, h/2, &e.cos[0], &e.sin[0])
	}
	inv := 1 / float64(e.n)
	tileDownAVX512(&aRe[0], &aIm[0], &zRe[0], &zIm[0], e.n, &e.reversed[0], &e.cos[0], &e.sin[0], &inv)
}

func (e *Embedding) vectorToSlots(zRe, zIm, aRe, aIm []float64) {
	tileUpAVX512(&zRe[0], &zIm[0], &aRe[0], &aIm[0], e.n, &e.reversed[0], &e.cos[0], &e.sin[0], nil)
	h := 8
	for ; 2*h < e.n; h *= 4 {
		up2AVX512(&zRe[0], &zIm[0], e.n/4/h, h, &e.cos[0], &e.sin[0])
	}
	if h < e.n {
		upAVX512(&zRe[0], &zIm[0], e.n/2/h, h, &e.cos[0], &e.sin[0])
	}
}

func vectorScaleRound(x []float64, scale float64) {
	if len(x) > 0 {
		scaleRoundAVX512(&x[0], len(x), &scale)
	}
}

func vectorMagnitude(x []float64) (largest float64, ok bool) {
	var result [2]uint64
	if len(x) > 0 {
		magnitudeAVX512(&x[0], len(x), &result[0])
	}
	return math.Float64frombits(result[0]), result[1] == 0
}
