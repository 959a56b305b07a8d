package benchmark

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
)

// jobs are the cases of one operation; none where the parameters lack what the
// operation needs.
func (b *bed) jobs(op string) []job {
	switch op {
	case "ntt":
		return []job{b.transform(op, cutrantt.Coeffs(b.o.N2), cutrantt.NTT(b.o.N2), cutrantt.Ring.Forward)}
	case "intt":
		return []job{b.transform(op, cutrantt.NTT(b.o.N2), cutrantt.Coeffs(b.o.N2), cutrantt.Ring.Inverse)}
	case "hadamard":
		return b.hadamards()
	case "encode":
		return []job{b.encode()}
	case "decode":
		return []job{b.decode()}
	case "henc_pk":
		return []job{b.encryptPublic()}
	case "henc_seeded":
		return []job{b.encryptSeeded()}
	case "decrypt":
		return []job{b.decrypt()}
	case "hadd":
		return []job{b.hadd()}
	case "cmult":
		return []job{b.cmult()}
	case "hmult":
		if b.params.Alpha() > 0 && b.level > 0 {
			return []job{b.hmult()}
		}
	case "hmult_rescale":
		if b.params.Alpha() > 0 && b.level > 0 {
			return []job{b.hmultRescale()}
		}
	case "henc":
		return []job{b.encryptWhole(max(b.o.Batch, 1))}
	case "rescale":
		if b.level > 0 {
			return []job{b.rescale()}
		}
	case "hrotate":
		if b.params.Alpha() > 0 {
			return []job{b.hrotate()}
		}
	case "bootstrap":
		return b.bootstrapped(1)
	}
	return nil
}

// copyJob copies within the backend's memory as many bytes as like's traffic,
// half of them read and half of them written, rounded up to whole limbs.
func (b *bed) copyJob(op string, like job) job {
	limb := 2 * b.polyBytes(1, 1)
	polys := int((like.bytes + limb - 1) / limb)
	return job{
		op: "copy", method: op, limbs: like.limbs, bytes: int64(polys) * limb, footprint: int64(polys) * limb,
		setup: func(sets int) (func(int) error, func() error, error) {
			src, dst := make([]*cutrantt.Batch, sets), make([]*cutrantt.Batch, sets)
			for i := range sets {
				var err error
				if src[i], err = b.ring.NewBatch(polys, b.limbs[:1], cutrantt.Coeffs(b.o.N2)); err != nil {
					return nil, nil, err
				}
				if dst[i], err = b.ring.NewBatch(polys, b.limbs[:1], cutrantt.Coeffs(b.o.N2)); err != nil {
					return nil, nil, err
				}
				host := make([]uint32, src[i].Len())
				for k := range host {
					host[k] = b.rng.Uint32N(b.ring.Moduli()[0].Q)
				}
				if err = b.ring.Upload(src[i], host); err != nil {
					return nil, nil, err
				}
			}
			run := func(i int) error { return b.ring.Copy(dst[i], src[i]) }
			check := func() error {
				want, err := residues(b.ring, src[0])
				if err != nil {
					return err
				}
				got, err := residues(b.ring, dst[0])
				if err != nil {
					return err
				}
				for k := range want {
					if got[k] != want[k] {
						return errWrong("copy", fmt.Sprintf("residue %d", k), got[k], want[k])
					}
				}
				return nil
			}
			return run, check, nil
		},
	}
}

// transform is ntt or intt of one polynomial over every Q limb.
func (b *bed) transform(op string, from, to cutrantt.Domain,
	f func(r cutrantt.Ring, dst, src *cutrantt.Batch) error) job {
	bytes := b.polyBytes(2, len(b.limbs))
	return job{
		op: op, method: fmt.Sprintf("n2=%d", b.o.N2), limbs: len(b.limbs), bytes: bytes, footprint: bytes,
		setup: func(sets int) (func(int) error, func() error, error) {
			src, dst := make([]*cutrantt.Batch, sets), make([]*cutrantt.Batch, sets)
			for i := range sets {
				var err error
				if src[i], err = b.uniform(b.ring, from); err != nil {
					return nil, nil, err
				}
				if dst[i], err = b.ring.NewBatch(1, b.limbs, to); err != nil {
					return nil, nil, err
				}
			}
			check := func() error {
				coeffs, transformed := src[0], dst[0]
				if from.NTT {
					coeffs, transformed = dst[0], src[0]
				}
				err := b.eachLimb(b.ring, func(m cutrantt.Modulus, v ...[]uint32) error {
					return checkTransform(op, m, b.o.N2, v[0], v[1], b.rng)
				}, coeffs, transformed)
				if err != nil || !b.onDevice() {
					return err
				}
				return b.sameOnCPU(op, b.ring, dst[0],
					func(r cutrantt.Ring, dst *cutrantt.Batch, src ...*cutrantt.Batch) error {
						return f(r, dst, src[0])
					}, src[0])
			}
			return func(i int) error { return f(b.ring, dst[i], src[i]) }, check, nil
		},
	}
}

// hadamards is one case per method that the backend has for this n2.
func (b *bed) hadamards() []job {
	var jobs []job
	for _, m := range b.o.Methods {
		ring, err := b.o.Backend.NewRing(b.ring.LogN(), b.ring.Moduli(),
			cutrantt.Options{Method: m, Workers: b.o.Workers})
		if err != nil || !b.supports(ring) {
			continue
		}
		bytes := b.polyBytes(3, len(b.limbs))
		jobs = append(jobs, job{
			op: "hadamard", method: m.String(), limbs: len(b.limbs), bytes: bytes, footprint: bytes, ring: ring,
			setup: func(sets int) (func(int) error, func() error, error) {
				x := make([][3]*cutrantt.Batch, sets) // a, b, product
				for i := range x {
					for k := range x[i] {
						var err error
						if x[i][k], err = b.uniform(ring, cutrantt.NTT(b.o.N2)); err != nil {
							return nil, nil, err
						}
					}
				}
				check := func() error {
					if b.onDevice() { // which the CPU backend's own tests compare with the definition
						return b.sameOnCPU("hadamard", ring, x[0][2], func(r cutrantt.Ring, dst *cutrantt.Batch,
							src ...*cutrantt.Batch) error {
							return r.Mul(dst, src[0], src[1])
						}, x[0][:2]...)
					}
					return b.eachLimb(ring, func(m cutrantt.Modulus, v ...[]uint32) error {
						return checkHadamard(m, b.o.N2, v[0], v[1], v[2])
					}, x[0][:]...)
				}
				return func(i int) error { return ring.Mul(x[i][2], x[i][0], x[i][1]) }, check, nil
			},
		})
	}
	return jobs
}

// supports reports whether ring's method exists for the bed's n2: small n2
// rule out some methods.
func (b *bed) supports(ring cutrantt.Ring) bool {
	x, err := ring.NewBatch(1, b.limbs[:1], cutrantt.NTT(b.o.N2))
	return err == nil && ring.Mul(x, x, x) == nil
}

// eachLimb calls f with limb i of every batch (one polynomial each).
func (b *bed) eachLimb(ring cutrantt.Ring, f func(m cutrantt.Modulus, v ...[]uint32) error,
	xs ...*cutrantt.Batch) error {
	hosts := make([][]uint32, len(xs))
	for k, x := range xs {
		var err error
		if hosts[k], err = residues(ring, x); err != nil {
			return err
		}
	}
	n := ring.N()
	for i, limb := range b.limbs {
		v := make([][]uint32, len(xs))
		for k := range xs {
			v[k] = hosts[k][i*n : (i+1)*n]
		}
		if err := f(ring.Moduli()[limb], v...); err != nil {
			return err
		}
	}
	return nil
}
