package crt

import (
	"sync"

	"github.com/hencedge/hencedge/henc/internal/simd"
)

//go:generate go run -C ../../../cutrantt/cpu/_asm ./crt -out ../../../henc/internal/crt/zvector_amd64.s -stubs ../../../henc/internal/crt/zvector_amd64.go -pkg crt

// codes are the variants by the names of package simd.
var codes = map[string]*code{
	simd.AVX512: {name: simd.AVX512, short: shortAVX512, check: checkAVX512},
	simd.AVX2:   {name: simd.AVX2, short: shortAVX2, check: checkAVX2},
}

// selected is the code to use, nil for plain Go.
var selected = sync.OnceValue(func() *code { return codes[simd.Selected()] })
