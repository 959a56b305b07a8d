package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/hencedge/hencedge/cutrantt"
)

// PackInto writes the packed residues x, each below q < 2^30, to the
// cutrantt.PackedBytes(len(x), q) bytes of dst; len(x) is a multiple of 16. Residues are taken in
// pairs: x[2i] + q*x[2i+1], below q^2, is written in bitlen(q^2-1) bits, lowest bit
// first, one pair straight after the other, lowest bit of each byte first. A pair loses
// less than a bit against 2*log2(q).
func PackInto(dst []byte, x []uint32, q uint32) { packInto(selected(), dst, x, q) }

// packInto is PackInto with the given vector code, nil for plain Go.
func packInto(c *code, dst []byte, x []uint32, q uint32) {
	if c != nil {
		done := c.packSome(dst, x, q)
		dst, x = dst[cutrantt.PackedBytes(done, q):], x[done:]
	}
	w := uint(cutrantt.PairBits(q)) // <= 60
	var acc uint64                  // the low n bits wait to be written
	var n uint                      // < 64
	for ; len(x) >= 2; x = x[2:] {
		v := uint64(x[0]) + uint64(q)*uint64(x[1])
		acc |= v << (n & 63)
		if n += w; n >= 64 {
			binary.LittleEndian.PutUint64(dst, acc)
			dst = dst[8:]
			n -= 64
			acc = v >> ((w - n) & 63)
		}
	}
	for ; n >= 8; n -= 8 {
		dst[0] = byte(acc)
		dst = dst[1:]
		acc >>= 8
	}
}

// Unpack is the inverse of PackInto. It fails with ErrLength unless src has
// cutrantt.PackedBytes(len(dst), q) bytes, and with ErrRange for a pair that is not below q^2.
func Unpack(dst []uint32, src []byte, q uint32) error { return unpack(selected(), dst, src, q) }

// unpack is Unpack with the given vector code, nil for plain Go.
func unpack(c *code, dst []uint32, src []byte, q uint32) error {
	if len(dst)%16 != 0 || q < 2 || len(src) != cutrantt.PackedBytes(len(dst), q) {
		return fmt.Errorf("%w: %d bytes for %d residues modulo %d", ErrLength, len(src), len(dst), q)
	}
	done := 0
	if c != nil {
		done = c.unpackSome(dst, src, q)
		src = src[cutrantt.PackedBytes(done, q):]
	}
	w := uint(cutrantt.PairBits(q))
	mask, q64 := uint64(1)<<w-1, uint64(q)
	limit, m := q64*q64, math.MaxUint64/q64
	var acc uint64 // the low n bits are read but not used
	var n uint
	for i := done; i < len(dst); i += 2 {
		v := acc
		if n >= w {
			acc >>= w
			n -= w
		} else {
			var next uint64
			got := uint(64)
			if len(src) >= 8 {
				next, src = binary.LittleEndian.Uint64(src), src[8:]
			} else {
				got = 8 * uint(len(src))
				for k, b := range src {
					next |= uint64(b) << (8 * k)
				}
				src = nil
			}
			v |= next << n
			acc = next >> (w - n)
			n += got - w
		}
		v &= mask
		if v >= limit {
			return fmt.Errorf("%w: pair %d is not below %d^2", ErrRange, i/2, q)
		}
		h, _ := bits.Mul64(v, m) // v/q, or one less
		r := v - h*q64
		if r >= q64 {
			r, h = r-q64, h+1
		}
		dst[i], dst[i+1] = uint32(r), uint32(h)
	}
	return nil
}
