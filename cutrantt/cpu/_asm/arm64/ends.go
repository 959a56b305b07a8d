package main

// The last five levels work on 32 neighbours in eight vectors. The distances 16, 8 and
// 4 are whole vectors, with one twiddle in a lane for each part. Then each half of a
// block, four vectors, is transposed: vector i has word i of each of four groups of
// four, the distances 2 and 1 are whole vectors again, and every group has its own
// twiddles, which lie in memory as the lanes need them.
//
// The twiddles of a block stand in this order in 256 bytes of the stream
// (fillTransposed in vector_arm64.go): pairs (quotient, w) for the distances 16, 8 and
// 4 (1, 2 and 4 of them, at 0, 16 and 32 bytes); for the 8 groups of distance 2 the
// quotients (64) and the factors (96); for the 16 pairs of distance 1 the quotients
// (128) and the factors (192), each with the first pairs of groups 0 to 3, their
// second pairs, then those of groups 4 to 7.

// transpose sets the rows x to its columns.
func (f *function) transpose(x []vreg) {
	t := f.takeAll(4)
	f.op(trn1, t[0], x[0], x[1])
	f.op(trn2, t[1], x[0], x[1])
	f.op(trn1, t[2], x[2], x[3])
	f.op(trn2, t[3], x[2], x[3])
	f.op(low64, x[0], t[0], t[2])
	f.op(low64, x[1], t[1], t[3])
	f.op(high64, x[2], t[0], t[2])
	f.op(high64, x[3], t[1], t[3])
	f.give(t...)
}

// outer loads the twiddles at s of the distances 16 >> level, level below 3.
func (f *function) outer(t []vreg, s xreg) [3][]twiddle {
	f.loadPair(t[0], t[1], s, 0)
	f.loadPair(t[2], t[3], s, 32)
	return [3][]twiddle{
		{pairAt(t[0], 0)},
		{pairAt(t[1], 0), pairAt(t[1], 1)},
		{pairAt(t[2], 0), pairAt(t[2], 1), pairAt(t[3], 0), pairAt(t[3], 1)},
	}
}

// inner loads into t what half h at s needs: the twiddles of distance 2, and of the
// first and the second pairs of distance 1.
func (f *function) inner(t []vreg, s xreg, h int) (two twiddle, one [2]twiddle) {
	f.load(t[0], s, 64+16*h)
	f.load(t[1], s, 96+16*h)
	f.loadPair(t[2], t[3], s, 128+32*h)
	f.loadPair(t[4], t[5], s, 192+32*h)
	return twiddle{t[0], t[1]}, [2]twiddle{{t[2], t[4]}, {t[3], t[5]}}
}

func forwardLast(g *file) {
	g.modular("forwardLast", "x *uint32, blocks int, s *uint64, q uint32",
		`is the last five levels of the forward transform, in place, over blocks of 32
neighbours: (-2q, 2q), signed, to [0, q). s is the stream of their twiddles.`).last(nil)
}

// last is the last five levels; first is nil or goes before them, with the vectors of a
// block.
func (f *function) last(first func(x []vreg)) {
	p, n, s := f.param("x"), f.param("blocks"), f.param("s")
	f.loop(n, 1, func() {
		x, t := f.takeAll(8), f.takeAll(4)
		for i := 0; i < 8; i += 2 {
			f.loadPair(x[i], x[i+1], p, 16*i)
		}
		w := f.outer(t, s)
		if first != nil {
			first(x)
		}
		for level, w := range w {
			f.level(x, 4>>level, w)
		}
		f.give(t...)
		for h := range 2 {
			v, t := x[4*h:4*h+4], f.takeAll(6)
			two, one := f.inner(t, s, h)
			f.transpose(v)
			f.level(v, 2, []twiddle{two})
			f.each(2, func(i int) { f.lastButterfly(v[2*i], v[2*i+1], one[i]) })
			f.transpose(v)
			f.storePair(v[0], v[1], p, 64*h)
			f.storePair(v[2], v[3], p, 64*h+32)
			f.give(t...)
		}
		f.advance(p, 128)
		f.advance(s, 256)
		f.give(x...)
	})
}

// lastButterfly is butterfly with results in [0, q).
func (f *function) lastButterfly(a, b vreg, w twiddle) {
	f.times(b, w)
	if f.lazy {
		t := f.take()
		f.op(add, t, a, b)
		f.op(sub, b, a, b)
		f.move(a, t)
		f.give(t)
		f.residue(a)
		f.residue(b)
		return
	}
	f.least(a, f.q2)
	f.less(a, f.q)
	f.least(b, f.q)
	t := f.take()
	f.op(add, t, a, b)
	f.op(sub, b, a, b)
	f.op(sub, a, t, f.q)
	f.op(minimum, a, a, t)
	f.least(b, f.q)
	f.give(t)
}

// The inverse of a block needs the twiddles of the mirrored block, those of each level
// the other way round: the halves and the pairs are exchanged, and the vectors are
// transposed in reverse, which turns the lanes.
func inverseFirst(g *file) {
	f := g.modular("inverseFirst", "dst, src *uint32, blocks int, s *uint64, q uint32",
		`undoes forwardLast from src to dst, which are equal or apart, over blocks of 32
neighbours: [0, 2q) to [0, 2q) in the first half of a block and (-q, q) in the second.
s is the last block of the stream, which is read backwards.`)
	dst, src, n, s := f.param("dst"), f.param("src"), f.param("blocks"), f.param("s")
	minus, lanes := f.take(), f.take()
	f.op1(negate, minus, f.q2)
	f.op(low64, lanes, minus, f.q2) // words 0, 1 of a group are sums, 2, 3 products
	f.loop(n, 1, func() {
		x := f.takeAll(8)
		for i := 0; i < 8; i += 2 {
			f.loadPair(x[i], x[i+1], src, 16*i)
		}
		for h := range 2 {
			v, t := x[4*h:4*h+4], f.takeAll(6)
			turned := []vreg{v[3], v[2], v[1], v[0]}
			two, one := f.inner(t, s, 1-h)
			f.transpose(turned)
			v0, v1, v2, v3 := turned[0], turned[1], turned[2], turned[3]
			f.together(func() { f.inverseButterfly(v0, v1, minus, one[1]) },
				func() { f.inverseButterfly(v2, v3, minus, one[0]) })
			f.together(func() { f.inverseButterfly(v0, v2, minus, two) },
				func() { f.inverseButterfly(v1, v3, f.q2, two) })
			f.transpose(turned)
			f.give(t...)
		}
		t := f.takeAll(4)
		w := f.outer(t, s)
		for level := 2; level >= 0; level-- {
			d := 4 >> level
			f.each(4, func(i int) {
				s, at, c := i/d, i/d*2*d+i%d, minus
				switch {
				case level == 2:
					c = lanes
				case i%d >= d/2:
					c = f.q2
				}
				f.inverseButterfly(x[at], x[at+d], c, w[level][1<<level-1-s])
			})
		}
		for i := 0; i < 8; i += 2 {
			f.storePair(x[i], x[i+1], dst, 16*i)
		}
		f.advance(src, 128)
		f.advance(dst, 128)
		f.advance(s, -256)
		f.give(t...)
		f.give(x...)
	})
}
