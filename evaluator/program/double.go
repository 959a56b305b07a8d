package program

import "math"

// double is the unevaluated sum of two float64, the second at most half a unit in the
// last place of the first: about 106 bits (Dekker, "A floating-point technique for
// extending the available precision", Numerische Mathematik 18, 1971). Offsets are kept
// in it, because they may be large and cancel: x*y - z*w for values around 10^9 has
// parts of 10^18, where float64 has steps of 128.
type double struct{ hi, lo float64 }

func exactly(x float64) double { return double{x, 0} }

// value returns x rounded to float64.
func (x double) value() float64 { return x.hi }

func (x double) plus(y double) double {
	s := x.hi + y.hi
	t := s - x.hi
	return normal(s, (x.hi-(s-t))+(y.hi-t)+(x.lo+y.lo))
}

func (x double) times(y double) double {
	p := x.hi * y.hi
	return normal(p, math.FMA(x.hi, y.hi, -p)+(x.hi*y.lo+x.lo*y.hi))
}

// normal returns s+e for e much smaller than s. What is not finite has no second part.
func normal(s, e float64) double {
	hi := s + e
	if !finite(hi) {
		return double{hi: s}
	}
	return double{hi, e - (hi - s)}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
