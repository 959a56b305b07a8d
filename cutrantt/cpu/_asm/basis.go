package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// digits and extend are the two halves of Ring.Extend.
func (g *gen) basis() {
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
