package henc

import (
	"fmt"
	"math/big"
)

// securityRow holds, for one ring degree, the largest log2(QP) that keeps a
// uniform ternary secret at 128, 192 and 256 bits; 0 where no value is tabulated.
type securityRow struct {
	logN               int
	classical, quantum [3]int
}

// securityTable is the table for ternary secrets of "Security Guidelines for
// Implementing Homomorphic Encryption" (eprint 2024/463, 2024), in bits of QP.
var securityTable = []securityRow{
	{12, [3]int{106, 73, 56}, [3]int{80, 59, 47}},
	{13, [3]int{214, 147, 114}, [3]int{161, 119, 95}},
	{14, [3]int{430, 297, 230}, [3]int{322, 239, 192}},
	{15, [3]int{868, 597, 462}, [3]int{644, 479, 385}},
	{16, [3]int{1747, 1199, 929}, [3]int{1289, 959, 773}},
	{17, [3]int{3523, 0, 0}, [3]int{2578, 0, 0}},
}

// SecurityBound is the largest log2(QP) at ring degree 2^logN for a security of
// bits (128, 192 or 256) against classical or quantum attacks, from the 2024
// guidelines (eprint 2024/463) for uniform ternary secrets. ok is false where the
// guidelines' table, as far as it is used here, has no value.
func SecurityBound(logN, bits int, quantum bool) (bound int, ok bool) {
	col := bits/64 - 2
	if bits%64 != 0 || col < 0 || col > 2 {
		return 0, false
	}
	for _, row := range securityTable {
		if row.logN == logN {
			bound = row.classical[col]
			if quantum {
				bound = row.quantum[col]
			}
			return bound, bound > 0
		}
	}
	return 0, false
}

// checkSecurity refuses a modulus qp above the classical 128-bit bound. The
// comparison is exact: qp <= 2^bound.
func checkSecurity(name string, logN int, qp *big.Int) error {
	bound, ok := SecurityBound(logN, 128, false)
	if !ok {
		return fmt.Errorf("%w: %q has N = 2^%d, for which the 2024 security guidelines give no bound; use N = 2^12 "+
			".. 2^17",
			ErrSecurity, name, logN)
	}
	if qp.Cmp(new(big.Int).Lsh(big.NewInt(1), uint(bound))) > 0 {
		return fmt.Errorf("%w: %q has log2(QP) = %.1f, above the bound of %d for 128 bits at N = 2^%d (2024 "+
			"guidelines, ternary secret); use fewer or smaller primes, or a larger ring",
			ErrSecurity, name, log2Big(qp), bound, logN)
	}
	return nil
}

// SparseWeight is the number of nonzero coefficients of the sparse secret that bootstrapping
// uses for a moment (package bootstrap).
const SparseWeight = 32

// sparseTable is, by log2(N), the largest log2 of the modulus under which a key of a secret of
// SparseWeight may be published. The guidelines' table does not cover such secrets. The best attack that
// the lattice estimator knows, the hybrid ones included, takes 149 bits at (2^15, 90) and 163 at
// (2^16, 121); the first leaves room for the N rotations of the secret.
var sparseTable = map[int]int{15: 90, 16: 120}

// SparseBound is the largest log2 of the modulus of a key under an ephemeral secret of
// SparseWeight at ring degree 2^logN, for 128 bits against classical attacks. ok is false where no value
// is known.
func SparseBound(logN int) (bound int, ok bool) {
	bound, ok = sparseTable[logN]
	return bound, ok
}

// CheckSparse fails with ErrSecurity if a key under a sparse secret with the given limbs is above
// SparseBound. Insecure parameters pass.
func CheckSparse(p Parameters, limbs []int) error {
	qp := big.NewInt(1)
	for _, i := range limbs {
		if i < 0 || i >= len(p.data().moduli) {
			return fmt.Errorf("%w: %q has no limb %d", ErrParams, p.Name(), i)
		}
		qp.Mul(qp, new(big.Int).SetUint64(uint64(p.data().moduli[i].Q)))
	}
	bound, ok := SparseBound(p.LogN())
	if p.Insecure() || ok && qp.Cmp(new(big.Int).Lsh(big.NewInt(1), uint(bound))) <= 0 {
		return nil
	}
	return fmt.Errorf("%w: %q would publish a key of %.1f bits under a secret of weight %d; the bound at N = 2^%d "+
		"is %d (0: none is known)", ErrSecurity, p.Name(), log2Big(qp), SparseWeight, p.LogN(), bound)
}
