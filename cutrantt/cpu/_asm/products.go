package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// op2 is r = x op y.
func (g *gen) op2(op func(...Op), x, y vec) vec {
	r := g.reg()
	op(y, x, r)
	return r
}

// binary is a function of two slices, residue by residue.
func (g *gen) binary(name, doc string, f func(x, y vec) vec) {
	g.function(name, "dst, x, y *uint32, n int, q uint32", doc)
	dst, x, y, n := pointer("dst"), pointer("x"), pointer("y"), pointer("n")
	g.over(name, n, 1, []Register{dst, x, y}, func() {
		g.store(f(g.load(at(x, 0)), g.load(at(y, 0))), at(dst, 0))
	})
	g.end()
}

func (g *gen) elementwise() {
	g.binary("add", "sets dst = x + y; n is a multiple of 16, residues in [0, q).", func(x, y vec) vec {
		return g.corr(g.op2(VPADDD, x, y), g.q)
	})
	g.binary("sub", "sets dst = x - y; n is a multiple of 16, residues in [0, q).", func(x, y vec) vec {
		return g.lift(g.op2(VPSUBD, x, y), g.q)
	})

	g.function("scale", "dst, x *uint32, n int, w *uint64, q uint32",
		"sets dst = x * w with the Shoup pair w, in [0, q) for any x; n is a multiple of 32.")
	dst, x, n := pointer("dst"), pointer("x"), pointer("n")
	w := g.pair(at(pointer("w"), 0))
	g.over("scale", n, g.unroll(), []Register{dst, x}, func() {
		for i := range g.unroll() {
			g.store(g.corr(g.mul(g.load(at(x, i*g.bytes)), w), g.q), at(dst, i*g.bytes))
		}
	})
	g.end()

	g.function("subScale", "dst, x, y *uint32, n int, w *uint64, q uint32",
		"sets dst = (x - y) * w with the Shoup pair w; n is a multiple of 32, residues in [0, q).")
	dst, x, n = pointer("dst"), pointer("x"), pointer("n")
	y := pointer("y")
	w = g.pair(at(pointer("w"), 0))
	g.over("subScale", n, g.unroll(), []Register{dst, x, y}, func() {
		for i := range g.unroll() {
			d := g.op2(VPSUBD, g.load(at(x, i*g.bytes)), g.load(at(y, i*g.bytes)))
			g.store(g.corr(g.mul(g.op2(VPADDD, d, g.q), w), g.q), at(dst, i*g.bytes))
		}
	})
	g.end()

	g.function("subScaleAdd", "dst, x, y, z *uint32, n int, w *uint64, q uint32",
		"sets dst = (x - y) * w + z with the Shoup pair w; n is a multiple of 32, residues in [0, q).")
	dst, x, n = pointer("dst"), pointer("x"), pointer("n")
	y, z := pointer("y"), pointer("z")
	w = g.pair(at(pointer("w"), 0))
	g.over("subScaleAdd", n, g.unroll(), []Register{dst, x, y, z}, func() {
		for i := range g.unroll() {
			d := g.op2(VPSUBD, g.load(at(x, i*g.bytes)), g.load(at(y, i*g.bytes)))
			r := g.op2(VPADDD, g.mul(g.op2(VPADDD, d, g.q), w), g.load(at(z, i*g.bytes))) // [0, 3q)
			g.store(g.corr(g.corr(r, g.q2), g.q), at(dst, i*g.bytes))
		}
	})
	g.end()
}

// products are dst = x*y, dst += x*y and dst -= x*y by Barrett reduction. With q of k bits,
// s = k-2 and mu = floor(2^(32+s)/q) < 2^32, h = floor(floor(p/2^s)*mu/2^32) is at
// most two and a half below p/q for p < q^2: the parts dropped of p and of mu count
// for 1/2 and 1, the rounding down for 1. So p - h*q is in [0, 3q).
func (g *gen) products() {
	finish := func(r vec) vec { return g.corr(g.corr(r, g.q2), g.q) } // from [0, 4q)
	for _, p := range []struct {
		name, doc string
		join      func(r vec, m Mem) vec
	}{
		{"mul", "sets dst = x * y", func(r vec, _ Mem) vec { return finish(r) }},
		{"mulAdd", "adds x * y to dst", func(r vec, m Mem) vec { return finish(g.op2(VPADDD, r, m)) }},
		{"mulSub", "subtracts x * y from dst", func(r vec, m Mem) vec {
			d := g.op2(VPADDD, g.op2(VPADDD, g.q, g.q2), m)
			return finish(g.op2(VPSUBD, d, r))
		}},
	} {
		g.function(p.name, "dst, x, y *uint32, n int, mu, s uint64, q uint32", p.doc+`; mu and s are the constants of
barrett.vector. n is a multiple of 32, residues in [0, q).`)
		dst, x, y, n := pointer("dst"), pointer("x"), pointer("y"), pointer("n")
		mu, shift := g.param64("mu"), XMM()
		s := GP64()
		Load(Param("s"), s)
		VMOVQ(s, shift)
		g.over(p.name, n, g.unroll(), []Register{dst, x, y}, func() {
			for i := range g.unroll() {
				a, b := g.load(at(x, i*g.bytes)), g.load(at(y, i*g.bytes))
				even, odd := g.op2(VPMULUDQ, a, b), g.op2(VPMULUDQ, g.odd(a), g.odd(b))
				VPSRLQ(shift, even, even)
				VPSRLQ(shift, odd, odd)
				h := g.high(g.op2(VPMULUDQ, even, mu), g.op2(VPMULUDQ, odd, mu))
				r := g.op2(VPSUBD, g.op2(VPMULLD, a, b), g.op2(VPMULLD, h, g.q))
				g.store(p.join(r, at(dst, i*g.bytes)), at(dst, i*g.bytes))
			}
		})
		g.end()
	}
}

// montgomery is acc/2^32 mod q in [0, q) for even and odd lanes of sums acc <
// 2q*2^32, whose differences are in (-q, 2q).
func (g *gen) montgomery(even, odd, qinv vec) vec {
	return g.corr(g.lift(g.difference(even, odd, qinv), g.q), g.q)
}

// difference is acc/2^32 modulo q: with m = acc/q mod 2^32, acc and m*q agree in
// their low halves, and it is the difference of the high halves.
func (g *gen) difference(even, odd, qinv vec) vec {
	a, b := g.op2(VPMULUDQ, even, qinv), g.op2(VPMULUDQ, odd, qinv)
	VPMULUDQ(g.q, a, a)
	VPMULUDQ(g.q, b, b)
	VPSUBQ(a, even, a)
	VPSUBQ(b, odd, b)
	return g.high(a, b)
}

// fold brings sums in [0, 2m) to [0, m), m = 2q*2^32.
func (g *gen) fold(acc []vec, m vec) {
	for _, a := range acc {
		t := g.reg()
		VPSUBQ(m, a, t)
		if g.narrow() { // t has its sign bit set where a < m
			VBLENDVPD(t, a, t, a)
		} else {
			VPMINUQ(a, t, a)
		}
	}
}

// foldAt is 2q*2^32 in every 64-bit lane.
func (g *gen) foldAt() vec {
	r := g.reg()
	VPSLLQ(U8(32), g.q2, r)
	return r
}

// lazyTerms is how many products below 2^30*q may be added to a folded sum below
// 2q*2^32 before it is folded again: 7 leave room for a value below 2^38 besides.
const lazyTerms = 7

// inner is the inner product of key switching.
func (g *gen) inner() {
	g.innerProduct("inner", 1, false)
	g.innerProduct("innerPair", 2, false)
	g.innerProduct("innerOwn", 2, true)
}

// innerProduct has one or two results; with own, one of the x_i stands apart.
func (g *gen) innerProduct(name string, results int, own bool) {
	vectors, args, doc := g.unroll(), "", ""
	if own {
		args = "own *uint32, at int, "
		doc = `
x_at is at own instead; at may be out of range.`
	}
	g.function(name, "dst, x, y *uint32, "+args+"dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32",
		`sets dst_k to the sum over the terms i of x_i * y_(i*results+k) / 2^32, k below
the number of results. Each polynomial of dst and x lies a stride (in residues)
behind the one before; y stands in pieces (vectorCode.piece), those of the
polynomials a stride apart and those of one polynomial a step. qinv is 1/q mod
2^32. n is a multiple of 32, residues in [0, q).`+doc)
	dst, x, y, n := pointer("dst"), pointer("x"), pointer("y"), pointer("n")
	dstStride, xStride, yStride := pointer("dstStride"), pointer("xStride"), pointer("yStride")
	for _, s := range []Register{dstStride, xStride, yStride} {
		SHLQ(U8(2), s)
	}
	pointers := []Register{dst, x}
	var apart, when Register // the term that stands apart, and how many are left before it
	if own {
		apart, when = pointer("own"), pointer("terms")
		SUBQ(pointer("at"), when)
		pointers = append(pointers, apart)
	}
	qinv, full := g.param32("qinv"), g.foldAt()
	g.over(name, n, vectors, pointers, func() {
		acc := make([]vec, 2*results*vectors)
		for i := range acc {
			acc[i] = g.zero()
		}
		xi, yi, left, batch := GP64(), GP64(), pointer("terms"), GP64()
		MOVQ(x, xi)
		MOVQ(y, yi)
		step := pointer("yStep")
		LEAQ(Mem{Base: y, Index: step, Scale: 4}, y)
		MOVQ(U32(lazyTerms), batch)
		Label(name + "term")
		from := Register(xi)
		if own {
			t := GP64()
			MOVQ(xi, t)
			CMPQ(left, when)
			CMOVQEQ(apart, t)
			from = t
		}
		for v := range vectors {
			even := g.load(at(from, v*g.bytes))
			odd := g.odd(even)
			if v == 0 {
				for k := range 2 * results {
					PREFETCHT0(at(yi, ahead+64*k))
				}
			}
			for k := range results {
				m := Mem{Base: yi, Disp: v * g.bytes}
				if k == 1 {
					m.Index, m.Scale = yStride, 1
				}
				b := g.load(m)
				a := acc[2*(results*v+k):]
				VPADDQ(g.op2(VPMULUDQ, even, b), a[0], a[0])
				VPADDQ(g.op2(VPMULUDQ, odd, g.odd(b)), a[1], a[1])
			}
		}
		ADDQ(xStride, xi)
		for range results {
			ADDQ(yStride, yi)
		}
		DECQ(batch)
		JNE(LabelRef(name + "next"))
		g.fold(acc, full)
		MOVQ(U32(lazyTerms), batch)
		Label(name + "next")
		DECQ(left)
		JNE(LabelRef(name + "term"))
		CMPQ(pointer("terms"), Imm(lazyTerms+1))
		JLT(LabelRef(name + "end"))
		g.fold(acc, full)
		Label(name + "end")
		for v := range vectors {
			for k := range results {
				a := acc[2*(results*v+k):]
				m := Mem{Base: dst, Disp: v * g.bytes}
				if k == 1 {
					m.Index, m.Scale = dstStride, 1
				}
				g.store(g.montgomery(a[0], a[1], qinv), m)
			}
		}
	})
	g.end()
}
