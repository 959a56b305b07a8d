package embed

import (
	"sync"

	"github.com/hencedge/hencedge/henc/internal/simd"
)

// codes are the variants by the names of package simd.
var codes = map[string]*code{
	simd.NEON: {
		lanes: 2, down: downNEON, up: upNEON, down2: down2NEON, up2: up2NEON, tileDown: tileDownNEON,
		tileUp:     tileUpNEON,
		scaleRound: scaleRoundNEON, divide: divideNEON, magnitude: magnitudeNEON,
	},
}

// selected is the code to use, nil for plain Go.
var selected = sync.OnceValue(func() *code { return codes[simd.Selected()] })
