// Command wire writes the vector code of package henc/internal/wire: see the generate
// directive in its vector_amd64.go, and its vector.go for the tables.
package main

import (
	"github.com/hencedge/hencedge/cutrantt/cpu/_asm/lane"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

func main() {
	ConstraintExpr("amd64")
	for _, g := range lane.Widths {
		pack(g)
		unpack(g)
	}
	Generate()
}

// permute takes the lanes of v that index names. AVX2 has this for 32 bits only: an
// index has a pair of them.
func permute(g *lane.Gen, index, v lane.Words) lane.Words {
	r := g.Reg()
	if g.Narrow() {
		VPERMD(v, index, r)
	} else {
		VPERMQ(v, index, r)
	}
	return r
}

// pack: a group is 8 pairs and as many bytes as a pair has bits. Each of its words
// has bits of at most three pairs.
func pack(g *lane.Gen) {
	g.Function("pack", "dst *byte, x *uint32, groups int, w uint64, q uint64, t *uint64", "is code.pack.")
	dst, x, groups := lane.Pointer("dst"), lane.Pointer("x"), lane.Pointer("groups")
	w := lane.Pointer("w")
	q := g.Spread(lane.Pointer("q"))
	t := lane.Pointer("t")
	halves := 8 / g.Lanes()
	half := GP64()
	MOVQ(w, half)
	SHRQ(U8(1), half)
	table := func(h, i int) Mem { return lane.At(t, g.Bytes*(6*h+i)) }
	var index [2][3]lane.Words
	for h := range halves {
		for i := range 3 {
			index[h][i] = g.Load(table(h, 2*i))
		}
	}
	loop := "pack" + g.Name
	Label(loop)
	var before lane.Words
	for h := range halves {
		r := g.Load(lane.At(x, g.Bytes*h))
		odd := g.Right(32, r)
		v := g.Add(g.Right(32, g.Left(32, r)), g.Mul(odd, q))
		first := permute(g, index[h][0], v)
		if h == 1 { // the end of the pair before, where this half begins in a byte
			last := g.Reg()
			VPERMQ(U8(0xff), before, last)
			VPBLENDD(U8(3), last, first, first)
		}
		word := g.Op(VPSRLVQ, first, g.Load(table(h, 1)))
		for i := 1; i < 3; i++ {
			word = g.Or(word, g.Op(VPSLLVQ, permute(g, index[h][i], v), g.Load(table(h, 2*i+1))))
		}
		if h == 0 {
			g.Store(word, lane.At(dst, 0))
		} else {
			g.Store(word, Mem{Base: dst, Index: half, Scale: 1})
		}
		before = v
	}
	ADDQ(U8(64), x)
	ADDQ(w, dst)
	DECQ(groups)
	JNE(LabelRef(loop))
	VZEROUPPER()
	RET()
}

// unpack: pair i is at bit i*w of a group, in two words at most. Its two residues
// are quotient and remainder of a division by q, after A. Menezes, P. van Oorschot
// and S. Vanstone, Handbook of Applied Cryptography, algorithm 14.42, with the radix 2.
func unpack(g *lane.Gen) {
	g.Function("unpack", "dst *uint32, src *byte, groups int, w, q, mu uint64, t *uint64", "is code.unpack.", "uint64")
	dst, src, groups := lane.Pointer("dst"), lane.Pointer("src"), lane.Pointer("groups")
	w := lane.Pointer("w")
	qWord := lane.Pointer("q")
	q := g.Spread(qWord)
	mu := g.Spread(lane.Pointer("mu"))
	t := lane.Pointer("t")
	DECQ(qWord)
	most := g.Spread(qWord) // q-1
	halves := 8 / g.Lanes()
	mask, down, up := g.Load(lane.At(t, 256)), g.Load(lane.At(t, 320)), g.Load(lane.At(t, 384))
	half := GP64()
	MOVQ(w, half)
	SHRQ(U8(1), half)
	bad := g.Zero()
	loop := "unpack" + g.Name
	Label(loop)
	for h := range halves {
		from := Mem{Base: src}
		if h == 1 {
			from = Mem{Base: src, Index: half, Scale: 1}
		}
		words := g.Load(from)
		table := func(i int) lane.Words { return g.Load(lane.At(t, g.Bytes*(4*h+i))) }
		low := g.Op(VPSRLVQ, permute(g, table(0), words), table(1))
		high := g.Op(VPSLLVQ, permute(g, table(2), words), table(3))
		v := g.And(g.Or(low, high), mask)
		quotient := g.Op(VPSRLVQ, g.Mul(g.Op(VPSRLVQ, v, down), mu), up) // at most 2 too small
		r := g.Sub(v, g.Mul(quotient, q))                                // below 3q
		for range 2 {
			above := g.Negative(g.Sub(most, r)) // all ones, which is -1
			r = g.Sub(r, g.And(above, q))
			quotient = g.Sub(quotient, above)
		}
		g.Gather(g.Negative(g.Sub(most, quotient)), bad)
		g.Store(g.Or(r, g.Left(32, quotient)), lane.At(dst, g.Bytes*h))
	}
	ADDQ(U8(64), dst)
	ADDQ(w, src)
	DECQ(groups)
	JNE(LabelRef(loop))
	Store(g.Any(bad), ReturnIndex(0))
	VZEROUPPER()
	RET()
}
