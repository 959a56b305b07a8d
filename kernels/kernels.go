// Package kernels holds the CUDA kernels of cutrantt: their sources, and the
// compiled images that cutrantt/cuda loads. Building the product needs no CUDA
// compiler; kernels/build.sh makes kernels.bin and zkernels.go anew.
package kernels

import _ "embed"

// Module is one image: a fatbin with machine code for several architectures
// and PTX for later ones.
type Module struct {
	Name         string
	Offset, Size int
	Entries      []string // kernels, by name
}

//go:embed kernels.bin
var images []byte

// Image is the fatbin of the module. It is not to be modified.
func (m Module) Image() []byte { return images[m.Offset : m.Offset+m.Size : m.Offset+m.Size] }
