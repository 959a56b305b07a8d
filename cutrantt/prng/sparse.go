package prng

import "math/bits"

// Sparse fills dst with weight coefficients of 1 or -1 at random places, the other ones 0. It
// sorts one number for each coefficient: 62 bits of words 2j (low) and 2j+1 (high) of the
// stream, above two bits that say 0 or, for j < weight, 1 or -1 by bit 0 of word 2j. A bitonic
// network (Batcher, AFIPS 1968) sorts; its branches and addresses depend on len(dst) only.
// len(dst) is a power of two of at least weight; else dst is zero. Places are equally likely
// up to 2^-62*len(dst)^2.
func Sparse(dst []int32, weight int, seed *[32]byte, label uint32) {
	clear(dst)
	n := len(dst)
	if n == 0 || n&(n-1) != 0 || weight < 0 || weight > n {
		return
	}
	keys := make([]uint64, n)
	pairs(n, seed, label, func(j int, lo, hi uint32) {
		keys[j] = (uint64(hi)<<32 | uint64(lo)) &^ 3
		if j < weight {
			keys[j] |= 1 + uint64(lo&1)
		}
	})
	for k := 2; k <= n; k *= 2 {
		for d := k / 2; d > 0; d /= 2 {
			for i := range n {
				if i&d == 0 {
					lo, hi := i, i|d
					if i&k != 0 {
						lo, hi = hi, lo
					}
					a, b := keys[lo], keys[hi]
					_, less := bits.Sub64(b, a, 0) // 1 if b < a
					swap := (a ^ b) & -less
					keys[lo], keys[hi] = a^swap, b^swap
				}
			}
		}
	}
	for j, v := range keys {
		dst[j] = int32(v&1) - int32(v>>1&1)
	}
	clear(keys)
}
