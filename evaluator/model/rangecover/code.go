package rangecover

import (
	"errors"

	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/henc/bfv/steps"
)

// ErrPlan is wrapped by the errors of forests that do not fit the slots or the plaintext modulus.
var ErrPlan = errors.New("model cannot be evaluated encrypted")

// term is one product of a cover: the values that each digit may have, lowest digit first. It holds where all do.
type term []uint16

const allValues = 1<<(1<<steps.Width) - 1

// cover returns terms that hold for exactly the steps in spans, of all steps up to top; at most one holds for a step.
func cover(spans []model.Span, top int) []term {
	var out []term
	n := steps.Digits(top)
	var walk func(level, prefix int, path term)
	walk = func(level, prefix int, path term) {
		full := uint16(0)
		for v := 0; v <= steps.DigitMask; v++ {
			lo := (prefix<<steps.Width | v) << (steps.Width * level)
			if lo > top {
				break
			}
			switch in := covered(spans, lo, min(lo+1<<(steps.Width*level), top+1)); {
			case in == whole:
				full |= 1 << v
			case in == part:
				path[level] = 1 << v
				walk(level-1, prefix<<steps.Width|v, path)
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
