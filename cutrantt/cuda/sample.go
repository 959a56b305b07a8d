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
			list, err := r.list(dst.Limbs())
			if err != nil {
				return err
			}
			err = launch(r, name, r.n/256, limbGroups(dst), 256, 0, setArgs{
				args: r.only(dst, list), values: x, count: uint32(len(dst.Limbs())),
			})
			return errors.Join(err, r.backend.drv.Fill(x, 0, len(data)/4, r.pool.stream))
		})
	}, dst)
}

// limbGroups is how many blocks share the limbs of dst.
func limbGroups(dst *cutrantt.Batch) int { return (len(dst.Limbs()) + limbGroup - 1) / limbGroup }

// only is the arguments of a kernel that writes the single polynomial of dst.
func (r *ring) only(dst *cutrantt.Batch, limbs pointer) args {
	return args{dst: r.tensor(dst).at, limbs: limbs, logN2: uint32(log2(int(dst.Domain().N2)))}
}

func (r *ring) SampleUniform(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	if err := r.check.Seeded(dst, seed); err != nil {
		return err
	}
	return r.exec(func() error { return r.drawUniform(dst, seed, label) }, dst)
}

// drawUniform queues SampleUniform.
func (r *ring) drawUniform(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return r.draw("sample_uniform", (r.n+2047)/2048, len(dst.Limbs()), dst, seed, label)
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
	return r.exec(func() error { return r.draw(name, r.n/1024, limbGroups(dst), dst, seed, label) }, dst)
}

// draw queues a sampler on a grid of x*y blocks. It is called by exec.
func (r *ring) draw(name string, x, y int, dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	defer clear(r.arguments[:]) // the seed may be secret
	list, err := r.list(dst.Limbs())
	if err != nil {
		return err
	}
	a := sampleArgs{args: r.only(dst, list), label: label, count: uint32(len(dst.Limbs()))}
	for i := range a.seed {
		a.seed[i] = binary.LittleEndian.Uint32(seed[4*i:])
	}
	return launch(r, name, x, y, 128, 0, a)
}
