package bootstrap

import "github.com/hencedge/hencedge/henc"

// HalfWidth is K.
const HalfWidth = halfWidth

// SineLevels is what the sine takes.
const SineLevels = sineLevels

// RaiseBy is the integer that messages of the scale are multiplied by before their modulus is raised, and whether p is
// another factor.
func (pl *Plan) RaiseBy(scale float64) (times int64, spread bool) { return pl.raiseBy(scale) }

// SpreadSigns are the coefficients of p.
func SpreadSigns() []int8 { return spreadSigns[:] }

// SpreadAt is p in slot j.
func SpreadAt(j int) complex128 { return spreadAt(j) }

// Modulus is the modulus of level 0.
func (pl *Plan) Modulus() float64 { return pl.modulus() }

// Raise is the first step.
func (b *Bootstrapper) Raise(ct *henc.Ciphertext) (*henc.Ciphertext, error) {
	times, spread := b.plan.raiseBy(ct.Scale)
	raised, err := b.raise([]*henc.Ciphertext{ct}, []multiple{{times, spread}})
	return raised.At(0), err
}

// ToCoefficients is the second step.
func (b *Bootstrapper) ToCoefficients(ct *henc.Ciphertext) (*henc.Ciphertexts, error) {
	one, err := b.batch(1)
	if err != nil {
		return nil, err
	}
	cts, err := one.Of([]*henc.Ciphertext{ct}, ct.Level)
	if err != nil {
		return nil, err
	}
	return b.toCoefficients(cts)
}

// Sine is the third step.
func (b *Bootstrapper) Sine(x *henc.Ciphertexts) (*henc.Ciphertexts, error) { return sine(b.pair, x) }

// ToSlots is the last step.
func (b *Bootstrapper) ToSlots(x *henc.Ciphertexts, spread bool) (*henc.Ciphertext, error) {
	out, err := b.toSlots(x, spread)
	return out.At(0), err
}
