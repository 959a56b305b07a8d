package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The last five levels of AVX2 work on the same blocks of 32 in four vectors v, and
// the same stream with its groups in natural order. After distance 8, each half of a
// block is two vectors x and y of one group of eight each:
//
//	distance 4: A = x.lo y.lo, B = x.hi y.hi (lo, hi: halves of a vector)
//	distance 2: in each half: P = low pairs of A and B, Q = high pairs
//	distance 1: in each half: E = even words of P and Q, O = odd words
//
// In each half of E and O the pairs of neighbours 0, 1, 2, 3 stand in the order 0, 2,
// 1, 3.

// halves joins halves of x and y: 0x20 the low ones, 0x31 the high ones.
func (g *gen) halves(imm uint8, x, y vec) vec {
	r := g.reg()
	VPERM2I128(U8(imm), y, x, r)
	return r
}

// narrowForms are the forms of AVX2.
var narrowForms = []ends{{together: 1}, {together: 1, compact: true}}

// narrowName is the suffix of a form.
func (e ends) narrowName() string {
	if e.compact {
		return "Compact"
	}
	return ""
}

// narrowTwiddles are those of a level for both halves of a block at s, and the
// constants of the lanes or nil.
func (g *gen) narrowTwiddles(e ends, s, c Register, level int) (w, lanes []twiddle) {
	for u := range 2 {
		if e.compact && level >= 3 {
			w = append(w, g.held(e.blockConstant(s, 0, level))())
			lanes = append(lanes, [2]twiddle{
				{high: at(c, 32*u), odd: at(c, 32*u), low: at(c, 64+32*u)},
				{high: at(c, 128+32*u), odd: at(c, 132+32*u), low: at(c, 192+32*u)},
			}[level-3])
			continue
		}
		var h vec
		switch level {
		case 0:
			w = append(w, g.held(at(s, 0))())
			continue
		case 1:
			w = append(w, g.held(at(s, 16+8*u))())
			continue
		case 2:
			r := g.reg()
			VPERMQ(U8([]uint8{0x50, 0xfa}[u]), at(s, 32), r) // a compact stream ends 16 bytes after these
			h = r
		case 3:
			h = g.load(at(s, 64+32*u))
		default:
			w = append(w, twiddle{high: at(s, 128+32*u), odd: at(s, 132+32*u), low: at(s, 192+32*u)})
			continue
		}
		w = append(w, twiddle{high: h, odd: h, late: func() vec {
			l := g.reg()
			VMOVSHDUP(h, l)
			return l
		}})
	}
	return w, lanes
}

// one is f for a single butterfly.
func one(f butterflies[vec]) func(level int, a, b vec, w twiddle) (_, _ vec) {
	return func(level int, a, b vec, w twiddle) (_, _ vec) {
		s, d := f(level, []vec{a}, []vec{b}, []twiddle{w})
		return s[0], d[0]
	}
}

func (g *gen) narrowLast(e ends) {
	g.function("forwardLast"+e.narrowName(), "x *uint32, blocks int, s *uint64, "+e.arg()+"q uint32",
		`is the last five levels of the forward transform, in place, over blocks of 32
neighbours: [0, 4q) to [0, q). s is the stream of their twiddles.`)
	g.narrowLevels(e, VPMULUDQ, g.butterflies,
		func(x vec) vec { return g.corr(g.corr(x, g.q2), g.q) })
}

// narrowLevels is the body of forwardLast: five levels of f, and finish for
// each of the four vectors of a block.
func (g *gen) narrowLevels(e ends, wide func(...Op), f butterflies[vec], finish func(x vec) vec) {
	p, n, s := pointer("x"), pointer("blocks"), pointer("s")
	var c Register
	if e.compact {
		c = pointer("c")
	}
	run := func(level int, a, b []vec) (_, _ []vec) {
		w, lanes := g.narrowTwiddles(e, s, c, level)
		if lanes != nil {
			b = g.shoup(wide, b, lanes)
		}
		return f(level, a, b, w)
	}
	Label("block")
	if e.compact {
		PREFETCHT0(at(s, ahead))
	}
	v := make([]vec, 4)
	for i := range v {
		v[i] = g.load(at(p, 32*i))
	}
	a, b := run(0, v[:2], v[2:])
	a, b = run(1, []vec{a[0], b[0]}, []vec{a[1], b[1]}) // of each half
	pairs := func(f func(a, b vec) (_, _ vec)) {
		for u := range a {
			a[u], b[u] = f(a[u], b[u])
		}
	}
	pairs(func(a, b vec) (_, _ vec) { return g.halves(0x20, a, b), g.halves(0x31, a, b) })
	a, b = run(2, a, b)
	pairs(func(a, b vec) (_, _ vec) { return g.two(VPUNPCKLQDQ, a, b), g.two(VPUNPCKHQDQ, a, b) })
	a, b = run(3, a, b)
	pairs(func(a, b vec) (_, _ vec) { return g.shuffle(VSHUFPS, 0x88, a, b), g.shuffle(VSHUFPS, 0xdd, a, b) })
	a, b = run(4, a, b)
	pairs(func(a, b vec) (_, _ vec) {
		a, b = finish(a), finish(b)
		a, b = g.two(VPUNPCKLDQ, a, b), g.two(VPUNPCKHDQ, a, b)   // pairs 0 2, 1 3 of each half
		a, b = g.two(VPUNPCKLQDQ, a, b), g.two(VPUNPCKHQDQ, a, b) // 0 1, 2 3
		return g.halves(0x20, a, b), g.halves(0x31, a, b)
	})
	for u := range a {
		g.store(a[u], at(p, 64*u))
		g.store(b[u], at(p, 64*u+32))
	}
	ADDQ(U32(128), p)
	ADDQ(U32(uint32(e.stride())), s)
	DECQ(n)
	JNE(LabelRef("block"))
	g.end()
}

// narrowFirst works on reversed blocks, like inverseFirst.
func (g *gen) narrowFirst(e ends) {
	g.function("inverseFirst"+e.narrowName(), "dst, src *uint32, blocks int, s *uint64, "+e.arg()+"q uint32",
		`undoes forwardLast from src to dst, which are equal or apart: [0, 2q) to
[0, 2q). s is the last block of the stream, which is read backwards.`)
	g.narrowUndo(e, VPMULUDQ, g.inverseButterflies)
}

// narrowUndo is the body of inverseFirst: five levels, 4 down to 0, of f.
func (g *gen) narrowUndo(e ends, wide func(...Op), f butterflies[vec]) {
	dst, src, n, s := pointer("dst"), pointer("src"), pointer("blocks"), pointer("s")
	turn := g.constant("turn", func(l int) int { return 7 - l })
	var c Register
	if e.compact {
		c = pointer("c")
	}
	run := func(level int, a, b []vec) (_, _ []vec) {
		w, lanes := g.narrowTwiddles(e, s, c, level)
		sums, diffs := f(level, a, b, w)
		if lanes != nil {
			diffs = g.shoup(wide, diffs, lanes)
		}
		return sums, diffs
	}
	Label("inverseBlock")
	if e.compact {
		PREFETCHT0(at(s, -ahead))
	}
	v := make([]vec, 4)
	for i := range v {
		r := g.reg()
		VPERMD(at(src, 32*(3-i)), turn, r)
		v[i] = r
	}
	a, b := []vec{v[0], v[2]}, []vec{v[1], v[3]} // of each half
	pairs := func(f func(a, b vec) (_, _ vec)) {
		for u := range a {
			a[u], b[u] = f(a[u], b[u])
		}
	}
	pairs(func(a, b vec) (_, _ vec) {
		a, b = g.halves(0x20, a, b), g.halves(0x31, a, b)
		a, b = g.two(VPUNPCKLQDQ, a, b), g.two(VPUNPCKHQDQ, a, b)
		return g.shuffle(VSHUFPS, 0x88, a, b), g.shuffle(VSHUFPS, 0xdd, a, b)
	})
	b, a = run(4, b, a)
	pairs(func(a, b vec) (_, _ vec) { return g.two(VPUNPCKLDQ, a, b), g.two(VPUNPCKHDQ, a, b) })
	b, a = run(3, b, a)
	pairs(func(a, b vec) (_, _ vec) { return g.two(VPUNPCKLQDQ, a, b), g.two(VPUNPCKHQDQ, a, b) })
	b, a = run(2, b, a)
	pairs(func(a, b vec) (_, _ vec) { return g.halves(0x20, a, b), g.halves(0x31, a, b) })
	b, a = run(1, b, a)
	b, a = run(0, []vec{a[1], b[1]}, []vec{a[0], b[0]})
	for i, x := range append(a, b...) {
		r := g.reg()
		VPERMD(x, turn, r)
		g.store(r, at(dst, 32*(3-i)))
	}
	ADDQ(U32(128), src)
	ADDQ(U32(128), dst)
	SUBQ(U32(uint32(e.stride())), s)
	DECQ(n)
	JNE(LabelRef("inverseBlock"))
	g.end()
}
