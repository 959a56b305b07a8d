package benchmark

import (
	"errors"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// encryptResident times the arithmetic of an encryption alone: the message is on
// the device, as coefficients modulo every prime; sampling is included.
func (b *bed) encryptResident(public bool) job {
	op, method := "henc_seeded", "message on the device"
	if public {
		op = "henc_pk"
	}
	limbs := len(b.limbs)
	coeffs, ntt := cutrantt.Coeffs(b.o.N2), cutrantt.NTT(b.o.N2)
	// The message and the key are read, two polynomials written.
	bytes := b.polyBytes(4, limbs)
	if public {
		bytes = b.polyBytes(5, limbs)
	}
	return job{
		op: op, method: method, limbs: limbs, bytes: bytes, footprint: bytes,
		setup: func(sets int) (func(int) error, func() error, error) {
			var key [2]*cutrantt.Batch // the halves of a public key; the first alone is a secret one
			all, err := b.ring.NewBatch(2, b.limbs, ntt)
			if err != nil {
				return nil, nil, err
			}
			for i := range key {
				if key[i], err = all.Slice(i, i+1, 0, limbs); err != nil {
					return nil, nil, err
				}
				if err := b.ring.SampleUniform(key[i], (*[32]byte)(b.seed()), uint32(i)); err != nil {
					return nil, nil, err
				}
			}
			operand, err := b.ring.Precompute(all)
			if err != nil {
				return nil, nil, err
			}
			x := make([]stepwise, sets)
			for i := range x {
				if x[i], err = b.newStepwise(b.ring, coeffs, ntt); err != nil {
					return nil, nil, err
				}
			}
			seed, mask := (*[32]byte)(b.seed()), (*[32]byte)(b.seed())
			run := func(i int) error {
				if public {
					return x[i].public(b.ring, coeffs, operand, seed)
				}
				return x[i].seeded(b.ring, coeffs, key[0], seed, mask)
			}
			check := func() error {
				return b.sameOnCPU(op, b.ring, x[0].out,
					func(r cutrantt.Ring, dst *cutrantt.Batch, src ...*cutrantt.Batch) error {
						own, err := b.newStepwise(r, coeffs, ntt)
						if err != nil {
							return err
						}
						own.message, own.out = src[0], dst
						if !public {
							k, err := src[1].Slice(0, 1, 0, limbs)
							if err != nil {
								return err
							}
							return own.seeded(r, coeffs, k, seed, mask)
						}
						o, err := r.Precompute(src[1])
						if err != nil {
							return err
						}
						return own.public(r, coeffs, o, seed)
					}, x[0].message, all)
			}
			return run, check, nil
		},
	}
}

// labels of the streams that stepwise and fused draw from.
var labels = cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3, Mask: 4}

// fusedKey are the keys of encryptions that the ring makes in a few kernels.
type fusedKey struct {
	all    *cutrantt.Batch // (b, a)
	public cutrantt.Operand
	secret *cutrantt.Batch // the first of all
}

func (b *bed) newFusedKey() (k fusedKey, err error) {
	limbs := len(b.limbs)
	if k.all, err = b.ring.NewBatch(2, b.limbs, cutrantt.NTT(b.o.N2)); err != nil {
		return k, err
	}
	for i := range 2 {
		half, err := k.all.Slice(i, i+1, 0, limbs)
		if err != nil {
			return k, err
		}
		if err := b.ring.SampleUniform(half, (*[32]byte)(b.seed()), uint32(i)); err != nil {
			return k, err
		}
	}
	if k.public, err = b.ring.Precompute(k.all); err != nil {
		return k, err
	}
	k.secret, err = k.all.Slice(0, 1, 0, limbs)
	return k, err
}

// fusedJob is a case of encryptions that the ring makes in a few kernels, without what
// it does.
func (b *bed) fusedJob(public bool, batch int) job {
	op, limbs := "henc_seeded", len(b.limbs)
	message := int64(8 * b.ring.N())
	// The key is read once, a message and a ciphertext for each job.
	bytes := b.polyBytes(1, limbs) + int64(batch)*(message+b.polyBytes(2, limbs))
	if public {
		op, bytes = "henc_pk", bytes+b.polyBytes(1, limbs)
	}
	// The ciphertexts alone rotate through enough memory: the key is the same in all sets.
	return job{op: op, method: "message on the device", limbs: limbs, batch: batch, bytes: bytes,
		footprint: int64(batch) * b.polyBytes(2, limbs)}
}

// randomEncryption is a random message with its seeds.
func (b *bed) randomEncryption() cutrantt.Encryption {
	return cutrantt.Encryption{Message: b.coefficientsOf(), Bound: 1 << 40, Seed: (*[32]byte)(b.seed()),
		Mask: (*[32]byte)(b.seed())}
}

// encryptFused times encryptions that the ring makes in a few kernels, from
// where the messages and seeds have reached the device: the events begin with the
// first kernel.
func (b *bed) encryptFused(public bool, batch int) job {
	j := b.fusedJob(public, batch)
	j.alone = true
	j.setup = func(sets int) (func(int) error, func() error, error) {
		key, err := b.newFusedKey()
		if err != nil {
			return nil, nil, err
		}
		jobs, out := make([][]cutrantt.Encryption, sets), make([][]*cutrantt.Batch, sets)
		for i := range jobs {
			for range batch {
				jobs[i] = append(jobs[i], b.randomEncryption())
			}
		}
		fused := b.ring.(cutrantt.Encrypting)
		run := func(i int) (err error) {
			for _, x := range out[i] { // results rotate with the inputs
				b.ring.Free(x)
			}
			if public {
				out[i], err = fused.EncryptPublic(key.public, b.limbs, labels, jobs[i])
			} else {
				out[i], err = fused.EncryptSeeded(key.secret, b.limbs, labels, jobs[i])
			}
			return err
		}
		check := func() error {
			return steps(
				func() error { return b.sameEncryption(out[0][0], key, public, jobs[0][0]) },
				func() error { return b.sameEncryption(out[0][batch-1], key, public, jobs[0][batch-1]) },
			)
		}
		return run, check, nil
	}
	return j
}

// encryptInRuns times the kernels of encryptFused for one message in runs: messages and
// seeds of all sets are on the device before.
func (b *bed) encryptInRuns(m meter.EncryptionMeter, public bool) job {
	j := b.fusedJob(public, 1)
	j.method += ", in runs"
	var metered meter.MeteredEncryptions
	j.setup = func(sets int) (func(int) error, func() error, error) {
		key, err := b.newFusedKey()
		if err != nil {
			return nil, nil, err
		}
		jobs := make([]cutrantt.Encryption, sets)
		for i := range jobs {
			jobs[i] = b.randomEncryption()
		}
		if public {
			metered, err = m.MeterPublic(key.public, b.limbs, labels, jobs)
		} else {
			metered, err = m.MeterSeeded(key.secret, b.limbs, labels, jobs)
		}
		if err != nil {
			return nil, nil, err
		}
		check := func() error { return b.sameEncryption(metered.Results()[0], key, public, jobs[0]) }
		return metered.Queue, check, nil
	}
	j.release = func() error {
		if metered == nil { // the set-up failed
			return nil
		}
		return metered.Release()
	}
	return j
}

// sameEncryption compares the ciphertext out of j with the one that the CPU makes step
// by step.
func (b *bed) sameEncryption(out *cutrantt.Batch, key fusedKey, public bool, j cutrantt.Encryption) error {
	op := "henc_seeded"
	if public {
		op = "henc_pk"
	}
	return b.sameOnCPU(op, b.ring, out, func(r cutrantt.Ring, dst *cutrantt.Batch, src ...*cutrantt.Batch) error {
		return b.encryptSteps(r, dst, src[0], public, cutrantt.Coeffs(b.o.N2), j)
	}, key.all)
}

// encryptSteps is one encryption step by step under the key all.
func (b *bed) encryptSteps(r cutrantt.Ring, dst, all *cutrantt.Batch, public bool, coeffs cutrantt.Domain,
	j cutrantt.Encryption) error {
	s, err := b.newStepwise(r, coeffs, dst.Domain())
	if err != nil {
		return err
	}
	s.out = dst
	if err := r.SetFloats(s.message, j.Message); err != nil {
		return err
	}
	if !public {
		k, err := all.Slice(0, 1, 0, len(b.limbs))
		if err != nil {
			return err
		}
		return s.seeded(r, coeffs, k, j.Seed, j.Mask)
	}
	o, err := r.Precompute(all)
	if err != nil {
		return err
	}
	return s.public(r, coeffs, o, j.Seed)
}

// coefficientsOf is a random encoded message below 2^40.
func (b *bed) coefficientsOf() []float64 {
	m := make([]float64, b.ring.N())
	for i := range m {
		m[i] = float64(b.rng.Int64N(1<<41) - 1<<40)
	}
	return m
}

// stepwise is the memory of an encryption that is done step by step.
type stepwise struct{ message, v, e, out *cutrantt.Batch }

func (b *bed) newStepwise(r cutrantt.Ring, coeffs, ntt cutrantt.Domain) (s stepwise, err error) {
	for to, of := range map[**cutrantt.Batch]struct {
		polys int
		d     cutrantt.Domain
	}{&s.message: {1, coeffs}, &s.v: {1, coeffs}, &s.e: {2, coeffs}, &s.out: {2, ntt}} {
		if *to, err = r.NewBatch(of.polys, b.limbs, of.d); err != nil {
			return s, err
		}
	}
	return s, r.SetFloats(s.message, b.coefficientsOf())
}

// steps runs functions until one fails.
func steps(f ...func() error) error {
	for _, g := range f {
		if err := g(); err != nil {
			return err
		}
	}
	return nil
}

// public is (v*b + m + e0, v*a + e1): three transforms, two products.
func (s stepwise) public(r cutrantt.Ring, coeffs cutrantt.Domain, key cutrantt.Operand, seed *[32]byte) error {
	s.v.SetDomain(coeffs)
	s.e.SetDomain(coeffs)
	limbs := len(s.v.Limbs())
	e0, err := s.e.Slice(0, 1, 0, limbs)
	if err != nil {
		return err
	}
	e1, err := s.e.Slice(1, 2, 0, limbs)
	if err != nil {
		return err
	}
	return steps(
		func() error { return r.SampleTernary(s.v, seed, labels.V) },
		func() error { return r.SampleCBD(e0, seed, labels.E0) },
		func() error { return r.SampleCBD(e1, seed, labels.E1) },
		func() error { return r.Add(e0, e0, s.message) },
		func() error { return r.Forward(s.v, s.v) },
		func() error { return r.Forward(s.e, s.e) },
		func() error { return r.MulOperand(s.out, s.v, key) },
		func() error { return r.Add(s.out, s.out, s.e) },
	)
}

// seeded is (m + e0 - c1*s, c1) with c1 from a public seed: one transform, one
// product.
func (s stepwise) seeded(r cutrantt.Ring, coeffs cutrantt.Domain, key *cutrantt.Batch, seed, mask *[32]byte) error {
	s.v.SetDomain(coeffs)
	limbs := len(s.v.Limbs())
	c0, err := s.out.Slice(0, 1, 0, limbs)
	if err != nil {
		return err
	}
	c1, err := s.out.Slice(1, 2, 0, limbs)
	if err != nil {
		return err
	}
	return steps(
		func() error { return r.SampleCBD(s.v, seed, labels.E0) },
		func() error { return r.Add(s.v, s.v, s.message) },
		func() error { return r.Forward(s.v, s.v) },
		func() error { return r.SampleUniform(c1, mask, labels.Mask) },
		func() error { return r.Mul(c0, c1, key) },
		func() error { return r.Sub(c0, s.v, c0) },
	)
}

// encryptWhole is HENC as an agent does it: real values on the host to the bytes
// of a ciphertext on the host, a batch at a time. What the host does to the
// messages of a batch, its processors share.
func (b *bed) encryptWhole(batch int) job {
	n := int64(b.params.N())
	p := &parts{}
	return job{
		op: "henc", method: "values to bytes", limbs: len(b.limbs), batch: batch, host: true, parts: p,
		bytes: int64(batch) * (4*n + b.polyBytes(2, len(b.limbs))), footprint: int64(batch) * 4 * n,
		setup: func(sets int) (func(int) error, func() error, error) {
			if err := b.secretKey(); err != nil {
				return nil, nil, err
			}
			enc, err := henc.NewEncryptor(b.ctx, b.pub)
			if err != nil {
				return nil, nil, err
			}
			values := make([][]float64, sets*batch)
			for i := range values {
				values[i] = make([]float64, b.params.Slots())
				for k := range values[i] {
					values[i][k] = b.rng.Float64() - 0.5
				}
			}
			scale := b.params.DefaultScale()
			cts, out := make([]*henc.Ciphertext, batch), make([][]byte, batch)
			run := func(set int) error {
				return steps(
					func() error {
						return p.time("encrypt", func() (err error) { // a GPU has not ended then
							for i := range cts {
								b.free(cts[i])
							}
							cts, err = enc.EncryptRealBatch(values[set*batch:(set+1)*batch], b.level, scale, nil)
							return err
						})
					},
					func() error {
						return p.time("bytes", func() error {
							for i := range out {
								out[i] = out[i][:0] // used again, as an agent does
							}
							var errs []error
							out, errs = b.ctx.AppendCiphertexts(out, cts)
							return errors.Join(errs...)
						})
					},
				)
			}
			check := func() error {
				for _, i := range []int{0, batch - 1} {
					ct, err := b.ctx.UnmarshalCiphertext(out[i])
					if err != nil {
						return err
					}
					want := make([]complex128, len(values[i]))
					for k, v := range values[i] {
						want[k] = complex(v, 0)
					}
					if err := b.decrypts("henc", ct, want); err != nil {
						return err
					}
				}
				return nil
			}
			return run, check, nil
		},
	}
}
