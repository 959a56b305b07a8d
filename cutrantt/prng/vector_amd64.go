package prng

import (
	"os"
	"sync"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C ../cpu/_asm ./prng -out ../../prng/zvector_amd64.s -stubs ../../prng/zvector_amd64.go -pkg prng

// vectorized reports whether the AVX-512 code is used: 16 blocks of ChaCha20 at a
// time. CUTRANTT_CPU=generic (or avx2) switches it off, as in package cpu; the words
// are the same.
var vectorized = sync.OnceValue(func() bool {
	x, name := &cpu.X86, os.Getenv("CUTRANTT_CPU")
	return (name == "" || name == "avx512") && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VPOPCNTDQ
})

// group is the number of words that blocksAVX512 makes.
const group = 256

// source is the state of one stream for blocksAVX512.
type source struct {
	seed     *[32]byte
	nonce    [3]uint32
	counters [16]uint32
}

// from sets the counters to block, block+1, ...
func (s *source) from(block int) {
	for i := range s.counters {
		s.counters[i] = uint32(block + i)
	}
}

func (s *source) blocks(dst *uint32) { blocksAVX512(dst, s.seed, &s.counters[0], &s.nonce[0]) }

func vectorWords(dst []uint32, seed *[32]byte, label, index, attempt uint32, start int) {
	s := source{seed: seed, nonce: [3]uint32{label, index, attempt}}
	var buf [group]uint32
	used := false
	for skip := start % 16; len(dst) > 0; {
		s.from(start / 16)
		k := min(group-skip, len(dst))
		if k == group {
			s.blocks(&dst[0])
		} else {
			s.blocks(&buf[0])
			copy(dst[:k], buf[skip:])
			used = true
		}
		dst, start, skip = dst[k:], start+k, 0
	}
	if used {
		clear(buf[:])
	}
}

// vectorUniform is Uniform for a multiple of 16 words.
func vectorUniform(dst []uint32, seed *[32]byte, label, index, q, mask uint32) {
	const part = 256 // blocks
	var rejected [part]uint16
	var buf [group]uint32
	for first := 0; first < len(dst); first += 16 * part {
		to := dst[first:min(first+16*part, len(dst))]
		vectorWords(to, seed, label, index, 0, first)
		rejectAVX512(&to[0], len(to), mask, q, &rejected[0])
		var list [part]uint32
		left := 0
		for b, bad := range rejected[:len(to)/16] {
			list[left] = uint32(b)
			left += min(1, int(bad))
		}
		s := source{seed: seed, nonce: [3]uint32{label, index, 0}}
		for left > 0 {
			s.nonce[2]++
			for i := 0; i < left; i += 16 {
				n := min(16, left-i)
				for j := range n {
					s.counters[j] = uint32(first/16) + list[i+j]
				}
				s.blocks(&buf[0])
				retryAVX512(&to[0], &buf[0], &list[i], n, mask, q, &rejected[0])
			}
			still := 0
			for _, b := range list[:left] {
				list[still] = b
				still += min(1, int(rejected[b]))
			}
			left = still
		}
	}
}

// vectorSmall draws len(dst), a multiple of 8, small integers from pairs of words;
// make is ternaryAVX512 or cbdAVX512.
func vectorSmall(dst []int32, seed *[32]byte, label uint32, cbd bool) {
	s := source{seed: seed, nonce: [3]uint32{label, 0, 0}}
	var buf [group]uint32
	for j := 0; j < len(dst); j += group / 2 {
		s.from(2 * j / 16)
		s.blocks(&buf[0])
		if n := min(group/2, len(dst)-j); cbd {
			cbdAVX512(&dst[j], &buf[0], n)
		} else {
			ternaryAVX512(&dst[j], &buf[0], n)
		}
	}
	clear(buf[:])
}
