package crt

import (
	"sync"

	"github.com/hencedge/hencedge/henc/internal/simd"
)

// codes are the variants by the names of package simd.
var codes = map[string]*code{simd.NEON: {name: simd.NEON, short: shortNEON, check: checkNEON}}

// selected is the code to use, nil for plain Go.
var selected = sync.OnceValue(func() *code { return codes[simd.Selected()] })
