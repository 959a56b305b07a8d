package main

import "fmt"

// lazyTerms is how many products below 2^30*q may be added to a folded sum below
// 2q*2^32 before it is folded again: 7 leave room for a value below 2^38 besides.
const lazyTerms = 7

// sum runs row for terms terms and folds acc in time. At the end acc is below 2q*2^32.
func (f *function) sum(acc []vreg, terms xreg, full vreg, row func()) {
	left, batch := f.copy(terms), f.constant(lazyTerms)
	f.loop(left, 1, func() {
		row()
		f.line("SUBS $1, %v", batch)
		f.unless("BNE", func() {
			f.fold(acc, full)
			f.line("MOVD $%d, %v", lazyTerms, batch)
		})
	})
	f.line("CMP $%d, %v", lazyTerms, terms)
	f.unless("BLE", func() { f.fold(acc, full) })
	f.freeX = append(f.freeX, left, batch)
}

// piece is the vectors of one polynomial that stand together in an operand
// (vectorCode.piece is in residues).
const piece = 4

// inner is the inner product of key switching.
func inner(g *file) {
	for results := 1; results <= 2; results++ {
		name := map[int]string{1: "inner", 2: "innerPair"}[results]
		f := g.modular(name, "dst, x, y *uint32, dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32",
			`sets dst_k to the sum over the terms i of x_i * y_(i*results+k) / 2^32, k below
the number of results. Each polynomial of dst and x lies a stride (in residues)
behind the one before; y stands in pieces (vectorCode.piece), those of the
polynomials a stride apart and those of one polynomial a step. qinv is 1/q mod
2^32. n is a multiple of 16, residues in [0, q).`)
		dst, x, y, n, terms := f.param("dst"), f.param("x"), f.param("y"), f.param("n"), f.param("terms")
		dstStride, xStride, yStride, yStep := f.bytes("dstStride"), f.bytes("xStride"), f.bytes("yStride"),
			f.bytes("yStep")
		qinv, full := f.param32("qinv"), f.foldAt()
		acc := f.takeAll(2 * piece * results)
		xi, yi := f.scalar(), f.scalar()
		f.loop(n, 4*piece, func() {
			for _, a := range acc {
				f.zero(a)
			}
			f.line("MOVD %v, %v", x, xi)
			f.line("MOVD %v, %v", y, yi)
			f.sum(acc, terms, full, func() {
				a, b := f.takeAll(piece), f.takeAll(piece)
				f.loadPair(a[0], a[1], xi, 0)
				f.loadPair(a[2], a[3], xi, 32)
				for k := range results {
					f.loadPair(b[0], b[1], yi, 0)
					f.loadPair(b[2], b[3], yi, 32)
					f.line("ADD %v, %v", yStride, yi)
					for i := range piece {
						to := acc[2*(piece*k+i):]
						f.op(mlal, to[0], a[i], b[i])
						f.op(mlal2, to[1], a[i], b[i])
					}
				}
				f.line("ADD %v, %v", xStride, xi)
				f.give(a...)
				f.give(b...)
			})
			out := f.takeAll(piece)
			f.line("MOVD %v, %v", dst, xi)
			for k := range results {
				f.each(piece, func(i int) {
					a := acc[2*(piece*k+i):]
					f.montgomery(out[i], a[0], a[1], qinv)
				})
				f.storePair(out[0], out[1], xi, 0)
				f.storePair(out[2], out[3], xi, 32)
				f.line("ADD %v, %v", dstStride, xi)
			}
			f.give(out...)
			f.advance(dst, 16*piece)
			f.advance(x, 16*piece)
			f.line("ADD %v, %v", yStep, y)
		})
	}
}

// basis is digits, rounds and extend, the steps of Ring.Extend.
func basis(g *file) {
	digits(g)
	rounds(g)
	f := g.modular("extend", "dst, y *uint32, stride, limbs, n int, v *uint32, h *uint64, qinv, q uint32",
		fmt.Sprintf(`sets dst to the sum of y_i * h_i and v * h_limbs, divided by 2^32, modulo q; row
i of y lies i strides (in residues) behind y. qinv is 1/q mod 2^32, h in [0, q) and y
below 2^30, v below 2^8. n is a multiple of %d.`, 4*wide))
	extend(f)
}

// roundedSums sets v to sums of 64 bits >> 56 over rows, which begin with 1 << 55.
// row adds to acc what 16 residues of a row give; c are constants of 24 bytes a row.
func (f *function) roundedSums(n, limbs, c, v xreg, start func(), row func(ci xreg, acc []vreg)) {
	half, first := f.constant(1<<55), f.take()
	f.broadcast64(first, half)
	ci, left := half, f.scalar()
	f.loop(n, 16, func() {
		acc := f.takeAll(8)
		for _, a := range acc {
			f.move(a, first)
		}
		start()
		f.line("MOVD %v, %v", c, ci)
		f.line("MOVD %v, %v", limbs, left)
		f.loop(left, 1, func() { row(ci, acc) })
		for i := range 4 {
			f.op(uzp2, acc[i], acc[2*i], acc[2*i+1]) // upper words
			f.opBy(right32, acc[i], acc[i], 24)
		}
		f.storePair(acc[0], acc[1], v, 0)
		f.storePair(acc[2], acc[3], v, 32)
		f.advance(v, 64)
		f.give(acc...)
	})
}

func digits(g *file) {
	f := g.new("digits", "dst, src *uint32, dstStride, srcStride, limbs, n int, c *uint64, v *uint32, q uint32",
		`sets the rows of dst to y_i = x_i * w_i mod q_i and v to the rounded sum of y_i/q_i. A
row lies a stride (in residues) behind the one before. n is a multiple of 16,
residues in [0, q_i), round below 2^32; q is not used.`)
	dst, src, dstStride, srcStride := f.param("dst"), f.param("src"), f.bytes("dstStride"), f.bytes("srcStride")
	f.q = f.take()
	d, s := f.scalar(), f.scalar()
	f.roundedSums(f.param("n"), f.param("limbs"), f.param("c"), f.param("v"), func() {
		f.line("MOVD %v, %v", dst, d)
		f.line("MOVD %v, %v", src, s)
		f.advance(dst, 64)
		f.advance(src, 64)
	}, func(ci xreg, acc []vreg) {
		x, w, quotient := f.takeAll(4), f.take(), f.take()
		f.load(w, ci, 0) // quotient, w, round
		f.advance(ci, 16)
		f.loadEach(f.q, ci)
		f.advance(ci, 8)
		f.opBy(roundRight32, quotient, w, 1) // see shoup
		f.loadPair(x[0], x[1], s, 0)
		f.loadPair(x[2], x[3], s, 32)
		f.each(4, func(i int) {
			f.times(x[i], twiddle{lane{quotient, 0}, lane{w, 1}})
			f.least(x[i], f.q)
			f.opLane(mlal, acc[2*i], x[i], lane{w, 2})
			f.opLane(mlal2, acc[2*i+1], x[i], lane{w, 2})
		})
		f.storePair(x[0], x[1], d, 0)
		f.storePair(x[2], x[3], d, 32)
		f.line("ADD %v, %v", dstStride, d)
		f.line("ADD %v, %v", srcStride, s)
		f.give(x...)
		f.give(w, quotient)
	})
}

func rounds(g *file) {
	f := g.new("rounds", "src *uint32, stride, limbs, n int, c *uint64, v *uint32, q uint32",
		`sets v to the rounded sum of y_i/q_i for the rows y_i of src. A row lies a stride (in
residues) behind the one before. n is a multiple of 16, residues in [0, q_i), round
below 2^32; q is not used.`)
	src, stride, s := f.param("src"), f.bytes("stride"), f.scalar()
	f.roundedSums(f.param("n"), f.param("limbs"), f.param("c"), f.param("v"), func() {
		f.line("MOVD %v, %v", src, s)
		f.advance(src, 64)
	}, func(ci xreg, acc []vreg) {
		x, w := f.takeAll(4), f.take()
		f.load64(w, ci, 8) // round
		f.advance(ci, 24)
		f.loadPair(x[0], x[1], s, 0)
		f.loadPair(x[2], x[3], s, 32)
		for i := range x {
			f.opLane(mlal, acc[2*i], x[i], lane{w, 0})
			f.opLane(mlal2, acc[2*i+1], x[i], lane{w, 0})
		}
		f.line("ADD %v, %v", stride, s)
		f.give(x...)
		f.give(w)
	})
}

// wide is how many vectors extend works on at a time.
const wide = 8

func extend(f *function) {
	dst, y, n, v, h := f.param("dst"), f.param("y"), f.param("n"), f.param("v"), f.param("h")
	stride, limbs := f.bytes("stride"), f.param("limbs")
	qinv, full, last, w := f.param32("qinv"), f.foldAt(), f.take(), f.take()
	yi, hi := f.scalar(), f.scalar()
	f.line("ADD %v<<3, %v, %v", limbs, h, hi)
	f.load64(last, hi, 0)
	f.loop(n, 4*wide, func() {
		acc := f.takeAll(2 * wide)
		rows := func(p xreg, low, high three, w vreg) {
			for i := 0; i < wide; i += 2 {
				x := f.takeAll(2)
				f.loadPair(x[0], x[1], p, 16*i)
				for j := range x {
					f.opLane(low, acc[2*(i+j)], x[j], lane{w, 0})
					f.opLane(high, acc[2*(i+j)+1], x[j], lane{w, 0})
				}
				f.give(x...)
			}
		}
		rows(v, mull, mull2, last)
		f.line("MOVD %v, %v", y, yi)
		f.line("MOVD %v, %v", h, hi)
		f.sum(acc, limbs, full, func() {
			f.load64(w, hi, 0)
			f.advance(hi, 8)
			rows(yi, mlal, mlal2, w)
			f.line("ADD %v, %v", stride, yi)
		})
		for i := 0; i < wide; i += 4 {
			out := f.takeAll(4)
			f.each(4, func(j int) { f.montgomery(out[j], acc[2*(i+j)], acc[2*(i+j)+1], qinv) })
			f.storePair(out[0], out[1], dst, 16*i)
			f.storePair(out[2], out[3], dst, 16*i+32)
			f.give(out...)
		}
		for _, p := range []xreg{dst, y, v} {
			f.advance(p, 16*wide)
		}
		f.give(acc...)
	})
}
