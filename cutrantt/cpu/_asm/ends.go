package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The last five levels work on 32 neighbours x (first half) and y. Between levels,
// lanes are regrouped so that a and b of every butterfly stand in one lane of two
// registers:
//
//	distance 16: x, y
//	distance 8:  A = x.lo y.lo,  B = x.hi y.hi  (lo, hi: halves)
//	distance 4:  from sums S, differences D: A = S0 S2 D0 D2, B = S1 S3 D1 D3 (quarters)
//	distance 2:  in each quarter: P = low pairs of A and B, Q = high pairs
//	distance 1:  in each quarter: E = even words of P and Q, O = odd words
//
// The twiddles of a block of 32 stand in this order in 256 bytes of the stream
// (vectorTable in vector.go): pairs (quotient, w) for the distances 16, 8, 4 (1, 2
// and 4 of them, at 0, 16 and 32 bytes) and 2 (8, at 64), then the quotients (128)
// and the factors (192) of distance 1.

// group is the group of eight that a quarter holds from distance 4 on.
var group = [4]int{0, 2, 1, 3}

// pairOf is the pair of neighbours, 0..15, that lane l holds at distance 1.
func pairOf(l int) int { return 4*group[l/4] + [4]int{0, 2, 1, 3}[l%4] }

// constant is a register of the words f(0), f(1), ... of a table by that name.
func (g *gen) constant(name string, f func(l int) int) vec {
	m, ok := g.consts[name]
	if !ok {
		m = GLOBL(name+g.name, RODATA|NOPTR)
		for l := range g.lanes {
			DATA(4*l, U32(uint32(f(l))))
		}
		g.consts[name] = m
	}
	return g.load(m)
}

// expand gives every lane its twiddle: pairs of table by the index of 64-bit words.
func (g *gen) expand(index, table vec) twiddle {
	h, l := g.reg(), g.reg()
	VPERMQ(table, index, h)
	VMOVSHDUP(h, l)
	return twiddle{high: h, odd: h, low: l}
}

func qwords(f func(i int) int) func(l int) int {
	return func(l int) int { return (1 - l&1) * f(l/2) }
}

// streamTwiddles loads what distance 16 >> level needs at s.
func (g *gen) streamTwiddles(s Register, disp, level int, eight, four vec) twiddle {
	switch level {
	case 0:
		return g.pair(at(s, disp))
	case 1:
		return g.expand(eight, at(s, disp))
	case 2:
		return g.expand(four, at(s, disp))
	case 3:
		h, l := g.load(at(s, disp+64)), g.reg()
		VMOVSHDUP(h, l)
		return twiddle{high: h, odd: h, low: l}
	}
	return laneTwiddle(s, disp+128)
}

// laneTwiddle is a twiddle for each lane, in memory: quotients, then factors.
func laneTwiddle(s Register, disp int) twiddle {
	return twiddle{high: at(s, disp), odd: at(s, disp+4), low: at(s, disp+64)}
}

func (g *gen) two(op func(...Op), x, y vec) vec {
	r := g.reg()
	op(y, x, r) // x is the first source
	return r
}

func (g *gen) shuffle(op func(...Op), imm uint8, x, y vec) vec {
	r := g.reg()
	op(U8(imm), y, x, r)
	return r
}

// permute2 is VPERMT2D of words of x (0..15) and y (16..31) by index.
func (g *gen) permute2(index, x, y vec) vec {
	r := g.copy(x)
	VPERMT2D(y, index, r)
	return r
}

// ahead is how far before its use, in bytes, a stream from memory is fetched.
const ahead = 4096

// ends is a form of the code of the last five levels.
type ends struct {
	together int // blocks at a time: one alone is a chain of dependent operations
	// compact is for large rings: a stream of 72 bytes a block instead of 256, fetched
	// ahead. The twiddles of the last two levels are products of a constant for the
	// lane and one for the block: entry m+16k+j of the table is entry j times entry
	// m+16k, as bit reversal adds over disjoint bits. The first stand at c (pairs of
	// distance 2 and their factors for every lane, then those of distance 1 like
	// laneTwiddle), the others in the stream: 64 bytes as above, with the block's
	// twiddle of distance 1 at 8, and then that of distance 2.
	compact bool
}

// forms are the forms of AVX-512.
var forms = []ends{{together: 2}, {together: 4}, {together: 4, compact: true}}

func (e ends) name() string {
	if e.compact {
		return "Compact"
	}
	return fmt.Sprint(e.together)
}

// stride is the bytes of the stream that a block takes.
func (e ends) stride() int {
	if e.compact {
		return 72
	}
	return 256
}

// arg is the argument that compact code has before the modulus.
func (e ends) arg() string {
	if e.compact {
		return "c *uint64, "
	}
	return ""
}

// blockConstant is the twiddle of a block in a level of compact code, 3 or 4.
func (e ends) blockConstant(s Register, disp, level int) Mem {
	return at(s, disp+[2]int{64, 8}[level-3])
}

// twiddles are those of a level for n blocks from i on, which stand at disp(i), and the
// constants of the lanes or nil.
func (g *gen) twiddles(e ends, s, c Register, level, i, n int, disp func(i int) int, eight,
	four vec) (w, lanes []twiddle) {
	for ; n > 0; i, n = i+1, n-1 {
		if !e.compact || level < 3 {
			w = append(w, g.streamTwiddles(s, disp(i), level, eight, four))
			continue
		}
		w = append(w, g.pair(e.blockConstant(s, disp(i), level)))
		if level == 3 {
			lanes = append(lanes, twiddle{high: at(c, 0), odd: at(c, 0), low: at(c, 64)})
		} else {
			lanes = append(lanes, laneTwiddle(c, 128))
		}
	}
	return w, lanes
}

func (g *gen) forwardLast(e ends) {
	g.function("forwardLast"+e.name(), "x *uint32, blocks int, s *uint64, "+e.arg()+"q uint32",
		fmt.Sprintf(`is the last five levels of the forward transform, in place, over blocks of 32
neighbours: [0, 4q) to [0, q). s is the stream of their twiddles. The number of
blocks is a multiple of %d.`, e.together))
	g.lastLevels(e, VPMULUDQ, g.butterflies, g.lastButterfly, nil)
}

// lastButterfly is the butterfly of the last level: [0, 4q) to [0, q).
func (g *gen) lastButterfly(a, b vec, w twiddle) (_, _ vec) {
	a = g.corr(g.corr(a, g.q2), g.q)
	v := g.corr(g.mul(b, w), g.q)
	sum, d, t := g.reg(), g.reg(), g.reg()
	VPADDD(v, a, sum)
	VPSUBD(v, a, d)
	VPADDD(g.q, d, t)
	VPMINUD(d, t, d)
	return g.corr(sum, g.q), d
}

// lastLevels is the body of forwardLast: four levels of f and one of last; wide is the
// product of the residues. end is nil or what becomes of the results.
func (g *gen) lastLevels(e ends, wide func(...Op), f butterflies[vec], last func(a, b vec, w twiddle) (_, _ vec),
	end *finish) {
	p, n, s := pointer("x"), pointer("blocks"), pointer("s")
	var c Register
	if e.compact {
		c = pointer("c")
	}
	together, disp := e.together, func(i int) int { return e.stride() * i }
	eight := g.constant("eight", qwords(func(i int) int { return 2 + i/4 }))
	four := g.constant("four", qwords(func(i int) int { return 4 + i/2 }))
	from := make([]int, 32) // from[position]: lane of (E, O)
	for l := range 16 {
		from[2*pairOf(l)], from[2*pairOf(l)+1] = l, 16+l
	}
	low := g.constant("low", func(l int) int { return from[l] })
	high := g.constant("high", func(l int) int { return from[16+l] })
	const block = "block"
	Label(block)
	x, y := make([]vec, together), make([]vec, together)
	for i := 0; e.compact && i < e.stride()*together; i += 64 {
		PREFETCHT0(at(s, ahead+i))
	}
	for i := range x {
		x[i], y[i] = g.load(at(p, 128*i)), g.load(at(p, 128*i+64))
	}
	regroup := [4]func(a, b vec) (_, _ vec){
		func(a, b vec) (_, _ vec) { return g.shuffle(VSHUFI64X2, 0x44, a, b), g.shuffle(VSHUFI64X2, 0xee, a, b) },
		func(a, b vec) (_, _ vec) { return g.shuffle(VSHUFI64X2, 0x88, a, b), g.shuffle(VSHUFI64X2, 0xdd, a, b) },
		func(a, b vec) (_, _ vec) { return g.two(VPUNPCKLQDQ, a, b), g.two(VPUNPCKHQDQ, a, b) },
		func(a, b vec) (_, _ vec) { return g.shuffle(VSHUFPS, 0x88, a, b), g.shuffle(VSHUFPS, 0xdd, a, b) },
	}
	for level := range 4 {
		for i := 0; i < together; i += abreast {
			a, b := x[i:i+abreast], y[i:i+abreast]
			w, lanes := g.twiddles(e, s, c, level, i, len(a), disp, eight, four)
			if lanes != nil {
				b = g.shoup(wide, b, lanes)
			}
			sums, diffs := f(level, a, b, w)
			for j := range w {
				x[i+j], y[i+j] = regroup[level](sums[j], diffs[j])
			}
		}
	}
	for i := range x {
		w, lanes := g.twiddles(e, s, c, 4, i, 1, disp, eight, four)
		b := y[i]
		if lanes != nil {
			b = g.shoup(wide, []vec{b}, lanes)[0]
		}
		x[i], y[i] = last(x[i], b, w[0])
	}
	for i := range x {
		for half, order := range []vec{low, high} {
			v, disp := g.permute2(order, x[i], y[i]), 128*i+64*half
			if end == nil {
				g.store(v, at(p, disp))
			} else {
				end.store(v, disp)
			}
		}
	}
	ADDQ(U32(uint32(128*together)), p)
	if end != nil {
		end.advance(128 * together)
	}
	ADDQ(U32(uint32(e.stride()*together)), s)
	SUBQ(U8(uint8(together)), n)
	JNE(LabelRef(block))
	g.end()
}

// The inverse works on reversed blocks: word p of 32 stands where word 31-p would.
// Then a block needs the twiddles of the mirrored block in the same lanes, the
// butterflies have their operands and results the other way round.
func (g *gen) inverseFirst(e ends) {
	g.function("inverseFirst"+e.name(), "dst, src *uint32, blocks int, s *uint64, "+e.arg()+"q uint32",
		fmt.Sprintf(`undoes forwardLast from src to dst, which are equal or apart: [0, 2q) to
[0, 2q). s is the last block of the stream, which is read backwards. The number of
blocks is a multiple of %d.`, e.together))
	g.firstLevels(e, VPMULUDQ, g.inverseButterflies)
}

// firstLevels is the body of inverseFirst: five levels, 4 down to 0, of f.
func (g *gen) firstLevels(e ends, wide func(...Op), f butterflies[vec]) {
	dst, src, n, s := pointer("dst"), pointer("src"), pointer("blocks"), pointer("s")
	var c Register
	if e.compact {
		c = pointer("c")
	}
	together, disp := e.together, func(i int) int { return -e.stride() * i }
	eight := g.constant("turnedEight", qwords(func(i int) int { return 2 + i/2%2 }))
	four := g.constant("four", qwords(func(i int) int { return 4 + i/2 }))
	even := g.constant("turnedEven", func(l int) int { return 31 - 2*pairOf(l) })
	odd := g.constant("turnedOdd", func(l int) int { return 30 - 2*pairOf(l) })
	turn := g.constant("turn", func(l int) int { return 15 - l })
	const block = "inverseBlock"
	Label(block)
	x, y := make([]vec, together), make([]vec, together)
	for i := 0; e.compact && i < e.stride()*together; i += 64 {
		PREFETCHT0(at(s, 192-ahead-i))
	}
	for i := range x {
		u, v := g.load(at(src, 128*i)), g.load(at(src, 128*i+64))
		x[i], y[i] = g.permute2(even, u, v), g.permute2(odd, u, v)
	}
	regroup := [4]func(a, b vec) (_, _ vec){
		func(a, b vec) (_, _ vec) { return g.shuffle(VSHUFI64X2, 0x88, a, b), g.shuffle(VSHUFI64X2, 0xdd, a, b) },
		func(a, b vec) (_, _ vec) { return g.shuffle(VSHUFI64X2, 0x44, a, b), g.shuffle(VSHUFI64X2, 0xee, a, b) },
		func(a, b vec) (_, _ vec) { return g.two(VPUNPCKLQDQ, a, b), g.two(VPUNPCKHQDQ, a, b) },
		func(a, b vec) (_, _ vec) { return g.two(VPUNPCKLDQ, a, b), g.two(VPUNPCKHDQ, a, b) },
	}
	for level := 4; level >= 0; level-- {
		for i := 0; i < together; i += abreast {
			a, b := x[i:i+abreast], y[i:i+abreast]
			w, lanes := g.twiddles(e, s, c, level, i, len(a), disp, eight, four)
			sums, diffs := f(level, b, a, w)
			if lanes != nil {
				diffs = g.shoup(wide, diffs, lanes)
			}
			for j := range w {
				a[j], b[j] = diffs[j], sums[j]
				if level > 0 {
					a[j], b[j] = regroup[level-1](a[j], b[j])
				}
			}
		}
	}
	for i := range x {
		u, v := g.reg(), g.reg()
		VPERMD(y[i], turn, u)
		VPERMD(x[i], turn, v)
		g.store(u, at(dst, 128*i))
		g.store(v, at(dst, 128*i+64))
	}
	ADDQ(U32(uint32(128*together)), src)
	ADDQ(U32(uint32(128*together)), dst)
	SUBQ(U32(uint32(e.stride()*together)), s)
	SUBQ(U8(uint8(together)), n)
	JNE(LabelRef(block))
	g.end()
}
