package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// digits and extend are the two halves of Ring.Extend, rounds, few and many what they
// are between transforms.
func (g *gen) basis() {
	g.digits()
	g.rounds()
	g.extend()
	for k := 1; k <= fewLimbs; k++ {
		g.few(k)
	}
	for targets := 2; targets <= 4 && !g.narrow(); targets++ {
		g.many(targets)
	}
}

func (g *gen) digits() {
	vectors := g.unroll()
	g.function("digits", "dst, src *uint32, dstStride, srcStride, limbs, n int, c *uint64, v *uint32, q uint32",
		`sets the rows of dst to y_i = x_i * w_i mod q_i and v to the rounded sum of y_i/q_i. A
row lies a stride (in residues) behind the one before. n is a multiple of 32,
residues in [0, q_i), round below 2^32; q is not used.`)
	dst, src, n := pointer("dst"), pointer("src"), pointer("n")
	dstStride, srcStride, limbs := pointer("dstStride"), pointer("srcStride"), pointer("limbs")
	c, v := pointer("c"), pointer("v")
	SHLQ(U8(2), dstStride)
	SHLQ(U8(2), srcStride)
	half := GP64()
	MOVQ(U64(1<<55), half)
	start := g.broadcast64(half)
	var oddLanes Register
	if !g.narrow() {
		oddLanes = K()
		KNOTW(g.even, oddLanes)
	}
	g.over("digits", n, vectors, []Register{dst, src, v}, func() {
		acc := make([]vec, 2*vectors)
		for i := range acc {
			acc[i] = g.copy(start)
		}
		d, s, ci, left := GP64(), GP64(), GP64(), GP64()
		MOVQ(dst, d)
		MOVQ(src, s)
		MOVQ(c, ci)
		MOVQ(limbs, left)
		Label("digitsRow")
		w := g.pair(at(ci, 0))
		round, q := g.reg(), g.reg()
		VPBROADCASTQ(at(ci, 8), round)
		VPBROADCASTD(at(ci, 16), q)
		g.q = q
		for i := range vectors {
			y := g.corr(g.mul(g.load(at(s, i*g.bytes)), w), q)
			g.store(y, at(d, i*g.bytes))
			VPADDQ(g.op2(VPMULUDQ, y, round), acc[2*i], acc[2*i])
			VPADDQ(g.op2(VPMULUDQ, g.odd(y), round), acc[2*i+1], acc[2*i+1])
		}
		ADDQ(dstStride, d)
		ADDQ(srcStride, s)
		ADDQ(U8(24), ci)
		DECQ(left)
		JNE(LabelRef("digitsRow"))
		for i := range vectors {
			VPSRLQ(U8(56), acc[2*i], acc[2*i])
			VPSRLQ(U8(24), acc[2*i+1], acc[2*i+1])
			if g.narrow() {
				VPBLENDD(U8(0xaa), acc[2*i+1], acc[2*i], acc[2*i])
			} else {
				VMOVDQA32(acc[2*i+1], oddLanes, acc[2*i])
			}
			g.store(acc[2*i], at(v, i*g.bytes))
		}
	})
	g.end()
}

func (g *gen) extend() {
	wide := 2 * g.unroll()
	g.function("extend", "dst, y *uint32, stride, limbs, n int, v *uint32, h *uint64, qinv, q uint32",
		fmt.Sprintf(`sets dst to the sum of y_i * h_i and v * h_limbs, divided by 2^32, modulo q; row
i of y lies i strides (in residues) behind y. qinv is 1/q mod 2^32, h in [0, q) and y
below 2^30, v below 2^8. n is a multiple of %d.`, wide*g.lanes))
	dst, y, n := pointer("dst"), pointer("y"), pointer("n")
	stride, limbs, v, h := pointer("stride"), pointer("limbs"), pointer("v"), pointer("h")
	SHLQ(U8(2), stride)
	qinv, full := g.param32("qinv"), g.foldAt()
	g.over("extend", n, wide, []Register{dst, y, v}, func() {
		last := g.reg()
		VPBROADCASTQ(Mem{Base: h, Index: limbs, Scale: 8}, last)
		acc := make([]vec, 2*wide)
		for i := range wide {
			x := g.load(at(v, i*g.bytes))
			acc[2*i], acc[2*i+1] = g.op2(VPMULUDQ, x, last), g.op2(VPMULUDQ, g.odd(x), last)
		}
		yi, hi, left, batch := GP64(), GP64(), GP64(), GP64()
		MOVQ(y, yi)
		MOVQ(h, hi)
		MOVQ(limbs, left)
		MOVQ(U32(lazyTerms), batch)
		Label("extendRow")
		w := g.reg()
		VPBROADCASTQ(at(hi, 0), w)
		for i := range wide {
			x := g.load(at(yi, i*g.bytes))
			VPADDQ(g.op2(VPMULUDQ, x, w), acc[2*i], acc[2*i])
			VPADDQ(g.op2(VPMULUDQ, g.odd(x), w), acc[2*i+1], acc[2*i+1])
		}
		ADDQ(stride, yi)
		ADDQ(U8(8), hi)
		DECQ(batch)
		JNE(LabelRef("extendNext"))
		g.fold(acc, full)
		MOVQ(U32(lazyTerms), batch)
		Label("extendNext")
		DECQ(left)
		JNE(LabelRef("extendRow"))
		CMPQ(limbs, Imm(lazyTerms+1))
		JLT(LabelRef("extendEnd"))
		g.fold(acc, full)
		Label("extendEnd")
		for i := range wide {
			g.store(g.montgomery(acc[2*i], acc[2*i+1], qinv), at(dst, i*g.bytes))
		}
	})
	g.end()
}

// rounds is digits where the rows are scaled already.
func (g *gen) rounds() {
	wide := 2 * g.unroll()
	g.function("rounds", "src *uint32, stride, limbs, n int, c *uint64, v *uint32, q uint32",
		fmt.Sprintf(`sets v to the rounded sum of y_i/q_i for rows y_i of src, with the constants of
digits. n is a multiple of %d, residues in [0, q_i); q is not used.`, wide*g.lanes))
	src, n, stride, limbs := pointer("src"), pointer("n"), pointer("stride"), pointer("limbs")
	c, v := pointer("c"), pointer("v")
	SHLQ(U8(2), stride)
	half := GP64()
	MOVQ(U64(1<<55), half)
	start := g.broadcast64(half)
	var oddLanes Register
	if !g.narrow() {
		oddLanes = K()
		KNOTW(g.even, oddLanes)
	}
	g.over("rounds", n, wide, []Register{src, v}, func() {
		acc := make([]vec, 2*wide)
		for i := range acc {
			acc[i] = g.copy(start)
		}
		s, ci, left := GP64(), GP64(), GP64()
		MOVQ(src, s)
		MOVQ(c, ci)
		MOVQ(limbs, left)
		Label("roundsRow")
		round := g.reg()
		VPBROADCASTQ(at(ci, 8), round)
		for i := range wide {
			y := g.load(at(s, i*g.bytes))
			VPADDQ(g.op2(VPMULUDQ, y, round), acc[2*i], acc[2*i])
			VPADDQ(g.op2(VPMULUDQ, g.odd(y), round), acc[2*i+1], acc[2*i+1])
		}
		ADDQ(stride, s)
		ADDQ(U8(24), ci)
		DECQ(left)
		JNE(LabelRef("roundsRow"))
		for i := range wide {
			VPSRLQ(U8(56), acc[2*i], acc[2*i])
			VPSRLQ(U8(24), acc[2*i+1], acc[2*i+1])
			if g.narrow() {
				VPBLENDD(U8(0xaa), acc[2*i+1], acc[2*i], acc[2*i])
			} else {
				VMOVDQA32(acc[2*i+1], oddLanes, acc[2*i])
			}
			g.store(acc[2*i], at(v, i*g.bytes))
		}
	})
	g.end()
}

// fewLimbs is how many rows few takes at most: with more of them many needs fewer
// operations, and results would leave [0, 4q).
const fewLimbs = 2

// few is a sum of Shoup products that share the quotient: with w' = floor(w*2^32/q)
// and k digits y below 2^30, the sum of y_i*w_i/q exceeds that of y_i*w'_i/2^32 by
// less than k/4, and its floor by less than 1 + k/4. v is at most k, so that v*h
// is at most k*q and the result below (1 + 5k/4)*q.
func (g *gen) few(k int) {
	name := fmt.Sprintf("extendFew%d", k)
	vectors := g.unroll()
	g.function(name, "dst, y *uint32, stride, n int, v *uint32, c *uint64, q uint32",
		fmt.Sprintf(`sets dst to the sum of y_i * w_i and v * h modulo q, in [0, 4q); row i of y lies
i strides (in residues) behind y. c holds the Shoup pairs of %d w_i and then h in [0, q). y
is below 2^30, v at most %d, n a multiple of 32.`, k, k))
	dst, y, n, stride := pointer("dst"), pointer("y"), pointer("n"), pointer("stride")
	v, c := pointer("v"), pointer("c")
	SHLQ(U8(2), stride)
	w := make([]twiddle, k)
	for i := range w {
		w[i] = g.pair(at(c, 8*i))
	}
	h := g.reg()
	VPBROADCASTD(at(c, 8*k), h)
	g.over(name, n, vectors, []Register{dst, y, v}, func() {
		for i := range vectors {
			var even, odd vec
			sum := g.op2(VPMULLD, g.load(at(v, i*g.bytes)), h)
			for j := range w {
				m := at(y, i*g.bytes)
				if j == 1 {
					m.Index, m.Scale = stride, 1
				}
				x := g.load(m)
				a, b := g.op2(VPMULUDQ, x, w[j].high), g.op2(VPMULUDQ, g.odd(x), w[j].high)
				VPADDD(g.op2(VPMULLD, x, w[j].low), sum, sum)
				if j == 0 {
					even, odd = a, b
				} else {
					VPADDQ(a, even, even)
					VPADDQ(b, odd, odd)
				}
			}
			g.store(g.op2(VPSUBD, sum, g.op2(VPMULLD, g.high(even, odd), g.q)), at(dst, i*g.bytes))
		}
	})
	g.end()
}

// Terms of sums that may stay unreduced: a product is below 2^30*q, so that 15 are
// below 3.75q*2^32 and fit 64 bits; a folded sum below 2q*2^32 is worth eight.
const (
	firstTerms = 15
	moreTerms  = 7
	looseTerms = 11 // below 3q*2^32: the difference is in (-q, 3q)
)

// partBytes is how far before their use digits are fetched: the length of a part.
const partBytes = 1024

// many is extend for several moduli that share the loads and shifts of the digits.
func (g *gen) many(targets int) {
	wide := 4
	if targets > 2 {
		wide = 2
	}
	name := fmt.Sprintf("extendMany%d", targets)
	g.function(name, "dst, y *uint32, dstStride, stride, limbs, n int, v *uint32, c *uint64, cStride int, q uint32",
		fmt.Sprintf(`is extend for %d moduli, with results in [0, 4q): result j goes to row j of dst,
dstStride residues behind the one before. The constants of a modulus are h_0, ...,
h_limbs, 1/q mod 2^32 and q, 64 bits each; those of the next are cStride words behind.
n is a multiple of %d; q is not used.`, targets, wide*g.lanes))
	dst, y, n := pointer("dst"), pointer("y"), pointer("n")
	dstStride, stride := pointer("dstStride"), pointer("stride")
	v, end, cStride := pointer("v"), pointer("c"), pointer("cStride")
	SHLQ(U8(2), dstStride)
	SHLQ(U8(2), stride)
	SHLQ(U8(3), cStride)
	dst3, c3 := GP64(), GP64()
	LEAQ(Mem{Base: dstStride, Index: dstStride, Scale: 2}, dst3)
	LEAQ(Mem{Base: cStride, Index: cStride, Scale: 2}, c3)
	strided := func(p, one, three Register, j, disp int) Mem {
		m := at(p, disp)
		switch j {
		case 1, 2:
			m.Index, m.Scale = one, uint8(j)
		case 3:
			m.Index, m.Scale = three, 1
		}
		return m
	}
	limbs := pointer("limbs") // from here on read again where it is needed
	LEAQ(Mem{Base: end, Index: limbs, Scale: 8}, end)
	constant := func(j, disp int) vec {
		r := g.reg()
		VPBROADCASTQ(strided(end, cStride, c3, j, disp), r)
		return r
	}
	foldAll := func(acc [][]vec) {
		for j := range acc {
			m := constant(j, 16)
			VPSLLQ(U8(33), m, m)
			g.fold(acc[j], m)
		}
	}
	g.over(name, n, wide, []Register{dst, y, v}, func() {
		acc := make([][]vec, targets)
		for i := range wide {
			x := g.load(at(v, i*g.bytes))
			xo := g.odd(x)
			for j := range acc {
				h := constant(j, 0)
				acc[j] = append(acc[j], g.op2(VPMULUDQ, x, h), g.op2(VPMULUDQ, xo, h))
			}
		}
		yi, ci, left, batch := GP64(), GP64(), pointer("limbs"), GP64()
		MOVQ(y, yi)
		MOVQ(left, ci)
		NEGQ(ci)
		LEAQ(Mem{Base: end, Index: ci, Scale: 8}, ci)
		MOVQ(U32(firstTerms), batch)
		Label(name + "Row")
		x, xo := make([]vec, wide), make([]vec, wide)
		for i := range x {
			x[i] = g.load(at(yi, i*g.bytes))
			xo[i] = g.odd(x[i])
			PREFETCHT0(at(yi, partBytes+i*g.bytes))
		}
		for j := range acc {
			h := g.reg()
			VPBROADCASTQ(strided(ci, cStride, c3, j, 0), h)
			for i := range x {
				VPADDQ(g.op2(VPMULUDQ, x[i], h), acc[j][2*i], acc[j][2*i])
				VPADDQ(g.op2(VPMULUDQ, xo[i], h), acc[j][2*i+1], acc[j][2*i+1])
			}
		}
		ADDQ(stride, yi)
		ADDQ(U8(8), ci)
		DECQ(batch)
		JNE(LabelRef(name + "Next"))
		foldAll(acc)
		MOVQ(U32(moreTerms), batch)
		Label(name + "Next")
		DECQ(left)
		JNE(LabelRef(name + "Row"))
		CMPQ(pointer("limbs"), Imm(looseTerms+1))
		JLT(LabelRef(name + "End"))
		foldAll(acc)
		Label(name + "End")
		for j := range acc {
			qinv := constant(j, 8)
			q := g.reg()
			VPBROADCASTD(strided(end, cStride, c3, j, 16), q)
			g.q = q
			for i := range wide {
				r := g.difference(acc[j][2*i], acc[j][2*i+1], qinv)
				g.store(g.op2(VPADDD, r, q), strided(dst, dstStride, dst3, j, i*g.bytes))
			}
		}
	})
	g.end()
}
