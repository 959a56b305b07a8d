package main

// integers are the steps between signed integers and residues.
func integers(g *file) {
	f := g.modular("liftSmall", "dst *uint32, src *int32, n int, q uint32",
		"sets dst = src modulo q, for src in (-q, q); n is a multiple of 16.")
	f.over(f.param("n"), f.param("dst"), f.params("src"), func(v [][]vreg) {
		f.each(4, func(i int) { f.least(v[0][i], f.q) })
	})

	f = g.new("split", "high *int32, low *uint32, m *float64, e *int32, n int",
		"sets high*2^32 + low = m + e, for integral m, |m| < 2^62; n is a multiple of 4.")
	high, low, m, e, n := f.param("high"), f.param("low"), f.param("m"), f.param("e"), f.param("n")
	f.loop(n, 4, func() {
		x, t := f.takeAll(2), f.takeAll(2)
		f.loadPair(x[0], x[1], m, 0)
		f.load(t[1], e, 0)
		f.op1(toInt, x[0], x[0])
		f.op1(toInt, x[1], x[1])
		f.op1(extend1, t[0], t[1])
		f.op1(extend2, t[1], t[1])
		f.op(add64, x[0], x[0], t[0])
		f.op(add64, x[1], x[1], t[1])
		f.op(uzp1, t[0], x[0], x[1])
		f.op(uzp2, t[1], x[0], x[1])
		f.store(t[0], low, 0)
		f.store(t[1], high, 0)
		f.advance(m, 32)
		for _, p := range []xreg{low, high, e} {
			f.advance(p, 16)
		}
	})

	f = g.modular("liftWide", "dst *uint32, high *int32, low *uint32, n int, w *uint64, bias, q uint32",
		`sets dst = high*2^32 + low modulo q, in [0, 2q). w has the Shoup pairs of
2^32 and of 1; bias is not used, |high| is below 2^30; n is a multiple of 16.`)
	// low is taken as signed: the 2^32 that this takes away goes to high. Its remainder
	// is in [-q, q], as it may be -2^31, that of high is in (-q, q).
	w := f.param("w")
	top, one := f.shoup(w, 0), f.shoup(w, 8)
	f.over(f.param("n"), f.param("dst"), f.params("high low"), func(v [][]vreg) {
		f.each(4, func(i int) {
			h, l, t := v[0][i], v[1][i], f.take()
			f.opBy(addRight32, h, l, 31)
			f.times(h, top)
			f.by(rdmulh, t, l, one.high)
			f.op(mls, l, t, f.q) // times 1: no product
			f.op(add, h, h, l)
			f.least(h, f.q2)
		})
	})
}

// operands is dst += x*y/2^32. Of x*y and m*q, m = x*y/q mod 2^32 as a signed number,
// the low halves are equal, so that half the difference of their doubled upper halves
// is (x*y - m*q)/2^32, which is in [-q/2, 3q/4].
func operands(g *file) {
	f := g.modular("operandAdd", "dst, x, y *uint32, yStep, n int, qinv, q uint32",
		`adds x * y / 2^32 to dst; y stands in pieces (vectorCode.piece) a step (in residues)
apart. qinv is 1/q mod 2^32. n is a multiple of 16, residues in [0, q).`)
	qinv, dst, x, y, step := f.param32("qinv"), f.param("dst"), f.param("x"), f.param("y"), f.bytes("yStep")
	f.line("SUB $64, %v", step)
	f.over(f.param("n"), dst, []xreg{dst, x, y}, func(v [][]vreg) {
		f.each(piece, func(i int) {
			z, a, b, t := v[0][i], v[1][i], v[2][i], f.take()
			f.op(mul, t, a, b)
			f.op(dmulh, a, a, b)
			f.op(mul, t, t, qinv)
			f.op(dmulh, t, t, f.q)
			f.op(hsub, a, a, t)
			f.op(add, z, z, a) // [-q/2, 7q/4)
			f.least(z, f.q2)
			f.less(z, f.q)
		})
		f.line("ADD %v, %v", step, y)
	})
}

// permute is an automorphism in the transform domain.
func permute(g *file) {
	f := g.new("permute", "dst, src, from, lanes *uint32, n int",
		`sets block b of 16 residues of dst to words of block from[b] >> 4 of src,
in the order of the 16 words at lanes + 16 * (from[b] & 15); n is the number of blocks.`)
	dst, src, from, lanes, n := f.param("dst"), f.param("src"), f.param("from"), f.param("lanes"), f.param("n")
	bytes, first := f.constant(0x03020100), f.constant(0x04040404)
	zero, four := f.take(), f.take() // the bytes of word i are 4*i, ..., 4*i + 3
	f.broadcast(zero, bytes)
	f.broadcast(four, first)
	b, l := bytes, first
	x, order := f.block(4), f.takeAll(4)
	f.loop(n, 1, func() {
		f.line("MOVWU (%v), %v", from, b)
		f.line("AND $15, %v, %v", b, l)
		f.line("ADD %v<<6, %v, %v", l, lanes, l)
		f.line("AND $~15, %v, %v", b, b)
		f.line("ADD %v<<2, %v, %v", b, src, b)
		f.loadPair(x, x+1, b, 0)
		f.loadPair(x+2, x+3, b, 32)
		f.loadPair(order[0], order[1], l, 0)
		f.loadPair(order[2], order[3], l, 32)
		f.each(4, func(i int) {
			f.op(mul, order[i], order[i], four)
			f.op(add, order[i], order[i], zero)
			f.table4(order[i], x, order[i])
		})
		f.storePair(order[0], order[1], dst, 0)
		f.storePair(order[2], order[3], dst, 32)
		f.advance(from, 4)
		f.advance(dst, 64)
	})
}
