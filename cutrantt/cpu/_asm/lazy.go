package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Lazy transforms are for primes below 2^28, for which 32 bits with a sign hold at
// least (-8q, 8q): butterflies do not correct, and take 9 operations where those of
// passes.go take 12. Twiddles are residues w in (-q/2, q/2) with the quotient
// w' = w*2^32/q, rounded, and for any x, |x| < 2^31, the product x*w -
// floor(x*w'/2^32)*q is in (-q/4, 5q/4): w' is off by at most 1/2, so that
// floor(x*w'/2^32) is that of x*w/q + e, |e| < 1/4.
//
// Forward, a butterfly adds 5q/4 to the bound of |x| at most. Bounds are followed by
// the caller (reductions in vector_lazy.go), which picks the code that first reduces
// the operands that are not multiplied. In the inverse sums double and products start
// anew; there this file follows the bounds, in quarters of q, and reduces what would
// pass the limit.

// lazyArg is the argument of lazy functions that stands for the modulus: its words
// are q, floor(2^38/q) in the upper half, and a multiple of q up to 2^31.
const lazyArg = "m *uint32"

const lazyPassArgs = "dst, src *uint32, size, first, groups int, t *uint64, " + lazyArg

// lazyFunction starts a lazy function.
func (g *gen) lazyFunction(name, signature, doc string) {
	g.start(name, signature, doc)
	m := pointer("m")
	g.q, g.inv, g.bias = g.broadcastAt(at(m, 0)), g.broadcastAt(at(m, 4)), nil
}

// broadcastAt is the 32-bit word at m in every lane.
func (g *gen) broadcastAt(m Mem) vec {
	r := g.reg()
	VPBROADCASTD(m, r)
	return r
}

// lazyMul is x*w mod q in (-q/4, 5q/4).
func (g *gen) lazyMul(x []vec, w []twiddle) []vec { return g.shoup(VPMULDQ, x, w) }

// reduce brings x, |x| < 2^31, to (-q/128, q + q/64). h = floor(u*c/2^22), where u is
// the upper half of x and c = floor(2^38/q), is x/q but for the lower half of x
// (below 2^16 <= q/128), for c (off by less than 1, which counts |u|/2^22 <= 1/128),
// and for what the floor drops.
func (g *gen) reduce(x vec) vec {
	h, r := g.reg(), g.reg()
	VPMULHW(g.inv, x, h)
	VPSRAD(U8(22), h, h)
	VPMULLD(g.q, h, h)
	VPSUBD(h, x, r)
	return r
}

// reduceUnsigned is reduce for x in [0, 2^32): to [0, q + q/32).
func (g *gen) reduceUnsigned(x vec) vec {
	h, r := g.reg(), g.reg()
	VPMULHUW(g.inv, x, h)
	VPSRLD(U8(22), h, h)
	VPMULLD(g.q, h, h)
	VPSUBD(h, x, r)
	return r
}

// lazyButterflies are (a + w*b, a - w*b); with reduced, a is reduced before the
// outermost level.
func (g *gen) lazyButterflies(reduced bool) butterflies[vec] {
	return func(level int, a, b []vec, w []twiddle) (_, _ []vec) {
		v := g.lazyMul(b, w)
		s, d := g.regs(a), g.regs(a)
		for i, c := range a {
			if reduced && level == 0 {
				c = g.reduce(c)
			}
			VPADDD(v[i], c, s[i])
			VPSUBD(v[i], c, d[i])
		}
		return s, d
	}
}

// lazyLastButterfly is the butterfly of the last level; the results are in [0, q).
// The bias makes them positive first.
func (g *gen) lazyLastButterfly(a, b vec, w twiddle) (_, _ vec) {
	s, d := one(g.lazyButterflies(false))(4, g.op2(VPADDD, a, g.bias), b, w)
	return g.corr(g.reduceUnsigned(s), g.q), g.corr(g.reduceUnsigned(d), g.q)
}

// lazyName tells the two forms of a forward function apart.
func lazyName(name string, reduced bool) (_, doc string) {
	if reduced {
		return name + "Reduced", "Operands of the first level that are not multiplied are reduced before."
	}
	return name + "Lazy", "No operand is reduced: bounds grow by 5q/4 a level."
}

func (g *gen) lazyForward() {
	for _, reduced := range []bool{false, true} {
		for k := 1; k <= g.merged(); k++ {
			name, doc := lazyName(fmt.Sprintf("forward%d", k), reduced)
			g.lazyFunction(name, lazyPassArgs,
				fmt.Sprintf("is forward%d for signed residues and the twiddles of lazyPair.\n%s", k, doc))
			g.pass(k, 1, func(x []vec, w [][]func() twiddle) []vec {
				return g.levels(k, x, w, g.lazyButterflies(reduced))
			})
		}
	}
}

// lazyLastFunction starts lazy code of the last five levels.
func (g *gen) lazyLastFunction(e ends, name string, reduced bool) {
	name, doc := lazyName("forwardLast"+name, reduced)
	g.lazyFunction(name, "x *uint32, blocks int, s *uint64, "+e.arg()+lazyArg,
		fmt.Sprintf(`is forwardLast for signed residues and the twiddles of lazyPair; to [0, q).
The number of blocks is a multiple of %d. %s`, e.together, doc))
	g.bias = g.broadcastAt(at(pointer("m"), 8))
}

func (g *gen) lazyForwardLast(e ends) {
	for _, reduced := range []bool{false, true} {
		g.lazyLastFunction(e, e.name(), reduced)
		g.lastLevels(e, VPMULDQ, g.lazyButterflies(reduced), g.lazyLastButterfly, nil)
	}
}

// ranged is a vector of residues above lo*q/4 and below hi*q/4.
type ranged struct {
	vec
	lo, hi int
}

// lazyClass is a class of primes for the inverse: those below 2^bits.
type lazyClass struct {
	bits  int
	limit int         // of |x|, in quarters of q
	hi    int         // what passes take and leave: (-hi/5, hi) quarters
	lifts map[int]vec // multiples of q that make sums positive
}

// lazyClasses are the classes with code of their own: with fewer bits less has to be
// reduced, per pass of three levels 1 sum of 8 instead of 3.
func lazyClasses() []*lazyClass {
	return []*lazyClass{{bits: 26, limit: 128, hi: 20}, {bits: 28, limit: 32, hi: 10}}
}

// lifted is x plus the least of the class's multiples of q that makes it positive.
func (g *gen) lifted(c *lazyClass, x ranged) vec {
	for n := 1; n <= 32; n *= 2 {
		if v, ok := c.lifts[n]; ok && x.lo+4*n >= 0 && x.hi+4*n <= 2*c.limit {
			return g.op2(VPADDD, x.vec, v)
		}
	}
	panic(fmt.Sprintf("%d bits: no multiple of q for (%d, %d) quarters", c.bits, x.lo, x.hi))
}

// within is x, reduced if it is not in (-limit, limit) and in (-hi/5, hi).
func (g *gen) within(c *lazyClass, x ranged, hi int) ranged {
	switch {
	case x.hi <= hi && -x.lo <= hi/5:
		return x
	case x.hi <= c.limit && -x.lo <= c.limit:
		return ranged{g.reduce(x.vec), -1, 5}
	}
	return ranged{g.reduceUnsigned(g.lifted(c, x)), 0, 5}
}

// lazySums is a + b and b - a, which has to be within the limit.
func (g *gen) lazySums(c *lazyClass, a, b ranged) (sum, diff ranged) {
	sum = ranged{g.op2(VPADDD, a.vec, b.vec), a.lo + b.lo, a.hi + b.hi}
	diff = ranged{g.op2(VPSUBD, b.vec, a.vec), b.lo - a.hi, b.hi - a.lo}
	if diff.hi > c.limit || -diff.lo > c.limit {
		panic(fmt.Sprintf("%d bits: a difference of (%d, %d) quarters", c.bits, diff.lo, diff.hi))
	}
	return sum, diff
}

// lazyInverseButterflies are (a + b, w*(b - a)), where sums are reduced if they are
// not in (-hi/5, hi).
func (g *gen) lazyInverseButterflies(c *lazyClass, a, b []ranged, w []twiddle, hi int) (_, _ []ranged) {
	s, d, p := make([]ranged, len(a)), make([]vec, len(a)), make([]ranged, len(a))
	for i := range a {
		var diff ranged
		s[i], diff = g.lazySums(c, a[i], b[i])
		d[i] = diff.vec
	}
	for i, v := range g.lazyMul(d, w) {
		p[i] = ranged{v, -1, 5}
	}
	for i := range s {
		s[i] = g.within(c, s[i], hi)
	}
	return s, p
}

// bound is the bound of the sums of a level: what passes leave, or where another level
// follows what its differences allow, which are 6/5 of it.
func (c *lazyClass) bound(level int) int {
	if level > 0 {
		return c.limit * 5 / 6
	}
	return c.hi
}

// setLifts sets the class's multiples of q.
func (g *gen) setLifts(c *lazyClass, multiples ...int) {
	c.lifts = make(map[int]vec)
	for _, n := range multiples {
		r := g.reg()
		VPSLLD(U8(uint8(log2(n))), g.q, r)
		c.lifts[n] = r
	}
}

func log2(n int) (k int) {
	for ; n > 1; n /= 2 {
		k++
	}
	return k
}

func (g *gen) lazyInverse() {
	for _, c := range lazyClasses() {
		levels := func(k, last int, x []vec, w [][]func() twiddle) []ranged {
			r := make([]ranged, len(x))
			for i := range x {
				r[i] = ranged{x[i], -c.hi / 5, c.hi}
			}
			return undo(k, last, abreast, r, w, func(level int, a, b []ranged, w []twiddle) (_, _ []ranged) {
				return g.lazyInverseButterflies(c, a, b, w, c.bound(level))
			})
		}
		for k := 1; k <= g.merged(); k++ {
			g.lazyFunction(fmt.Sprintf("inverse%dLazy%d", k, c.bits), lazyPassArgs, fmt.Sprintf(
				"is inverse%d for q below 2^%d and the twiddles of lazyPair:\n(-%d, %d) to (-%d, %d) quarters of q.", k,
				c.bits, c.hi/5, c.hi, c.hi/5, c.hi))
			g.setLifts(c, c.limit/16)
			g.pass(k, -1, func(x []vec, w [][]func() twiddle) []vec {
				for i, r := range levels(k, 0, x, w) {
					x[i] = r.vec
				}
				return x
			})
		}
		for k := 1; k <= g.merged(); k++ {
			g.lazyFunction(fmt.Sprintf("inverseEnd%dLazy%d", k, c.bits), lazyPassArgs+", scale *uint64", fmt.Sprintf(
				"is inverseEnd%d for q below 2^%d and the twiddles of lazyPair; those at\nscale are Shoup pairs: "+
					"(-%d, %d) quarters of q to [0, q).", k, c.bits, c.hi/5, c.hi))
			g.setLifts(c, c.limit/16, c.limit/4)
			scale := pointer("scale")
			sum, diff := g.held(at(scale, 0)), g.held(at(scale, 8))
			g.pass(k, -1, func(x []vec, w [][]func() twiddle) []vec {
				r := levels(k, 1, x, w)
				for i := range len(x) / 2 {
					s, d := g.lazySums(c, r[i], r[i+len(x)/2])
					x[i] = g.corr(g.mul(g.lifted(c, s), sum()), g.q)
					x[i+len(x)/2] = g.corr(g.mul(g.lifted(c, d), diff()), g.q)
				}
				return x
			})
		}
	}
}

// lazyNarrow is the code of the last five levels for AVX2.
func (g *gen) lazyNarrow(e ends) {
	for _, reduced := range []bool{false, true} {
		g.lazyLastFunction(e, e.narrowName(), reduced)
		f := g.lazyButterflies(reduced)
		g.narrowLevels(e, VPMULDQ, func(level int, a, b []vec, w []twiddle) (_, _ []vec) {
			if level == 4 {
				a = []vec{g.op2(VPADDD, a[0], g.bias), g.op2(VPADDD, a[1], g.bias)}
			}
			return f(level, a, b, w)
		}, func(x vec) vec { return g.corr(g.reduceUnsigned(x), g.q) })
	}
	for _, c := range lazyClasses() {
		g.lazyFirstFunction(c, e, e.narrowName())
		g.narrowUndo(e, VPMULDQ, g.lazyFirstButterflies(c))
	}
}

// lazyFirstFunction starts lazy code of the first five levels of the inverse.
func (g *gen) lazyFirstFunction(c *lazyClass, e ends, name string) {
	g.lazyFunction(fmt.Sprintf("inverseFirst%sLazy%d", name, c.bits),
		"dst, src *uint32, blocks int, s *uint64, "+e.arg()+lazyArg,
		fmt.Sprintf(`is inverseFirst for q below 2^%d and the twiddles of lazyPair: [0, q) to
(-%d, %d) quarters of q. The number of blocks is a multiple of %d.`, c.bits, c.hi/5, c.hi, e.together))
	g.setLifts(c, c.limit/16)
}

// firstRanges are the ranges of the operands of the first five levels, by level. Lanes
// of sums and of products mix from level to level.
func (c *lazyClass) firstRanges(level int) ranged {
	r := ranged{lo: 0, hi: 4}
	for l := 4; l > level; l-- {
		r.lo, r.hi = min(2*r.lo, -1), max(2*r.hi, 5)
		if r.hi > c.bound(l) {
			r.lo, r.hi = -1, 5
		}
	}
	return r
}

// lazyFirstButterflies are the butterflies of the first five levels.
func (g *gen) lazyFirstButterflies(c *lazyClass) butterflies[vec] {
	return func(level int, a, b []vec, w []twiddle) (_, _ []vec) {
		r := c.firstRanges(level)
		in := func(x []vec) []ranged {
			y := make([]ranged, len(x))
			for i := range x {
				y[i] = ranged{x[i], r.lo, r.hi}
			}
			return y
		}
		out := func(x []ranged) []vec {
			y := make([]vec, len(x))
			for i := range x {
				y[i] = x[i].vec
			}
			return y
		}
		s, d := g.lazyInverseButterflies(c, in(a), in(b), w, c.bound(level))
		return out(s), out(d)
	}
}

func (g *gen) lazyInverseFirst(e ends) {
	for _, c := range lazyClasses() {
		g.lazyFirstFunction(c, e, e.name())
		g.firstLevels(e, VPMULDQ, g.lazyFirstButterflies(c))
	}
}
