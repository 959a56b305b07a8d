// Command prng writes the vector code of package prng: see the go:generate line in
// its vector_amd64.go.
package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	blocks()
	ternary()
	cbd()
	reject()
	retry()
	Generate()
}

func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, "func("+signature+")")
	Doc(strings.Split(name+" "+doc, "\n")...)
	Pragma("noescape")
}

func pointer(name string) Register { return Load(Param(name), GP64()) }

func at(p Register, disp int) Mem { return Mem{Base: p, Disp: disp} }

func broadcast32(x uint32) VecVirtual {
	g, z := GP32(), ZMM()
	MOVL(U32(x), g)
	VPBROADCASTD(g, z)
	return z
}

// blocks computes ChaCha20 blocks, one in each 32-bit lane: register i holds word i
// of the state of 16 blocks.
func blocks() {
	function("blocksAVX512", "dst *uint32, seed *[32]byte, counters *uint32, nonce *uint32",
		`writes the 16 ChaCha20 blocks (RFC 8439) with the 16 counters, 16 words each, one
after the other.`)
	dst, seed, counters, nonce := pointer("dst"), pointer("seed"), pointer("counters"), pointer("nonce")
	constants := [4]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}
	var x [16]VecVirtual
	for i, c := range constants {
		x[i] = broadcast32(c)
	}
	for i := range 8 {
		x[4+i] = ZMM()
		VPBROADCASTD(at(seed, 4*i), x[4+i])
	}
	x[12] = ZMM()
	VMOVDQU32(at(counters, 0), x[12])
	for i := range 3 {
		x[13+i] = ZMM()
		VPBROADCASTD(at(nonce, 4*i), x[13+i])
	}
	n := GP64()
	MOVQ(U32(10), n)
	Label("rounds")
	step := func(group [4][4]int, a, b, c int, bits uint8) { // x_a += x_b, x_c = (x_c ^ x_a) <<< bits
		for _, g := range group {
			VPADDD(x[g[b]], x[g[a]], x[g[a]])
		}
		for _, g := range group {
			VPXORD(x[g[a]], x[g[c]], x[g[c]])
		}
		for _, g := range group {
			VPROLD(U8(bits), x[g[c]], x[g[c]])
		}
	}
	for diagonal := range 2 {
		var group [4][4]int
		for i := range group {
			for j := range 4 {
				group[i][j] = 4*j + (i+j*diagonal)%4
			}
		}
		step(group, 0, 1, 3, 16)
		step(group, 2, 3, 1, 12)
		step(group, 0, 1, 3, 8)
		step(group, 2, 3, 1, 7)
	}
	DECQ(n)
	JNE(LabelRef("rounds"))
	for i, c := range constants {
		VPADDD(broadcast32(c), x[i], x[i])
	}
	for i := range 8 {
		VPADDD_BCST(at(seed, 4*i), x[4+i], x[4+i])
	}
	VPADDD(at(counters, 0), x[12], x[12])
	for i := range 3 {
		VPADDD_BCST(at(nonce, 4*i), x[13+i], x[13+i])
	}
	// Transpose: first within quarters of four words.
	two := func(op func(...Op), a, b VecVirtual) VecVirtual {
		r := ZMM()
		op(b, a, r)
		return r
	}
	var q [16]VecVirtual // q[4*i+j]: in quarter k, words 4i..4i+3 of block 4k+j
	for i := range 4 {
		a, b := two(VPUNPCKLDQ, x[4*i], x[4*i+1]), two(VPUNPCKHDQ, x[4*i], x[4*i+1])
		c, d := two(VPUNPCKLDQ, x[4*i+2], x[4*i+3]), two(VPUNPCKHDQ, x[4*i+2], x[4*i+3])
		q[4*i], q[4*i+1] = two(VPUNPCKLQDQ, a, c), two(VPUNPCKHQDQ, a, c)
		q[4*i+2], q[4*i+3] = two(VPUNPCKLQDQ, b, d), two(VPUNPCKHQDQ, b, d)
	}
	quarters := func(imm uint8, a, b VecVirtual) VecVirtual {
		r := ZMM()
		VSHUFI32X4(U8(imm), b, a, r)
		return r
	}
	for j := range 4 { // then the quarters
		a, b := quarters(0x88, q[j], q[4+j]), quarters(0xdd, q[j], q[4+j])
		c, d := quarters(0x88, q[8+j], q[12+j]), quarters(0xdd, q[8+j], q[12+j])
		for k, r := range []VecVirtual{quarters(0x88, a, c), quarters(0x88, b, d), quarters(0xdd, a, c), quarters(0xdd, b, d)} {
			VMOVDQU32(r, at(dst, 64*(4*k+j)))
		}
	}
	VZEROUPPER()
	RET()
}

// small is a function from pairs of words to small integers.
func small(name, doc string, f func(v VecVirtual) VecVirtual) {
	function(name, "dst *int32, src *uint32, n int", doc+`; n is the number of integers,
a multiple of 8.`)
	dst, src, n := pointer("dst"), pointer("src"), pointer("n")
	Label(name)
	v := ZMM()
	VMOVDQU32(at(src, 0), v)
	VPMOVQD(f(v), at(dst, 0))
	ADDQ(U8(64), src)
	ADDQ(U8(32), dst)
	SUBQ(U8(8), n)
	JNE(LabelRef(name))
	VZEROUPPER()
	RET()
}

func ternary() {
	small("ternaryAVX512", "sets dst_j = floor(3*(src_2j + 2^32*src_(2j+1))/2^64) - 1", func(v VecVirtual) VecVirtual {
		three, one := broadcast32(3), broadcast32(1)
		low, high := ZMM(), ZMM()
		VPMULUDQ(three, v, low)
		VPSRLQ(U8(32), v, high)
		VPMULUDQ(three, high, high)
		VPSRLQ(U8(32), low, low)
		VPADDQ(low, high, high)
		VPSRLQ(U8(32), high, high)
		VPSUBD(one, high, high)
		return high
	})
}

func cbd() {
	small("cbdAVX512", "sets dst_j to the ones in the low 21 bits of src_2j less those of src_(2j+1)", func(v VecVirtual) VecVirtual {
		mask, high := broadcast32(1<<21-1), ZMM()
		VPANDD(mask, v, v)
		VPOPCNTD(v, v)
		VPSRLQ(U8(32), v, high)
		VPSUBD(high, v, v)
		return v
	})
}

func param32(name string) VecVirtual {
	g, z := GP32(), ZMM()
	Load(Param(name), g)
	VPBROADCASTD(g, z)
	return z
}

const notBelow = 5 // of VPCMPUD: not less than

func reject() {
	function("rejectAVX512", "dst *uint32, n int, mask, q uint32, rejected *uint16",
		`masks every word of dst and sets a bit of rejected for each that is not below q; n
is a multiple of 16.`)
	dst, n, rejected := pointer("dst"), pointer("n"), pointer("rejected")
	mask, q := param32("mask"), param32("q")
	Label("reject")
	v, k, g := ZMM(), K(), GP32()
	VPANDD(at(dst, 0), mask, v)
	VMOVDQU32(v, at(dst, 0))
	VPCMPUD(U8(notBelow), q, v, k)
	KMOVW(k, g)
	MOVW(g.As16(), at(rejected, 0))
	ADDQ(U8(64), dst)
	ADDQ(U8(2), rejected)
	SUBQ(U8(16), n)
	JNE(LabelRef("reject"))
	VZEROUPPER()
	RET()
}

func retry() {
	function("retryAVX512", "dst, src, blocks *uint32, n int, mask, q uint32, rejected *uint16",
		`replaces the rejected words of n blocks of dst, 16 words each, which stand at the
numbers in blocks, by those of src, where the blocks follow each other.`)
	dst, src, list, n, rejected := pointer("dst"), pointer("src"), pointer("blocks"), pointer("n"), pointer("rejected")
	mask, q := param32("mask"), param32("q")
	Label("retry")
	i, to, g := GP64(), GP64(), GP32()
	MOVL(at(list, 0), i.As32())
	MOVQ(i, to)
	SHLQ(U8(6), to)
	v, k, left := ZMM(), K(), K()
	KMOVW(Mem{Base: rejected, Index: i, Scale: 2}, k)
	VPANDD(at(src, 0), mask, v)
	VMOVDQU32(v, k, Mem{Base: dst, Index: to, Scale: 1})
	VPCMPUD(U8(notBelow), q, v, k, left)
	KMOVW(left, g)
	MOVW(g.As16(), Mem{Base: rejected, Index: i, Scale: 2})
	ADDQ(U8(64), src)
	ADDQ(U8(4), list)
	DECQ(n)
	JNE(LabelRef("retry"))
	VZEROUPPER()
	RET()
}
