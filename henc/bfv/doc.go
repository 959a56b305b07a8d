// Package bfv computes with encrypted integers modulo a prime t, exactly: the scheme of Brakerski, Fan and
// Vercauteren as a second encoding on the keys, the key switching and the arithmetic of package henc.
//
// A plaintext is a polynomial m modulo t. Its N coefficients hold integers (EncodeCoeffs), or its values at the roots
// of unity modulo t do, N slots in two rows (EncodeSlots): sums and products then go slot by slot. A ciphertext is
// one of package henc whose scale is Q/t:
//
//	c0 + c1*s = (Q/t)*m + v   modulo Q
//
// It decrypts as long as the noise v is below Q/(2t). Each ciphertext carries a bound of its noise, NoiseModel
// predicts it without a ciphertext, and an operation whose result might not decrypt fails with ErrNoise.
//
// Parameters are those of package henc with t; keys are package henc's, made by henc/secret in the context that
// Context.Base returns. Decryption and symmetric encryption are in henc/secret too (IntegerDecryptor). The ring of a
// Context has t and the auxiliary primes of products as further moduli, so that all arithmetic, encoding included,
// runs on every backend.
//
// All operations return new objects and leave their inputs alone. Contexts, encryptors and evaluators are safe for
// concurrent use.
package bfv
