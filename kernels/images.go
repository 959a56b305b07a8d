//go:build linux && (amd64 || arm64) && !nogpu

package kernels

import _ "embed"

//go:embed kernels.bin
var images []byte
