package bootstrap

import "github.com/hencedge/hencedge/henc"

// HalfWidth is K.
const HalfWidth = halfWidth

// SineLevels is what the sine takes.
const SineLevels = sineLevels

// Multiple is what messages of the scale of level 0 are multiplied by before their modulus is raised.
func (pl *Plan) Multiple() int64 { return pl.multiple }

// Modulus is the modulus of level 0.
func (pl *Plan) Modulus() float64 { return pl.modulus() }

// Raise is the first step.
func (b *Bootstrapper) Raise(ct *henc.Ciphertext) (*henc.Ciphertext, error) { return b.raise(ct) }

// ToCoefficients is the second step.
func (b *Bootstrapper) ToCoefficients(ct *henc.Ciphertext) (*henc.Ciphertexts, error) {
	return b.toCoefficients(ct)
}

// Sine is the third step.
func (b *Bootstrapper) Sine(x *henc.Ciphertexts) (*henc.Ciphertexts, error) { return sine(b.pair, x) }

// ToSlots is the last step.
func (b *Bootstrapper) ToSlots(x *henc.Ciphertexts) (*henc.Ciphertext, error) { return b.toSlots(x) }
