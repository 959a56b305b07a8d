package main

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// ours are the operations of our side for one shape. n2 is the number of columns,
// 0 for the fastest.
func ours(s shape, n2 int, values []complex128) (map[string]func() error, string, error) {
	p, err := s.parameters()
	if err != nil {
		return nil, "", err
	}
	ctx, err := henc.NewContext(p, henc.WithN2(n2), henc.WithWorkers(1))
	if err != nil {
		return nil, "", err
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		return nil, "", err
	}
	pk, err := key.PublicKey()
	if err != nil {
		return nil, "", err
	}
	keys, err := key.EvaluationKeys([]int{1}, false)
	if err != nil {
		return nil, "", err
	}
	enc, err := henc.NewEncryptor(ctx, pk)
	if err != nil {
		return nil, "", err
	}
	seeded, dec, ev := secret.NewSeededEncryptor(ctx, key), secret.NewDecryptor(ctx, key), henc.NewEvaluator(ctx, keys)
	top := p.MaxLevel()
	coeffs, err := ctx.Encoder().EncodeCoeffs(values, p.DefaultScale())
	if err != nil {
		return nil, "", err
	}
	pt, err := ctx.Encoder().EncodeComplex(values, top, p.DefaultScale())
	if err != nil {
		return nil, "", err
	}
	a, err := enc.Encrypt(coeffs, top, 0, nil)
	if err != nil {
		return nil, "", err
	}
	b, err := seeded.Encrypt(coeffs, top, 0, nil)
	if err != nil {
		return nil, "", err
	}
	product, err := ev.Mul(a, b)
	if err != nil {
		return nil, "", err
	}
	r := ctx.Ring()
	x, err := r.NewBatch(1, p.QLimbs(top), cutrantt.Coeffs(ctx.N2()))
	if err != nil {
		return nil, "", err
	}
	if err := r.SampleUniform(x, new([32]byte), 1); err != nil {
		return nil, "", err
	}
	y, err := r.NewBatch(1, p.QLimbs(top), ctx.Domain())
	if err != nil {
		return nil, "", err
	}
	z, err := r.NewBatch(1, p.QLimbs(top), cutrantt.Coeffs(ctx.N2()))
	if err != nil {
		return nil, "", err
	}
	sixteen, err := r.NewBatch(1, p.QLimbs(top), cutrantt.Coeffs(16))
	if err != nil {
		return nil, "", err
	}
	if err := r.SampleUniform(sixteen, new([32]byte), 1); err != nil {
		return nil, "", err
	}
	incomplete, err := r.NewBatch(1, p.QLimbs(top), cutrantt.NTT(16))
	if err != nil {
		return nil, "", err
	}
	back, err := r.NewBatch(1, p.QLimbs(top), cutrantt.Coeffs(16))
	if err != nil {
		return nil, "", err
	}
	done := func(ct *henc.Ciphertext, err error) error {
		if err == nil {
			r.Free(ct.Value)
		}
		return err
	}
	plain := func(pt *henc.Plaintext, err error) error {
		if err == nil {
			r.Free(pt.Value)
		}
		return err
	}
	ops := map[string]func() error{
		"encrypt pk":     func() error { return done(enc.Encrypt(coeffs, top, 0, nil)) },
		"encrypt seeded": func() error { return done(seeded.Encrypt(coeffs, top, 0, nil)) },
		"decrypt":        func() error { return plain(dec.Decrypt(a)) },
		"mul+relin":      func() error { return done(ev.Mul(a, b)) },
		"rescale":        func() error { return done(ev.Rescale(product)) },
		"rotate":         func() error { return done(ev.Rotate(a, 1)) },
		"encode":         func() error { return plain(ctx.Encoder().EncodeComplex(values, top, p.DefaultScale())) },
		"decode":         func() error { _, err := ctx.Encoder().DecodeComplex(pt); return err },
		"ntt":            func() error { return r.Forward(y, x) },
		"intt":           func() error { return r.Inverse(z, y) },
		"ntt n2=16":      func() error { return r.Forward(incomplete, sixteen) },
		"intt n2=16":     func() error { return r.Inverse(back, incomplete) },
	}
	about := fmt.Sprintf(
		"%d primes, logQ %.1f, %d special, dnum %d, n2 %d", len(p.Q()), p.LogQ(top), len(p.P()), p.Dnum(top), ctx.N2(),
	)
	return ops, about, nil
}
