//go:build !linux || (!amd64 && !arm64) || nogpu

package kernels

// images are left out: nothing in this build could load them.
var images []byte
