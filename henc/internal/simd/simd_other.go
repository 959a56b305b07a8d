//go:build !amd64 && !arm64

package simd

// There is no vector code below henc for this GOARCH.
func vector() []string { return nil }
