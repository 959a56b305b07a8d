package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wideRounds computes sets of 16 ChaCha20 blocks (RFC 8439), one block in each
// 32-bit lane: register i of a set holds word i of its blocks. Two sets take all
// registers and keep the rotations busy, of which the processor does fewer at a time
// than of other operations; the second set is left in the source's memory then.
func wideRounds(s Register, sets int) (x [16]VecVirtual) {
	var all [2][16]VecVirtual
	for k := range sets {
		for i := range 16 {
			all[k][i] = ZMM()
			if i == 12 {
				VMOVDQU32(at(s, atCounters+64*k), all[k][i])
			} else {
				VPBROADCASTD(at(s, atState+4*i), all[k][i])
			}
		}
	}
	n := GP64()
	MOVQ(U32(10), n)
	Label("rounds")
	for diagonal := range 2 {
		g := quarters(diagonal)
		step := func(a, b, c int, bits uint8) { // x_a += x_b, x_c = (x_c ^ x_a) <<< bits
			for k := range sets {
				x := &all[k]
				for _, g := range g {
					VPADDD(x[g[b]], x[g[a]], x[g[a]])
				}
				for _, g := range g {
					VPXORD(x[g[a]], x[g[c]], x[g[c]])
				}
				for _, g := range g {
					VPROLD(U8(bits), x[g[c]], x[g[c]])
				}
			}
		}
		step(0, 1, 3, 16)
		step(2, 3, 1, 12)
		step(0, 1, 3, 8)
		step(2, 3, 1, 7)
	}
	DECQ(n)
	JNE(LabelRef("rounds"))
	for k := sets - 1; k >= 0; k-- {
		for i := range 16 {
			if i == 12 {
				VPADDD(at(s, atCounters+64*k), all[k][i], all[k][i])
			} else {
				VPADDD_BCST(at(s, atState+4*i), all[k][i], all[k][i])
			}
			if k == 1 {
				VMOVDQU32(all[k][i], at(s, atSpill+64*i))
			}
		}
	}
	return all[0]
}

// wideGroups runs f for each set of 16 blocks of groups, with the words of the
// stream; the counters of the source move on by the blocks of a group.
func wideGroups(s, groups Register, sets int, f func(x [16]VecVirtual)) {
	Label("group")
	f(wideRounds(s, sets))
	if sets == 2 {
		var x [16]VecVirtual
		for i := range x {
			x[i] = ZMM()
			VMOVDQU32(at(s, atSpill+64*i), x[i])
		}
		f(x)
	}
	step, g := ZMM(), GP32()
	MOVL(U32(16*sets), g)
	VPBROADCASTD(g, step)
	for k := range sets {
		c := ZMM()
		VPADDD(at(s, atCounters+64*k), step, c)
		VMOVDQU32(c, at(s, atCounters+64*k))
	}
	DECQ(groups)
	JNE(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// wideTranspose turns n registers, a multiple of four, with word i of block j in
// lane j of register i, into rows[j] for the four words i of block j: first within
// quarters of four words. Row 4*i+j holds, in quarter k, words 4i..4i+3 of block 4k+j.
func wideTranspose(x []VecVirtual) []VecVirtual {
	q := make([]VecVirtual, len(x))
	for i := 0; i < len(x); i += 4 {
		a, b := op(VPUNPCKLDQ, ZMM(), x[i], x[i+1]), op(VPUNPCKHDQ, ZMM(), x[i], x[i+1])
		c, d := op(VPUNPCKLDQ, ZMM(), x[i+2], x[i+3]), op(VPUNPCKHDQ, ZMM(), x[i+2], x[i+3])
		q[i], q[i+1] = op(VPUNPCKLQDQ, ZMM(), a, c), op(VPUNPCKHQDQ, ZMM(), a, c)
		q[i+2], q[i+3] = op(VPUNPCKLQDQ, ZMM(), b, d), op(VPUNPCKHQDQ, ZMM(), b, d)
	}
	return q
}

// wideQuarters transposes four registers of four quarters.
func wideQuarters(x [4]VecVirtual) [4]VecVirtual {
	pick := func(imm uint8, a, b VecVirtual) VecVirtual {
		r := ZMM()
		VSHUFI32X4(U8(imm), b, a, r)
		return r
	}
	a, b := pick(0x88, x[0], x[1]), pick(0xdd, x[0], x[1])
	c, d := pick(0x88, x[2], x[3]), pick(0xdd, x[2], x[3])
	return [4]VecVirtual{pick(0x88, a, c), pick(0x88, b, d), pick(0xdd, a, c), pick(0xdd, b, d)}
}

// wideStore writes 16 blocks one after the other.
func wideStore(dst Register, x [16]VecVirtual) {
	q := wideTranspose(x[:])
	for j := range 4 {
		for k, r := range wideQuarters([4]VecVirtual{q[j], q[4+j], q[8+j], q[12+j]}) {
			VMOVDQU32(r, at(dst, 64*(4*k+j)))
		}
	}
	ADDQ(U32(1024), dst)
}

// wideUniform multiplies before it transposes: the words of a block lie in one lane,
// so that the words rejected in a block meet in one bit.
func wideUniform(name string, sets int) {
	doc := `writes floor(x*q/2^32) for the words x of groups of 16 blocks with the
counters of s, which move on, and 2^32-1 where x*q mod 2^32 is below s.below; bits of
rejected, a byte for 8 blocks, tell which blocks have such words.`
	if sets == 2 {
		doc = `is againAVX512 for groups of 32 blocks.`
	}
	function(name, "dst *uint32, groups int, s *uint32, rejected *byte", doc)
	dst, groups, s, rejected := pointer("dst"), pointer("groups"), pointer("s"), pointer("rejected")
	even, g := K(), GP32()
	MOVL(U32(0x5555), g)
	KMOVW(g, even)
	wideGroups(s, groups, sets, func(x [16]VecVirtual) {
		q, below, found := ZMM(), ZMM(), K()
		VPBROADCASTD(at(s, atQ), q)
		VPBROADCASTD(at(s, atBelow), below)
		KXORW(found, found, found)
		for i := range x {
			even32, high, bad := ZMM(), ZMM(), K()
			VPSRLQ(U8(32), x[i], high)
			VPMULUDQ(q, x[i], even32)
			VPMULUDQ(q, high, high)
			VPMULLD(q, x[i], x[i])
			VMOVSHDUP(even32, even, high)
			VPCMPUD(U8(1), below, x[i], bad)
			VPTERNLOGD(U8(0xff), high, high, bad, high)
			KORW(bad, found, found)
			x[i] = high
		}
		m := GP32()
		KMOVW(found, m)
		MOVW(m.As16(), at(rejected, 0))
		ADDQ(U8(2), rejected)
		wideStore(dst, x)
	})
}

func wideRetry() {
	function("retryAVX512", "dst, src, blocks *uint32, n int, left *uint32) (still int",
		`replaces the words 2^32-1 of n blocks of dst, 16 words each, which stand at the
numbers in blocks, by those of src, where the blocks follow each other. It writes the
numbers of the blocks that still have such words to left, which may be blocks, and
returns how many.`)
	dst, src, list, n, left := pointer("dst"), pointer("src"), pointer("blocks"), pointer("n"), pointer("left")
	ones, still := ZMM(), GP64()
	VPTERNLOGD(U8(0xff), ones, ones, ones)
	XORQ(still, still)
	Label("retry")
	to, v, k, bit := GP64(), ZMM(), K(), GP32()
	XORL(bit, bit)
	MOVL(at(list, 0), to.As32())
	MOVL(to.As32(), Mem{Base: left, Index: still, Scale: 4})
	SHLQ(U8(6), to)
	m := Mem{Base: dst, Index: to, Scale: 1}
	VMOVDQU32(m, v)
	VPCMPEQD(ones, v, k)
	VMOVDQU32(at(src, 0), k, v)
	VMOVDQU32(v, m)
	VPCMPEQD(ones, v, k)
	KORTESTW(k, k)
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

func splat(x uint32) VecVirtual {
	g, z := GP32(), ZMM()
	MOVL(U32(x), g)
	VPBROADCASTD(g, z)
	return z
}

// wideSmall is a sampler of small integers, one from each pair of words; f puts it in
// place of the low word and has constants in every lane.
func wideSmall(name, doc string, constants []uint32, f func(low, high VecVirtual, c []VecVirtual)) {
	function(name, "dst *int32, groups int, s *uint32", `writes 256 integers for each of groups of 32 blocks
with the counters of s, which move on: `+doc)
	dst, groups, s := pointer("dst"), pointer("groups"), pointer("s")
	wideGroups(s, groups, 2, func(x [16]VecVirtual) {
		var c []VecVirtual
		for _, v := range constants {
			c = append(c, splat(v))
		}
		v := make([]VecVirtual, 8)
		for i := range v {
			f(x[2*i], x[2*i+1], c)
			v[i] = x[2*i]
		}
		q := wideTranspose(v)
		for j := 0; j < 4; j += 2 { // two blocks in a vector
			for k, r := range wideQuarters([4]VecVirtual{q[j], q[4+j], q[j+1], q[5+j]}) {
				VMOVDQU32(r, at(dst, 32*(4*k+j)))
			}
		}
		ADDQ(U32(512), dst)
	})
}

// wideTernary compares where plain Go multiplies. With c = floor(3*low/2^32) the
// carry of the low word, 3*high + c reaches 2^32 where high > third - [c >= 1], and
// 2^33 where high > 2*third - [c >= 2], third = floor(2^32/3).
func wideTernary() {
	const third, above = (1 << 32) / 3, 6
	wideSmall("ternaryAVX512", "floor(3*x/2^64) - 1 of pairs x.", []uint32{third, 2 * third, 1},
		func(low, high VecVirtual, c []VecVirtual) {
			k, limits := K(), [2]VecVirtual{ZMM(), ZMM()}
			for i, limit := range limits {
				VMOVDQA32(c[i], limit)
				VPCMPUD(U8(above), c[i], low, k)
				VPSUBD(c[2], limit, k, limit)
			}
			VPTERNLOGD(U8(0xff), low, low, low)
			for _, limit := range limits {
				VPCMPUD(U8(above), limit, high, k)
				VPADDD(c[2], low, k, low)
			}
		})
}

func wideCBD() {
	doc := "the ones in the low 21 bits of the\nfirst word of a pair less those of the second."
	wideSmall("cbdAVX512", doc, []uint32{1<<21 - 1}, func(low, high VecVirtual, c []VecVirtual) {
		VPANDD(c[0], low, low)
		VPANDD(c[0], high, high)
		VPOPCNTD(low, low)
		VPOPCNTD(high, high)
		VPSUBD(high, low, low)
	})
}
