// Package steps is how a row of whole numbers becomes one ciphertext of package bfv, for comparisons by range covers:
// each number in digits of Width bits, each digit as a thermometer, all bits as coefficients that the evaluator takes
// apart by automorphisms. What is sent depends on the largest numbers alone, not on what they are compared with.
package steps

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// Width is the bits of a digit; a number of b bits has b/Width digits, rounded up.
const Width = 4

// DigitMask is the largest digit.
const DigitMask = 1<<Width - 1

// MaxBits bounds the bits of a number.
const MaxBits = 16

var (
	// ErrCode: the numbers have no code, or one that does not fit the parameters.
	ErrCode = errors.New("numbers cannot be encoded")
	// ErrRow: a row is not one of the code.
	ErrRow = errors.New("row refused")
)

// Code says how the numbers of a row become bits: for each number and each of its digits, lowest first, the bits
// "digit >= k" for k from 1 to the digit's largest value.
type Code struct {
	tops  []int
	first [][]int // position of the bit k = 1 of each digit of each number
	size  int
}

// NewCode returns the code of rows whose numbers are from 0 to tops, each of which is from 1 to 2^16-1. It fails with
// ErrCode.
func NewCode(tops []int) (*Code, error) {
	if len(tops) == 0 {
		return nil, fmt.Errorf("%w: a row has at least one", ErrCode)
	}
	c := &Code{tops: append([]int(nil), tops...)}
	for f, top := range tops {
		if top < 1 || top >= 1<<MaxBits {
			return nil, fmt.Errorf("%w: number %d has %d steps: from 1 to %d", ErrCode, f, top, 1<<MaxBits-1)
		}
		var first []int
		for i := range Digits(top) {
			first = append(first, c.size)
			c.size += Largest(top, i)
		}
		c.first = append(c.first, first)
	}
	return c, nil
}

// Digits returns how many digits numbers up to top have.
func Digits(top int) int { return (bits.Len(uint(max(top, 0))) + Width - 1) / Width }

// Largest is the largest value that digit i of a number up to top can have.
func Largest(top, i int) int { return min(top>>(Width*max(i, 0)), DigitMask) }

// Size returns the number of bits of a row.
func (c *Code) Size() int { return c.size }

// Log returns the least l with Size at most 2^l.
func (c *Code) Log() int { return bits.Len(uint(max(c.size, 1) - 1)) }

// Tops returns the largest value of each number. It is not to be modified.
func (c *Code) Tops() []int { return c.tops }

// First returns the position of the bit "digit i >= 1" of number f.
func (c *Code) First(f, i int) int { return c.first[f][i] }

// Bits encodes a row as Size numbers that are 0 or 1. It fails with ErrRow. Neither branches nor addresses depend on
// the numbers of the row.
func (c *Code) Bits(row []int) ([]uint64, error) {
	if len(row) != len(c.tops) {
		return nil, fmt.Errorf("%w: %d numbers, the code has %d", ErrRow, len(row), len(c.tops))
	}
	outside := 0
	out := make([]uint64, 0, c.size)
	for f, s := range row {
		outside |= s | (c.tops[f] - s) // negative if either is
		for i := range c.first[f] {
			d := s >> (Width * i) & DigitMask
			for k := 1; k <= Largest(c.tops[f], i); k++ {
				out = append(out, uint64(k-1-d)>>63)
			}
		}
	}
	if outside < 0 {
		return nil, fmt.Errorf("%w: a number is not between 0 and its largest value", ErrRow)
	}
	return out, nil
}

// Encode makes the plaintext of a row, to be encrypted: the bits of its code as coefficients, divided by what their
// separation multiplies them with. It fails as Code.Bits, and with ErrCode if there are more bits than coefficients.
func Encode(ctx *bfv.Context, code *Code, row []int) (*bfv.Plaintext, error) {
	p := ctx.Parameters()
	if code == nil || code.Size() > p.N() {
		return nil, fmt.Errorf("%w: more bits than the %d coefficients of a row, or none", ErrCode, p.N())
	}
	list, err := code.Bits(row)
	if err != nil {
		return nil, err
	}
	defer clear(list)
	half, scale := uint64(p.T()+1)/2, uint64(1)
	for range code.Log() {
		scale = scale * half % uint64(p.T())
	}
	for i := range list {
		list[i] *= scale
	}
	return ctx.EncodeCoeffs(list)
}

// Elements returns the Galois elements whose keys an evaluator of rows of a code needs.
func Elements(p bfv.Parameters, code *Code) []uint64 {
	var out []uint64
	for j := range code.Log() {
		out = append(out, uint64(p.N()>>j+1))
	}
	for k := 1; k < p.N()/2; k *= 2 {
		out = append(out, henc.GaloisElement(p.Base(), -k))
	}
	return append(out, henc.ConjugationElement(p.Base()))
}
