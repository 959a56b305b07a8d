// Package kdf is HKDF-SHA256 (RFC 5869) for secrets that must not outlive their use.
// The standard library's hash.Hash and HMAC keep blocks of what they read, in memory
// that nobody can overwrite; here every byte lies in one buffer that is wiped before
// the call returns.
//
// No branch and no address depends on a secret: SHA-256 (FIPS 180-4) is sums, rotations
// by constants and logic.
package kdf

import (
	"encoding/binary"
	"math/bits"
)

// Size is the length of what Derive gives.
const Size = 32

const blockSize = 64

// Derive fills out with HKDF-SHA256 of ikm, without a salt, under info. It wipes what
// it computes on the way; ikm and info remain the caller's.
func Derive(out *[Size]byte, ikm []byte, info string) {
	h := newHasher()
	defer h.wipe()
	// Extract: an absent salt is a block of zeros.
	h.hmacStart(nil)
	h.write(ikm)
	h.hmacEnd(&h.prk)
	// Expand: one block is enough.
	h.hmacStart(h.prk[:])
	h.writeString(info)
	h.writeByte(1)
	h.hmacEnd(out)
}

// hasher is HMAC-SHA256 under way. It lies on the heap, since a stack that grows leaves
// a copy behind.
type hasher struct {
	state  [8]uint32
	words  [64]uint32 // message schedule
	block  [blockSize]byte
	length uint64 // bytes of the message so far; the block holds length%64 of them
	key    [blockSize]byte
	inner  [Size]byte
	prk    [Size]byte
}

//go:noinline
func newHasher() *hasher { return new(hasher) }

func (h *hasher) wipe() {
	clear(h.state[:])
	clear(h.words[:])
	clear(h.block[:])
	clear(h.key[:])
	clear(h.inner[:])
	clear(h.prk[:])
}

// hmacStart begins HMAC (RFC 2104) under a key of at most one block.
func (h *hasher) hmacStart(key []byte) {
	clear(h.key[copy(h.key[:], key):])
	h.pad(0x36)
}

// hmacEnd writes the HMAC to out.
func (h *hasher) hmacEnd(out *[Size]byte) {
	h.sum(&h.inner)
	h.pad(0x5c)
	h.write(h.inner[:])
	h.sum(out)
}

// pad begins a hash with the key's block, each byte combined with with.
func (h *hasher) pad(with byte) {
	h.state = [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
	h.length = 0
	for _, b := range h.key {
		h.writeByte(b ^ with)
	}
}

func (h *hasher) write(p []byte) {
	for _, b := range p {
		h.writeByte(b)
	}
}

func (h *hasher) writeString(s string) {
	for i := range len(s) {
		h.writeByte(s[i])
	}
}

func (h *hasher) writeByte(b byte) {
	h.block[h.length%blockSize] = b
	if h.length++; h.length%blockSize == 0 {
		h.compress()
	}
}

// sum ends the hash: a one bit, zeros, and the length in bits.
func (h *hasher) sum(out *[Size]byte) {
	length := h.length * 8
	h.writeByte(0x80)
	for h.length%blockSize != blockSize-8 {
		h.writeByte(0)
	}
	for i := range 8 {
		h.writeByte(byte(length >> (56 - 8*i)))
	}
	for i, v := range h.state {
		binary.BigEndian.PutUint32(out[4*i:], v)
	}
}

// compress takes the block in (FIPS 180-4, section 6.2.2).
func (h *hasher) compress() {
	w := &h.words
	for i := range 16 {
		w[i] = binary.BigEndian.Uint32(h.block[4*i:])
	}
	for i := 16; i < 64; i++ {
		x, y := w[i-15], w[i-2]
		s0 := bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3
		s1 := bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10
		w[i] = w[i-16] + s0 + w[i-7] + s1
	}
	v := h.state
	for i := range 64 { // the first variable is v[-i&7]: none moves
		a, b, c := v[-i&7], v[(1-i)&7], v[(2-i)&7]
		e, f, g := v[(4-i)&7], v[(5-i)&7], v[(6-i)&7]
		s1 := bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)
		t1 := v[(7-i)&7] + s1 + (e&f ^ ^e&g) + round[i] + w[i]
		s0 := bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)
		v[(3-i)&7] += t1
		v[(7-i)&7] = t1 + s0 + (a&b ^ a&c ^ b&c)
	}
	for i := range h.state {
		h.state[i] += v[i]
	}
	clear(v[:])
}

// round holds SHA-256's constants (FIPS 180-4, section 4.2.2).
var round = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}
