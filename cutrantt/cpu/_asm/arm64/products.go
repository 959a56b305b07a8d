package main

// over runs body for 16 residues at a time, with those at each source in four vectors;
// body leaves the results in the vectors of the first.
func (f *function) over(n, dst xreg, sources []xreg, body func(v [][]vreg)) {
	f.loop(n, 16, func() {
		var all [][]vreg
		for _, p := range sources {
			v := f.takeAll(4)
			f.loadPair(v[0], v[1], p, 0)
			f.loadPair(v[2], v[3], p, 32)
			all = append(all, v)
		}
		body(all)
		v := all[0]
		f.storePair(v[0], v[1], dst, 0)
		f.storePair(v[2], v[3], dst, 32)
		for _, v := range all {
			f.give(v...)
		}
		f.advance(dst, 64)
		for _, p := range sources {
			if p != dst {
				f.advance(p, 64)
			}
		}
	})
}

// shoup loads the Shoup pair at p, and makes of floor(w*2^32/q) the quotient of twiddle:
// half of it, rounded, is w*2^31/q rounded.
func (f *function) shoup(p xreg, disp int) twiddle {
	v, h := f.take(), f.take()
	f.load64(v, p, disp)
	f.opBy(roundRight32, h, v, 1)
	return twiddle{lane{h, 0}, lane{v, 1}}
}

func elementwise(g *file) {
	f := g.modular("add", "dst, x, y *uint32, n int, q uint32",
		"sets dst = x + y; n is a multiple of 16, residues in [0, q).")
	f.over(f.param("n"), f.param("dst"), f.params("x y"), func(v [][]vreg) {
		f.each(4, func(i int) { f.op(add, v[0][i], v[0][i], v[1][i]); f.less(v[0][i], f.q) })
	})

	f = g.modular("sub", "dst, x, y *uint32, n int, q uint32",
		"sets dst = x - y; n is a multiple of 16, residues in [0, q).")
	f.over(f.param("n"), f.param("dst"), f.params("x y"), func(v [][]vreg) {
		f.each(4, func(i int) { f.op(sub, v[0][i], v[0][i], v[1][i]); f.least(v[0][i], f.q) })
	})

	f = g.modular("scale", "dst, x *uint32, n int, w *uint64, q uint32",
		"sets dst = x * w with the Shoup pair w, in [0, q) for x below 2^31; n is a multiple of 16.")
	w := f.shoup(f.param("w"), 0)
	f.over(f.param("n"), f.param("dst"), f.params("x"), func(v [][]vreg) {
		f.each(4, func(i int) { f.times(v[0][i], w); f.least(v[0][i], f.q) })
	})

	f = g.modular("subScale", "dst, x, y *uint32, n int, w *uint64, q uint32",
		"sets dst = (x - y) * w with the Shoup pair w; n is a multiple of 16, residues in [0, q).")
	w = f.shoup(f.param("w"), 0)
	f.over(f.param("n"), f.param("dst"), f.params("x y"), func(v [][]vreg) {
		f.each(4, func(i int) {
			f.op(sub, v[0][i], v[0][i], v[1][i])
			f.times(v[0][i], w)
			f.least(v[0][i], f.q)
		})
	})

	f = g.modular("subScaleAdd", "dst, x, y, z *uint32, n int, w *uint64, q uint32",
		"sets dst = (x - y) * w + z with the Shoup pair w; n is a multiple of 16, residues in [0, q).")
	w = f.shoup(f.param("w"), 0)
	f.over(f.param("n"), f.param("dst"), f.params("x y z"), func(v [][]vreg) {
		f.each(4, func(i int) {
			f.op(sub, v[0][i], v[0][i], v[1][i])
			f.times(v[0][i], w)
			f.op(add, v[0][i], v[0][i], v[2][i]) // (-q, 2q)
			f.least(v[0][i], f.q2)
			f.less(v[0][i], f.q)
		})
	})
}

// barrett holds the constants of products of two residues below q of k bits. With
// u = x*y / 2^(2k-31) and h = u*mu / 2^31, mu = 2^2k/q, all rounded, u and mu are below
// 2^31; the errors of u, mu and h move h by at most 1/2 each, so x*y - h*q is in
// [-3q/2, 3q/2].
type barrett struct{ up, mu vreg } // up is 31 - k

// barrett takes k from the parameter s of barrett.vector and barrett.sums, which is
// k - under.
func (f *function) barrett(under int) barrett {
	s, x, q, t := f.param("s"), f.constant(1), f.scalar(), f.scalar()
	f.line("MOVWU q+%d(FP), %v", f.at["q"], q)
	b := barrett{f.take(), f.take()}
	f.line("ADD $%d, %v", under, s) // k
	f.line("LSL $1, %v, %v", s, t)
	f.line("LSL %v, %v, %v", t, x, x)
	f.line("ADD %v>>1, %v, %v", q, x, x)
	f.line("UDIV %v, %v, %v", q, x, x)
	f.broadcast(b.mu, x)
	f.line("MOVD $31, %v", t)
	f.line("SUB %v, %v", s, t)
	f.broadcast(b.up, t)
	return b
}

// shifted is x shifted so that its residues have 31 bits.
func (f *function) shifted(x vreg, b barrett) vreg {
	s := f.take()
	f.op(shift, s, x, b.up)
	return s
}

// product sets dst to x*y modulo q in [0, 2q); sx and sy are x and y shifted, and sx is
// used up. dst may be any of them.
func (f *function) product(dst, x, y, sx, sy vreg, b barrett) {
	f.op(rdmulh, sx, sx, sy)
	f.op(rdmulh, sx, sx, b.mu)
	t := f.take()
	f.op(mul, t, x, y)
	f.op(mls, t, sx, f.q)
	f.op(add, sx, t, f.q2)
	f.op(minimum, dst, t, sx)
	f.give(t)
}

func products(g *file) {
	for _, p := range []struct {
		name, doc string
		join      func(f *function, r, z vreg) // r in [0, 2q)
	}{
		{"mul", "sets dst = x * y", func(f *function, r, _ vreg) { f.less(r, f.q) }},
		{"mulAdd", "adds x * y to dst", func(f *function, r, z vreg) {
			f.op(add, r, r, z)
			f.less(r, f.q2)
			f.less(r, f.q)
		}},
		{"mulSub", "subtracts x * y from dst", func(f *function, r, z vreg) {
			f.less(r, f.q)
			f.op(sub, r, z, r)
			f.least(r, f.q)
		}},
	} {
		f := g.modular(p.name, "dst, x, y *uint32, n int, mu, s uint64, q uint32",
			p.doc+`; mu and s are the constants of
barrett.vector, of which s is used. n is a multiple of 16, residues in [0, q).`)
		b := f.barrett(2)
		dst, sources := f.param("dst"), f.params("x y")
		if p.name != "mul" {
			sources = append(sources, dst)
		}
		f.over(f.param("n"), dst, sources, func(v [][]vreg) {
			f.each(4, func(i int) {
				x, y, z := v[0][i], v[1][i], vreg(0)
				if len(v) > 2 {
					z = v[2][i]
				}
				f.product(x, x, y, f.shifted(x, b), f.shifted(y, b), b)
				p.join(f, x, z)
			})
		})
	}
	tensor(g)
}

// tensor is the degree-2 product of two ciphertexts.
func tensor(g *file) {
	f := g.modular("tensor", "dst, a, b *uint32, dstStride, aStride, bStride, n int, mu, s uint64, q uint32",
		`sets dst to (a0*b0, a0*b1 + a1*b0, a1*b1); each polynomial lies a stride (in
residues) behind the one before. mu and s are the constants of barrett.sums, of which s
is used. n is a multiple of 16, residues in [0, q).`)
	c := f.barrett(1)
	dst, a, b := f.param("dst"), f.param("a"), f.param("b")
	dstStride, aStride, bStride := f.bytes("dstStride"), f.bytes("aStride"), f.bytes("bStride")
	dst2 := f.scalar()
	f.loop(f.param("n"), 4, func() {
		v := f.takeAll(4)
		f.load(v[0], a, 0)
		f.loadAt(v[1], a, aStride)
		f.load(v[2], b, 0)
		f.loadAt(v[3], b, bStride)
		var s [4]vreg
		for i := range s {
			s[i] = f.shifted(v[i], c)
		}
		r, t := f.takeAll(4), f.takeAll(4)
		f.each(4, func(i int) { // a0*b0, a0*b1, a1*b0, a1*b1
			x, y := i/2, 2+i%2
			f.move(t[i], s[x])
			f.product(r[i], v[x], v[y], t[i], s[y], c)
		})
		f.op(add, r[1], r[1], r[2]) // [0, 4q)
		f.less(r[1], f.q2)
		f.each(3, func(i int) { f.less([]vreg{r[0], r[1], r[3]}[i], f.q) })
		f.line("ADD %v, %v, %v", dstStride, dst, dst2)
		f.store(r[0], dst, 0)
		f.store(r[1], dst2, 0)
		f.storeAt(r[3], dst2, dstStride)
		for _, p := range []xreg{dst, a, b} {
			f.advance(p, 16)
		}
		f.give(v...)
		f.give(s[:]...)
		f.give(r...)
		f.give(t...)
	})
}
