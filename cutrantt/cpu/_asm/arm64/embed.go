package main

// The special Fourier transform of package henc/internal/embed, for two numbers in a
// vector, their real and imaginary parts in registers of their own. No product is fused
// with a sum, so that the results are those of plain Go bit for bit.

var (
	fadd = same("fadd", 0x4e60d400, "2d")
	fsub = same("fsub", 0x4ee0d400, "2d")
	fmul = same("fmul", 0x6e60dc00, "2d")
	fdiv = same("fdiv", 0x6e60fc00, "2d")

	above64  = same("cmhi", 0x6ee03400, "2d")
	absolute = two{"fabs", 0x4ee0f800, "2d", "2d"}
	toEven   = two{"frintn", 0x4e618800, "2d", "2d"}
)

func embedding(g *file) {
	for _, down := range []bool{true, false} {
		levels(g, 1, down)
		levels(g, 2, down)
		tile(g, down)
	}
	numbers(g, "scaleRound", "multiplies the n numbers x, a multiple of 2, by by and rounds them to\nintegers, ties "+
		"to even.", func(f *function, x, by vreg) {
		f.op(fmul, x, x, by)
		f.op1(toEven, x, x)
	})
	numbers(g, "divide", "divides the n numbers x, a multiple of 2, by by.", func(f *function, x, by vreg) {
		f.op(fdiv, x, x, by)
	})
	magnitude(g)
}

// number is a complex number in each lane.
type number struct{ re, im vreg }

func (f *function) takeNumber() number { return number{f.take(), f.take()} }

func (f *function) giveNumbers(xs ...number) {
	for _, x := range xs {
		f.give(x.re, x.im)
	}
}

// join is (a + b, (a - b)*conj(t)) going down, (a + t*b, a - t*b) going up, in place.
func (f *function) join(a, b, t number, down bool) {
	x, y := f.takeNumber(), f.takeNumber()
	if down {
		f.op(fsub, x.re, a.re, b.re)
		f.op(fsub, x.im, a.im, b.im)
		f.op(fadd, a.re, a.re, b.re)
		f.op(fadd, a.im, a.im, b.im)
		f.op(fmul, b.re, x.re, t.re)
		f.op(fmul, y.re, x.im, t.im)
		f.op(fmul, b.im, x.im, t.re)
		f.op(fmul, y.im, x.re, t.im)
		f.op(fadd, b.re, b.re, y.re)
		f.op(fsub, b.im, b.im, y.im)
	} else {
		f.op(fmul, x.re, b.re, t.re)
		f.op(fmul, y.re, b.im, t.im)
		f.op(fmul, x.im, b.re, t.im)
		f.op(fmul, y.im, b.im, t.re)
		f.op(fsub, x.re, x.re, y.re)
		f.op(fadd, x.im, x.im, y.im)
		f.op(fsub, b.re, a.re, x.re)
		f.op(fsub, b.im, a.im, x.im)
		f.op(fadd, a.re, a.re, x.re)
		f.op(fadd, a.im, a.im, x.im)
	}
	f.giveNumbers(x, y)
}

// levels is k levels in place, over blocks of 1<<k parts of size numbers; the
// largest distance is part * 1<<(k-1).
func levels(g *file, k int, down bool) {
	name, order := "up", "inner level first"
	if down {
		name, order = "down", "outer level first"
	}
	if k == 2 {
		name += "2"
	}
	f := g.new(name, "re, im *float64, blocks, size int, cos, sin *float64",
		map[int]string{1: "is one level",
			2: "is two levels, " + order + ","}[k]+` over blocks of parts of size numbers, size a
multiple of 2. cos and sin are the whole tables: the twiddles of distance h begin at
index h.`)
	re, im, blocks, size := f.param("re"), f.param("im"), f.param("blocks"), f.param("size")
	cos, sin, c, s, n := f.param("cos"), f.param("sin"), f.scalar(), f.scalar(), f.scalar()
	f.line("LSL $3, %v", size)
	f.line("ADD %v, %v", size, cos) // the twiddles of distance size
	f.line("ADD %v, %v", size, sin)
	parts := []xreg{-1, size}
	for i := 2; i < 1<<k; i++ {
		parts = append(parts, f.scalar())
		f.line("ADD %v, %v, %v", size, parts[i-1], parts[i])
	}
	move := func(load bool, x number, re, im xreg, i int) {
		at, first := f.loadAt, f.load
		if !load {
			at, first = f.storeAt, f.store
		}
		if i == 0 {
			first(x.re, re, 0)
			first(x.im, im, 0)
		} else {
			at(x.re, re, parts[i])
			at(x.im, im, parts[i])
		}
	}
	f.loop(blocks, 1, func() {
		f.line("MOVD %v, %v", cos, c)
		f.line("MOVD %v, %v", sin, s)
		f.line("MOVD %v, %v", size, n)
		f.loop(n, 16, func() {
			x, w := make([]number, 1<<k), make([]number, 1<<k-1)
			for i := range x {
				x[i] = f.takeNumber()
				move(true, x[i], re, im, i)
			}
			for i := range w {
				w[i] = f.takeNumber()
				move(true, w[i], c, s, i)
			}
			inner := func() {
				f.each(len(x)/2, func(i int) { f.join(x[2*i], x[2*i+1], w[0], down) })
			}
			outer := func() { // distance 2*size: its twiddles begin size further on
				f.each(2, func(i int) { f.join(x[i], x[2+i], w[1+i], down) })
			}
			switch {
			case k == 1:
				inner()
			case down:
				outer()
				inner()
			default:
				inner()
				outer()
			}
			for i := range x {
				move(false, x[i], re, im, i)
			}
			for _, p := range []xreg{re, im, c, s} {
				f.advance(p, 16)
			}
			f.giveNumbers(x...)
			f.giveNumbers(w...)
		})
		for _, p := range []xreg{re, im} { // over the other parts
			f.line("ADD %v, %v", parts[len(parts)-1], p)
		}
	})
}

// tile is the level of distance 1 with the reversal of bits. An index is a|m|b with a
// and b of one bit: a tile is the rows a of one m, whose lanes are b. Its transpose has
// the b in rows.
func tile(g *file, down bool) {
	name, doc := "tileUp", `is the reversal of bits and the level of distance 1 after it, from src to dst, which lie
apart; factor is not used`
	if down {
		name, doc = "tileDown", `is the level of distance 1 and the reversal of bits after it, times factor, from src to
dst, which lie apart`
	}
	f := g.new(name, "dstRe, dstIm, srcRe, srcIm *float64, n int, reversed *uint32, cos, sin *float64, factor float64",
		doc+`. n is a multiple of 4 and reversed has the n/4 middle indices in reversed order.`)
	dst, src := f.params("dstRe dstIm"), f.params("srcRe srcIm")
	n, reversed, cos, sin := f.param("n"), f.param("reversed"), f.param("cos"), f.param("sin")
	factor := f.take()
	if down {
		f.broadcast64(factor, f.param("factor"))
	}
	t := f.takeNumber()
	f.line("MOVD 8(%v), %v", cos, cos)
	f.line("MOVD 8(%v), %v", sin, sin)
	f.broadcast64(t.re, cos)
	f.broadcast64(t.im, sin)
	tiles, at, m, p := f.scalar(), f.scalar(), f.constant(0), f.scalar()
	f.line("LSR $2, %v, %v", n, tiles)
	f.line("LSL $2, %v", n) // bytes of a row: n/2 numbers of 8
	f.loop(tiles, 1, func() {
		f.line("MOVWU (%v), %v", reversed, at)
		f.line("LSL $4, %v", at)
		from, to := m, at
		if !down {
			from, to = at, m
		}
		var x [2][2]vreg // real and imaginary parts of the rows
		turn := func(c int) {
			v := f.take()
			f.op(low64, v, x[c][0], x[c][1])
			f.op(high64, x[c][1], x[c][0], x[c][1])
			f.give(x[c][0])
			x[c][0] = v
		}
		for c := range x {
			x[c] = [2]vreg{f.take(), f.take()}
			f.line("ADD %v, %v, %v", src[c], from, p)
			f.load(x[c][0], p, 0)
			f.loadAt(x[c][1], p, n)
			if down {
				turn(c)
			}
		}
		f.join(number{x[0][0], x[1][0]}, number{x[0][1], x[1][1]}, t, down)
		for c := range x {
			if !down {
				turn(c)
			} else {
				f.op(fmul, x[c][0], x[c][0], factor)
				f.op(fmul, x[c][1], x[c][1], factor)
			}
			f.line("ADD %v, %v, %v", dst[c], to, p)
			f.store(x[c][0], p, 0)
			f.storeAt(x[c][1], p, n)
			f.give(x[c][:]...)
		}
		f.advance(m, 16)
		f.advance(reversed, 4)
	})
}

// numbers is a function of every number of a slice.
func numbers(g *file, name, doc string, body func(f *function, x, by vreg)) {
	f := g.new(name, "x *float64, n int, by float64", doc)
	p, n, by, x := f.param("x"), f.param("n"), f.take(), f.take()
	f.broadcast64(by, f.param("by"))
	f.loop(n, 2, func() {
		f.load(x, p, 0)
		body(f, x, by)
		f.store(x, p, 0)
		f.advance(p, 16)
	})
}

func magnitude(g *file) {
	f := g.new("magnitude", "x *float64, n int",
		`is the largest magnitude of the n numbers x, a multiple of 2, as bits, infinities and NaNs
above all others; bad is not zero if some of them are finite and not integral.`)
	p, n, bits := f.param("x"), f.param("n"), f.constant(0x4330000000000000) // 2^52
	whole, top, bad := f.take(), f.take(), f.take()
	f.broadcast64(whole, bits)
	f.zero(top)
	f.zero(bad)
	x, y, m := f.take(), f.take(), f.take()
	larger := func() { // top becomes x where x is larger
		f.op(above64, m, x, top)
		f.op(insert, top, x, m)
	}
	f.loop(n, 2, func() {
		f.load(x, p, 0)
		f.op1(absolute, x, x)
		f.op(fadd, y, x, whole)
		f.op(fsub, y, y, whole)
		f.op(xor, y, y, x)
		f.op(above64, m, whole, x)
		f.op(and, y, y, m)
		f.op(or, bad, bad, y)
		larger()
		f.advance(p, 16)
	})
	f.op(high64, x, top, top)
	larger()
	f.op(high64, y, bad, bad)
	f.op(or, bad, bad, y)
	f.lane64(p, top)
	f.lane64(n, bad)
	f.returns("largest", "uint64", p)
	f.returns("bad", "uint64", n)
}
