package benchmark

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/hencedge/hencedge/cutrantt"
)

// The checks below compute with % on 64-bit integers, straight from the
// definitions in package cutrantt's documentation; they share no code with any
// backend.

func mulmod(a, b, q uint32) uint32 { return uint32(uint64(a) * uint64(b) % uint64(q)) }

func powmod(base uint32, e uint64, q uint32) uint32 {
	r := uint32(1) % q
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r = mulmod(r, base, q)
		}
		base = mulmod(base, base, q)
	}
	return r
}

// blockRoot is w_b = psi^(n2*(2*brv(b)+1)) for block b of n1 = N/n2 blocks.
func blockRoot(m cutrantt.Modulus, n1, n2, b int) uint32 {
	logN1 := bits.Len(uint(n1)) - 1
	r := bits.Reverse64(uint64(b)) >> (64 - logN1)
	if logN1 == 0 {
		r = 0
	}
	return powmod(m.Psi, uint64(n2)*(2*r+1), m.Q)
}

// checkTransform compares transformed with coeffs, both one limb in storage
// order of n2 columns: block b of column j must be the column's polynomial at
// w_b. The first, the last and some random blocks are evaluated by Horner's
// rule; any wrong coefficient shows in every one of them.
func checkTransform(op string, m cutrantt.Modulus, n2 int, coeffs, transformed []uint32, rng *rand.Rand) error {
	n1 := len(coeffs) / n2
	blocks := []int{0, n1 - 1, rng.IntN(n1), rng.IntN(n1)}
	for _, b := range blocks {
		w := blockRoot(m, n1, n2, b)
		for j := range n2 {
			col := coeffs[j*n1 : (j+1)*n1]
			var want uint32
			for i := n1 - 1; i >= 0; i-- {
				want = uint32((uint64(want)*uint64(w) + uint64(col[i])) % uint64(m.Q))
			}
			if got := transformed[j*n1+b]; got != want {
				return errWrong(op, fmt.Sprintf("column %d, block %d modulo %d", j, b, m.Q), got, want)
			}
		}
	}
	return nil
}

// checkHadamard compares c with the schoolbook product of a and b modulo
// X^n2 - w_b in every block of one limb.
func checkHadamard(m cutrantt.Modulus, n2 int, a, b, c []uint32) error {
	n1 := len(a) / n2
	q := uint64(m.Q)
	for blk := range n1 {
		w := uint64(blockRoot(m, n1, n2, blk))
		for k := range n2 {
			var low, wrap uint64
			for i := range n2 {
				j := k - i
				if j >= 0 {
					low += uint64(a[i*n1+blk]) * uint64(b[j*n1+blk]) % q
				} else {
					wrap += uint64(a[i*n1+blk]) * uint64(b[(j+n2)*n1+blk]) % q
				}
			}
			want := uint32((low + wrap%q*w) % q)
			if got := c[k*n1+blk]; got != want {
				return errWrong("hadamard", fmt.Sprintf("coefficient %d of block %d modulo %d", k, blk, m.Q), got, want)
			}
		}
	}
	return nil
}

// checkSlots compares decoded slots with the expected ones.
func checkSlots(op string, got, want []complex128, tolerance float64) error {
	if len(got) < len(want) {
		return errWrong(op, "the number of slots", len(got), len(want))
	}
	for i, w := range want {
		d := got[i] - w
		// Written so that a NaN fails.
		if !(real(d)*real(d)+imag(d)*imag(d) <= tolerance*tolerance) {
			return errWrong(op, fmt.Sprintf("slot %d (tolerance %.1e)", i, tolerance), got[i], w)
		}
	}
	return nil
}
