package rangecover

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/hencedge/hencedge/evaluator/model"
)

// Width is the bits of a digit; a feature of b bits has b/Width digits, rounded up.
const Width = 4

const digitMask = 1<<Width - 1

// ErrPlan is wrapped by the errors of forests that do not fit the slots or the plaintext modulus.
var ErrPlan = errors.New("model cannot be evaluated encrypted")

// Code says how the steps of a row become bits: for each feature and each of its digits, lowest first, the bits
// "digit >= k" for k from 1 to the digit's largest value. It depends on the grids alone, so an agent needs no model.
type Code struct {
	tops  []int
	first [][]int // position of the bit k = 1 of each digit of each feature
	size  int
}

// NewCode returns the code of features with these largest steps, each from 1 to 2^16-1.
func NewCode(tops []int) (*Code, error) {
	c := &Code{tops: append([]int(nil), tops...)}
	for f, top := range tops {
		if top < 1 || top >= 1<<model.MaxBits {
			return nil, fmt.Errorf("%w: feature %d has %d steps: from 1 to %d", ErrPlan, f, top, 1<<model.MaxBits-1)
		}
		var first []int
		for i := range digits(top) {
			first = append(first, c.size)
			c.size += largest(top, i)
		}
		c.first = append(c.first, first)
	}
	return c, nil
}

func digits(top int) int { return (bits.Len(uint(top)) + Width - 1) / Width }

// largest is the largest value that digit i of a step up to top can have.
func largest(top, i int) int { return min(top>>(Width*i), digitMask) }

// Size returns the number of bits of a row.
func (c *Code) Size() int { return c.size }

// Log returns the least l with Size at most 2^l.
func (c *Code) Log() int { return bits.Len(uint(c.size - 1)) }

// Bits encodes the steps of a row as Size numbers that are 0 or 1. It fails with model.ErrRow. Neither branches nor
// addresses depend on the steps.
func (c *Code) Bits(steps []int) ([]uint64, error) {
	if len(steps) != len(c.tops) {
		return nil, fmt.Errorf("%w: %d steps for %d features", model.ErrRow, len(steps), len(c.tops))
	}
	outside := 0
	out := make([]uint64, 0, c.size)
	for f, s := range steps {
		outside |= s | (c.tops[f] - s) // negative if either is
		for i := range c.first[f] {
			d := s >> (Width * i) & digitMask
			for k := 1; k <= largest(c.tops[f], i); k++ {
				out = append(out, uint64(k-1-d)>>63)
			}
		}
	}
	if outside < 0 {
		return nil, fmt.Errorf("%w: a step is not between 0 and its grid's last", model.ErrRow)
	}
	return out, nil
}

// term is one product of a cover: the values that each digit may have, lowest digit first. It holds where all do.
type term []uint16

const allValues = 1<<(1<<Width) - 1

// cover returns terms that hold for exactly the steps in spans, of all steps up to top; at most one holds for a step.
func cover(spans []model.Span, top int) []term {
	var out []term
	n := digits(top)
	var walk func(level, prefix int, path term)
	walk = func(level, prefix int, path term) {
		full := uint16(0)
		for v := 0; v <= digitMask; v++ {
			lo := (prefix<<Width | v) << (Width * level)
			if lo > top {
				break
			}
			switch in := covered(spans, lo, min(lo+1<<(Width*level), top+1)); {
			case in == whole:
				full |= 1 << v
			case in == part:
				path[level] = 1 << v
				walk(level-1, prefix<<Width|v, path)
			}
		}
		if full == 0 {
			return
		}
		t := append(term(nil), path...)
		t[level] = full
		for i := range level {
			t[i] = allValues
		}
		out = append(out, t)
	}
	walk(n-1, 0, make(term, n))
	return out
}

const (
	none = iota
	part
	whole
)

// covered says how much of the steps from lo to hi, without hi, lies in spans.
func covered(spans []model.Span, lo, hi int) int {
	in := 0
	for _, s := range spans {
		in += max(0, min(hi, s.Hi)-max(lo, s.Lo))
	}
	switch in {
	case 0:
		return none
	case hi - lo:
		return whole
	}
	return part
}

// outside returns the steps up to top that are not in spans.
func outside(spans []model.Span, top int) []model.Span {
	var out []model.Span
	from := 0
	for _, s := range spans {
		if s.Lo > from {
			out = append(out, model.Span{Lo: from, Hi: s.Lo})
		}
		from = s.Hi
	}
	if from <= top {
		out = append(out, model.Span{Lo: from, Hi: top + 1})
	}
	return out
}
