// Command crt writes the vector code of package henc/internal/crt: see the generate
// directive in its vector_amd64.go, and its vector.go for the constants.
package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	for _, g := range []*gen{{name: "AVX512", bytes: 64}, {name: "AVX2", bytes: 32}} {
		g.short()
		g.check()
	}
	Generate()
}

// Places in the tables of constants and between the digits, as in package crt.
const (
	block = 256

	shortDigits, shortQ, shortNegInv, shortPlaces = 0, 9, 12, 15
	shortHalf, shortWhole, shortMask, shortTwo112 = 21, 25, 29, 30
	shortExp30, shortSign                         = 33, 34
	checkPlaces, checkQ, checkNegInv              = 0, 5, 6
)

// gen writes functions on vectors of bytes bytes, whose lanes have 64 bits.
type gen struct {
	name  string
	bytes int
	t     Register // the constants
}

type vec = VecVirtual

func (g *gen) reg() vec {
	if g.bytes == 32 {
		return YMM()
	}
	return ZMM()
}

func (g *gen) function(name, signature, doc string) {
	TEXT(name+g.name, NOSPLIT, "func("+signature+")")
	Doc(strings.Split(name+g.name+" "+doc, "\n")...)
	Pragma("noescape")
}

func pointer(name string) Register { return Load(Param(name), GP64()) }

// op is a op b: for VSUBQ and VSUBPD a - b.
func (g *gen) op(f func(...Op), a, b vec) vec {
	r := g.reg()
	f(b, a, r)
	return r
}

// three is an instruction of AVX2, which has three operands only.
func three(f func(_, _, _ Op)) func(...Op) { return func(o ...Op) { f(o[0], o[1], o[2]) } }

func (g *gen) mul(a, b vec) vec { return g.op(VPMULUDQ, a, b) } // of the lower halves of lanes
func (g *gen) add(a, b vec) vec { return g.op(VPADDQ, a, b) }
func (g *gen) sub(a, b vec) vec { return g.op(VPSUBQ, a, b) }

func (g *gen) and(a, b vec) vec {
	if g.bytes == 32 {
		return g.op(three(VPAND), a, b)
	}
	return g.op(VPANDQ, a, b)
}

func (g *gen) or(a, b vec) vec {
	if g.bytes == 32 {
		return g.op(three(VPOR), a, b)
	}
	return g.op(VPORQ, a, b)
}

func (g *gen) xor(a, b vec) vec {
	if g.bytes == 32 {
		return g.op(three(VPXOR), a, b)
	}
	return g.op(VPXORQ, a, b)
}

func (g *gen) shift(bits int, a vec) vec {
	r := g.reg()
	VPSRLQ(U8(bits), a, r)
	return r
}

// c is constant i in every lane.
func (g *gen) c(i int) vec {
	r := g.reg()
	VPBROADCASTQ(Mem{Base: g.t, Disp: 8 * i}, r)
	return r
}

// negative is all ones where a < 0, else 0.
func (g *gen) negative(a vec) vec {
	r := g.reg()
	if g.bytes == 32 {
		zero := g.reg()
		VPXOR(zero, zero, zero)
		VPCMPGTQ(a, zero, r)
		return r
	}
	VPSRAQ(U8(63), a, r)
	return r
}

// pick is a where mask is all ones, b where it is 0.
func (g *gen) pick(mask, a, b vec) vec {
	if g.bytes == 32 {
		r := g.reg()
		VPBLENDVB(mask, a, b, r)
		return r
	}
	r := g.reg()
	VMOVDQA64(mask, r)
	VPTERNLOGQ(U8(0xca), b, a, r)
	return r
}

func (g *gen) load(p Register, disp int) vec {
	r := g.reg()
	if g.bytes == 32 {
		VMOVDQU(Mem{Base: p, Disp: disp}, r)
	} else {
		VMOVDQU64(Mem{Base: p, Disp: disp}, r)
	}
	return r
}

func (g *gen) store(a vec, p Register, disp int) {
	if g.bytes == 32 {
		VMOVDQU(a, Mem{Base: p, Disp: disp})
	} else {
		VMOVDQU64(a, Mem{Base: p, Disp: disp})
	}
}

// residues are residues in lanes of their own.
func (g *gen) residues(p Register) vec {
	r := g.reg()
	VPMOVZXDQ(Mem{Base: p}, r)
	return r
}

// reduce is s*2^-32 mod q for s < 2^32*q.
func (g *gen) reduce(s, q, negInv vec) vec {
	s = g.shift(32, g.add(s, g.mul(g.mul(s, negInv), q))) // below 2q
	return g.op(VPMINUD, s, g.sub(s, q))
}

// short: see code.short.
func (g *gen) short() {
	g.function("short", "out *float64, d *uint64, x0, x1, x2, x3 *uint32, n int, t *uint64",
		"is code.short.")
	out, digits := pointer("out"), pointer("d")
	var x [4]Register
	for j := range x {
		x[j] = pointer("x" + string('0'+rune(j)))
	}
	n := pointer("n")
	g.t = pointer("t")
	loop := "short" + g.name
	Label(loop)
	d := []vec{g.residues(x[0])}
	g.store(d[0], digits, 0)
	at := shortDigits
	for j := 1; j < 4; j++ {
		s := g.mul(g.residues(x[j]), g.c(at+j))
		for i := range j {
			s = g.add(s, g.mul(d[i], g.c(at+i)))
		}
		at += j + 1
		d = append(d, g.reduce(s, g.c(shortQ+j-1), g.c(shortNegInv+j-1)))
		g.store(d[j], digits, 8*block*j)
	}
	// The value in parts v of 30 bits: sums of products are below 2^62.
	mask := g.c(shortMask)
	sum := []vec{d[0], nil, nil}
	for at, j := shortPlaces, 1; j < 4; j++ {
		for i := range j {
			p := g.mul(d[j], g.c(at))
			if sum[i] != nil {
				p = g.add(sum[i], p)
			}
			sum[i] = p
			at++
		}
	}
	var v [4]vec
	for i := range 3 {
		v[i] = g.and(sum[i], mask)
		carry := g.shift(30, sum[i])
		if i < 2 {
			sum[i+1] = g.add(sum[i+1], carry)
		} else {
			v[3] = carry
		}
	}
	// less is a - v in parts of 30 bits, and all ones where it is negative.
	less := func(a int) (parts [4]vec, negative vec) {
		for i := range v {
			s := g.sub(g.c(a+i), v[i])
			if i > 0 {
				s = g.add(s, negative) // the borrow
			}
			negative = g.negative(s)
			parts[i] = g.and(s, mask)
		}
		return parts, negative
	}
	_, neg := less(shortHalf)
	g.store(neg, digits, 8*block*4)
	rest, _ := less(shortWhole)
	for i := range v {
		v[i] = g.pick(neg, rest[i], v[i])
	}
	// Of a value of 90 bits or more the lowest part only says that it is not 0: 2^30
	// is below half of the last place. Three parts a, b, c are left.
	zero := g.sub(v[0], v[0])
	sticky := g.shift(63, g.sub(zero, v[0]))
	large := g.negative(g.sub(zero, v[3]))
	parts := [3]vec{g.pick(large, v[3], v[2]), g.pick(large, v[2], v[1]), g.pick(large, g.or(v[1], sticky), v[0])}
	for i, p := range parts { // a*2^60, b*2^30 and c as float64, exactly
		two := g.c(shortTwo112 + i)
		parts[i] = g.op(VSUBPD, g.or(p, two), two)
	}
	// a + b is s + e exactly (T. J. Dekker, A floating-point technique for extending the
	// available precision, 1971); e is a multiple of 2^30 of at most 2^36, so e + c is
	// exact, and the last sum is the only rounding.
	s := g.op(VADDPD, parts[0], parts[1])
	e := g.op(VSUBPD, parts[1], g.op(VSUBPD, s, parts[0]))
	r := g.op(VADDPD, s, g.op(VADDPD, e, parts[2]))
	r = g.add(r, g.and(large, g.c(shortExp30)))
	r = g.or(r, g.and(neg, g.c(shortSign)))
	VMOVUPD(r, Mem{Base: out})
	for _, p := range x {
		ADDQ(U8(g.bytes/2), p)
	}
	ADDQ(U8(g.bytes), out)
	ADDQ(U8(g.bytes), digits)
	SUBQ(U8(g.bytes/8), n)
	JNE(LabelRef(loop))
	VZEROUPPER()
	RET()
}

// check: see code.check.
func (g *gen) check() {
	g.function("check", "bad, d *uint64, x *uint32, n int, t *uint64", "is code.check.")
	bad, digits, x, n := pointer("bad"), pointer("d"), pointer("x"), pointer("n")
	g.t = pointer("t")
	q, negInv := g.c(checkQ), g.c(checkNegInv)
	var places [5]vec
	for i := range places {
		places[i] = g.c(checkPlaces + i)
	}
	diff := g.reg()
	if g.bytes == 32 {
		VPXOR(diff, diff, diff)
	} else {
		VPXORQ(diff, diff, diff)
	}
	loop := "check" + g.name
	Label(loop)
	s := g.and(g.load(digits, 8*block*4), places[4])
	for j := range 4 {
		s = g.add(s, g.mul(g.load(digits, 8*block*j), places[j]))
	}
	differs := g.xor(g.reduce(s, q, negInv), g.residues(x))
	if g.bytes == 32 {
		VPOR(differs, diff, diff)
	} else {
		VPORQ(differs, diff, diff)
	}
	ADDQ(U8(g.bytes/2), x)
	ADDQ(U8(g.bytes), digits)
	SUBQ(U8(g.bytes/8), n)
	JNE(LabelRef(loop))
	half := YMM()
	if g.bytes == 64 {
		VEXTRACTI64X4(U8(1), diff, half)
		VPOR(diff.AsY(), half, half)
	} else {
		VMOVDQA(diff, half)
	}
	quarter, other := XMM(), XMM()
	VEXTRACTI128(U8(1), half, quarter)
	VPOR(half.AsX(), quarter, quarter)
	VPSHUFD(U8(0xee), quarter, other)
	VPOR(other, quarter, quarter)
	any := GP64()
	VMOVQ(quarter, any)
	ORQ(any, Mem{Base: bad})
	VZEROUPPER()
	RET()
}
