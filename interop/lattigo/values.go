package lattigo

import (
	"fmt"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"

	"github.com/hencedge/hencedge/henc"
)

// PlaintextToLattigo converts an encoded plaintext: same residues in Lattigo's
// order, same scale.
func (b *Bridge) PlaintextToLattigo(pt *henc.Plaintext) (*rlwe.Plaintext, error) {
	if err := b.ctx.CheckPlaintext(pt); err != nil {
		return nil, fmt.Errorf("plaintext to lattigo: %w", err)
	}
	polys, err := b.export(pt.Value, false)
	if err != nil {
		return nil, fmt.Errorf("plaintext to lattigo: %w", err)
	}
	out, err := rlwe.NewPlaintextAtLevelFromPoly(b.LattigoLevel(pt.Level), ring.Poly{Coeffs: polys[0]})
	if err != nil {
		return nil, fmt.Errorf("plaintext to lattigo: %w", err)
	}
	out.MetaData = b.metaData(pt.Scale)
	return out, nil
}

// PlaintextFromLattigo is the inverse of PlaintextToLattigo. The plaintext must
// be in the NTT domain with all N/2 slots, at one of our levels.
func (b *Bridge) PlaintextFromLattigo(pt *rlwe.Plaintext) (*henc.Plaintext, error) {
	if pt == nil {
		return nil, fmt.Errorf("plaintext from lattigo: %w: nil plaintext", ErrObject)
	}
	scale, err := b.checkMeta(pt.MetaData)
	if err != nil {
		return nil, fmt.Errorf("plaintext from lattigo: %w", err)
	}
	level, err := b.levelOf(len(pt.Value.Coeffs))
	if err == nil {
		err = b.ctx.Parameters().CheckScale(level, scale)
	}
	if err != nil {
		return nil, fmt.Errorf("plaintext from lattigo: %w", err)
	}
	batch, err := b.load([]limbs{limbs(pt.Value.Coeffs)}, b.ctx.Parameters().QLimbs(level), false)
	if err != nil {
		return nil, fmt.Errorf("plaintext from lattigo: %w", err)
	}
	return &henc.Plaintext{Value: batch, Level: level, Scale: scale}, nil
}

// CiphertextToLattigo converts a ciphertext (c0, c1); both libraries decrypt
// c0 + c1*s. The seed of a seeded ciphertext is not kept, its c1 is.
func (b *Bridge) CiphertextToLattigo(ct *henc.Ciphertext) (*rlwe.Ciphertext, error) {
	if err := b.ctx.CheckCiphertext(ct); err != nil {
		return nil, fmt.Errorf("ciphertext to lattigo: %w", err)
	}
	polys, err := b.export(ct.Value, false)
	if err != nil {
		return nil, fmt.Errorf("ciphertext to lattigo: %w", err)
	}
	out, err := rlwe.NewCiphertextAtLevelFromPoly(b.LattigoLevel(ct.Level),
		[]ring.Poly{{Coeffs: polys[0]}, {Coeffs: polys[1]}})
	if err != nil {
		return nil, fmt.Errorf("ciphertext to lattigo: %w", err)
	}
	out.MetaData = b.metaData(ct.Scale)
	return out, nil
}

// CiphertextFromLattigo is the inverse of CiphertextToLattigo. The ciphertext
// must have degree 1 (relinearise first), be in the NTT domain with all N/2
// slots, and be at one of our levels.
func (b *Bridge) CiphertextFromLattigo(ct *rlwe.Ciphertext) (*henc.Ciphertext, error) {
	if ct == nil {
		return nil, fmt.Errorf("ciphertext from lattigo: %w: nil ciphertext", ErrObject)
	}
	scale, err := b.checkMeta(ct.MetaData)
	if err != nil {
		return nil, fmt.Errorf("ciphertext from lattigo: %w", err)
	}
	if len(ct.Value) != 2 {
		return nil, fmt.Errorf("ciphertext from lattigo: %w: %d polynomials, want 2 (relinearise first)",
			ErrObject, len(ct.Value))
	}
	level, err := b.levelOf(len(ct.Value[0].Coeffs))
	if err == nil {
		err = b.ctx.Parameters().CheckScale(level, scale)
	}
	if err != nil {
		return nil, fmt.Errorf("ciphertext from lattigo: %w", err)
	}
	batch, err := b.load([]limbs{limbs(ct.Value[0].Coeffs), limbs(ct.Value[1].Coeffs)},
		b.ctx.Parameters().QLimbs(level), false)
	if err != nil {
		return nil, fmt.Errorf("ciphertext from lattigo: %w", err)
	}
	return &henc.Ciphertext{Value: batch, Level: level, Scale: scale}, nil
}
