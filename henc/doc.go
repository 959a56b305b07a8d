// Package henc is RNS-CKKS over 32-bit moduli: approximate arithmetic on
// encrypted vectors of real or complex numbers, on the transposed polynomials of
// package cutrantt.
//
// Parameters fix the ring, the modulus chain and the scale; they are checked
// against the security table of the 2024 guidelines when they are made. A Context
// joins parameters with a backend and holds every table. The Encoder maps slots to
// polynomials, the Encryptor encrypts under a public key, the Evaluator computes
// on ciphertexts, and the marshalling methods of Context read and write the wire
// format. Nothing in this package can hold a secret key: that is package
// henc/secret, which only the key holder (and, by choice, a device in symmetric
// mode) links.
//
// The package example goes the whole way; choose a parameter set by the table of
// docs/parameters.md. Messages are vectors of numbers of about 1: scale what you have
// to [-1, 1]. A ciphertext holds scale times its message plus an error. Sums need
// operands of one level and one scale (DropLevel and MulConst take them there), a product
// has the product of the scales, and Rescale divides scale and error by the primes of
// the top level, which is then gone. MulRescale does both. Nothing is done implicitly:
// what does not fit is an error that wraps one of the errors below. NoiseModel
// predicts errors; package evaluator/program plans all of this for an expression.
//
// Contexts, encoders, encryptors, evaluators and keys are safe for concurrent use.
// Ciphertexts and plaintexts are not changed by any operation, so they may be shared
// as well. They are garbage collected; Context.Ring().Free gives their memory back at once.
//
// Conventions. N = 2^LogN is the ring degree and N/2 the number of complex slots.
// Level L means L rescalings are left; a polynomial at level L has LimbsAt(L)
// limbs, the first primes of Q. Slot j of f is f(zeta^(5^j)), zeta =
// exp(i*pi/N), divided by the scale. Ciphertexts and plaintexts live in the
// transform domain of the context's n2. See docs/cryptography.md.
package henc
