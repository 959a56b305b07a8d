// Package kernels holds the CUDA kernels of cutrantt: their sources, and the
// compiled images that cutrantt/cuda loads. Building the product needs no CUDA
// compiler; kernels/build.sh makes kernels.bin and zkernels.go anew. Builds that
// cannot open the driver do not hold the images.
package kernels

// Module is one image: a fatbin with machine code for several architectures
// and PTX for later ones.
type Module struct {
	Name         string
	Offset, Size int
	Entries      []string // kernels, by name
}

// Layout is where the members of a structure of args.cuh lie, without those of the
// structure that it extends.
type Layout struct {
	Size    int
	Members []Member
}

// Member is a member of a structure.
type Member struct {
	Name   string
	Offset int
}

// Image is the fatbin of the module, nil in builds without the images. It is not
// to be modified.
func (m Module) Image() []byte {
	if len(images) < m.Offset+m.Size {
		return nil
	}
	return images[m.Offset : m.Offset+m.Size : m.Offset+m.Size]
}
