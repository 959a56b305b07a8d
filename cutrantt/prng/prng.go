// Package prng is the one pseudo-random generator of hencedge: ChaCha20
// (RFC 8439), addressed so that any word can be computed on its own. CPU and
// GPU draw the same bits, in any order and in parallel.
//
// A stream is named by (seed, label, index, attempt): the 32-byte seed is the
// key, the nonce is the three little-endian 32-bit words label, index,
// attempt, and word j of the stream is word j%16 of block j/16 (the block
// counter starts at 0). Labels keep the uses of one seed apart.
//
// Secret seeds give Ternary and CBD. Their branches and addresses depend on
// lengths, the position in the stream and the machine's vector code, never on the
// seed or the values drawn. ChaCha20 consists of additions, exclusive ors and rotations
// by constants. The samplers use products, comparisons into masks and population counts
// in registers. Intermediate buffers are cleared. Uniform takes public seeds; its
// branches depend on which words are rejected (see Uniform).
package prng

import (
	"encoding/binary"
	"math/bits"

	"golang.org/x/crypto/chacha20"
)

// Sigma is the standard deviation of CBD: sqrt(21/2).
const Sigma = 3.2403703492039302

// genericWords fills dst with words start, start+1, ... of stream (seed, label,
// index, attempt). A stream has 2^36 words; start and len(dst) stay within it.
func genericWords(dst []uint32, seed *[32]byte, label, index, attempt uint32, start int) {
	var nonce [12]byte
	binary.LittleEndian.PutUint32(nonce[0:], label)
	binary.LittleEndian.PutUint32(nonce[4:], index)
	binary.LittleEndian.PutUint32(nonce[8:], attempt)
	c, err := chacha20.NewUnauthenticatedCipher(seed[:], nonce[:])
	if err != nil {
		panic(err) // the lengths are constants; cannot happen
	}
	c.SetCounter(uint32(start / 16))
	var buf [1024]byte
	skip := start % 16 // words of the first block
	for len(dst) > 0 {
		k := min(len(dst), len(buf)/4-skip)
		b := buf[:4*(skip+k)]
		clear(b)
		c.XORKeyStream(b, b)
		for i := range k {
			dst[i] = binary.LittleEndian.Uint32(buf[4*(skip+i):])
		}
		dst, skip = dst[k:], 0
	}
	clear(buf[:])
	*c = chacha20.Cipher{} // it holds the seed and a block of the stream
}

// Uniform fills dst with exact uniform residues modulo q, 2 <= q < 2^32, by
// multiplication (Lemire, "Fast Random Integer Generation in an Interval", ACM
// TOMACS 29(1), 2019, Algorithm 5). For residue j the words x at position j of
// attempts 0, 1, ... are tried in turn: m = x*q gives floor(m/2^32), unless m mod
// 2^32 is below 2^32 mod q (docs/cryptography.md). Every residue has then
// floor(2^32/q) words. Of all words (2^32 mod q)/2^32 are rejected, less than q/2^32:
// a fifth at worst for q < 2^30.
//
// Time and addresses depend on which words are rejected. Uniform residues and their
// seeds are public in every use. Even below a secret seed they would tell nothing of
// the residues: whether a word is rejected depends on that word alone, a rejected word
// is used nowhere, and an accepted one is uniform among the floor(2^32/q) words of
// each residue.
func Uniform(dst []uint32, seed *[32]byte, label, index, q uint32) {
	if c := selected(); c != generic && len(dst)%16 == 0 {
		vectorUniform(c, dst, seed, label, index, q)
		return
	}
	genericUniform(dst, seed, label, index, q)
}

// rejectBelow is 2^32 mod q.
func rejectBelow(q uint32) uint32 { return -q % q }

// residue is the residue modulo q from word x, and whether x is rejected.
func residue(x, q, below uint32) (r uint32, rejected bool) {
	m := uint64(x) * uint64(q)
	return uint32(m >> 32), uint32(m) < below
}

func genericUniform(dst []uint32, seed *[32]byte, label, index, q uint32) {
	below := rejectBelow(q)
	genericWords(dst, seed, label, index, 0, 0)
	var again []int
	for j, x := range dst {
		r, rejected := residue(x, q, below)
		if dst[j] = r; rejected {
			again = append(again, j)
		}
	}
	var run [256]uint32
	for attempt := uint32(1); len(again) > 0; attempt++ {
		// While many are left, neighbouring blocks are drawn in one go.
		span := 16
		if len(again) > len(dst)/64 {
			span = len(run)
		}
		left, have := again[:0], -1
		for _, j := range again {
			if j/span != have {
				have = j / span
				start := have * span
				genericWords(run[:min(span, len(dst)-start)], seed, label, index, attempt, start)
			}
			r, rejected := residue(run[j%span], q, below)
			if dst[j] = r; rejected {
				left = append(left, j)
			}
		}
		again = left
	}
}

// Ternary fills dst with -1, 0, 1, each with probability 1/3 up to 2^-62:
// coefficient j is floor(3*x/2^64) - 1 for x = word 2j + 2^32 * word 2j+1 of
// stream (seed, label, 0, 0). No branch or address depends on the values.
func Ternary(dst []int32, seed *[32]byte, label uint32) {
	if c := selected(); c != generic {
		vectorSmall(c, dst, seed, label, false)
		return
	}
	genericTernary(dst, seed, label)
}

func genericTernary(dst []int32, seed *[32]byte, label uint32) {
	pairs(len(dst), seed, label, func(j int, lo, hi uint32) {
		t, _ := bits.Mul64(uint64(hi)<<32|uint64(lo), 3)
		dst[j] = int32(t) - 1
	})
}

// CBD fills dst with the centred binomial distribution of 21 coin pairs:
// coefficient j is popcount(word 2j & (2^21-1)) - popcount(word 2j+1 &
// (2^21-1)) of stream (seed, label, 0, 0); standard deviation Sigma, support
// [-21, 21]. No branch or address depends on the values.
func CBD(dst []int32, seed *[32]byte, label uint32) {
	if c := selected(); c != generic {
		vectorSmall(c, dst, seed, label, true)
		return
	}
	genericCBD(dst, seed, label)
}

func genericCBD(dst []int32, seed *[32]byte, label uint32) {
	const mask = 1<<21 - 1
	// OnesCount64 where the processor has no instruction is shifts and sums;
	// OnesCount32 would be look-ups in a table.
	pairs(len(dst), seed, label, func(j int, lo, hi uint32) {
		dst[j] = int32(bits.OnesCount64(uint64(lo&mask)) - bits.OnesCount64(uint64(hi&mask)))
	})
}

func pairs(n int, seed *[32]byte, label uint32, f func(j int, lo, hi uint32)) {
	var w [256]uint32
	for j := 0; j < n; j += len(w) / 2 {
		k := min(len(w)/2, n-j)
		genericWords(w[:2*k], seed, label, 0, 0, 2*j)
		for i := range k {
			f(j+i, w[2*i], w[2*i+1])
		}
	}
	clear(w[:])
}
