package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// table is 32 bytes of constants: b again and again.
func table(name string, b ...byte) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 32 {
		DATA(i, U8(b[i%len(b)]))
	}
	return m
}

// constants of the AVX2 code, made once.
var constants struct{ rotate16, rotate8, flip, low21, nibble, ones, bytes, words Mem }

func narrowTables() {
	c := &constants
	c.rotate16 = table("rotate16", 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
	c.rotate8 = table("rotate8", 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14)
	c.flip = table("flip", 0, 0, 0, 0x80)
	c.low21 = table("low21", 0xff, 0xff, 0x1f, 0)
	c.nibble = table("nibble", 0x0f)
	c.ones = table("ones", 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4) // of a nibble
	c.bytes = table("bytes", 1)
	c.words = table("words", 1, 0)
}

func slot(s Register, i int) Mem { return at(s, atSpill+32*i) }

// narrowRounds is wideRounds for 8 blocks. Two of the 16 words lie in memory so that
// two registers are free: words 10 and 11, or 8 and 9, whichever the two quarter
// rounds at hand do not need. It returns words 0 to 7; words 8 to 15 are left in
// their slots.
func narrowRounds(s Register) (low [8]VecVirtual) {
	var x [16]VecVirtual
	for i := range x {
		x[i] = YMM()
		switch i {
		case 12:
			VMOVDQU(at(s, atCounters), x[i])
		case 10, 11:
			VPBROADCASTD(at(s, atState+4*i), x[i])
			VMOVDQU(x[i], slot(s, i))
			x[i] = x[i-2]
		default:
			VPBROADCASTD(at(s, atState+4*i), x[i])
		}
	}
	rotate := func(v VecVirtual, bits uint64) {
		switch bits {
		case 16:
			VPSHUFB(constants.rotate16, v, v)
		case 8:
			VPSHUFB(constants.rotate8, v, v)
		default:
			t := YMM()
			VPSLLD(U8(bits), v, t)
			VPSRLD(U8(32-bits), v, v)
			VPOR(t, v, v)
		}
	}
	two := func(g [][4]int) {
		step := func(a, b, c int, bits uint64) { // x_a += x_b, x_c = (x_c ^ x_a) <<< bits
			for _, g := range g {
				VPADDD(x[g[b]], x[g[a]], x[g[a]])
			}
			for _, g := range g {
				VPXOR(x[g[a]], x[g[c]], x[g[c]])
			}
			for _, g := range g {
				rotate(x[g[c]], bits)
			}
		}
		step(0, 1, 3, 16)
		step(2, 3, 1, 12)
		step(0, 1, 3, 8)
		step(2, 3, 1, 7)
	}
	swap := func(out, in int) { // words out, out+1 to memory, in, in+1 from there
		for i := range 2 {
			VMOVDQU(x[out+i], slot(s, out+i))
			VMOVDQU(slot(s, in+i), x[in+i])
		}
	}
	n := GP64()
	MOVQ(U32(10), n)
	Label("rounds")
	columns, diagonals := quarters(0), quarters(1)
	two(columns[:2])
	swap(8, 10)
	two(columns[2:])
	two(diagonals[:2])
	swap(10, 8)
	two(diagonals[2:])
	DECQ(n)
	JNE(LabelRef("rounds"))
	for _, i := range []int{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7} {
		start, v := YMM(), x[i]
		if i == 10 || i == 11 {
			v = YMM()
			VMOVDQU(slot(s, i), v)
		}
		if i == 12 {
			VPADDD(at(s, atCounters), v, v)
		} else {
			VPBROADCASTD(at(s, atState+4*i), start)
			VPADDD(start, v, v)
		}
		if i < 8 {
			low[i] = v
		} else {
			VMOVDQU(v, slot(s, i))
		}
	}
	return low
}

// narrowGroups runs f for groups of 8 blocks; the counters of the source move on.
func narrowGroups(s, groups Register, f func(low [8]VecVirtual)) {
	Label("group")
	f(narrowRounds(s))
	step, g := YMM(), GP32()
	MOVL(U32(8), g)
	VMOVD(g, step.AsX())
	VPBROADCASTD(step.AsX(), step)
	VPADDD(at(s, atCounters), step, step)
	VMOVDQU(step, at(s, atCounters))
	DECQ(groups)
	JNE(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// narrowStore writes word i of block j, in lane j of register i, to dst+step*j+4*i.
func narrowStore(x [8]VecVirtual, dst Register, disp, step int) {
	var q [8]VecVirtual // q[4*i+j]: in half k, words 4i..4i+3 of block 4k+j
	for i := 0; i < 8; i += 4 {
		a, b := op(VPUNPCKLDQ, YMM(), x[i], x[i+1]), op(VPUNPCKHDQ, YMM(), x[i], x[i+1])
		c, d := op(VPUNPCKLDQ, YMM(), x[i+2], x[i+3]), op(VPUNPCKHDQ, YMM(), x[i+2], x[i+3])
		q[i], q[i+1] = op(VPUNPCKLQDQ, YMM(), a, c), op(VPUNPCKHQDQ, YMM(), a, c)
		q[i+2], q[i+3] = op(VPUNPCKLQDQ, YMM(), b, d), op(VPUNPCKHQDQ, YMM(), b, d)
	}
	for j := range 4 {
		for k, imm := range []uint8{0x20, 0x31} {
			r := YMM()
			VPERM2I128(U8(imm), q[4+j], q[j], r)
			VMOVDQU(r, at(dst, disp+step*(4*k+j)))
		}
	}
}

// narrowHigh are words 8 to 15.
func narrowHigh(s Register) (x [8]VecVirtual) {
	for i := range x {
		x[i] = YMM()
		VMOVDQU(slot(s, 8+i), x[i])
	}
	return x
}

// narrowUniform compares words as signed ones with the highest bit flipped.
func narrowUniform() {
	function("uniformAVX2", "dst *uint32, groups int, s *uint32, rejected *byte",
		`is uniformAVX512 for groups of 8 blocks: a byte of rejected each.`)
	dst, groups, s, rejected := pointer("dst"), pointer("groups"), pointer("s"), pointer("rejected")
	narrowGroups(s, groups, func(low [8]VecVirtual) {
		found := YMM()
		VPXOR(found, found, found)
		half := func(x [8]VecVirtual, disp int) {
			q, below := YMM(), YMM()
			VPBROADCASTD(at(s, atQ), q)
			VPBROADCASTD(at(s, atBelow), below)
			VPXOR(constants.flip, below, below)
			for i := range x {
				even, high, bad := YMM(), YMM(), YMM()
				VPSRLQ(U8(32), x[i], high)
				VPMULUDQ(q, x[i], even)
				VPMULUDQ(q, high, high)
				VPMULLD(q, x[i], x[i])
				VPSRLQ(U8(32), even, even)
				VPBLENDD(U8(0xaa), high, even, high)
				VPXOR(constants.flip, x[i], x[i])
				VPCMPGTD(x[i], below, bad)
				VPOR(bad, high, x[i])
				VPOR(bad, found, found)
			}
			narrowStore(x, dst, disp, 64)
		}
		half(low, 0)
		half(narrowHigh(s), 32)
		m := GP32()
		VMOVMSKPS(found, m)
		MOVB(m.As8(), at(rejected, 0))
		INCQ(rejected)
		ADDQ(U32(512), dst)
	})
}

func narrowRetry() {
	function("retryAVX2", "dst, src, blocks *uint32, n int, left *uint32) (still int", `is retryAVX512.`)
	dst, src, list, n, left := pointer("dst"), pointer("src"), pointer("blocks"), pointer("n"), pointer("left")
	ones, still := YMM(), GP64()
	VPCMPEQD(ones, ones, ones)
	XORQ(still, still)
	Label("retry")
	to, bit, found := GP64(), GP32(), YMM()
	XORL(bit, bit)
	VPXOR(found, found, found)
	MOVL(at(list, 0), to.As32())
	MOVL(to.As32(), Mem{Base: left, Index: still, Scale: 4})
	SHLQ(U8(6), to)
	for i := range 2 {
		m, v, bad := Mem{Base: dst, Index: to, Scale: 1, Disp: 32 * i}, YMM(), YMM()
		VMOVDQU(m, v)
		VPCMPEQD(ones, v, bad)
		VPBLENDVB(bad, at(src, 32*i), v, v)
		VMOVDQU(v, m)
		VPCMPEQD(ones, v, bad)
		VPOR(bad, found, found)
	}
	VPTEST(found, found)
	SETNE(bit.As8())
	ADDQ(bit.As64(), still)
	ADDQ(U8(64), src)
	ADDQ(U8(4), list)
	DECQ(n)
	JNE(LabelRef("retry"))
	VZEROUPPER()
	Store(still, ReturnIndex(0))
	RET()
}

// narrowSmall is a sampler of small integers; f returns that of a pair of words.
func narrowSmall(name, doc string, f func(low, high VecVirtual) VecVirtual) {
	function(name, "dst *int32, groups int, s *uint32", `is `+doc+` for groups of 8 blocks: 64 integers each.`)
	dst, groups, s := pointer("dst"), pointer("groups"), pointer("s")
	narrowGroups(s, groups, func(low [8]VecVirtual) {
		var v [8]VecVirtual
		for i := range v {
			if i < 4 {
				v[i] = f(low[2*i], low[2*i+1])
				continue
			}
			a, b := YMM(), YMM()
			VMOVDQU(slot(s, 2*i), a)
			VMOVDQU(slot(s, 2*i+1), b)
			v[i] = f(a, b)
		}
		narrowStore(v, dst, 0, 32)
		ADDQ(U32(256), dst)
	})
}

// narrowTernary is wideTernary with the highest bits flipped for signed comparisons.
func narrowTernary() {
	limits := [2]Mem{ // floor(2^32/3) and twice that, flipped
		table("third", 0x55, 0x55, 0x55, 0x55^0x80),
		table("twoThirds", 0xaa, 0xaa, 0xaa, 0xaa^0x80),
	}
	narrowSmall("ternaryAVX2", "ternaryAVX512", func(low, high VecVirtual) VecVirtual {
		r := YMM()
		VPCMPEQD(r, r, r)
		VPXOR(constants.flip, low, low)
		VPXOR(constants.flip, high, high)
		for _, limit := range limits {
			v := YMM()
			VPCMPGTD(limit, low, v) // -1 where the low word carries
			VPADDD(limit, v, v)
			VPCMPGTD(v, high, v)
			VPSUBD(v, r, r)
		}
		return r
	})
}

// narrowCBD counts the ones of nibbles by a shuffle, and adds up the bytes of a lane.
func narrowCBD() {
	narrowSmall("cbdAVX2", "cbdAVX512", func(low, high VecVirtual) VecVirtual {
		count := func(v VecVirtual) VecVirtual {
			c, t := YMM(), YMM()
			VMOVDQU(constants.ones, c)
			VPAND(constants.low21, v, v)
			VPSRLD(U8(4), v, t)
			VPAND(constants.nibble, v, v)
			VPAND(constants.nibble, t, t)
			VPSHUFB(v, c, v)
			VPSHUFB(t, c, t)
			VPADDB(t, v, v)
			return v
		}
		a, b, r := count(low), count(high), YMM()
		VPSUBB(b, a, a)
		VMOVDQU(constants.bytes, r)
		VPMADDUBSW(a, r, r)
		VPMADDWD(constants.words, r, r)
		return r
	})
}
