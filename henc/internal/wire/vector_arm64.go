package wire

import (
	"sync"

	"github.com/hencedge/hencedge/henc/internal/simd"
)

// codes are the variants by the names of package simd.
var codes = map[string]*code{
	simd.NEON: newCode(
		2, code{pack: packNEON, unpack: unpackNEON, packAligned: packAlignedNEON, unpackAligned: unpackAlignedNEON},
	),
}

// selected is the code to use, nil for plain Go.
var selected = sync.OnceValue(func() *code { return codes[simd.Selected()] })
