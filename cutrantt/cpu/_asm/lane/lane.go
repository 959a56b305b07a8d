// Package lane has what the generators of vector code on 64-bit lanes share: one
// function body for both widths of vectors.
package lane

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Gen writes functions on vectors of Bytes bytes, 64 (AVX-512) or 32 (AVX2); their
// names end in Name.
type Gen struct {
	Name  string
	Bytes int
}

// Widths are the variants that are written.
var Widths = []*Gen{{"AVX512", 64}, {"AVX2", 32}}

// Words is a vector register, a word of 64 bits in each lane.
type Words = VecVirtual

// Narrow is AVX2.
func (g *Gen) Narrow() bool { return g.Bytes == 32 }

// Lanes is the number of lanes.
func (g *Gen) Lanes() int { return g.Bytes / 8 }

// Reg is a vector register.
func (g *Gen) Reg() Words {
	if g.Narrow() {
		return YMM()
	}
	return ZMM()
}

// Function begins the function name+g.Name, whose documentation begins with its name
// and goes on with doc. It has at most one result.
func (g *Gen) Function(name, signature, doc string, result ...string) {
	TEXT(name+g.Name, NOSPLIT, "func("+signature+") "+strings.Join(result, ""))
	Doc(strings.Split(name+g.Name+" "+doc, "\n")...)
	Pragma("noescape")
}

// Pointer is an argument of 64 bits.
func Pointer(name string) Register { return Load(Param(name), GP64()) }

// At is memory at a pointer.
func At(p Register, disp int) Mem { return Mem{Base: p, Disp: disp} }

// Op is a op b: a - b for a difference.
func (g *Gen) Op(f func(...Op), a, b Op) Words {
	r := g.Reg()
	f(b, a, r)
	return r
}

// three is an instruction that has three operands only.
func three(f func(_, _, _ Op)) func(...Op) { return func(o ...Op) { f(o[0], o[1], o[2]) } }

func (g *Gen) logic(narrow func(_, _, _ Op), wide func(...Op), a, b Words) Words {
	if g.Narrow() {
		return g.Op(three(narrow), a, b)
	}
	return g.Op(wide, a, b)
}

func (g *Gen) And(a, b Words) Words { return g.logic(VPAND, VPANDQ, a, b) }
func (g *Gen) Or(a, b Words) Words  { return g.logic(VPOR, VPORQ, a, b) }
func (g *Gen) Xor(a, b Words) Words { return g.logic(VPXOR, VPXORQ, a, b) }

// Gather ors a into sum.
func (g *Gen) Gather(a, sum Words) {
	if g.Narrow() {
		VPOR(a, sum, sum)
	} else {
		VPORQ(a, sum, sum)
	}
}

// Mul is the product of the lower halves of lanes.
func (g *Gen) Mul(a, b Words) Words { return g.Op(VPMULUDQ, a, b) }
func (g *Gen) Add(a, b Words) Words { return g.Op(VPADDQ, a, b) }
func (g *Gen) Sub(a, b Words) Words { return g.Op(VPSUBQ, a, b) }

// Right and Left shift by an equal number of bits everywhere.
func (g *Gen) Right(bits int, a Words) Words {
	r := g.Reg()
	VPSRLQ(U8(bits), a, r)
	return r
}

func (g *Gen) Left(bits int, a Words) Words {
	r := g.Reg()
	VPSLLQ(U8(bits), a, r)
	return r
}

// Zero is 0 everywhere.
func (g *Gen) Zero() Words {
	r := g.Reg()
	if g.Narrow() {
		VPXOR(r, r, r)
	} else {
		VPXORQ(r, r, r)
	}
	return r
}

// Broadcast is the word at m in every lane.
func (g *Gen) Broadcast(m Mem) Words {
	r := g.Reg()
	VPBROADCASTQ(m, r)
	return r
}

// Spread is a general register in every lane.
func (g *Gen) Spread(x Register) Words {
	r, low := g.Reg(), XMM()
	VMOVQ(x, low)
	VPBROADCASTQ(low, r)
	return r
}

// Negative is all ones where a < 0, else 0.
func (g *Gen) Negative(a Words) Words {
	r := g.Reg()
	if g.Narrow() {
		VPCMPGTQ(a, g.Zero(), r)
	} else {
		VPSRAQ(U8(63), a, r)
	}
	return r
}

// Pick is a where mask is all ones, b where it is 0.
func (g *Gen) Pick(mask, a, b Words) Words {
	r := g.Reg()
	if g.Narrow() {
		VPBLENDVB(mask, a, b, r)
		return r
	}
	VMOVDQA64(mask, r)
	VPTERNLOGQ(U8(0xca), b, a, r)
	return r
}

// Load is a vector of memory.
func (g *Gen) Load(m Mem) Words {
	r := g.Reg()
	if g.Narrow() {
		VMOVDQU(m, r)
	} else {
		VMOVDQU64(m, r)
	}
	return r
}

// Store writes a vector to memory.
func (g *Gen) Store(a Words, m Mem) {
	if g.Narrow() {
		VMOVDQU(a, m)
	} else {
		VMOVDQU64(a, m)
	}
}

// Any is the bits of all lanes of a, in one word; it uses a up.
func (g *Gen) Any(a Words) GPVirtual {
	half := YMM()
	if g.Narrow() {
		VMOVDQA(a, half)
	} else {
		VEXTRACTI64X4(U8(1), a, half)
		VPOR(a.AsY(), half, half)
	}
	quarter, other, word := XMM(), XMM(), GP64()
	VEXTRACTI128(U8(1), half, quarter)
	VPOR(half.AsX(), quarter, quarter)
	VPSHUFD(U8(0xee), quarter, other)
	VPOR(other, quarter, quarter)
	VMOVQ(quarter, word)
	return word
}
