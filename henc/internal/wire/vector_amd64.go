package wire

import (
	"sync"

	"github.com/hencedge/hencedge/henc/internal/simd"
)

//go:generate go run -C ../../../cutrantt/cpu/_asm ./wire -out ../../../henc/internal/wire/zvector_amd64.s -stubs ../../../henc/internal/wire/zvector_amd64.go -pkg wire

// codes are the variants by the names of package simd.
var codes = map[string]*code{
	simd.AVX512: newCode(8, code{pack: packAVX512, unpack: unpackAVX512}),
	simd.AVX2:   newCode(4, code{pack: packAVX2, unpack: unpackAVX2}),
}

// selected is the code to use, nil for plain Go.
var selected = sync.OnceValue(func() *code { return codes[simd.Selected()] })
