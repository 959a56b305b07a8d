package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tensor is the degree-2 product of two ciphertexts. Sums of two products are
// below 2q^2: with s = k-1 the parts dropped of p and of mu count for 1 each, so
// that p - h*q is in [0, 4q).
func (g *gen) tensor() {
	g.function("tensor", "dst, a, b *uint32, dstStride, aStride, bStride, n int, mu, s uint64, q uint32",
		`sets dst to (a0*b0, a0*b1 + a1*b0, a1*b1); each polynomial lies a stride (in
residues) behind the one before. mu and s are the constants of barrett.sums. n is a
multiple of 16, residues in [0, q).`)
	dst, a, b, n := pointer("dst"), pointer("a"), pointer("b"), pointer("n")
	dstStride, aStride, bStride := pointer("dstStride"), pointer("aStride"), pointer("bStride")
	for _, s := range []Register{dstStride, aStride, bStride} {
		SHLQ(U8(2), s)
	}
	mu, shift, s := g.param64("mu"), XMM(), GP64()
	Load(Param("s"), s)
	VMOVQ(s, shift)
	type product struct{ even, odd, low vec }
	reduce := func(p product) vec {
		even, odd := g.reg(), g.reg()
		VPSRLQ(shift, p.even, even)
		VPSRLQ(shift, p.odd, odd)
		h := g.high(g.op2(VPMULUDQ, even, mu), g.op2(VPMULUDQ, odd, mu))
		r := g.op2(VPSUBD, p.low, g.op2(VPMULLD, h, g.q))
		return g.corr(g.corr(r, g.q2), g.q)
	}
	g.over("tensor", n, 1, []Register{dst, a, b}, func() {
		x := [2]vec{g.load(at(a, 0)), g.load(Mem{Base: a, Index: aStride, Scale: 1})}
		y := [2]vec{g.load(at(b, 0)), g.load(Mem{Base: b, Index: bStride, Scale: 1})}
		xo, yo := [2]vec{g.odd(x[0]), g.odd(x[1])}, [2]vec{g.odd(y[0]), g.odd(y[1])}
		times := func(i, j int) product {
			return product{g.op2(VPMULUDQ, x[i], y[j]), g.op2(VPMULUDQ, xo[i], yo[j]), g.op2(VPMULLD, x[i], y[j])}
		}
		g.store(reduce(times(0, 0)), at(dst, 0))
		p, q := times(0, 1), times(1, 0)
		sum := product{g.op2(VPADDQ, p.even, q.even), g.op2(VPADDQ, p.odd, q.odd), g.op2(VPADDD, p.low, q.low)}
		g.store(reduce(sum), Mem{Base: dst, Index: dstStride, Scale: 1})
		g.store(reduce(times(1, 1)), Mem{Base: dst, Index: dstStride, Scale: 2})
	})
	g.end()
}

// permute is an automorphism in the transform domain.
func (g *gen) permute() {
	TEXT("permute"+g.name, NOSPLIT, "func(dst, src, from, lanes *uint32, n int)")
	Doc("permute"+g.name+" sets block b of 16 residues of dst to words of block from[b] >> 4 of src,",
		"in the order of the 16 words at lanes + 16 * (from[b] & 15); n is the number of blocks.")
	Pragma("noescape")
	dst, src, from, lanes, n := pointer("dst"), pointer("src"), pointer("from"), pointer("lanes"), pointer("n")
	Label("permute")
	f, l := GP64(), GP64()
	MOVL(at(from, 0), f.As32())
	MOVQ(f, l)
	ANDQ(U8(15), l)
	SHLQ(U8(6), l)
	ANDQ(I8(-16), f)
	if g.narrow() {
		g.permuteHalves(dst, src, f, lanes, l)
	} else {
		r := g.load(Mem{Base: lanes, Index: l, Scale: 1})
		VPERMD(Mem{Base: src, Index: f, Scale: 4}, r, r)
		g.store(r, at(dst, 0))
	}
	ADDQ(U8(4), from)
	ADDQ(U8(64), dst)
	DECQ(n)
	JNE(LabelRef("permute"))
	g.end()
}

// permuteHalves sets a block at dst to words of the block at src + 4*f. Each half of it takes
// its words from both halves of the other block, and selects by bit 3 of their order.
func (g *gen) permuteHalves(dst, src, f, lanes, l Register) {
	for half := range 2 {
		order := g.load(Mem{Base: lanes, Index: l, Scale: 1, Disp: 32 * half})
		low, high, which := g.reg(), g.reg(), g.reg()
		VPERMD(Mem{Base: src, Index: f, Scale: 4}, order, low)
		VPERMD(Mem{Base: src, Index: f, Scale: 4, Disp: 32}, order, high)
		VPSLLD(U8(28), order, which)
		VBLENDVPS(which, high, low, low)
		g.store(low, at(dst, 32*half))
	}
}
