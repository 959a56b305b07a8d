// Package conformance is the one test suite that every backend of cutrantt
// passes, for every Hadamard method and every number of columns. It has no code
// of its own outside tests.
//
// Each operation runs on the backend under test and on the reference, over
// random and extreme residues (0, 1, q-1, primes just below 2^30), and both the
// residues and the domain labels must agree. The reference itself is compared
// with products of integers by math/big. Beyond 2^13 the reference transform is
// too slow, so chosen blocks are evaluated from their definition.
//
// CUTRANTT_TEST_REQUIRE=cpu,cuda makes the absence of one of the listed backends
// a failure. HENCEDGE_MUTATE=1 enables TestMutations, which puts single faults
// into copies of the kernels and demands that the suite notices each of them.
package conformance
