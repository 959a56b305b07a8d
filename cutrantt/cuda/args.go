package cuda

import (
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// args mirrors struct Args of kernels/args.cuh; see there for the meaning.
type args struct {
	dst, a, b       driver.Pointer
	ds, as, bs      uint64
	mods, limbs, at driver.Pointer
	tw              driver.Pointer
	ts              uint64
	x               driver.Pointer
	logN, logN2     uint32
	i0, i1, i2, i3  uint32
	roots           driver.Pointer
	rs              uint64
	ai, bi          uint64
	key             [8]uint32
}

// modWords is the size of struct Mod of kernels/args.cuh in 32-bit words.
const modWords = 24

// tensor is where the residues of a batch lie: limb 0 of polynomial 0, and the
// residues from one polynomial to the next (0 for broadcast).
type tensor struct {
	at     driver.Pointer
	stride uint64
}

// bytesOf views words as bytes.
func bytesOf[T uint32 | int32 | uint64 | float64](w []T) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(w)*int(unsafe.Sizeof(w[0])))
}
