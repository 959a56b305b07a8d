//go:build !amd64 && !arm64

package prng

// code names a variant of the vector code; there is none for this GOARCH.
type code string

const generic code = "generic"

func variants() []code { return []code{generic} }

func selected() code { return generic }

func (code) few() int { return 1 }

func (code) many() int { return 1 }

func (code) uniform(*uint32, int, *source, *byte) {}

func (code) again(*uint32, int, *source, *byte) {}

func (code) retry(dst, src, blocks *uint32, n int, left *uint32) (still int) { return 0 }

func (code) ternary(*int32, int, *source) {}

func (code) cbd(*int32, int, *source) {}
