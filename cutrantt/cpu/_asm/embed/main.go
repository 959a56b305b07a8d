// Command embed writes the vector code of package henc/internal/embed: see the
// generate directive in its vector_amd64.go. Complex numbers stand in two slices, of
// real and of imaginary parts. No product is fused with a sum, so that the results
// are those of the plain Go code bit for bit.
package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	for _, k := range []int{1, 2} {
		levels(k, true)
		levels(k, false)
	}
	tile(true)
	tile(false)
	scaleRound()
	magnitude()
	Generate()
}

func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, "func("+signature+")")
	Doc(strings.Split(name+" "+doc, "\n")...)
	Pragma("noescape")
}

func pointer(name string) Register { return Load(Param(name), GP64()) }

// number is a complex number in each of the eight lanes.
type number struct{ re, im VecVirtual }

func load(re, im Mem) number {
	x := number{ZMM(), ZMM()}
	VMOVUPD(re, x.re)
	VMOVUPD(im, x.im)
	return x
}

func (x number) store(re, im Mem) {
	VMOVUPD(x.re, re)
	VMOVUPD(x.im, im)
}

// op is r = a op b.
func op(f func(...Op), a, b Op) VecVirtual {
	r := ZMM()
	f(b, a, r)
	return r
}

func add(a, b number) number { return number{op(VADDPD, a.re, b.re), op(VADDPD, a.im, b.im)} }
func sub(a, b number) number { return number{op(VSUBPD, a.re, b.re), op(VSUBPD, a.im, b.im)} }

// twiddle is a factor: in registers, or one number in memory for all lanes.
type twiddle struct {
	re, im Op
	one    bool
}

// times is x*t, or x times the conjugate of t.
func (t twiddle) times(x number, conjugate bool) number {
	mul := VMULPD
	if t.one {
		mul = VMULPD_BCST
	}
	rr, ii := op(mul, x.re, t.re), op(mul, x.im, t.im)
	ri, ir := op(mul, x.re, t.im), op(mul, x.im, t.re)
	if conjugate {
		return number{op(VADDPD, rr, ii), op(VSUBPD, ir, ri)}
	}
	return number{op(VSUBPD, rr, ii), op(VADDPD, ri, ir)}
}

// butterfly is (a + b, (a - b)*conj(t)) going down, (a + t*b, a - t*b) going up.
func butterfly(a, b number, t twiddle, down bool) (_, _ number) {
	if down {
		return add(a, b), t.times(sub(a, b), true)
	}
	b = t.times(b, false)
	return add(a, b), sub(a, b)
}

// levels is k levels in place, over blocks of 1<<k parts of size numbers; the
// largest distance is part * 1<<(k-1).
func levels(k int, down bool) {
	name, order := "up", "inner level first"
	if down {
		name, order = "down", "outer level first"
	}
	if k == 2 {
		name += "2"
	}
	function(name+"AVX512", "re, im *float64, blocks, size int, cos, sin *float64",
		map[int]string{1: "is one level", 2: "is two levels, " + order + ","}[k]+` over blocks of parts of size numbers, size a
multiple of 8. cos and sin are the whole tables: the twiddles of distance h begin
at index h.`)
	re, im, blocks, size := pointer("re"), pointer("im"), pointer("blocks"), pointer("size")
	cos, sin := pointer("cos"), pointer("sin")
	SHLQ(U8(3), size)
	ADDQ(size, cos) // the twiddles of distance size
	ADDQ(size, sin)
	three := GP64()
	LEAQ(Mem{Base: size, Index: size, Scale: 2}, three)
	part := func(p Register, i int) Mem {
		return [4]Mem{{Base: p}, {Base: p, Index: size, Scale: 1}, {Base: p, Index: size, Scale: 2}, {Base: p, Index: three, Scale: 1}}[i]
	}
	Label(name + "block")
	c, s, n := GP64(), GP64(), GP64()
	MOVQ(cos, c)
	MOVQ(sin, s)
	MOVQ(size, n)
	Label(name + "vector")
	var x []number
	for i := range 1 << k {
		x = append(x, load(part(re, i), part(im, i)))
	}
	inner := func() {
		w := load(part(c, 0), part(s, 0))
		for i := 0; i < 1<<k; i += 2 {
			x[i], x[i+1] = butterfly(x[i], x[i+1], twiddle{w.re, w.im, false}, down)
		}
	}
	outer := func() { // distance 2*size: its twiddles begin size further on
		for i := range 2 {
			w := load(part(c, 1+i), part(s, 1+i))
			x[i], x[2+i] = butterfly(x[i], x[2+i], twiddle{w.re, w.im, false}, down)
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
		ADDQ(U8(64), p)
	}
	SUBQ(U8(64), n)
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

// rev reverses three bits.
func rev(i int) int { return i>>2&1 | i&2 | i&1<<2 }

// transpose swaps rows and lanes of 8 by 8.
func transpose(x []VecVirtual) []VecVirtual {
	shuffle := func(imm uint8, a, b VecVirtual) VecVirtual {
		r := ZMM()
		VSHUFF64X2(U8(imm), b, a, r)
		return r
	}
	p := make([]VecVirtual, 8) // pairs: lanes 2k+(0, 1) of rows i, i+1 in quarter k
	for i := 0; i < 8; i += 2 {
		p[i], p[i+1] = op(VUNPCKLPD, x[i], x[i+1]), op(VUNPCKHPD, x[i], x[i+1])
	}
	y := make([]VecVirtual, 8)
	for j := range 2 {
		a, b := shuffle(0x88, p[j], p[2+j]), shuffle(0xdd, p[j], p[2+j])
		c, d := shuffle(0x88, p[4+j], p[6+j]), shuffle(0xdd, p[4+j], p[6+j])
		y[j], y[4+j] = shuffle(0x88, a, c), shuffle(0xdd, a, c)
		y[2+j], y[6+j] = shuffle(0x88, b, d), shuffle(0xdd, b, d)
	}
	return y
}

// tile is the three inner levels with the reversal of bits. An index is a|m|b with
// three bits in a and b: a tile is the rows a of one m, whose lanes are b. Its
// transpose has the b in rows, so the levels join registers.
func tile(down bool) {
	name, doc := "tileUp", `is the reversal of bits and the levels of distance 1, 2 and 4 after it, from src
to dst, which lie apart`
	if down {
		name, doc = "tileDown", `is the levels of distance 4, 2 and 1 and the reversal of bits after them, times
factor, from src to dst, which lie apart`
	}
	function(name+"AVX512", "dstRe, dstIm, srcRe, srcIm *float64, n int, reversed *uint32, cos, sin, factor *float64",
		doc+`; n is a multiple of 64 and reversed has the n/64
middle indices in reversed order.`)
	dst, src := [2]Register{pointer("dstRe"), pointer("dstIm")}, [2]Register{pointer("srcRe"), pointer("srcIm")}
	n, reversed, cos, sin := pointer("n"), pointer("reversed"), pointer("cos"), pointer("sin")
	factor := pointer("factor")
	tiles, m, at, three, base := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(n, tiles)
	SHRQ(U8(6), tiles) // and n is the bytes of a row: n/8 numbers of 8
	LEAQ(Mem{Base: n, Index: n, Scale: 2}, three)
	XORQ(m, m)
	rows := func(p, offset Register, f func(i int, m Mem)) {
		LEAQ(Mem{Base: p, Index: offset, Scale: 1}, base)
		for i := range 8 {
			if i == 4 {
				LEAQ(Mem{Base: base, Index: n, Scale: 4}, base)
			}
			f(i, [4]Mem{{Base: base}, {Base: base, Index: n, Scale: 1}, {Base: base, Index: n, Scale: 2}, {Base: base, Index: three, Scale: 1}}[i%4])
		}
	}
	Label(name)
	MOVL(Mem{Base: reversed}, at.As32())
	SHLQ(U8(6), at)
	read, write := m, at
	if !down {
		read, write = at, m
	}
	var x [2][]VecVirtual
	for c := range 2 {
		x[c] = make([]VecVirtual, 8)
		rows(src[c], read, func(i int, a Mem) {
			x[c][rev(i)] = ZMM()
			VMOVUPD(a, x[c][rev(i)])
		})
		if down {
			x[c] = transpose(x[c])
		}
	}
	level := func(h int) {
		for b := range 8 {
			if b&h != 0 {
				continue
			}
			d := 8 * (h + b%h)
			t := twiddle{Mem{Base: cos, Disp: d}, Mem{Base: sin, Disp: d}, true}
			p, q := butterfly(number{x[0][b], x[1][b]}, number{x[0][b+h], x[1][b+h]}, t, down)
			x[0][b], x[1][b], x[0][b+h], x[1][b+h] = p.re, p.im, q.re, q.im
		}
	}
	if down {
		level(4)
		level(2)
		level(1)
	} else {
		level(1)
		level(2)
		level(4)
	}
	for c := range 2 {
		if !down {
			x[c] = transpose(x[c])
		}
		rows(dst[c], write, func(i int, a Mem) {
			if down {
				VMULPD_BCST(Mem{Base: factor}, x[c][rev(i)], x[c][rev(i)])
			}
			VMOVUPD(x[c][rev(i)], a)
		})
	}
	ADDQ(U8(64), m)
	ADDQ(U8(4), reversed)
	DECQ(tiles)
	JNE(LabelRef(name))
	VZEROUPPER()
	RET()
}

func scaleRound() {
	function("scaleRoundAVX512", "x *float64, n int, scale *float64",
		"multiplies the n numbers x, a multiple of 8, by scale and rounds them to integers, ties to even.")
	x, n := pointer("x"), pointer("n")
	scale := ZMM()
	VBROADCASTSD(Mem{Base: pointer("scale")}, scale)
	Label("scaleRound")
	v := ZMM()
	VMULPD(Mem{Base: x}, scale, v)
	VRNDSCALEPD(U8(8), v, v)
	VMOVUPD(v, Mem{Base: x})
	ADDQ(U8(64), x)
	SUBQ(U8(8), n)
	JNE(LabelRef("scaleRound"))
	VZEROUPPER()
	RET()
}

func magnitude() {
	function("magnitudeAVX512", "x *float64, n int, result *uint64", `sets result to the largest of the bits of |x_i|, and result[1] to 0 if every |x_i|
below 2^52 is an integer; n is a multiple of 8.`)
	x, n, result := pointer("x"), pointer("n"), pointer("result")
	constant := func(v uint64) VecVirtual {
		g, z := GP64(), ZMM()
		MOVQ(U64(v), g)
		VPBROADCASTQ(g, z)
		return z
	}
	abs, whole, top := constant(1<<63-1), constant(0x433<<52), ZMM()
	VPXORQ(top, top, top)
	bad := K()
	KXORW(bad, bad, bad)
	Label("magnitude")
	a, t, below, wrong := ZMM(), ZMM(), K(), K()
	VPANDQ(Mem{Base: x}, abs, a)
	VPMAXUQ(a, top, top)
	VADDPD(whole, a, t)
	VSUBPD(whole, t, t)
	VPCMPUQ(U8(1), whole, a, below) // a < whole
	VPCMPUQ(U8(4), a, t, below, wrong)
	KORW(wrong, bad, bad)
	ADDQ(U8(64), x)
	SUBQ(U8(8), n)
	JNE(LabelRef("magnitude"))
	flags := GP32()
	KMOVW(bad, flags)
	MOVQ(flags.As64(), Mem{Base: result, Disp: 8})
	half := YMM()
	VEXTRACTI64X4(U8(1), top, half)
	VPMAXUQ(top.AsY(), half, half)
	quarter := XMM()
	VEXTRACTI64X2(U8(1), half, quarter)
	VPMAXUQ(half.AsX(), quarter, quarter)
	VPSHUFD(U8(0xee), quarter, half.AsX())
	VPMAXUQ(half.AsX(), quarter, quarter)
	VMOVQ(quarter, Mem{Base: result})
	VZEROUPPER()
	RET()
}
