package bootstrap

import "github.com/hencedge/hencedge/henc"

// HalfWidth is K.
const HalfWidth = halfWidth

// SineLevels is what the sine takes.
const SineLevels = sineLevels

// Times is the integer that messages of the scale are multiplied by.
func (pl *Plan) Times(scale float64) int64 { return pl.times(scale) }

// Modulus is the modulus of level 0.
func (pl *Plan) Modulus() float64 { return pl.modulus() }

// Message is the scale of the coefficients that are raised, and Largest that of slots times Times.
func (pl *Plan) Message() float64 { return pl.message }

// Largest is the scale of a message times Times that is not rounded.
func (pl *Plan) Largest() float64 { return pl.largest }

// ToCoefficients is the first step.
func (b *Bootstrapper) ToCoefficients(ct *henc.Ciphertext) (*henc.Ciphertexts, error) {
	return b.toCoefficients([]*henc.Ciphertext{ct})
}

// Raise is the second step.
func (b *Bootstrapper) Raise(low *henc.Ciphertexts) (*henc.Ciphertexts, error) { return b.raise(low) }

// ToSlots is the third step.
func (b *Bootstrapper) ToSlots(raised *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	return b.toSlots(raised)
}

// Sine is the fourth step.
func (b *Bootstrapper) Sine(x *henc.Ciphertexts) (*henc.Ciphertexts, error) { return sine(b.pair, x) }

// Joined is the last step.
func (b *Bootstrapper) Joined(x *henc.Ciphertexts) (*henc.Ciphertext, error) {
	out, err := b.joined(x)
	return out.At(0), err
}
