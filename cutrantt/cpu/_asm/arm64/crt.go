package main

// Reconstruction from four primes for package henc/internal/crt, four integers at a time:
// residues, digits and parts of 30 bits in lanes of 32 bits, sums of products in two
// vectors of 64 bits. The digits of four integers, and ones where they are negative, lie
// side by side: 80 bytes.

var (
	zip1      = same("zip1", 0x4e803800, "4s")
	zip2      = same("zip2", 0x4e807800, "4s")
	anyBit    = same("cmtst", 0x4ea08c00, "4s")               // ones where n & m is not 0
	addWide   = three{"uaddw", 0x2ea01000, "2d", "2d", "2s"}  // d = n + the lower half of m
	addWide2  = three{"uaddw2", 0x6ea01000, "2d", "2d", "4s"} // the upper half
	right64   = by{"ushr", 0x6f000400, "2d", 64, true}        // n >> k
	addRight  = by{"usra", 0x6f001400, "2d", 64, true}        // d += n >> k
	addSign   = by{"ssra", 0x4f001400, "4s", 32, true}        // d += n >> k, signed
	signs     = by{"sshr", 0x4f000400, "4s", 32, true}        // n >> k, signed
	aboveLeft = by{"sli", 0x6f005400, "4s", 32, false}        // n << k, above the lower k bits of d
)

// Places in the tables of constants, as in package crt.
const (
	shortQ, shortNegInv, shortPlaces = 9, 12, 15
	shortHalf, shortMask             = 21, 29
	shortTwo112, shortExp30          = 30, 33
	checkQ, checkNegInv              = 5, 6
)

func reconstruction(g *file) {
	short(g)
	check(g)
}

// words loads the lower halves of the n words of 64 bits at t, n a multiple of 4: word
// i is lane i%4 of vector i/4.
func (f *function) words(t xreg, n int) func(i int) lane {
	v := f.takeAll(n / 4)
	u := f.take()
	for i := range v {
		f.loadPair(v[i], u, t, 32*i)
		f.op(uzp1, v[i], v[i], u)
	}
	f.give(u)
	return func(i int) lane { return lane{v[i/4], i % 4} }
}

// spread is the 32 bits at t + disp in every lane.
func (f *function) spread(t xreg, disp int) vreg {
	v, x := f.take(), f.scalar()
	f.line("MOVWU %d(%v), %v", disp, t, x)
	f.broadcast(v, x)
	f.freeX = append(f.freeX, x)
	return v
}

// addProduct sets the sum s to n*m, or adds n*m to it.
func (f *function) addProduct(s [2]vreg, n vreg, m lane, first bool) {
	if first {
		f.opLane(mull, s[0], n, m)
		f.opLane(mull2, s[1], n, m)
	} else {
		f.opLane(mlal, s[0], n, m)
		f.opLane(mlal2, s[1], n, m)
	}
}

// wide is a sum of 64 bits for each of four lanes, two in each vector.
func (f *function) wide() [2]vreg { return [2]vreg{f.take(), f.take()} }

// reduceWide is s*2^-32 mod q in d for s < 2^32*q; it changes s.
func (f *function) reduceWide(d vreg, s [2]vreg, q vreg, negInv lane) {
	f.op(uzp1, d, s[0], s[1])
	f.opLane(mul, d, d, negInv)
	f.op(mlal, s[0], d, q)
	f.op(mlal2, s[1], d, q)
	f.op(uzp2, d, s[0], s[1]) // below 2q
	f.op(sub, s[0], d, q)
	f.op(minimum, d, d, s[0])
}

// short: see code.short.
func short(g *file) {
	f := g.new("short", "out *float64, d *uint64, x0, x1, x2, x3 *uint32, n int, t *uint64", "is code.short.")
	out, digits, x := f.param("out"), f.param("d"), f.params("x0 x1 x2 x3")
	n, t := f.param("n"), f.param("t")
	c := f.words(t, 24)
	var q, high, two [3]vreg
	for i := range 3 {
		q[i] = f.spread(t, 8*(shortQ+i))
		high[i] = f.spread(t, 8*(shortTwo112+i)+4)
	}
	zero := f.take()
	f.zero(zero)
	for i := range two {
		two[i] = f.take()
		f.op(zip1, two[i], zero, high[i])
	}
	mask, exp30 := f.spread(t, 8*shortMask), f.spread(t, 8*shortExp30+4)
	at, p, eight := f.constant(0), f.scalar(), f.constant(8)
	f.advance(t, 8*shortHalf)
	f.loop(n, 4, func() {
		var d [4]vreg
		for j := range d {
			d[j] = f.take()
			f.loadAt(d[j], x[j], at)
		}
		s := f.wide()
		for j, k := 1, 0; j < 4; j++ {
			f.addProduct(s, d[j], c(k+j), true)
			for i := range j {
				f.addProduct(s, d[i], c(k+i), false)
			}
			k += j + 1
			f.reduceWide(d[j], s, q[j-1], c(shortNegInv+j-1))
		}
		f.storePair(d[0], d[1], digits, 0)
		f.storePair(d[2], d[3], digits, 32)
		// The value in parts v of 30 bits: sums of products are below 2^62.
		low, mid, top := s, f.wide(), f.wide()
		f.addProduct(low, d[1], c(shortPlaces), true)
		f.addProduct(low, d[2], c(shortPlaces+1), false)
		f.addProduct(low, d[3], c(shortPlaces+3), false)
		f.op(addWide, low[0], low[0], d[0])
		f.op(addWide2, low[1], low[1], d[0])
		f.addProduct(mid, d[2], c(shortPlaces+2), true)
		f.addProduct(mid, d[3], c(shortPlaces+4), false)
		f.addProduct(top, d[3], c(shortPlaces+5), true)
		v := d
		for i, sum := range [][2]vreg{low, mid, top} {
			if i < 2 {
				next := [][2]vreg{mid, top}[i]
				f.opBy(addRight, next[0], sum[0], 30)
				f.opBy(addRight, next[1], sum[1], 30)
			}
			f.op(uzp1, v[i], sum[0], sum[1])
			f.op(and, v[i], v[i], mask)
		}
		f.opBy(right64, top[0], top[0], 30)
		f.opBy(right64, top[1], top[1], 30)
		f.op(uzp1, v[3], top[0], top[1])
		f.give(low[:]...)
		f.give(mid[:]...)
		f.give(top[:]...)
		// Half of the product of the primes less v, then the product less v: a part that
		// is negative borrows from the next.
		f.line("MOVD %v, %v", t, p)
		less := func() (parts [4]vreg) {
			for i := range parts {
				parts[i] = f.take()
				f.loadStep(parts[i], p, eight)
				f.op(sub, parts[i], parts[i], v[i])
				if i > 0 {
					f.opBy(addSign, parts[i], parts[i-1], 31)
				}
			}
			return parts
		}
		parts := less()
		f.give(parts[:3]...)
		negative := parts[3]
		f.opBy(signs, negative, negative, 31)
		parts = less()
		for i, part := range parts {
			f.op(and, part, part, mask)
			f.op(insert, v[i], part, negative)
		}
		f.give(parts[:]...)
		one := f.take()
		f.opBy(right32, one, negative, 31)
		f.store(one, digits, 64)
		// Of a value of 90 bits or more the lowest part only says that it is not 0: see
		// round in package crt, whose arithmetic on float64 follows.
		large, sticky := f.take(), one
		f.op(anyBit, large, v[3], v[3])
		f.op(anyBit, sticky, v[0], v[0])
		f.opBy(right32, sticky, sticky, 31)
		f.op(or, sticky, sticky, v[1])
		f.op(insert, v[0], sticky, large)
		f.op(insert, v[1], v[2], large)
		f.op(insert, v[2], v[3], large)
		f.op(and, large, large, exp30)
		f.opBy(aboveLeft, large, negative, 31)
		f.give(one, negative, v[3])
		results := f.wide()
		f.each(2, func(i int) {
			turn := []three{zip1, zip2}[i]
			a, b, c := f.take(), f.take(), results[i]
			for k, w := range []vreg{a, b, c} {
				f.op(turn, w, v[2-k], high[k])
				f.op(fsub, w, w, two[k])
			}
			s := f.take()
			f.op(fadd, s, a, b)
			f.op(fsub, a, s, a)
			f.op(fsub, b, b, a)
			f.op(fadd, c, b, c)
			f.op(fadd, c, s, c)
			f.op(turn, a, zero, large)
			f.op(add64, c, c, a)
		})
		f.storePair(results[0], results[1], out, 0)
		f.give(results[:]...)
		f.give(v[:3]...)
		f.give(large)
		f.advance(at, 16)
		f.advance(out, 32)
		f.advance(digits, 80)
	})
}

// check: see code.check.
func check(g *file) {
	f := g.new("check", "bad, d *uint64, x *uint32, n int, t *uint64", "is code.check.")
	bad, digits, x := f.param("bad"), f.param("d"), f.param("x")
	n, t := f.param("n"), f.param("t")
	q := f.spread(t, 8*checkQ)
	c := f.words(t, 8)
	differs := f.take()
	f.zero(differs)
	d, s, y := f.takeAll(5), f.wide(), f.take()
	f.loop(n, 4, func() {
		f.loadPair(d[0], d[1], digits, 0)
		f.loadPair(d[2], d[3], digits, 32)
		f.load(d[4], digits, 64)
		f.load(y, x, 0)
		for i, v := range d {
			f.addProduct(s, v, c(i), i == 0)
		}
		f.reduceWide(d[0], s, q, c(checkNegInv))
		f.op(xor, y, y, d[0])
		f.op(or, differs, differs, y)
		f.advance(digits, 80)
		f.advance(x, 16)
	})
	f.largest(n, differs)
	f.line("MOVD (%v), %v", bad, t)
	f.line("ORR %v, %v", n, t)
	f.line("MOVD %v, (%v)", t, bad)
}
