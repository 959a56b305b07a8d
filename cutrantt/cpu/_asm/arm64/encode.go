package main

import "fmt"

// vreg is a vector register V0 to V31, xreg a general register R0 to R25.
type (
	vreg int
	xreg int
)

func (v vreg) String() string { return fmt.Sprintf("v%d", int(v)) }
func (x xreg) String() string { return fmt.Sprintf("R%d", int(x)) }

// lane is one 32-bit lane of a register, for products by an element.
type lane struct {
	v vreg
	i int
}

// three is an instruction d = n op m on vectors, with its encoding for registers 0
// and the arrangements of d, n and m.
type three struct {
	name    string
	code    uint32
	d, n, m string
}

func same(name string, code uint32, a string) three { return three{name, code, a, a, a} }

var (
	add     = same("add", 0x4ea08400, "4s")
	sub     = same("sub", 0x6ea08400, "4s")
	add64   = same("add", 0x4ee08400, "2d")
	mul     = same("mul", 0x4ea09c00, "4s")
	mls     = same("mls", 0x6ea09400, "4s")     // d -= n*m
	dmulh   = same("sqdmulh", 0x4ea0b400, "4s") // floor(2*n*m / 2^32), signed
	rdmulh  = same("sqrdmulh", 0x6ea0b400, "4s")
	hsub    = same("shsub", 0x4ea02400, "4s") // floor((n - m) / 2), signed
	minimum = same("umin", 0x6ea06c00, "4s")
	shift   = same("ushl", 0x6ea04400, "4s") // n << m
	uzp1    = same("uzp1", 0x4e801800, "4s") // even lanes of n, then of m
	uzp2    = same("uzp2", 0x4e805800, "4s") // odd lanes
	trn1    = same("trn1", 0x4e802800, "4s")
	trn2    = same("trn2", 0x4e806800, "4s")
	low64   = same("zip1", 0x4ec03800, "2d") // lower halves of n and m
	high64  = same("zip2", 0x4ec07800, "2d")

	// Products of 64 bits of the lower and of the upper halves of n and m, without
	// sign: d = n*m, d += n*m, d -= n*m.
	mull  = three{"umull", 0x2ea0c000, "2d", "2s", "2s"}
	mull2 = three{"umull2", 0x6ea0c000, "2d", "4s", "4s"}
	mlal  = three{"umlal", 0x2ea08000, "2d", "2s", "2s"}
	mlal2 = three{"umlal2", 0x6ea08000, "2d", "4s", "4s"}
	mlsl  = three{"umlsl", 0x2ea0a000, "2d", "2s", "2s"}
	mlsl2 = three{"umlsl2", 0x6ea0a000, "2d", "4s", "4s"}

	and    = same("and", 0x4e201c00, "16b")
	or     = same("orr", 0x4ea01c00, "16b")
	xor    = same("eor", 0x6e201c00, "16b")
	insert = same("bit", 0x6ea01c00, "16b") // the bits of n where m has ones
	sub8   = same("sub", 0x6e208400, "16b")
	above  = same("cmhi", 0x6ea03400, "4s") // ones where n > m, without sign
	equal  = same("cmeq", 0x6ea08c00, "4s")
)

// byElement is the encoding of the same instruction with a lane as its m.
var byElement = map[three]uint32{
	mul: 0x4f808000, mls: 0x6f804000, rdmulh: 0x4f80d000,
	mull: 0x2f80a000, mull2: 0x6f80a000, mlal: 0x2f802000, mlal2: 0x6f802000,
}

// two is an instruction d = op n.
type two struct {
	name string
	code uint32
	d, n string
}

var (
	negate  = two{"neg", 0x6ea0b800, "4s", "4s"}
	toInt   = two{"fcvtzs", 0x4ee1b800, "2d", "2d"} // float64 to int64
	extend1 = two{"sxtl", 0x0f20a400, "2d", "2s"}   // the lower half, with sign
	extend2 = two{"sxtl2", 0x4f20a400, "2d", "4s"}

	not    = two{"mvn", 0x6e205800, "16b", "16b"}
	rotate = two{"rev32", 0x6e600800, "8h", "8h"} // words by 16
	ones   = two{"cnt", 0x4e205800, "16b", "16b"}
	sums16 = two{"saddlp", 0x4e202800, "8h", "16b"} // of neighbours, with sign
	sums32 = two{"saddlp", 0x4e602800, "4s", "8h"}
)

// by is an instruction d = n op a constant of bits bits; right shifts count down.
type by struct {
	name  string
	code  uint32
	a     string
	bits  int
	right bool
}

var (
	left32       = by{"shl", 0x4f005400, "4s", 32, false}
	below32      = by{"sri", 0x6f004400, "4s", 32, true} // n >> k, below the upper k bits of d
	right32      = by{"ushr", 0x6f000400, "4s", 32, true}
	addRight32   = by{"usra", 0x6f001400, "4s", 32, true}  // d += n >> k
	signedRight  = by{"srshr", 0x4f002400, "4s", 32, true} // rounds
	roundRight32 = by{"urshr", 0x6f002400, "4s", 32, true}
	left64       = by{"shl", 0x4f005400, "2d", 64, false}
)

// word writes an instruction.
func (f *function) word(code uint32, format string, args ...any) {
	f.line("WORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}

func (f *function) op(i three, d, n, m vreg) {
	f.word(i.code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s %v.%s, %v.%s, %v.%s", i.name, d, i.d, n, i.n, m, i.m)
}

func (f *function) opLane(i three, d, n vreg, m lane) {
	code, index := byElement[i], uint32(m.i)
	if code == 0 {
		panic("no product by an element: " + i.name)
	}
	code |= index&1<<21 | index>>1<<11
	f.word(code|uint32(m.v)<<16|uint32(n)<<5|uint32(d), "%s %v.%s, %v.%s, %v.s[%d]", i.name, d, i.d, n, i.n, m.v, m.i)
}

func (f *function) op1(i two, d, n vreg) {
	f.word(i.code|uint32(n)<<5|uint32(d), "%s %v.%s, %v.%s", i.name, d, i.d, n, i.n)
}

func (f *function) opBy(i by, d, n vreg, k int) {
	at := i.bits + k
	if i.right {
		at = 2*i.bits - k
	}
	f.word(i.code|uint32(at)<<16|uint32(n)<<5|uint32(d), "%s %v.%s, %v.%s, #%d", i.name, d, i.a, n, i.a, k)
}

// total is the sum of the lanes of n in d, largest the largest without sign.
func (f *function) total(d xreg, n vreg) {
	f.word(0x4eb1b800|uint32(n)<<5|uint32(n), "addv s%d, %v.4s", int(n), n)
	f.lane(d, n)
}

func (f *function) largest(d xreg, n vreg) {
	f.word(0x6eb0a800|uint32(n)<<5|uint32(n), "umaxv s%d, %v.4s", int(n), n)
	f.lane(d, n)
}

func (f *function) lane64(d xreg, n vreg) {
	f.word(0x4e083c00|uint32(n)<<5|uint32(d), "mov x%d, %v.d[0]", int(d), n)
}

func (f *function) lane(d xreg, n vreg) {
	f.word(0x0e043c00|uint32(n)<<5|uint32(d), "mov w%d, %v.s[0]", int(d), n)
}

// table sets d to the bytes of n that m names, table4 to those of four registers from n
// on.
func (f *function) table(d, n, m vreg) {
	f.word(0x4e000000|uint32(m)<<16|uint32(n)<<5|uint32(d), "tbl %v.16b, {%v.16b}, %v.16b", d, n, m)
}

func (f *function) table4(d, n, m vreg) {
	f.word(0x4e006000|uint32(m)<<16|uint32(n)<<5|uint32(d), "tbl %v.16b, {%v.16b-%v.16b}, %v.16b", d, n, n+3, m)
}

func (f *function) move(d, n vreg) {
	f.word(0x4ea01c00|uint32(n)<<16|uint32(n)<<5|uint32(d), "mov %v.16b, %v.16b", d, n)
}

func (f *function) zero(d vreg) { f.word(0x6f00e400|uint32(d), "movi %v.2d, #0x0", d) }

// broadcast puts the lower 32 bits of x in every lane, broadcast64 all 64 in both.
func (f *function) broadcast(d vreg, x xreg) {
	f.word(0x4e040c00|uint32(x)<<5|uint32(d), "dup %v.4s, w%d", d, int(x))
}

func (f *function) broadcast64(d vreg, x xreg) {
	f.word(0x4e080c00|uint32(x)<<5|uint32(d), "dup %v.2d, x%d", d, int(x))
}

// Loads and stores of 16 bytes at p + disp, at p + x, of two registers, of 8 bytes
// into the lower half, and of a word into every lane.

func (f *function) load(d vreg, p xreg, disp int) {
	f.word(0x3dc00000|uint32(disp/16)<<10|uint32(p)<<5|uint32(d), "ldr q%d, [x%d%s]", int(d), int(p), offset(disp))
}

func (f *function) store(d vreg, p xreg, disp int) {
	f.word(0x3d800000|uint32(disp/16)<<10|uint32(p)<<5|uint32(d), "str q%d, [x%d%s]", int(d), int(p), offset(disp))
}

func (f *function) loadAt(d vreg, p, x xreg) {
	f.word(0x3ce06800|uint32(x)<<16|uint32(p)<<5|uint32(d), "ldr q%d, [x%d,x%d]", int(d), int(p), int(x))
}

func (f *function) storeAt(d vreg, p, x xreg) {
	f.word(0x3ca06800|uint32(x)<<16|uint32(p)<<5|uint32(d), "str q%d, [x%d,x%d]", int(d), int(p), int(x))
}

func (f *function) loadPair(d, e vreg, p xreg, disp int) {
	f.word(0xad400000|uint32(disp/16)&0x7f<<15|uint32(e)<<10|uint32(p)<<5|uint32(d), "ldp q%d, q%d, [x%d%s]", int(d),
		int(e), int(p), offset(disp))
}

func (f *function) storePair(d, e vreg, p xreg, disp int) {
	f.word(0xad000000|uint32(disp/16)&0x7f<<15|uint32(e)<<10|uint32(p)<<5|uint32(d), "stp q%d, q%d, [x%d%s]", int(d),
		int(e), int(p), offset(disp))
}

func (f *function) load64(d vreg, p xreg, disp int) {
	f.word(0xfd400000|uint32(disp/8)<<10|uint32(p)<<5|uint32(d), "ldr d%d, [x%d%s]", int(d), int(p), offset(disp))
}

func (f *function) loadEach(d vreg, p xreg) {
	f.word(0x4d40c800|uint32(p)<<5|uint32(d), "ld1r {%v.4s}, [x%d]", d, int(p))
}

// loadNext is loadEach, with p moving on to the next word.
func (f *function) loadNext(d vreg, p xreg) {
	f.word(0x4ddfc800|uint32(p)<<5|uint32(d), "ld1r {%v.4s}, [x%d],#4", d, int(p))
}

// loadStep is loadEach, with p moving on by x bytes.
func (f *function) loadStep(d vreg, p, x xreg) {
	f.word(0x4dc0c800|uint32(x)<<16|uint32(p)<<5|uint32(d), "ld1r {%v.4s}, [x%d], x%d", d, int(p), int(x))
}

func offset(disp int) string {
	if disp == 0 {
		return ""
	}
	return fmt.Sprintf(",#%d", disp)
}
