package cuda

import (
	"encoding/binary"
	"errors"
	"math"

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
	return r.set("set_small", dst, bytesOf(v))
}

func (r *ring) SetFloats(dst *cutrantt.Batch, v []float64) error {
	if err := r.check.Coefficients(dst, len(v)); err != nil {
		return err
	}
	var largest float64
	for _, x := range v {
		a := math.Abs(x)
		if !(a <= math.MaxFloat64) || math.Trunc(x) != x {
			return check.Floats(v)
		}
		largest = max(largest, a)
	}
	if largest < 1<<63 {
		return r.set("set_floats", dst, bytesOf(v))
	}
	return r.set("set_large", dst, bytesOf(v))
}

// set queues the reduction of host values; their device copy is wiped.
func (r *ring) set(name string, dst *cutrantt.Batch, data []byte) error {
	return r.exec(func() error {
		return r.with(data, func(x pointer) error {
			err := r.spread(name, dst, r.n/256, 256, args{x: x})
			return errors.Join(err, r.backend.drv.Fill(x, 0, len(data)/4, r.pool.stream))
		})
	}, dst)
}

// spread queues a kernel that writes limbs of a single polynomial in groups.
func (r *ring) spread(name string, dst *cutrantt.Batch, blocks, threads int, a args) error {
	limbs := dst.Limbs()
	list, err := r.list(limbs)
	if err != nil {
		return err
	}
	a.dst, a.limbs, a.logN2, a.i1 = r.tensor(dst).at, list, uint32(log2(int(dst.Domain().N2))), uint32(len(limbs))
	return r.launch(name, blocks, (len(limbs)+limbGroup-1)/limbGroup, threads, 0, a)
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
		err := r.spread(name, dst, r.n/1024, 128, seeded(args{}, seed, label))
		r.args.key = [8]uint32{}
		return err
	}, dst)
}
