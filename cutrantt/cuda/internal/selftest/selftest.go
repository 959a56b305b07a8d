// Package selftest is the computation that a GPU has to get right before it is
// used.
package selftest

import "github.com/hencedge/hencedge/cutrantt"

// Product is a sampled polynomial times another through the transform.
func Product(b cutrantt.Backend) (out []uint32, err error) {
	do := func(e error) {
		if err == nil {
			err = e
		}
	}
	r, err := b.NewRing(
		10, []cutrantt.Modulus{{Q: 1073707009, Psi: 110668061}},
		cutrantt.Options{Method: cutrantt.MethodLazy, Workers: 1},
	)
	if err != nil {
		return nil, err
	}
	x, err := r.NewBatch(1, []int{0}, cutrantt.Coeffs(16))
	if err != nil {
		return nil, err
	}
	defer r.Free(x)
	y, err := r.NewBatch(1, []int{0}, cutrantt.NTT(16))
	if err != nil {
		return nil, err
	}
	defer r.Free(y)
	seed := &[32]byte{1}
	do(r.SampleTernary(x, seed, 1))
	do(r.SampleUniform(y, seed, 2))
	do(r.Forward(x, x))
	do(r.Mul(x, x, y))
	do(r.Inverse(x, x))
	out = make([]uint32, x.Len())
	do(r.Download(out, x))
	return out, err
}
