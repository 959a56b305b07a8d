package lattigo

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/bgv"

	"github.com/hencedge/hencedge/henc/bfv"
)

// Integers converts ciphertexts of package bfv to those of Lattigo's BFV (package bgv with a scale-invariant
// evaluator) and back. Keys are those of the Bridge. It is immutable and safe for concurrent use.
//
// Lattigo has m/t modulo Q where we have Q/t*m, so that our m is Lattigo's at the plaintext scale -Q modulo t: encode
// for us at Scale. Products of two such ciphertexts have this scale again.
type Integers struct {
	*Bridge
	ctx    *bfv.Context
	params bgv.Parameters
	scale  uint64
}

// NewIntegers makes the conversions of ctx. It fails as NewBridge.
func NewIntegers(ctx *bfv.Context) (*Integers, error) {
	b, err := NewBridge(ctx.Base())
	if err != nil {
		return nil, err
	}
	p := ctx.Parameters()
	params, err := bgv.NewParametersFromLiteral(bgv.ParametersLiteral{
		LogN: p.Base().LogN(), Q: widen(p.Base().Q()), P: widen(p.Base().P()), PlaintextModulus: uint64(p.T()),
	})
	if err != nil {
		return nil, fmt.Errorf("lattigo refuses integers modulo %d: %w", p.T(), err)
	}
	scale := new(big.Int).Neg(p.Base().QProduct(p.Base().MaxLevel()))
	scale.Mod(scale, big.NewInt(int64(p.T())))
	return &Integers{Bridge: b, ctx: ctx, params: params, scale: scale.Uint64()}, nil
}

// PlainParameters are Lattigo's parameters.
func (b *Integers) PlainParameters() bgv.Parameters { return b.params }

// Scale is the plaintext scale of what is converted, -Q modulo t.
func (b *Integers) Scale() rlwe.Scale { return b.params.NewScale(b.scale) }

// ToLattigo converts a ciphertext. The seed of a seeded one is not kept, its c1 is.
func (b *Integers) ToLattigo(ct *bfv.Ciphertext) (*rlwe.Ciphertext, error) {
	if err := b.ctx.Check(ct); err != nil {
		return nil, fmt.Errorf("integers to lattigo: %w", err)
	}
	polys, err := b.export(ct.Value, false)
	if err != nil {
		return nil, fmt.Errorf("integers to lattigo: %w", err)
	}
	out := bgv.NewCiphertext(b.params, 1, b.params.MaxLevel())
	out.Value = []ring.Poly{{Coeffs: polys[0]}, {Coeffs: polys[1]}}
	out.Scale = b.Scale()
	return out, nil
}

// FromLattigo is the inverse of ToLattigo. The ciphertext must have degree 1, all primes and the plaintext scale Scale;
// noise is what is known of its noise.
func (b *Integers) FromLattigo(ct *rlwe.Ciphertext, noise bfv.Noise) (*bfv.Ciphertext, error) {
	if ct == nil || ct.Degree() != 1 || ct.Level() != b.params.MaxLevel() || !ct.IsNTT || ct.IsMontgomery {
		return nil, fmt.Errorf("integers from lattigo: %w: not of degree 1 with all primes, transformed", ErrObject)
	}
	if s := ct.Scale.Uint64(); s != b.scale {
		return nil, fmt.Errorf("integers from lattigo: %w: plaintext scale %d, ours is %d", ErrObject, s, b.scale)
	}
	polys := []limbs{ct.Value[0].Coeffs, ct.Value[1].Coeffs}
	p := b.ctx.Parameters().Base()
	value, err := b.load(slices.Clone(polys), p.QLimbs(p.MaxLevel()), false)
	if err != nil {
		return nil, fmt.Errorf("integers from lattigo: %w", err)
	}
	out := &bfv.Ciphertext{Value: value, Noise: noise}
	if err := b.ctx.Check(out); err != nil {
		b.ctx.Free(out)
		return nil, fmt.Errorf("integers from lattigo: %w", err)
	}
	return out, nil
}
