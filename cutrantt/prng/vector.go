package prng

import (
	"encoding/binary"
	"math/bits"
)

//go:generate go run -C ../cpu/_asm ./arm64 -out ../../prng/zvector_arm64.s -stubs ../../prng/zvector_arm64.go -pkg prng

// The vector code computes several ChaCha20 blocks at a time, one in each 32-bit
// lane, and gives the bits of plain Go. What the variants share is here; a file for
// each architecture has the type code, which names them.

// most is the most blocks that a variant computes at a time.
const most = 32

// source is a stream as the vector code reads it: the first block's state (RFC 8439,
// section 2.3) with the counters of the next blocks beside it, the modulus q and 2^32
// mod q of uniform residues, and memory for words that are in no register.
type source struct {
	state    [16]uint32
	counters [most]uint32
	q, below uint32
	spill    [16 * 16]uint32
}

// open names the stream; it fills s in place, so that there is no other copy of the
// seed to wipe.
func (s *source) open(seed *[32]byte, label, index, attempt uint32) {
	s.state = [16]uint32{0: 0x61707865, 1: 0x3320646e, 2: 0x79622d32, 3: 0x6b206574, 13: label, 14: index, 15: attempt}
	for i := range 8 {
		s.state[4+i] = binary.LittleEndian.Uint32(seed[4*i:])
	}
}

// wipe clears what a secret seed leaves behind.
func (s *source) wipe() {
	clear(s.state[:])
	clear(s.spill[:])
}

// from sets the counters to block, block+1, ...
func (s *source) from(block int) {
	for i := range s.counters {
		s.counters[i] = uint32(block + i)
	}
}

// vectorUniform is Uniform for a multiple of 16 words. The blocks with rejected words
// are listed, and listed blocks are computed together wherever they stand.
func vectorUniform(c code, dst []uint32, seed *[32]byte, label, index, q uint32) {
	const part = 512 // blocks
	var s source
	s.open(seed, label, index, 0)
	s.q, s.below = q, rejectBelow(q)
	var (
		rejected [part / 8]byte
		list     [part]uint32
		buf      [16 * most]uint32
	)
	for first := 0; first < len(dst); first += 16 * part {
		to := dst[first:min(first+16*part, len(dst))]
		blocks, base := len(to)/16, uint32(first/16)
		s.from(first / 16)
		groups := blocks / c.many()
		if groups > 0 {
			c.uniform(&to[0], groups, &s, &rejected[0])
		}
		if done := groups * c.many(); done < blocks {
			c.uniform(&buf[0], 1, &s, &rejected[done/8])
			copy(to[16*done:], buf[:])
		}
		left := 0
		for i := 0; i < blocks; i += 64 {
			set := binary.LittleEndian.Uint64(rejected[i/8:])
			if blocks-i < 64 {
				set &= 1<<(blocks-i) - 1
			}
			for ; set != 0; set &= set - 1 {
				list[left] = uint32(i + bits.TrailingZeros64(set))
				left++
			}
		}
		for left > 0 {
			s.state[15]++
			still := 0
			for i := 0; i < left; i += c.many() {
				n := min(c.many(), left-i)
				for j, b := range list[i : i+n] {
					s.counters[j] = base + b
				}
				if n > c.few() {
					c.uniform(&buf[0], 1, &s, &rejected[0])
				} else {
					c.again(&buf[0], 1, &s, &rejected[0])
				}
				still += c.retry(&to[0], &buf[0], &list[i], n, &list[still])
			}
			left = still
		}
		s.state[15] = 0
	}
}

// vectorSmall is CBD or Ternary.
func vectorSmall(c code, dst []int32, seed *[32]byte, label uint32, cbd bool) {
	var (
		s   source
		buf [8 * most]int32
	)
	s.open(seed, label, 0, 0)
	s.from(0)
	draw := func(dst *int32, groups int) {
		if cbd {
			c.cbd(dst, groups, &s)
		} else {
			c.ternary(dst, groups, &s)
		}
	}
	group := 8 * c.many()
	if groups := len(dst) / group; groups > 0 {
		draw(&dst[0], groups)
		dst = dst[groups*group:]
	}
	if len(dst) > 0 {
		draw(&buf[0], 1)
		copy(dst, buf[:])
	}
	clear(buf[:])
	s.wipe()
}
