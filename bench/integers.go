package main

import (
	"math/rand/v2"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/bgv"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
)

// integers reports whether a shape has rows of integers. Larger rings have no slots modulo bfv.DefaultT, or take long.
func (s shape) integers() bool { return s.logN <= 14 }

// integerValues fills all slots.
func (s shape) integerValues() []uint64 {
	rng, out := rand.New(rand.NewPCG(1, 1)), make([]uint64, 1<<s.logN)
	for i := range out {
		out[i] = rng.Uint64N(bfv.DefaultT)
	}
	return out
}

// ourIntegers adds our operations to ops.
func ourIntegers(s shape, n2 int, ops map[string]func() error) error {
	base, err := s.parameters()
	if err != nil {
		return err
	}
	p, err := bfv.NewParameters(base, 0)
	if err != nil {
		return err
	}
	ctx, err := bfv.NewContext(p, henc.WithN2(n2), henc.WithWorkers(1))
	if err != nil {
		return err
	}
	key, err := secret.Generate(ctx.Base(), nil)
	if err != nil {
		return err
	}
	pk, err := key.PublicKey()
	if err != nil {
		return err
	}
	keys, err := key.EvaluationKeys([]int{1}, false)
	if err != nil {
		return err
	}
	enc, err := bfv.NewEncryptor(ctx, pk)
	if err != nil {
		return err
	}
	dec, ev, values := secret.NewIntegerDecryptor(ctx, key), bfv.NewEvaluator(ctx, keys), s.integerValues()
	pt, err := ctx.EncodeSlots(values)
	if err != nil {
		return err
	}
	factor, err := ctx.Factor(pt)
	if err != nil {
		return err
	}
	a, err := enc.Encrypt(pt, nil)
	if err != nil {
		return err
	}
	b, err := enc.Encrypt(pt, nil)
	if err != nil {
		return err
	}
	done := func(ct *bfv.Ciphertext, err error) error { ctx.Free(ct); return err }
	plain := func(pt *bfv.Plaintext, err error) error {
		if err != nil {
			return err
		}
		return ctx.Wipe(pt)
	}
	ops["bfv encrypt pk"] = func() error { return done(enc.Encrypt(pt, nil)) }
	ops["bfv decrypt"] = func() error { _, err := dec.Slots(a); return err }
	ops["bfv add"] = func() error { return done(ev.Add(a, b)) }
	ops["bfv mul plain"] = func() error { return done(ev.MulPlain(a, factor)) }
	ops["bfv mul+relin"] = func() error { return done(ev.Mul(a, b)) }
	ops["bfv rotate"] = func() error { return done(ev.RotateRows(a, 1)) }
	ops["bfv encode"] = func() error { return plain(ctx.EncodeSlots(values)) }
	return nil
}

// theirIntegers adds Lattigo's operations to ops.
func theirIntegers(s shape, ops map[string]func() error) error {
	chain, err := s.lattigo()
	if err != nil {
		return err
	}
	p, err := bgv.NewParametersFromLiteral(bgv.ParametersLiteral{
		LogN: s.logN, Q: chain.Q(), P: chain.P(), PlaintextModulus: bfv.DefaultT, Xs: ring.Ternary{P: 2.0 / 3},
	})
	if err != nil {
		return err
	}
	kgen := rlwe.NewKeyGenerator(p)
	sk, pk := kgen.GenKeyPairNew()
	keys := rlwe.NewMemEvaluationKeySet(kgen.GenRelinearizationKeyNew(sk), kgen.GenGaloisKeyNew(p.GaloisElement(1), sk))
	enc, dec, ecd := bgv.NewEncryptor(p, pk), bgv.NewDecryptor(p, sk), bgv.NewEncoder(p)
	ev, values, top := bgv.NewEvaluator(p, keys, true), s.integerValues(), p.MaxLevel()
	pt, coded, plain := bgv.NewPlaintext(p, top), bgv.NewPlaintext(p, top), bgv.NewPlaintext(p, top)
	if err := ecd.Encode(values, pt); err != nil {
		return err
	}
	a, err := enc.EncryptNew(pt)
	if err != nil {
		return err
	}
	b, err := enc.EncryptNew(pt)
	if err != nil {
		return err
	}
	out, decoded := bgv.NewCiphertext(p, 1, top), make([]uint64, len(values))
	ops["bfv encrypt pk"] = func() error { return enc.Encrypt(pt, out) }
	ops["bfv decrypt"] = func() error { dec.Decrypt(a, plain); return ecd.Decode(plain, decoded) }
	ops["bfv add"] = func() error { return ev.Add(a, b, out) }
	ops["bfv mul plain"] = func() error { return ev.Mul(a, pt, out) }
	ops["bfv mul+relin"] = func() error { return ev.MulRelin(a, b, out) }
	ops["bfv rotate"] = func() error { return ev.RotateColumns(a, 1, out) }
	ops["bfv encode"] = func() error { return ecd.Encode(values, coded) }
	return nil
}
