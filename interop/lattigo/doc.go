// Package lattigo moves hencedge's parameters, plaintexts, ciphertexts and keys
// to Lattigo v6 and back. Its tests use Lattigo as an independent
// implementation of CKKS: what one library encrypts or evaluates the other must
// decrypt.
//
// It is a module of its own, so that Lattigo never enters the dependencies of
// the product. See docs/interop.md for the conventions on both sides.
package lattigo
