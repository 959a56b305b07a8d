package henc

import "github.com/hencedge/hencedge/cutrantt"

// Plaintext is an encoded message: one polynomial in the transform domain of its
// context, over the limbs of Level. Slot j is its value at zeta^(5^j) over Scale.
type Plaintext struct {
	Value *cutrantt.Batch // 1 polynomial, LimbsAt(Level) limbs, NTT(n2)
	Level int
	Scale float64
}

// Ciphertext is an encrypted message (c0, c1) of degree 1: c0 + c1*s is the
// plaintext polynomial plus a small error.
type Ciphertext struct {
	Value *cutrantt.Batch // 2 polynomials, LimbsAt(Level) limbs, NTT(n2)
	Level int
	Scale float64
	// Seed is set when c1 is Ring.SampleUniform(Seed, LabelCipherA) in the
	// domain of Value: the wire then carries the seed instead of c1. It is
	// public. DropLevel and WithScale keep it, since c1 stays what it was; every
	// other operation returns a ciphertext without a seed.
	Seed *[32]byte
}

// LabelCipherA is the label of the public stream that c1 of a seeded ciphertext is
// drawn from.
const LabelCipherA uint32 = 1
