// Package cutrantt is the arithmetic of hencedge: residue polynomials of
// Z_q[X]/(X^N+1) in the transposed layout of the cuTraNTT paper (section IV),
// their incomplete number theoretic transform, and the small Hadamard products
// that the incomplete transform leaves behind.
//
// A polynomial f is viewed as n1 rows by n2 columns, N = n1*n2, with
// f[row*n2+col] stored at position col*n1+row of its limb: columns are
// contiguous. Each column is transformed by one n1-point negacyclic NTT in
// Y = X^n2, so no level crosses a column. In the transform domain row b of the
// n2 columns is the block F_b = f mod (X^n2 - w_b), a polynomial of degree
// below n2. Blocks stand in the order of the Longa-Naehrig levels:
//
//	w_b = psi^(n2 * (2*brv(b) + 1))
//
// (see Modulus).
//
// The package holds the interface (Ring), the shapes (Shape, Batch, Domain), the
// check of a modulus, and nothing that computes. Backends live below it, such as
// reference (slow, for clarity) and cpu (plain Go and vector code), and they are all run through
// the one suite in conformance.
// It imports only the standard library.
package cutrantt
