package program

import "math"

// failure is the probability, per value and over the randomness of keys and
// encryptions, that a promised error is exceeded.
const failure = 1e-16

// failureTogether is that of a result which ran together with others, whose noise it meets
// where they share a sum. What a program promises for 1e-16 is documented for 1e-15.
const failureTogether = 5e-16

// spread describes a random error by a bound on its moment generating function:
//
//	log E exp(t*X) <= (sd^2*t^2/2) / (1 - tail^2*t^2)   for |t| < 1/tail
//
// A normal error has tail 0. An error in a slot of a ciphertext is a product of
// two independent complex normal numbers (noise times key, at that root of
// unity), so its real part follows Laplace's law: tail = sd/sqrt(2). Counting
// standard deviations as if it were normal would promise far too much: eight of
// them are exceeded once in 80000 values, not once in 10^15.
type spread struct{ sd, tail float64 }

// laplace returns the error of a slot with standard deviation sd.
func laplace(sd float64) spread { return spread{sd, sd / math.Sqrt2} }

func (s spread) times(a float64) spread {
	a = math.Abs(a)
	return spread{s.sd * a, s.tail * a}
}

// with returns the error of a sum of two errors that may depend on each other
// (Hoelder's inequality with weights in proportion to the deviations).
func (s spread) with(t spread) spread {
	switch {
	case s.sd == 0:
		return t
	case t.sd == 0:
		return s
	}
	sd := s.sd + t.sd
	return spread{sd, sd * max(s.tail/s.sd, t.tail/t.sd)}
}

// plus returns the error of a sum of two independent errors. The tails add like the
// deviations, because errors under one key share the key's value at the slot.
func (s spread) plus(t spread) spread {
	return spread{math.Hypot(s.sd, t.sd), math.Hypot(s.tail, t.tail)}
}

// sum returns the error of a sum of n independent errors of different slots.
func (s spread) sum(n int) spread { return spread{s.sd * math.Sqrt(float64(n)), s.tail} }

// rotations returns the noise of several rotations, each of deviation sd in every slot, in a
// sum of count slots altogether. One slot of the key meets at most one slot of each
// rotation, so that many errors can grow with it together.
func rotations(sd float64, several, count int) spread {
	return spread{sd * math.Sqrt(float64(count)), sd * math.Sqrt(float64(several)/2)}
}

// limit is exceeded in magnitude with probability at most failure: Chernoff's
// bound, minimised over t.
func (s spread) limit() float64 { return s.limitAt(failure) }

// limitAt is limit for another probability.
func (s spread) limitAt(failure float64) float64 {
	if s.sd == 0 {
		return 0
	}
	l := math.Log(2 / failure)
	f := func(t float64) float64 { return s.sd*s.sd*t/2/(1-s.tail*s.tail*t*t) + l/t }
	hi := 4 * math.Sqrt(2*l) / s.sd
	if s.tail > 0 {
		hi = min(hi, (1-1e-9)/s.tail)
	}
	lo := hi * 1e-6
	for range 80 { // f is convex
		a, b := lo+(hi-lo)/3, hi-(hi-lo)/3
		if f(a) < f(b) {
			hi = b
		} else {
			lo = a
		}
	}
	return f((lo + hi) / 2)
}

// deviation is the error of one value in the slots of a ciphertext, in the
// units of that value: a part that is independent from slot to slot, a part
// that all slots of a window share, and a part known to stay below fixed.
type deviation struct {
	own, common spread
	fixed       float64
}

func (d deviation) times(a float64) deviation {
	return deviation{d.own.times(a), d.common.times(a), d.fixed * math.Abs(a)}
}

// with adds an error that may depend on d, plus one that does not.
func (d deviation) with(e deviation) deviation {
	return deviation{d.own.with(e.own), d.common.with(e.common), d.fixed + e.fixed}
}

func (d deviation) plus(e deviation) deviation {
	return deviation{d.own.plus(e.own), d.common.plus(e.common), d.fixed + e.fixed}
}

// noise adds fresh noise of the scheme.
func (d deviation) noise(sd float64) deviation {
	d.own = d.own.plus(laplace(sd))
	return d
}

// sum returns the error of a sum over count slots whose magnitudes add up to total
// times the largest.
func (d deviation) sum(count int, total float64) deviation {
	return deviation{d.own.sum(count), d.common.times(total), d.fixed * max(total, float64(count))}
}

// across returns the error of a sum over windows, each with an error of its own.
func (d deviation) across(windows float64) deviation {
	root := math.Sqrt(windows)
	return deviation{d.own.times(root), d.common.times(root), d.fixed * windows}
}

// shared makes the whole error common to all slots.
func (d deviation) shared() deviation {
	return deviation{common: d.own.with(d.common), fixed: d.fixed}
}

// limit bounds the magnitude of the error.
func (d deviation) limit() float64 { return d.limitAt(failure) }

func (d deviation) limitAt(failure float64) float64 {
	return d.own.with(d.common).limitAt(failure) + d.fixed
}

// or returns what is at least either of two errors.
func (d deviation) or(e deviation) deviation {
	largest := func(a, b spread) spread { return spread{max(a.sd, b.sd), max(a.tail, b.tail)} }
	return deviation{largest(d.own, e.own), largest(d.common, e.common), max(d.fixed, e.fixed)}
}

// product returns the error of a product of values bounded by magA and magB. The
// product of the two errors is counted with one of them at its limit; the factor
// 2 covers their imaginary parts.
func product(a, b deviation, magA, magB float64, dependent bool) deviation {
	x, y := a.times(magB+2*b.limit()), b.times(magA)
	if dependent {
		return x.with(y)
	}
	return x.plus(y)
}
