package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// integers are the steps between signed integers and residues.
func (g *gen) integers() {
	g.function("liftSmall", "dst *uint32, src *int32, n int, q uint32",
		"sets dst = src modulo q, for src in (-q, q); n is a multiple of 16.")
	dst, src, n := pointer("dst"), pointer("src"), pointer("n")
	g.over("liftSmall", n, 1, []Register{dst, src}, func() {
		g.store(g.lift(g.load(at(src, 0)), g.q), at(dst, 0))
	})
	g.end()

	g.liftWide()
	if g.narrow() {
		return // no conversion to 64-bit integers: see splitWide
	}
	TEXT("split"+g.name, NOSPLIT, "func(high *int32, low *uint32, m *float64, e *int32, n int)")
	Doc("split" + g.name + " sets high*2^32 + low = m + e, for integral m, |m| < 2^62; n is a multiple of 8.")
	Pragma("noescape")
	high, low, m, e := pointer("high"), pointer("low"), pointer("m"), pointer("e")
	n = pointer("n")
	Label("split")
	x, y := g.reg(), g.reg()
	VCVTTPD2QQ(at(m, 0), x)
	VPMOVSXDQ(at(e, 0), y)
	VPADDQ(x, y, x)
	VPMOVQD(x, at(low, 0))
	VPSRLQ(U8(32), x, x)
	VPMOVQD(x, at(high, 0))
	ADDQ(U8(64), m)
	for _, p := range []Register{high, low, e} {
		ADDQ(U8(32), p)
	}
	SUBQ(U8(8), n)
	JNE(LabelRef("split"))
	g.end()
}

func (g *gen) liftWide() {
	g.function("liftWide", "dst *uint32, high *int32, low *uint32, n int, w *uint64, bias, q uint32",
		`sets dst = high*2^32 + low modulo q, in [0, 4q). w has the Shoup pairs of
2^32 and of 1, bias is a multiple of q and high + bias is in [0, 2^32); n is a
multiple of 32.`)
	dst, n := pointer("dst"), pointer("n")
	high, low := pointer("high"), pointer("low")
	w := pointer("w")
	bias, top, one := g.param32("bias"), g.pair(at(w, 0)), g.reg()
	VPBROADCASTQ(at(w, 8), one)
	g.over("liftWide", n, g.unroll(), []Register{dst, high, low}, func() {
		for i := range g.unroll() {
			h := g.mul(g.op2(VPADDD, bias, g.load(at(high, i*g.bytes))), top)
			l := g.load(at(low, i*g.bytes)) // times 1: no product
			quotient := g.high(g.op2(VPMULUDQ, l, one), g.op2(VPMULUDQ, g.odd(l), one))
			l = g.op2(VPSUBD, l, g.op2(VPMULLD, quotient, g.q))
			g.store(g.op2(VPADDD, h, l), at(dst, i*g.bytes))
		}
	})
	g.end()
}

// operands are dst += x*y/2^32 and dst -= x*y.
func (g *gen) operands() {
	g.function("operandAdd", "dst, x, y *uint32, yStep, n int, qinv, q uint32",
		`adds x * y / 2^32 to dst; y stands in pieces (vectorCode.piece) a step (in residues)
apart. qinv is 1/q mod 2^32. n is a multiple of 32, residues in [0, q).`)
	dst, x, y, n := pointer("dst"), pointer("x"), pointer("y"), pointer("n")
	qinv, yStep := g.param32("qinv"), pointer("yStep")
	SHLQ(U8(2), yStep)
	g.over("operandAdd", n, g.unroll(), []Register{dst, x}, func() {
		for i := range g.unroll() {
			a, b := g.load(at(x, i*g.bytes)), g.load(at(y, i*g.bytes))
			even, odd := g.op2(VPMULUDQ, a, b), g.op2(VPMULUDQ, g.odd(a), g.odd(b))
			// The product is below q*2^30, so the difference is in (-q, q/4).
			r := g.lift(g.difference(even, odd, qinv), g.q)
			g.store(g.corr(g.op2(VPADDD, r, at(dst, i*g.bytes)), g.q), at(dst, i*g.bytes))
		}
		ADDQ(yStep, y)
	})
	g.end()
}
