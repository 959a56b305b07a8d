package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// vec is a vector register, or a memory operand in its place.
type vec = Op

// gen describes the functions of one variant: vectors of bytes bytes, lanes
// residues of 32 bits each.
type gen struct {
	name         string
	bytes, lanes int
	q, q2        vec // the modulus and twice the modulus, in every lane
	even         Op  // mask of the even lanes, AVX-512 only
	inv, bias    vec // of lazy code: see lazy.go
	consts       map[string]Mem
}

// narrow is AVX2: vectors of 8 residues, 16 registers, no masks.
func (g *gen) narrow() bool { return g.bytes == 32 }

func newGen(name string, bytes int) *gen {
	return &gen{name: name, bytes: bytes, lanes: bytes / 4, consts: make(map[string]Mem)}
}

func (g *gen) reg() VecVirtual {
	if g.narrow() {
		return YMM()
	}
	return ZMM()
}

// unroll is how many vectors a function of slices works on at a time.
func (g *gen) unroll() int {
	if g.narrow() {
		return 1
	}
	return 2
}

// at is memory at a pointer.
func at(p Register, disp int) Mem { return Mem{Base: p, Disp: disp} }

func (g *gen) load(m Mem) vec {
	r := g.reg()
	if g.narrow() {
		VMOVDQU(m, r)
	} else {
		VMOVDQU32(m, r)
	}
	return r
}

func (g *gen) store(v vec, m Mem) {
	if g.narrow() {
		VMOVDQU(v, m)
	} else {
		VMOVDQU32(v, m)
	}
}

// copy is a register of its own.
func (g *gen) copy(v vec) vec {
	r := g.reg()
	if g.narrow() {
		VMOVDQA(v, r)
	} else {
		VMOVDQA32(v, r)
	}
	return r
}

// zero is a register of zeros.
func (g *gen) zero() vec {
	r := g.reg()
	if g.narrow() {
		VPXOR(r, r, r)
	} else {
		VPXORQ(r, r, r)
	}
	return r
}

// function starts a function with the modulus ready in q and q2.
func (g *gen) function(name, signature, doc string) {
	g.start(name, signature, doc)
	g.q, g.q2 = g.param32("q"), g.reg()
	VPADDD(g.q, g.q, g.q2)
}

// start starts a function.
func (g *gen) start(name, signature, doc string) {
	TEXT(name+g.name, NOSPLIT, "func("+signature+")")
	Doc(strings.Split(name+g.name+" "+doc, "\n")...)
	Pragma("noescape")
	if !g.narrow() {
		m := GP32()
		MOVL(U32(0x5555), m)
		g.even = K()
		KMOVW(m, g.even)
	}
}

// param32 is a 32-bit argument in every lane.
func (g *gen) param32(name string) vec {
	p := GP32()
	Load(Param(name), p)
	return g.broadcast32(p)
}

func (g *gen) broadcast32(p Register) vec {
	r := g.reg()
	if g.narrow() {
		x := XMM()
		VMOVD(p, x)
		VPBROADCASTD(x, r)
	} else {
		VPBROADCASTD(p, r)
	}
	return r
}

// param64 is a 64-bit argument in every 64-bit lane.
func (g *gen) param64(name string) vec {
	p := GP64()
	Load(Param(name), p)
	return g.broadcast64(p)
}

func (g *gen) broadcast64(p Register) vec {
	r := g.reg()
	if g.narrow() {
		x := XMM()
		VMOVQ(p, x)
		VPBROADCASTQ(x, r)
	} else {
		VPBROADCASTQ(p, r)
	}
	return r
}

// pointer loads a pointer or an int argument.
func pointer(name string) Register { return Load(Param(name), GP64()) }

// over runs body for vectors at a time until n (in residues) is used up; the
// pointers advance.
func (g *gen) over(label string, n Register, vectors int, pointers []Register, body func()) {
	Label(label)
	body()
	for _, p := range pointers {
		ADDQ(U32(uint32(vectors*g.bytes)), p)
	}
	SUBQ(U32(uint32(vectors*g.lanes)), n)
	JNE(LabelRef(label))
}

func (g *gen) end() {
	VZEROUPPER()
	RET()
}

// twiddle is a constant w for Shoup products: high has floor(w*2^32/q) in its even
// lanes, odd has it for the odd lanes of the other operand (in even lanes), and low
// has w in every lane.
type twiddle struct {
	high, odd, low vec
	late           func() vec // low, when it is needed, in a register that may be written
}

// pair loads the twiddle that stands as (quotient, w) in 64 bits at m.
func (g *gen) pair(m Mem) twiddle {
	h, l := g.reg(), g.reg()
	VPBROADCASTQ(m, h)
	VPBROADCASTD(m.Offset(4), l)
	return twiddle{high: h, odd: h, low: l}
}

// abreast is how many butterflies stand between each other, operation by operation:
// two together keep the multipliers busier (6.5 cycles a butterfly instead of 6.7 with
// AVX-512).
const abreast = 2

// mul is x*w mod q in [0, 2q) for any x < 2^32: Harvey's form of Shoup's product,
// x*w - floor(x*w'/2^32)*q with w' = floor(w*2^32/q).
func (g *gen) mul(x vec, w twiddle) vec { return g.shoup(VPMULUDQ, []vec{x}, []twiddle{w})[0] }

// shoup is mul for several products, with the given product of 32-bit numbers.
func (g *gen) shoup(wide func(...Op), x []vec, w []twiddle) []vec {
	odd, a, l := make([]vec, len(x)), g.regs(x), make([]vec, len(x))
	for i := range x {
		odd[i] = g.odd(x[i])
	}
	for i := range x {
		wide(w[i].high, x[i], a[i])
	}
	for i := range x {
		wide(w[i].odd, odd[i], odd[i])
	}
	for i := range x {
		odd[i] = g.high(a[i], odd[i])
	}
	for i := range x {
		if l[i] = w[i].low; w[i].late != nil {
			l[i] = w[i].late()
			VPMULLD(l[i], x[i], l[i])
		} else {
			l[i] = g.op2(VPMULLD, x[i], w[i].low)
		}
	}
	for i := range x {
		VPMULLD(g.q, odd[i], odd[i])
	}
	for i := range x {
		VPSUBD(odd[i], l[i], l[i])
	}
	return l
}

// regs is a register for each of x.
func (g *gen) regs(x []vec) []vec {
	r := make([]vec, len(x))
	for i := range r {
		r[i] = g.reg()
	}
	return r
}

// corr brings x in [0, 2m) to [0, m).
func (g *gen) corr(x, m vec) vec {
	t := g.reg()
	VPSUBD(m, x, t)
	VPMINUD(x, t, t)
	return t
}

// butterflies are Cooley-Tukey butterflies (a + w*b, a - w*b): [0, 4q) to [0, 4q).
func (g *gen) butterflies(_ int, a, b []vec, w []twiddle) (_, _ []vec) {
	v := g.shoup(VPMULUDQ, b, w)
	s, d := g.regs(a), g.regs(a)
	for i := range a {
		c := g.corr(a[i], g.q2)
		VPADDD(v[i], c, s[i])
		VPADDD(g.q2, c, d[i])
	}
	for i := range a {
		VPSUBD(v[i], d[i], d[i])
	}
	return s, d
}

// inverseButterflies are Gentleman-Sande butterflies (a + b, w*(b - a)) with negated
// inverse twiddles: [0, 2q) to [0, 2q).
func (g *gen) inverseButterflies(_ int, a, b []vec, w []twiddle) (_, _ []vec) {
	s, d := g.regs(a), g.regs(a)
	for i := range a {
		VPADDD(g.q2, b[i], d[i])
		VPSUBD(a[i], d[i], d[i])
	}
	for i := range a {
		VPADDD(a[i], b[i], s[i])
		s[i] = g.corr(s[i], g.q2)
	}
	return s, g.shoup(VPMULUDQ, d, w)
}

// lift brings x in (-m, 2^31) modulo 2^32 to [0, 2^31).
func (g *gen) lift(x, m vec) vec {
	t := g.reg()
	VPADDD(m, x, t)
	VPMINUD(x, t, t)
	return t
}

// odd moves the odd lanes to the even ones.
func (g *gen) odd(x vec) vec {
	r := g.reg()
	VPSRLQ(U8(32), x, r)
	return r
}

// high joins the upper halves of the 64-bit lanes of even and odd, which are used up.
func (g *gen) high(even, odd vec) vec {
	if g.narrow() {
		VPSRLQ(U8(32), even, even)
		VPBLENDD(U8(0xaa), odd, even, even)
		return even
	}
	VMOVSHDUP(even, g.even, odd)
	return odd
}

// parts are the addresses of 1<<k equal parts at p, each size bytes apart.
// three is 3*size and four is p + 4*size; they are used for k = 2 and k = 3.
func parts(k int, p, size, three, four Register) []Mem {
	m := []Mem{{Base: p}, {Base: p, Index: size, Scale: 1}}
	if k >= 2 {
		m = append(m, Mem{Base: p, Index: size, Scale: 2}, Mem{Base: p, Index: three, Scale: 1})
	}
	if k >= 3 {
		m = append(m, Mem{Base: four}, Mem{Base: four, Index: size, Scale: 1},
			Mem{Base: four, Index: size, Scale: 2}, Mem{Base: four, Index: three, Scale: 1})
	}
	return m
}
