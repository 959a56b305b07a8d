// Command embed writes the vector code of package henc/internal/embed: see the
// generate directive in its vector_amd64.go. Complex numbers stand in two slices, of
// real and of imaginary parts. No product is fused with a sum, so that the results
// are those of the plain Go code bit for bit.
package main

import (
	"math/bits"

	"github.com/hencedge/hencedge/cutrantt/cpu/_asm/lane"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	for _, w := range lane.Widths {
		g := &gen{w}
		for _, k := range []int{1, 2} {
			g.levels(k, true)
			g.levels(k, false)
		}
		g.tile(true)
		g.tile(false)
		g.scaleRound()
		g.divide()
		g.magnitude()
	}
	Generate()
}

type gen struct{ *lane.Gen }

// number is a complex number in each lane.
type number struct{ re, im lane.Words }

func (g *gen) vector(m Mem) lane.Words {
	r := g.Reg()
	VMOVUPD(m, r)
	return r
}

func (g *gen) load(re, im Mem) number { return number{g.vector(re), g.vector(im)} }

func (x number) store(re, im Mem) {
	VMOVUPD(x.re, re)
	VMOVUPD(x.im, im)
}

func (g *gen) add(a, b number) number {
	return number{g.Op(VADDPD, a.re, b.re), g.Op(VADDPD, a.im, b.im)}
}

func (g *gen) sub(a, b number) number {
	return number{g.Op(VSUBPD, a.re, b.re), g.Op(VSUBPD, a.im, b.im)}
}

// twiddle is a factor: in registers, or one number in memory for all lanes.
type twiddle struct {
	re, im Op
	one    bool
}

// times is x*t, or x times the conjugate of t.
func (g *gen) times(t twiddle, x number, conjugate bool) number {
	mul := VMULPD
	if t.one && g.Narrow() {
		re, im := g.Reg(), g.Reg()
		VBROADCASTSD(t.re, re)
		VBROADCASTSD(t.im, im)
		t.re, t.im = re, im
	} else if t.one {
		mul = VMULPD_BCST
	}
	rr, ii := g.Op(mul, x.re, t.re), g.Op(mul, x.im, t.im)
	ri, ir := g.Op(mul, x.re, t.im), g.Op(mul, x.im, t.re)
	if conjugate {
		return number{g.Op(VADDPD, rr, ii), g.Op(VSUBPD, ir, ri)}
	}
	return number{g.Op(VSUBPD, rr, ii), g.Op(VADDPD, ri, ir)}
}

// butterfly is (a + b, (a - b)*conj(t)) going down, (a + t*b, a - t*b) going up.
func (g *gen) butterfly(a, b number, t twiddle, down bool) (_, _ number) {
	if down {
		return g.add(a, b), g.times(t, g.sub(a, b), true)
	}
	b = g.times(t, b, false)
	return g.add(a, b), g.sub(a, b)
}

// levels is k levels in place, over blocks of 1<<k parts of size numbers; the
// largest distance is part * 1<<(k-1).
func (g *gen) levels(k int, down bool) {
	name, order := "up", "inner level first"
	if down {
		name, order = "down", "outer level first"
	}
	if k == 2 {
		name += "2"
	}
	g.Function(name, "re, im *float64, blocks, size int, cos, sin *float64",
		map[int]string{1: "is one level",
			2: "is two levels, " + order + ","}[k]+` over blocks of parts of size numbers, size a
multiple of the lanes. cos and sin are the whole tables: the twiddles of distance h
begin at index h.`)
	re, im, blocks, size := lane.Pointer("re"), lane.Pointer("im"), lane.Pointer("blocks"), lane.Pointer("size")
	cos, sin := lane.Pointer("cos"), lane.Pointer("sin")
	SHLQ(U8(3), size)
	ADDQ(size, cos) // the twiddles of distance size
	ADDQ(size, sin)
	three := GP64()
	LEAQ(Mem{Base: size, Index: size, Scale: 2}, three)
	part := func(p Register, i int) Mem {
		return [4]Mem{{Base: p}, {Base: p, Index: size, Scale: 1}, {Base: p, Index: size, Scale: 2},
			{Base: p, Index: three, Scale: 1}}[i]
	}
	name += g.Name
	Label(name + "block")
	c, s, n := GP64(), GP64(), GP64()
	MOVQ(cos, c)
	MOVQ(sin, s)
	MOVQ(size, n)
	Label(name + "vector")
	var x []number
	for i := range 1 << k {
		x = append(x, g.load(part(re, i), part(im, i)))
	}
	inner := func() {
		w := g.load(part(c, 0), part(s, 0))
		for i := 0; i < 1<<k; i += 2 {
			x[i], x[i+1] = g.butterfly(x[i], x[i+1], twiddle{w.re, w.im, false}, down)
		}
	}
	outer := func() { // distance 2*size: its twiddles begin size further on
		for i := range 2 {
			w := g.load(part(c, 1+i), part(s, 1+i))
			x[i], x[2+i] = g.butterfly(x[i], x[2+i], twiddle{w.re, w.im, false}, down)
		}
	}
	switch {
	case k == 1:
		inner()
	case down:
		outer()
		inner()
	default:
		inner()
		outer()
	}
	for i := range x {
		x[i].store(part(re, i), part(im, i))
	}
	for _, p := range []Register{re, im, c, s} {
		ADDQ(U8(g.Bytes), p)
	}
	SUBQ(U8(g.Bytes), n)
	JNE(LabelRef(name + "vector"))
	for range 1<<k - 1 {
		ADDQ(size, re)
		ADDQ(size, im)
	}
	DECQ(blocks)
	JNE(LabelRef(name + "block"))
	VZEROUPPER()
	RET()
}

// rev reverses the bits of a lane's number.
func (g *gen) rev(i int) int { return int(bits.Reverse8(uint8(i))) * g.Lanes() >> 8 }

// transpose swaps rows and lanes.
func (g *gen) transpose(x []lane.Words) []lane.Words {
	pick := func(f func(_, _, _, _ Op), imm uint8, a, b lane.Words) lane.Words {
		r := g.Reg()
		f(U8(imm), b, a, r)
		return r
	}
	quarters := func(imm uint8, a, b lane.Words) lane.Words {
		return pick(func(i, b, a, r Op) { VSHUFF64X2(i, b, a, r) }, imm, a, b)
	}
	p := make([]lane.Words, g.Lanes()) // pairs: lanes 2k+(0, 1) of rows i, i+1 in quarter k
	for i := 0; i < len(p); i += 2 {
		p[i], p[i+1] = g.Op(VUNPCKLPD, x[i], x[i+1]), g.Op(VUNPCKHPD, x[i], x[i+1])
	}
	y := make([]lane.Words, len(p))
	for j := range 2 {
		if g.Narrow() {
			y[j], y[2+j] = pick(VPERM2F128, 0x20, p[j], p[2+j]), pick(VPERM2F128, 0x31, p[j], p[2+j])
			continue
		}
		a, b := quarters(0x88, p[j], p[2+j]), quarters(0xdd, p[j], p[2+j])
		c, d := quarters(0x88, p[4+j], p[6+j]), quarters(0xdd, p[4+j], p[6+j])
		y[j], y[4+j] = quarters(0x88, a, c), quarters(0xdd, a, c)
		y[2+j], y[6+j] = quarters(0x88, b, d), quarters(0xdd, b, d)
	}
	return y
}

// tile is the inner levels with the reversal of bits. An index is a|m|b where a and b
// count lanes: a tile is the rows a of one m, whose lanes are b. Its transpose has the b
// in rows, so the levels join registers.
func (g *gen) tile(down bool) {
	name, doc := "tileUp", `is the reversal of bits and the levels of distance less than the lanes after it,
smallest first, from src to dst, which lie apart; factor is not used`
	if down {
		name, doc = "tileDown", `is the levels of distance less than the lanes, largest first, and the reversal of bits
after them, times factor, from src to dst, which lie apart`
	}
	g.Function(name, "dstRe, dstIm, srcRe, srcIm *float64, n int, reversed *uint32, cos, sin *float64, factor float64",
		doc+`. n is a multiple of the square of the lanes
and reversed has the n over that square middle indices in reversed order.`)
	name += g.Name
	dst := [2]Register{lane.Pointer("dstRe"), lane.Pointer("dstIm")}
	src := [2]Register{lane.Pointer("srcRe"), lane.Pointer("srcIm")}
	n, reversed, cos, sin := lane.Pointer("n"), lane.Pointer("reversed"), lane.Pointer("cos"), lane.Pointer("sin")
	var factor lane.Words
	if down {
		factor = g.number("factor")
	}
	tiles, m, at, three, base := GP64(), GP64(), GP64(), GP64(), GP64()
	shift := bits.TrailingZeros(uint(g.Lanes()))
	MOVQ(n, tiles)
	SHRQ(U8(2*shift), tiles)
	if g.Narrow() {
		SHLQ(U8(1), n)
	} // n is the bytes of a row: n/lanes numbers of 8
	LEAQ(Mem{Base: n, Index: n, Scale: 2}, three)
	XORQ(m, m)
	rows := func(p, offset Register, f func(i int, m Mem)) {
		LEAQ(Mem{Base: p, Index: offset, Scale: 1}, base)
		for i := range g.Lanes() {
			if i == 4 {
				LEAQ(Mem{Base: base, Index: n, Scale: 4}, base)
			}
			f(i, [4]Mem{{Base: base}, {Base: base, Index: n, Scale: 1}, {Base: base, Index: n, Scale: 2},
				{Base: base, Index: three, Scale: 1}}[i%4])
		}
	}
	Label(name)
	MOVL(Mem{Base: reversed}, at.As32())
	SHLQ(U8(shift+3), at)
	read, write := m, at
	if !down {
		read, write = at, m
	}
	var x [2][]lane.Words
	for c := range 2 {
		x[c] = make([]lane.Words, g.Lanes())
		rows(src[c], read, func(i int, a Mem) { x[c][g.rev(i)] = g.vector(a) })
		if down {
			x[c] = g.transpose(x[c])
		}
	}
	level := func(h int) {
		for b := range g.Lanes() {
			if b&h != 0 {
				continue
			}
			d := 8 * (h + b%h)
			t := twiddle{Mem{Base: cos, Disp: d}, Mem{Base: sin, Disp: d}, true}
			p, q := g.butterfly(number{x[0][b], x[1][b]}, number{x[0][b+h], x[1][b+h]}, t, down)
			x[0][b], x[1][b], x[0][b+h], x[1][b+h] = p.re, p.im, q.re, q.im
		}
	}
	for i := range shift {
		if down {
			i = shift - 1 - i
		}
		level(1 << i)
	}
	for c := range 2 {
		if !down {
			x[c] = g.transpose(x[c])
		}
		rows(dst[c], write, func(i int, a Mem) {
			v := x[c][g.rev(i)]
			if down {
				VMULPD(factor, v, v)
			}
			VMOVUPD(v, a)
		})
	}
	ADDQ(U8(g.Bytes), m)
	ADDQ(U8(4), reversed)
	DECQ(tiles)
	JNE(LabelRef(name))
	VZEROUPPER()
	RET()
}

// number is the argument of that name in every lane.
func (g *gen) number(name string) lane.Words {
	r := g.Reg()
	VBROADCASTSD(Load(Param(name), XMM()), r)
	return r
}

func (g *gen) scaleRound() {
	g.Function("scaleRound", "x *float64, n int, scale float64",
		"multiplies the n numbers x, a multiple of the lanes, by scale and rounds them to\nintegers, ties to even.")
	g.each("scaleRound", g.number("scale"), func(x Mem, scale lane.Words) lane.Words {
		v := g.Reg()
		VMULPD(x, scale, v)
		if g.Narrow() {
			VROUNDPD(U8(8), v, v)
		} else {
			VRNDSCALEPD(U8(8), v, v)
		}
		return v
	})
}

func (g *gen) divide() {
	g.Function("divide", "x *float64, n int, by float64", "divides the n numbers x, a multiple of the lanes, by by.")
	g.each("divide", g.number("by"), func(x Mem, by lane.Words) lane.Words {
		v := g.vector(x)
		VDIVPD(by, v, v)
		return v
	})
}

// each writes f of every vector of the n numbers x in its place.
func (g *gen) each(name string, by lane.Words, f func(x Mem, by lane.Words) lane.Words) {
	x, n := lane.Pointer("x"), lane.Pointer("n")
	Label(name + g.Name)
	VMOVUPD(f(Mem{Base: x}, by), Mem{Base: x})
	ADDQ(U8(g.Bytes), x)
	SUBQ(U8(g.Lanes()), n)
	JNE(LabelRef(name + g.Name))
	VZEROUPPER()
	RET()
}

// magnitude: the order of numbers that are not negative is that of their bits.
func (g *gen) magnitude() {
	g.Function("magnitude", "x *float64, n int",
		`is the largest of the bits of |x_i|, and 0 if every |x_i| below 2^52 is an integer; n is a
multiple of the lanes.`, "(largest, bad uint64)")
	x, n := lane.Pointer("x"), lane.Pointer("n")
	constant := func(v uint64) lane.Words {
		r := GP64()
		MOVQ(U64(v), r)
		return g.Spread(r)
	}
	abs, whole := constant(1<<63-1), constant(0x433<<52)
	top, bad := g.Zero(), g.Zero()
	label := "magnitude" + g.Name
	Label(label)
	a := g.And(g.Load(Mem{Base: x}), abs)
	if g.Narrow() {
		above := g.Reg()
		VPCMPGTQ(top, a, above)
		VPBLENDVB(above, a, top, top)
	} else {
		VPMAXUQ(a, top, top)
	}
	below := g.Negative(g.Sub(a, whole))
	t := g.Op(VSUBPD, g.Op(VADDPD, a, whole), whole)
	g.Gather(g.And(g.Xor(t, a), below), bad)
	ADDQ(U8(g.Bytes), x)
	SUBQ(U8(g.Lanes()), n)
	JNE(LabelRef(label))
	Store(g.Any(bad), Return("bad"))
	half, other := YMM(), YMM()
	if g.Narrow() {
		VMOVDQA(top, half)
	} else {
		VEXTRACTI64X4(U8(1), top, half)
		VPMAXUQ(top.AsY(), half, half)
	}
	for _, imm := range []uint8{0x4e, 0xb1} { // swap halves, then neighbours
		above := YMM()
		VPERMQ(U8(imm), half, other)
		VPCMPGTQ(half, other, above)
		VPBLENDVB(above, other, half, half)
	}
	largest, low := GP64(), XMM()
	VEXTRACTI128(U8(0), half, low)
	VMOVQ(low, largest)
	Store(largest, Return("largest"))
	VZEROUPPER()
	RET()
}
