package embed

import (
	"sync"

	"github.com/hencedge/hencedge/henc/internal/simd"
)

//go:generate go run -C ../../../cutrantt/cpu/_asm ./embed -out ../../../henc/internal/embed/zvector_amd64.s -stubs ../../../henc/internal/embed/zvector_amd64.go -pkg embed

// codes are the variants by the names of package simd.
var codes = map[string]*code{
	simd.AVX512: {
		lanes: 8, down: downAVX512, up: upAVX512, down2: down2AVX512, up2: up2AVX512, tileDown: tileDownAVX512,
		tileUp:     tileUpAVX512,
		scaleRound: scaleRoundAVX512, divide: divideAVX512, magnitude: magnitudeAVX512,
	},
	simd.AVX2: {
		lanes: 4, down: downAVX2, up: upAVX2, down2: down2AVX2, up2: up2AVX2, tileDown: tileDownAVX2,
		tileUp:     tileUpAVX2,
		scaleRound: scaleRoundAVX2, divide: divideAVX2, magnitude: magnitudeAVX2,
	},
}

// selected is the code to use, nil for plain Go.
var selected = sync.OnceValue(func() *code { return codes[simd.Selected()] })
