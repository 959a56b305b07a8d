package cpu

// Toom-Cook-4 over the stride split a = sum over j < 4 of X^j * A_j(Z), Z =
// X^4, in Z_q[Z]/(Z^h - w), h = n2/4 (paper, Algorithm 10, with 8*r0+2*r2 in
// lines 8 and 19 and j up to 6 in line 31). As polynomials in X the factors are
// evaluated at 0, 1, -1, 2, -2, 1/2 (times 8) and infinity, multiplied there
// modulo Z^h - w by lazy dot products, and interpolated.
//
// With c_0, ..., c_6 the coefficients of one product and v its values,
//
//	s1 = v(1)+v(-1) = 2*(c0+c2+c4+c6)    d1 = v(1)-v(-1) = 2*(c1+c3+c5)
//	s2 = v(2)+v(-2) = 2*(c0+4c2+16c4+64c6)  d2 = v(2)-v(-2) = 4*(c1+4c3+16c5)
//	h  = v(1/2) - 64c0-16c2-4c4-c6 = 2*(16c1+4c3+c5)
//
// so c0 = v(0), c6 = v(inf) and
//
//	24*c2 = 16*s1 - s2 - 30*c0 + 96*c6
//	24*c4 = s2 - 4*s1 + 6*c0 - 120*c6
//	180*c1 = d2 - 40*d1 + 8*h
//	36*c3 = 34*d1 - d2 - 2*h
//	90*c5 = 2*d2 - 20*d1 + h
//
// Prepared a: h words, reversed, at each of the seven points. Prepared b: the
// windows of lazy.go at each point, then the two halves of the factor w.

const toomPoints = 7

// toomConstants are the interpolation constants modulo one q.
type toomConstants struct {
	c2, c4     [4]uint32 // of v(0), s1, s2, v(inf)
	c1, c3, c5 [3]uint32 // of d1, d2, h
}

func newToomConstants(m *barrett) *toomConstants {
	frac := func(num int, den uint32) uint32 {
		return m.mul(m.reduceInt64(int64(num)), m.inv(den))
	}
	c := &toomConstants{}
	for i, n := range [4]int{-30, 16, -1, 96} {
		c.c2[i] = frac(n, 24)
	}
	for i, n := range [4]int{6, -4, 1, -120} {
		c.c4[i] = frac(n, 24)
	}
	for i, n := range [3]int{-40, 1, 8} {
		c.c1[i] = frac(n, 180)
	}
	for i, n := range [3]int{34, -1, -2} {
		c.c3[i] = frac(n, 36)
	}
	for i, n := range [3]int{-20, 2, 1} {
		c.c5[i] = frac(n, 90)
	}
	return c
}

func toomKernel(n2 int) *kernel {
	h := n2 / 4
	aWords, window := toomPoints*h, 2*h-1
	bWords := toomPoints*window + 2
	dot := map[int]func(v *[toomPoints]uint64, a, b []uint32, i int){1: toomDot1, 2: toomDot2, 4: toomDot4}[h]
	return &kernel{
		n2: n2, aWords: aWords, bWords: bWords,
		prepA: func(dst, tile []uint32, m *modulus) {
			for l := range lanes {
				to := dst[l*aWords : (l+1)*aWords]
				for i := range h {
					x := (*[4]uint32)(tile[l*n2+4*i:])
					for p, v := range toomEvaluate(x[0], x[1], x[2], x[3], m.q) {
						to[p*h+h-1-i] = v
					}
				}
			}
		},
		prepB: func(dst, tile []uint32, w *[lanes]factor, m *modulus) {
			for l := range lanes {
				to := dst[l*bWords : (l+1)*bWords]
				for i := range h {
					x := (*[4]uint32)(tile[l*n2+4*i:])
					for p, v := range toomEvaluate(x[0], x[1], x[2], x[3], m.q) {
						e := to[p*window : (p+1)*window]
						e[h-1+i] = v
						if i > 0 {
							e[i-1] = w[l].mul(v, uint64(m.q))
						}
					}
				}
				to[bWords-2], to[bWords-1] = uint32(w[l]), uint32(w[l]>>32)
			}
		},
		mul: func(dst, a, b []uint32, m *modulus) {
			c := m.toom()
			var v [toomPoints]uint64
			var r, above [toomPoints]uint32 // coefficients of this and of the previous i
			for l := range lanes {
				x, y := a[l*aWords:(l+1)*aWords], b[l*bWords:(l+1)*bWords]
				w := factor(y[bWords-2]) | factor(y[bWords-1])<<32
				// Only the last i wraps: its c4, c5, c6 stand at X^n2, X^(n2+1)
				// and X^(n2+2). It is computed first.
				dot(&v, x, y, h-1)
				last := c.interpolate(&v, &m.barrett)
				for t := range 3 {
					above[4+t] = w.mul(last[4+t], uint64(m.q))
				}
				for i := range h {
					if r = last; i < h-1 {
						dot(&v, x, y, i)
						r = c.interpolate(&v, &m.barrett)
					}
					z := (*[4]uint32)(dst[l*n2+4*i:])
					z[0] = add(r[0], above[4], m.q)
					z[1] = add(r[1], above[5], m.q)
					z[2] = add(r[2], above[6], m.q)
					z[3] = r[3]
					above = r
				}
			}
		},
	}
}

// toomEvaluate is x0 + x1*X + x2*X^2 + x3*X^3 at the seven points, in [0, q).
func toomEvaluate(x0, x1, x2, x3, q uint32) [toomPoints]uint32 {
	s, t := add(x0, x2, q), add(x1, x3, q)
	u := corr(corr(x0+2*add(x2, x2, q), 2*q), q) // x0+4*x2, from [0, 3q)
	v := corr(corr(x1+2*add(x3, x3, q), 2*q), q) // x1+4*x3
	v = add(v, v, q)
	y := corr(corr(2*x0+x1, 2*q), q) // 8*x0+4*x1+2*x2+x3 by Horner's rule
	y = corr(corr(2*y+x2, 2*q), q)
	y = corr(corr(2*y+x3, 2*q), q)
	return [toomPoints]uint32{x0, add(s, t, q), sub(s, t, q), add(u, v, q), sub(u, v, q), y, x3}
}

// toomDot1, 2 and 4 set v to coefficient i of the seven products modulo Z^h - w,
// at most 4 terms below 2^60 each.

func toomDot1(v *[toomPoints]uint64, a, b []uint32, _ int) {
	x, y := (*[7]uint32)(a), (*[7]uint32)(b)
	for p := range v {
		v[p] = uint64(x[p]) * uint64(y[p])
	}
}

func toomDot2(v *[toomPoints]uint64, a, b []uint32, i int) {
	for p := range v {
		v[p] = dot2((*[2]uint32)(a[2*p:]), (*[2]uint32)(b[3*p+i:]))
	}
}

func toomDot4(v *[toomPoints]uint64, a, b []uint32, i int) {
	for p := range v {
		v[p] = dot4((*[4]uint32)(a[4*p:]), (*[4]uint32)(b[7*p+i:]))
	}
}

// interpolate gives c_0, ..., c_6 in [0, q) from the values, below 2^62 each.
func (c *toomConstants) interpolate(v *[toomPoints]uint64, m *barrett) [toomPoints]uint32 {
	const turn = 1 << 62 // bound of the values; a multiple of q is added below
	lift := turn - turn%uint64(m.q) + uint64(m.q)
	c0, c6 := m.reduce(v[0]), m.reduce(v[6])
	s1, d1 := uint64(m.reduce(v[1]+v[2])), uint64(m.reduce(v[1]+lift-v[2]))
	s2, d2 := uint64(m.reduce(v[3]+v[4])), uint64(m.reduce(v[3]+lift-v[4]))
	x0, x6 := uint64(c0), uint64(c6)
	c2 := m.reduce(x0*uint64(c.c2[0]) + s1*uint64(c.c2[1]) + s2*uint64(c.c2[2]) + x6*uint64(c.c2[3]))
	c4 := m.reduce(x0*uint64(c.c4[0]) + s1*uint64(c.c4[1]) + s2*uint64(c.c4[2]) + x6*uint64(c.c4[3]))
	q := uint64(m.q)
	h := uint64(m.reduce(v[5] + 64*(q-x0) + 16*(q-uint64(c2)) + 4*(q-uint64(c4)) + (q - x6)))
	return [toomPoints]uint32{
		c0,
		m.reduce(d1*uint64(c.c1[0]) + d2*uint64(c.c1[1]) + h*uint64(c.c1[2])),
		c2,
		m.reduce(d1*uint64(c.c3[0]) + d2*uint64(c.c3[1]) + h*uint64(c.c3[2])),
		c4,
		m.reduce(d1*uint64(c.c5[0]) + d2*uint64(c.c5[1]) + h*uint64(c.c5[2])),
		c6,
	}
}
