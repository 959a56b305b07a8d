package main

import (
	"fmt"

	"github.com/tuneinsight/lattigo/v6/circuits/ckks/bootstrapping"
	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/secret"
)

// ourBoot is our side, from ciphertexts at the lowest level that it takes. n2 is the number of columns, 0 for the
// fastest.
func ourBoot(s bootShape, n2 int) (side bootSide, err error) {
	set, err := henc.NamedInsecure(s.set)
	if err != nil {
		return side, err
	}
	p, err := s.parameters()
	if err != nil {
		return side, err
	}
	ctx, err := henc.NewContext(p, henc.WithN2(n2), henc.WithWorkers(1))
	if err != nil {
		return side, err
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		return side, err
	}
	lit, err := bootstrap.LiteralOf(set)
	if err != nil {
		return side, err
	}
	plan, err := bootstrap.NewPlan(p, lit)
	if err != nil {
		return side, err
	}
	keys, err := key.BootstrapKeys(plan)
	if err != nil {
		return side, err
	}
	b, err := bootstrap.New(ctx, plan, keys)
	if err != nil {
		return side, err
	}
	enc, dec := secret.NewSeededEncryptor(ctx, key), secret.NewDecryptor(ctx, key)
	ct, err := enc.EncryptComplex(make([]complex128, p.Slots()), plan.LowestLevel(), 0, nil)
	if err != nil {
		return side, err
	}
	side.run = func() error {
		out, err := b.Bootstrap(ct)
		if err == nil {
			ctx.Ring().Free(out.Value)
		}
		return err
	}
	side.errors = func(z []complex128) (rms, most float64, err error) {
		in, err := enc.EncryptComplex(z, plan.LowestLevel(), 0, nil)
		if err != nil {
			return 0, 0, err
		}
		out, err := b.Bootstrap(in)
		if err != nil {
			return 0, 0, err
		}
		got, err := dec.DecryptComplex(out)
		if err != nil {
			return 0, 0, err
		}
		rms, most = errorsOf(got, z)
		return rms, most, nil
	}
	side.levels = plan.Level() - plan.LowestLevel()
	side.about = fmt.Sprintf("%d primes and %d special, logQP %.1f, dnum %d, %d levels of 2^%d left, n2 %d", len(p.Q()),
		len(p.P()), p.LogQP(), p.Dnum(p.MaxLevel()), side.levels, p.LogScale(), ctx.N2())
	return side, nil
}

// theirBoot is Lattigo's side, from ciphertexts at level 0.
func theirBoot(s bootShape) (side bootSide, err error) {
	p, bp, err := s.lattigo()
	if err != nil {
		return side, err
	}
	sk := ckks.NewKeyGenerator(p).GenSecretKeyNew()
	keys, _, err := bp.GenEvaluationKeys(sk)
	if err != nil {
		return side, err
	}
	b, err := bootstrapping.NewEvaluator(bp, keys)
	if err != nil {
		return side, err
	}
	enc, dec, ecd := ckks.NewEncryptor(p, sk), ckks.NewDecryptor(p, sk), ckks.NewEncoder(p)
	encrypt := func(z []complex128) (*rlwe.Ciphertext, error) {
		pt := ckks.NewPlaintext(p, 0)
		if err := ecd.Encode(z, pt); err != nil {
			return nil, err
		}
		return enc.EncryptNew(pt)
	}
	ct, err := encrypt(make([]complex128, p.MaxSlots()))
	if err != nil {
		return side, err
	}
	side.run = func() error { _, err := b.Bootstrap(ct.CopyNew()); return err }
	side.errors = func(z []complex128) (rms, most float64, err error) {
		in, err := encrypt(z)
		if err != nil {
			return 0, 0, err
		}
		out, err := b.Bootstrap(in)
		if err != nil {
			return 0, 0, err
		}
		got := make([]complex128, len(z))
		if err := ecd.Decode(dec.DecryptNew(out), got); err != nil {
			return 0, 0, err
		}
		rms, most = errorsOf(got, z)
		return rms, most, nil
	}
	side.levels = b.OutputLevel()
	q := bp.BootstrappingParameters
	side.about = fmt.Sprintf("%d primes and %d special, logQP %.1f, dnum %d, %d levels of 2^%d left", q.QCount(),
		q.PCount(), q.LogQP(), q.BaseRNSDecompositionVectorSize(q.MaxLevel(), q.MaxLevelP()), side.levels,
		p.LogDefaultScale())
	return side, nil
}
