package cuda

import (
	"errors"
	"slices"

	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/selftest"
)

var errSelfTest = errors.New("the GPU computes wrong residues")

// selfTest multiplies two polynomials of degree 1024 on the GPU and on the CPU.
func selfTest(b *backend) error {
	got, err := selftest.Product(b)
	if err != nil {
		return err
	}
	want, err := selftest.Product(cpu.New())
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return errSelfTest
	}
	return nil
}
