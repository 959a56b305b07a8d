// Package compact is the small form of an encrypted window: an 8-byte nonce, and 18 or 22 bits for
// each reading. Readings are coefficients modulo one 30-bit prime in a small ring, under a
// secret of the board's own. Boards encrypt with henc/secret's CompactEncryptor. This package
// has the bytes, and what everybody may compute from them: a Receiver makes ciphertexts for
// henc/bootstrap's Coefficients of them. It knows no secret.
//
// docs/wire-ciphertext.md specifies the bytes, docs/cryptography.md the scheme.
package compact
