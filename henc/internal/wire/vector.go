package wire

import (
	"math"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
)

//go:generate go run -C ../../../cutrantt/cpu/_asm ./arm64 -out ../../../henc/internal/wire/zvector_arm64.s -stubs ../../../henc/internal/wire/zvector_arm64.go -pkg wire

// code is one variant of vector code for pairs of w = cutrantt.PairBits(q) bits, minVector <=
// w <= 60. A group is 8 pairs, 16 residues: w bytes. It touches 64 bytes from the
// first of every group on.
type code struct {
	// pack packs groups of residues. What it writes behind a group is not part of it.
	pack func(dst *byte, x *uint32, groups int, w, q uint64, t *uint64)
	// unpack is its inverse; it gives 0 if every pair is below q^2. mu is barrett(q).
	unpack func(dst *uint32, src *byte, groups int, w, q, mu uint64, t *uint64) uint64
	// packAligned and unpackAligned do the same for w that are multiples of 4; nil if
	// there is no other code for them.
	packAligned   func(dst *byte, x *uint32, groups int, w, q uint64, t *uint64)
	unpackAligned func(dst *uint32, src *byte, groups int, w, q, mu uint64, t *uint64) uint64

	tables [61]func() *layout // by w
}

// minVector is the narrowest pair for vector code: three of them and two bits more
// reach over a word of 64 bits wherever they begin.
const minVector = 32

// touched is how many bytes from its first on a group may touch.
const touched = 64

// barrett is floor(2^(w+1)/q), below 2^32, for w = cutrantt.PairBits(q). Times the upper 31 bits of
// a pair it is the quotient by q times 2^32, at most one too small for pairs below q^2,
// at most two for others.
func barrett(q uint32) uint64 { return 1 << (cutrantt.PairBits(q) + 1) / uint64(q) }

// layout has the tables for pairs of w bits, as the vector code reads them: those of
// newStrings for vectors of 2 lanes, else for each vector of lanes words of a group, indices of
// pairs and shifts for its words (pack),
// and indices of words and shifts for its pairs (unpack). A shift of 64 or more
// gives 0. Vectors of 4 lanes are halves of a group; the second begins in the byte
// at w/2, at bit 4 of it if w is odd.
type layout struct {
	pack   [48]uint64
	unpack [56]uint64
}

// newCode is c with its tables, for vectors of 2, 4 or 8 words.
func newCode(lanes int, c code) *code {
	table := func(w int) *layout { return newLayout(w, lanes) }
	if lanes == 2 {
		table = newStrings
	}
	for w := minVector; w < len(c.tables); w++ {
		c.tables[w] = sync.OnceValue(func() *layout { return table(w) })
	}
	return &c
}

// newLayout makes the tables for vectors of 4 or 8 lanes.
func newLayout(w, lanes int) *layout {
	t := new(layout)
	for h := range 8 / lanes {
		start := h * (4 * w % 8) // of the first pair, from the byte where the half begins
		pack, unpack := t.pack[h*6*lanes:], t.unpack[h*4*lanes:]
		for k := range lanes {
			// Word k has bits of pairs i, i+1 and i+2, the first from its bit s on. The pair
			// before the half, of which it may have some bits, ends at start. Bits behind the
			// half do not matter.
			i, s := -1, w-start
			if k > 0 {
				i, s = (64*k-start)/w, (64*k-start)%w
			}
			for j := range 3 {
				shift := s
				if j > 0 {
					shift = j*w - s
				}
				if i+j < 0 && h == 0 {
					shift = 64
				}
				pack[2*j*lanes+k] = index(min(max(i+j, 0), lanes-1), lanes)
				pack[(2*j+1)*lanes+k] = uint64(shift)
			}
			// Pair k is in word i from bit s on, and in the next.
			i, s = (start+k*w)/64, (start+k*w)%64
			unpack[k], unpack[lanes+k] = index(i, lanes), uint64(s)
			unpack[2*lanes+k], unpack[3*lanes+k] = index(min(i+1, lanes-1), lanes), uint64(64-s)
		}
	}
	for k := range 8 {
		t.unpack[32+k], t.unpack[40+k], t.unpack[48+k] = 1<<w-1, uint64(w-quotientBits), 32
	}
	return t
}

// quotientBits is how many of a pair's upper bits give its quotient by q.
const quotientBits = 31

// newStrings makes the tables for vectors of 2 lanes, which work on strings of two pairs
// and two strings at a time. String i begins in byte 2*w*i/8 of its group. Shifts are to
// the left, negative ones to the right: those of the first and of the second pair of a
// string, to or from its lower and its upper word.
func newStrings(w int) *layout {
	t := new(layout)
	for i := range 4 {
		s := 2 * w * i % 8
		for j, shift := range []int{s, s - 64, s + w, s + w - 64} {
			k := 8*(i/2) + 2*j + i%2
			t.pack[k], t.unpack[k] = uint64(shift), uint64(-shift)
		}
		if i == 0 {
			continue
		}
		// The string before may end in the byte where this one begins: an index of it, and
		// 15 that give 0.
		last := uint64(math.MaxUint64)
		if s > 0 {
			last = last<<8 | uint64(2*w*i/8-2*w*(i-1)/8)
		}
		t.pack[14+2*i], t.pack[15+2*i] = last, math.MaxUint64
	}
	for k := range 2 {
		t.unpack[16+k], t.unpack[18+k] = 1<<w-1, uint64(quotientBits-w)
	}
	return t
}

// index names a word: itself for 8 lanes, two halves of 32 bits for 4 lanes.
func index(i, lanes int) uint64 {
	if lanes == 8 {
		return uint64(i)
	}
	return uint64(2*i+1)<<32 | uint64(2*i)
}

// groups is how many groups of w bytes vector code may work on in size bytes.
func groups(size, w int) int {
	if size < touched {
		return 0
	}
	return (size-touched)/w + 1
}

// packSome packs as many residues of x as vector code can, and says how many.
func (c *code) packSome(dst []byte, x []uint32, q uint32) int {
	w := cutrantt.PairBits(q)
	n := min(groups(len(dst), w), len(x)/16)
	if w < minVector || n == 0 {
		return 0
	}
	pack := c.pack
	if w%4 == 0 && c.packAligned != nil {
		pack = c.packAligned
	}
	pack(&dst[0], &x[0], n, uint64(w), uint64(q), &c.tables[w]().pack[0])
	return 16 * n
}

// unpackSome unpacks as many residues as vector code can, and says how many; 0 if
// one of their pairs is not below q^2.
func (c *code) unpackSome(dst []uint32, src []byte, q uint32) int {
	w := cutrantt.PairBits(q)
	n := min(groups(len(src), w), len(dst)/16)
	if w < minVector || n == 0 {
		return 0
	}
	unpack := c.unpack
	if w%4 == 0 && c.unpackAligned != nil {
		unpack = c.unpackAligned
	}
	if unpack(&dst[0], &src[0], n, uint64(w), uint64(q), barrett(q), &c.tables[w]().unpack[0]) != 0 {
		return 0
	}
	return 16 * n
}
