//go:build !amd64

package simd

// There is no vector code below henc for this GOARCH.
func vector() []string { return nil }
