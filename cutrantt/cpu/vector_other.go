//go:build !amd64 && !arm64

package cpu

// vectorCodes is empty: there is no vector code for this GOARCH.
func vectorCodes() []*vectorCode { return nil }
