package main

import (
	"fmt"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
	"github.com/tuneinsight/lattigo/v6/utils/sampling"
)

// theirs are the operations of Lattigo for one shape.
func theirs(s shape, values []complex128) (map[string]func() error, string, error) {
	p, err := s.lattigo()
	if err != nil {
		return nil, "", err
	}
	kgen := ckks.NewKeyGenerator(p)
	sk, pk := kgen.GenKeyPairNew()
	keys := rlwe.NewMemEvaluationKeySet(kgen.GenRelinearizationKeyNew(sk), kgen.GenGaloisKeyNew(p.GaloisElement(1), sk))
	prng, err := sampling.NewKeyedPRNG([]byte("bench"))
	if err != nil {
		return nil, "", err
	}
	enc, seeded := ckks.NewEncryptor(p, pk), ckks.NewEncryptor(p, sk).WithPRNG(prng)
	dec, ev, ecd := ckks.NewDecryptor(p, sk), ckks.NewEvaluator(p, keys), ckks.NewEncoder(p, 53)
	top := p.MaxLevel()
	pt, coded, plain := ckks.NewPlaintext(p, top), ckks.NewPlaintext(p, top), ckks.NewPlaintext(p, top)
	if err := ecd.Encode(values, pt); err != nil {
		return nil, "", err
	}
	a, b := ckks.NewCiphertext(p, 1, top), ckks.NewCiphertext(p, 1, top)
	if err := enc.Encrypt(pt, a); err != nil {
		return nil, "", err
	}
	if err := seeded.Encrypt(pt, b); err != nil {
		return nil, "", err
	}
	out, fresh, low := ckks.NewCiphertext(p, 1, top), ckks.NewCiphertext(p, 1, top), ckks.NewCiphertext(p, 1, top-1)
	product, err := ev.MulRelinNew(a, b)
	if err != nil {
		return nil, "", err
	}
	decoded := make([]complex128, len(values))
	sampler := ring.NewUniformSampler(prng, p.RingQ())
	x, y, z := sampler.ReadNew(), p.RingQ().NewPoly(), p.RingQ().NewPoly()
	ops := map[string]func() error{
		"encrypt pk":     func() error { return enc.Encrypt(pt, fresh) },
		"encrypt seeded": func() error { return seeded.Encrypt(pt, fresh) },
		"decrypt":        func() error { dec.Decrypt(a, plain); return nil },
		"mul+relin":      func() error { return ev.MulRelin(a, b, out) },
		"rescale":        func() error { return ev.Rescale(product, low) },
		"rotate":         func() error { return ev.Rotate(a, 1, out) },
		"encode":         func() error { return ecd.Encode(values, coded) },
		"decode":         func() error { return ecd.Decode(pt, decoded) },
		"ntt":            func() error { p.RingQ().NTT(x, y); return nil },
		"intt":           func() error { p.RingQ().INTT(y, z); return nil },
		"ntt n2=16":      func() error { p.RingQ().NTT(x, y); return nil },
		"intt n2=16":     func() error { p.RingQ().INTT(y, z); return nil },
	}
	about := fmt.Sprintf(
		"%d primes, logQ %.1f, %d special, dnum %d", len(p.Q()), p.LogQ(), len(p.P()),
		p.BaseRNSDecompositionVectorSize(top, p.MaxLevelP()),
	)
	return ops, about, nil
}
