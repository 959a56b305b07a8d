// Command crt writes the vector code of package henc/internal/crt: see the generate
// directive in its vector_amd64.go, and its vector.go for the constants.
package main

import (
	"github.com/hencedge/hencedge/cutrantt/cpu/_asm/lane"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	for _, w := range lane.Widths {
		g := &gen{Gen: w}
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

// gen writes the functions of one width.
type gen struct {
	*lane.Gen
	t Register // the constants
}

type vec = lane.Words

// c is constant i in every lane.
func (g *gen) c(i int) vec { return g.Broadcast(lane.At(g.t, 8*i)) }

// residues are residues in lanes of their own.
func (g *gen) residues(p Register) vec {
	r := g.Reg()
	VPMOVZXDQ(Mem{Base: p}, r)
	return r
}

// reduce is s*2^-32 mod q for s < 2^32*q.
func (g *gen) reduce(s, q, negInv vec) vec {
	s = g.Right(32, g.Add(s, g.Mul(g.Mul(s, negInv), q))) // below 2q
	return g.Op(VPMINUD, s, g.Sub(s, q))
}

// short: see code.short.
func (g *gen) short() {
	g.Function("short", "out *float64, d *uint64, x0, x1, x2, x3 *uint32, n int, t *uint64",
		"is code.short.")
	out, digits := lane.Pointer("out"), lane.Pointer("d")
	var x [4]Register
	for j := range x {
		x[j] = lane.Pointer("x" + string('0'+rune(j)))
	}
	n := lane.Pointer("n")
	g.t = lane.Pointer("t")
	loop := "short" + g.Name
	Label(loop)
	d := []vec{g.residues(x[0])}
	g.Store(d[0], lane.At(digits, 0))
	at := shortDigits
	for j := 1; j < 4; j++ {
		s := g.Mul(g.residues(x[j]), g.c(at+j))
		for i := range j {
			s = g.Add(s, g.Mul(d[i], g.c(at+i)))
		}
		at += j + 1
		d = append(d, g.reduce(s, g.c(shortQ+j-1), g.c(shortNegInv+j-1)))
		g.Store(d[j], lane.At(digits, 8*block*j))
	}
	// The value in parts v of 30 bits: sums of products are below 2^62.
	mask := g.c(shortMask)
	sum := []vec{d[0], nil, nil}
	for at, j := shortPlaces, 1; j < 4; j++ {
		for i := range j {
			p := g.Mul(d[j], g.c(at))
			if sum[i] != nil {
				p = g.Add(sum[i], p)
			}
			sum[i] = p
			at++
		}
	}
	var v [4]vec
	for i := range 3 {
		v[i] = g.And(sum[i], mask)
		carry := g.Right(30, sum[i])
		if i < 2 {
			sum[i+1] = g.Add(sum[i+1], carry)
		} else {
			v[3] = carry
		}
	}
	// less is a - v in parts of 30 bits, and all ones where it is negative.
	less := func(a int) (parts [4]vec, negative vec) {
		for i := range v {
			s := g.Sub(g.c(a+i), v[i])
			if i > 0 {
				s = g.Add(s, negative) // the borrow
			}
			negative = g.Negative(s)
			parts[i] = g.And(s, mask)
		}
		return parts, negative
	}
	_, neg := less(shortHalf)
	g.Store(neg, lane.At(digits, 8*block*4))
	rest, _ := less(shortWhole)
	for i := range v {
		v[i] = g.Pick(neg, rest[i], v[i])
	}
	// Of a value of 90 bits or more the lowest part only says that it is not 0: 2^30
	// is below half of the last place. Three parts a, b, c are left.
	zero := g.Sub(v[0], v[0])
	sticky := g.Right(63, g.Sub(zero, v[0]))
	large := g.Negative(g.Sub(zero, v[3]))
	parts := [3]vec{g.Pick(large, v[3], v[2]), g.Pick(large, v[2], v[1]), g.Pick(large, g.Or(v[1], sticky), v[0])}
	for i, p := range parts { // a*2^60, b*2^30 and c as float64, exactly
		two := g.c(shortTwo112 + i)
		parts[i] = g.Op(VSUBPD, g.Or(p, two), two)
	}
	// a + b is s + e exactly (T. J. Dekker, A floating-point technique for extending the
	// available precision, 1971); e is a multiple of 2^30 of at most 2^36, so e + c is
	// exact, and the last sum is the only rounding.
	s := g.Op(VADDPD, parts[0], parts[1])
	e := g.Op(VSUBPD, parts[1], g.Op(VSUBPD, s, parts[0]))
	r := g.Op(VADDPD, s, g.Op(VADDPD, e, parts[2]))
	r = g.Add(r, g.And(large, g.c(shortExp30)))
	r = g.Or(r, g.And(neg, g.c(shortSign)))
	VMOVUPD(r, Mem{Base: out})
	for _, p := range x {
		ADDQ(U8(g.Bytes/2), p)
	}
	ADDQ(U8(g.Bytes), out)
	ADDQ(U8(g.Bytes), digits)
	SUBQ(U8(g.Bytes/8), n)
	JNE(LabelRef(loop))
	VZEROUPPER()
	RET()
}

// check: see code.check.
func (g *gen) check() {
	g.Function("check", "bad, d *uint64, x *uint32, n int, t *uint64", "is code.check.")
	bad, digits, x, n := lane.Pointer("bad"), lane.Pointer("d"), lane.Pointer("x"), lane.Pointer("n")
	g.t = lane.Pointer("t")
	q, negInv := g.c(checkQ), g.c(checkNegInv)
	var places [5]vec
	for i := range places {
		places[i] = g.c(checkPlaces + i)
	}
	diff := g.Zero()
	loop := "check" + g.Name
	Label(loop)
	s := g.And(g.Load(lane.At(digits, 8*block*4)), places[4])
	for j := range 4 {
		s = g.Add(s, g.Mul(g.Load(lane.At(digits, 8*block*j)), places[j]))
	}
	differs := g.Xor(g.reduce(s, q, negInv), g.residues(x))
	g.Gather(differs, diff)
	ADDQ(U8(g.Bytes/2), x)
	ADDQ(U8(g.Bytes), digits)
	SUBQ(U8(g.Bytes/8), n)
	JNE(LabelRef(loop))
	ORQ(g.Any(diff), Mem{Base: bad})
	VZEROUPPER()
	RET()
}
