package main

// ChaCha20 (RFC 8439) for four blocks at a time, one in each lane: register i holds
// word i of the blocks.

// Offsets in the source of package prng.
const (
	atCounters = 64 // after the state
	atQ        = atCounters + 128
)

func samplers(g *file) {
	uniform(g, "uniform", 2)
	uniform(g, "again", 1)
	retry(g)
	small(g, "ternary", "floor(3*x/2^64) - 1 of pairs x.", ternary)
	small(g, "cbd", "the ones in the low 21 bits of the\nfirst word of a pair less those of the second.", cbd)
}

// splat is x in every lane.
func (f *function) splat(x uint32) vreg {
	v, r := f.take(), f.constant(uint64(x))
	f.broadcast(v, r)
	f.freeX = append(f.freeX, r)
	return v
}

// rotation8 is the bytes that rotate every word by 8: 3, 0, 1, 2 and so on.
func (f *function) rotation8() vreg {
	v, low, high := f.take(), f.constant(0x0605040702010003), f.constant(0x0e0d0c0f0a09080b)
	f.word(0x4e081c00|uint32(low)<<5|uint32(v), "mov %v.d[0], x%d", v, int(low))
	f.word(0x4e181c00|uint32(high)<<5|uint32(v), "mov %v.d[1], x%d", v, int(high))
	f.freeX = append(f.freeX, low, high)
	return v
}

// blocks is the words of the four blocks with counters number set of the source at s.
func (f *function) blocks(s xreg, set int, rotation vreg) []vreg {
	x, p, n := f.takeAll(16), f.scalar(), f.scalar()
	state := func(each func(i int)) {
		f.line("MOVD %v, %v", s, p)
		for i := range 16 {
			if each(i); i == 12 {
				f.advance(p, 4)
			}
		}
	}
	state(func(i int) {
		if i == 12 {
			f.load(x[i], s, atCounters+16*set)
		} else {
			f.loadNext(x[i], p)
		}
	})
	f.line("MOVD $10, %v", n)
	f.loop(n, 1, func() {
		for diagonal := range 2 {
			f.each(4, func(i int) {
				var w [4]vreg
				for j := range w {
					w[j] = x[4*j+(i+j*diagonal)%4]
				}
				f.quarter(w[0], w[1], w[2], w[3], rotation)
			})
		}
	})
	t := f.take()
	state(func(i int) {
		if i == 12 {
			f.load(t, s, atCounters+16*set)
		} else {
			f.loadNext(t, p)
		}
		f.op(add, x[i], x[i], t)
	})
	f.give(t)
	f.freeX = append(f.freeX, p, n)
	return x
}

// quarter is a quarter round.
func (f *function) quarter(a, b, c, d, rotation vreg) {
	t := f.take()
	turn := func(to, from vreg, bits int) {
		f.opBy(left32, to, from, bits)
		f.opBy(below32, to, from, 32-bits)
	}
	f.op(add, a, a, b)
	f.op(xor, d, d, a)
	f.op1(rotate, d, d)
	f.op(add, c, c, d)
	f.op(xor, b, b, c)
	turn(t, b, 12)
	f.op(add, a, a, t)
	f.op(xor, d, d, a)
	f.table(d, d, rotation)
	f.op(add, c, c, d)
	f.op(xor, t, t, c)
	turn(b, t, 7)
	f.give(t)
}

// groups runs body for each group of sets of four blocks; the counters of the source
// move on.
func (f *function) groups(s, groups xreg, sets int, body func(set int, x []vreg)) {
	rotation, step := f.rotation8(), f.splat(uint32(4*sets))
	f.loop(groups, 1, func() {
		for set := range sets {
			x := f.blocks(s, set, rotation)
			body(set, x)
			c := x[0]
			f.load(c, s, atCounters+16*set)
			f.op(add, c, c, step)
			f.store(c, s, atCounters+16*set)
			f.give(x...)
		}
	})
}

// storeBlocks writes x, words of four blocks in lanes, one block after the other.
func (f *function) storeBlocks(dst xreg, x []vreg) {
	for i := 0; i < len(x); i += 4 {
		f.transpose(x[i : i+4])
	}
	for block := range 4 {
		for i := 0; i < len(x); i += 8 {
			f.storePair(x[i+block], x[i+4+block], dst, 4*(len(x)*block+i))
		}
	}
	f.advance(dst, 16*len(x))
}

func uniform(g *file, name string, sets int) {
	doc := `writes floor(x*q/2^32) for the words x of groups of 4 blocks with the
counters of s, which move on, and 2^32-1 where x*q mod 2^32 is below s.below. A byte of
rejected for each group has bits that tell which blocks have such words.`
	if sets == 2 {
		doc = "is againNEON for groups of 8 blocks."
	}
	f := g.new(name, "dst *uint32, groups int, s *uint32, rejected *byte", doc)
	dst, s, rejected, p := f.param("dst"), f.param("s"), f.param("rejected"), f.scalar()
	q, below, found, bits := f.take(), f.take(), f.take(), f.take()
	f.line("ADD $%d, %v, %v", atQ, s, p)
	f.loadNext(q, p)
	f.loadNext(below, p)
	low, high := f.constant(1|2<<32), f.constant(4|8<<32)
	f.word(0x4e081c00|uint32(low)<<5|uint32(bits), "mov %v.d[0], x%d", bits, int(low))
	f.word(0x4e181c00|uint32(high)<<5|uint32(bits), "mov %v.d[1], x%d", bits, int(high))
	byte0, byte1 := low, high
	f.groups(s, f.param("groups"), sets, func(set int, x []vreg) {
		f.zero(found)
		for i := 0; i < 16; i += 2 {
			f.each(2, func(j int) {
				a, b := f.take(), f.take()
				v := x[i+j]
				f.op(mull, a, v, q)
				f.op(mull2, b, v, q)
				f.op(uzp2, v, a, b)
				f.op(uzp1, a, a, b)
				f.op(above, a, below, a)
				f.op(or, v, v, a)
				f.op(or, found, found, a)
			})
		}
		f.op(and, found, found, bits)
		if f.total([]xreg{byte0, byte1}[set], found); set == sets-1 {
			if sets == 2 {
				f.line("ORR %v<<4, %v, %v", byte1, byte0, byte0)
			}
			f.line("MOVB %v, (%v)", byte0, rejected)
			f.advance(rejected, 1)
		}
		f.storeBlocks(dst, x)
	})
}

func retry(g *file) {
	f := g.new("retry", "dst, src, blocks *uint32, n int, left *uint32",
		`replaces the words 2^32-1 of n blocks of dst, 16 words each, which stand at the
numbers in blocks, by those of src, where the blocks follow each other. It writes the
numbers of the blocks that still have such words to left, which may be blocks, and
returns how many.`)
	dst, src, list, n, left := f.param("dst"), f.param("src"), f.param("blocks"), f.param("n"), f.param("left")
	still, to, bit, ones := f.constant(0), f.scalar(), f.scalar(), f.take()
	f.op(equal, ones, ones, ones)
	x, y, m := f.takeAll(4), f.takeAll(4), f.takeAll(4)
	f.loop(n, 1, func() {
		f.line("MOVWU (%v), %v", list, bit)
		f.line("MOVW %v, (%v)(%v<<2)", bit, left, still)
		f.line("ADD %v<<6, %v, %v", bit, dst, to)
		f.loadPair(x[0], x[1], to, 0)
		f.loadPair(x[2], x[3], to, 32)
		f.loadPair(y[0], y[1], src, 0)
		f.loadPair(y[2], y[3], src, 32)
		f.each(4, func(i int) {
			f.op(equal, m[i], x[i], ones)
			f.op(insert, x[i], y[i], m[i])
			f.op(equal, m[i], x[i], ones)
		})
		f.storePair(x[0], x[1], to, 0)
		f.storePair(x[2], x[3], to, 32)
		f.op(or, m[0], m[0], m[1])
		f.op(or, m[2], m[2], m[3])
		f.op(or, m[0], m[0], m[2])
		f.largest(bit, m[0])
		f.line("ANDW $1, %v, %v", bit, bit)
		f.line("ADD %v, %v", bit, still)
		f.advance(src, 64)
		f.advance(list, 4)
	})
	f.returns("still", "int", still)
}

// small is a sampler of small integers, one from each pair of words; draw puts it in
// place of the low word.
func small(g *file, name, doc string, draw func(f *function) func(low, high vreg)) {
	f := g.new(name, "dst *int32, groups int, s *uint32", `writes 64 integers for each of groups of 8 blocks
with the counters of s, which move on: `+doc)
	dst, one := f.param("dst"), draw(f)
	f.groups(f.param("s"), f.param("groups"), 2, func(_ int, x []vreg) {
		var v []vreg
		for i := 0; i < 16; i += 8 {
			f.each(4, func(j int) { one(x[i+2*j], x[i+2*j+1]) })
			v = append(v, x[i], x[i+2], x[i+4], x[i+6])
		}
		f.storeBlocks(dst, v)
	})
}

// ternary compares where plain Go multiplies. With c = floor(3*low/2^32) the carry of
// the low word, 3*high + c reaches 2^32 where high > third - [c >= 1], and 2^33 where
// high > 2*third - [c >= 2], third = floor(2^32/3). A comparison that holds is -1.
func ternary(f *function) func(low, high vreg) {
	const third = (1 << 32) / 3
	limits := []vreg{f.splat(third), f.splat(2 * third)}
	return func(low, high vreg) {
		t, u := f.take(), f.take()
		f.op(above, t, low, limits[0])
		f.op(above, u, low, limits[1])
		f.op(add, t, t, limits[0])
		f.op(add, u, u, limits[1])
		f.op(above, t, high, t)
		f.op(above, u, high, u)
		f.op1(not, t, t) // -1 less the comparison
		f.op(sub, low, t, u)
		f.give(t, u)
	}
}

func cbd(f *function) func(low, high vreg) {
	mask := f.splat(1<<21 - 1)
	return func(low, high vreg) {
		f.op(and, low, low, mask)
		f.op(and, high, high, mask)
		f.op1(ones, low, low)
		f.op1(ones, high, high)
		f.op(sub8, low, low, high)
		f.op1(sums16, low, low)
		f.op1(sums32, low, low)
	}
}
