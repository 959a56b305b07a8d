package cpu

// One step of Karatsuba over the stride split a = A0(Y) + X*A1(Y), Y = X^2, in
// Z_q[Y]/(Y^h - w), h = n2/2:
//
//	P = A0*B0, Q = A1*B1, S = (A0+A1)*(B0+B1)
//	even outputs P + Y*Q, odd outputs S - P - Q
//
// The three products are lazy (lazy.go). The sums A0+A1 and B0+B1 are not
// reduced, so terms of S are below 2^62 and S may exceed 2^64; but S - P - Q is
// exactly the sum of the n2 cross products, below 16*2^60, so arithmetic modulo
// 2^64 gives it. (w*B0 and w*B1 are reduced before they are added, in all
// three products alike, so the identity holds in the integers.)
//
// Prepared a: A0, A1, A0+A1, each reversed. Prepared b: the windows of B0; of
// B1, preceded by w*B1[0], whose earlier start gives Y*B1; and of B0+B1.

func karatsubaKernel(n2 int) *kernel {
	h := n2 / 2
	words := 3*(2*h-1) + 1
	return &kernel{
		n2: n2, aWords: 3 * h, bWords: words,
		prepA: func(dst, tile []uint32, _ *modulus) {
			for l := range lanes {
				karatsubaA(dst[l*3*h:(l+1)*3*h], tile[l*n2:(l+1)*n2], h)
			}
		},
		prepB: func(dst, tile []uint32, w *[lanes]factor, m *modulus) {
			for l := range lanes {
				karatsubaB(dst[l*words:(l+1)*words], tile[l*n2:(l+1)*n2], h, w[l], m.q)
			}
		},
		mul: map[int]func(dst, a, b []uint32, m *modulus){2: karatsubaMul2, 4: karatsubaMul4, 8: karatsubaMul8,
			16: karatsubaMul16}[n2],
	}
}

func karatsubaA(dst, a []uint32, h int) {
	x0, x1, s := dst[:h], dst[h:2*h], dst[2*h:]
	for i := range h {
		x0[h-1-i], x1[h-1-i], s[h-1-i] = a[2*i], a[2*i+1], a[2*i]+a[2*i+1] // s in [0, 2q)
	}
}

func karatsubaB(dst, b []uint32, h int, w factor, q uint32) {
	e0, e1, s := dst[:2*h-1], dst[2*h-1:4*h-1], dst[4*h-1:]
	e1[0] = w.mul(b[1], uint64(q))
	e1 = e1[1:]
	for i := range h {
		e0[h-1+i], e1[h-1+i] = b[2*i], b[2*i+1]
		if i > 0 {
			e0[i-1], e1[i-1] = w.mul(b[2*i], uint64(q)), w.mul(b[2*i+1], uint64(q))
		}
	}
	for i := range s {
		s[i] = e0[i] + e1[i] // [0, 2q)
	}
}

func karatsubaMul2(dst, a, b []uint32, m *modulus) {
	for l := range lanes {
		x, e, z := (*[3]uint32)(a[3*l:]), (*[4]uint32)(b[4*l:]), (*[2]uint32)(dst[2*l:])
		p, q := uint64(x[0])*uint64(e[0]), uint64(x[1])*uint64(e[2])
		z[0] = m.reduce(p + uint64(x[1])*uint64(e[1]))
		z[1] = m.reduce(uint64(x[2])*uint64(e[3]) - p - q)
	}
}

func karatsubaMul4(dst, a, b []uint32, m *modulus) {
	for l := range lanes {
		x, e, z := (*[6]uint32)(a[6*l:]), (*[10]uint32)(b[10*l:]), (*[4]uint32)(dst[4*l:])
		x0, x1, xs := (*[2]uint32)(x[0:]), (*[2]uint32)(x[2:]), (*[2]uint32)(x[4:])
		q := dot2(x1, (*[2]uint32)(e[3:])) // Y*Q at t = 0
		for t := range 2 {
			p := dot2(x0, (*[2]uint32)(e[t:]))
			z[2*t] = m.reduce(p + q)
			q = dot2(x1, (*[2]uint32)(e[4+t:]))
			z[2*t+1] = m.reduce(dot2(xs, (*[2]uint32)(e[7+t:])) - p - q)
		}
	}
}

func karatsubaMul8(dst, a, b []uint32, m *modulus) {
	for l := range lanes {
		x, e, z := (*[12]uint32)(a[12*l:]), (*[22]uint32)(b[22*l:]), (*[8]uint32)(dst[8*l:])
		x0, x1, xs := (*[4]uint32)(x[0:]), (*[4]uint32)(x[4:]), (*[4]uint32)(x[8:])
		q := dot4(x1, (*[4]uint32)(e[7:]))
		for t := range 4 {
			p := dot4(x0, (*[4]uint32)(e[t:]))
			z[2*t] = m.reduce(p + q)
			q = dot4(x1, (*[4]uint32)(e[8+t:]))
			z[2*t+1] = m.reduce(dot4(xs, (*[4]uint32)(e[15+t:])) - p - q)
		}
	}
}

func karatsubaMul16(dst, a, b []uint32, m *modulus) {
	for l := range lanes {
		x, e, z := (*[24]uint32)(a[24*l:]), (*[46]uint32)(b[46*l:]), (*[16]uint32)(dst[16*l:])
		x0, x1, xs := (*[8]uint32)(x[0:]), (*[8]uint32)(x[8:]), (*[8]uint32)(x[16:])
		q := dot8(x1, (*[8]uint32)(e[15:]))
		for t := range 8 {
			p := dot8(x0, (*[8]uint32)(e[t:]))
			z[2*t] = m.reduce(p + q)
			q = dot8(x1, (*[8]uint32)(e[16+t:]))
			z[2*t+1] = m.reduce(dot8(xs, (*[8]uint32)(e[31+t:])) - p - q)
		}
	}
}
