package cuda

import (
	"encoding/binary"
	"errors"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

func (r *ring) SetSmall(dst *cutrantt.Batch, v []int32) error {
	if err := r.check.Coefficients(dst, len(v)); err != nil {
		return err
	}
	if err := check.Small(v); err != nil {
		return err
	}
	return r.exec(func() error { return r.set("set_small", dst, bytesOf(v)) }, dst)
}

func (r *ring) SetFloats(dst *cutrantt.Batch, v []float64) error {
	if err := r.check.Coefficients(dst, len(v)); err != nil {
		return err
	}
	if err := check.Floats(v); err != nil {
		return err
	}
	return r.exec(func() error { return r.set("set_floats", dst, bytesOf(v)) }, dst)
}

// set queues the reduction of host values; their device copy is wiped.
func (r *ring) set(name string, dst *cutrantt.Batch, data []byte) error {
	return r.with(data, func(x pointer) error {
		err := r.simple(name, r.tensor(dst), tensor{}, 1, dst.Limbs(), int(dst.Domain().N2), 8, args{x: x})
		return errors.Join(err, r.backend.drv.Fill(x, 0, len(data)/4, r.pool.stream))
	})
}

// seeded puts the seed and label into the arguments of a sampler.
func seeded(a args, seed *[32]byte, label uint32) args {
	for i := range a.key {
		a.key[i] = binary.LittleEndian.Uint32(seed[4*i:])
	}
	a.i0 = label
	return a
}

func (r *ring) SampleUniform(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	if err := r.check.Seeded(dst, seed); err != nil {
		return err
	}
	return r.exec(func() error {
		list, err := r.list(dst.Limbs())
		if err != nil {
			return err
		}
		a := args{dst: r.tensor(dst).at, limbs: list}
		return r.launch("sample_uniform", (r.n+2047)/2048, len(dst.Limbs()), 128, 0, seeded(a, seed, label))
	}, dst)
}

func (r *ring) SampleTernary(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return r.sample("sample_ternary", dst, seed, label)
}

func (r *ring) SampleCBD(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return r.sample("sample_cbd", dst, seed, label)
}

// sampleGroup is how many limbs a thread of kernels/sample.cu expands to.
const sampleGroup = 8

// sample draws small polynomials and expands them over the limbs; the small
// integers stay in registers.
func (r *ring) sample(name string, dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	if err := r.check.Seeded(dst, seed); err != nil {
		return err
	}
	if err := check.Coeffs(dst); err != nil {
		return err
	}
	return r.exec(func() error {
		limbs := dst.Limbs()
		list, err := r.list(limbs)
		if err != nil {
			return err
		}
		a := args{dst: r.tensor(dst).at, limbs: list, logN2: uint32(log2(int(dst.Domain().N2))), i1: uint32(len(limbs))}
		err = r.launch(name, r.n/1024, (len(limbs)+sampleGroup-1)/sampleGroup, 128, 0, seeded(a, seed, label))
		r.args.key = [8]uint32{}
		return err
	}, dst)
}
