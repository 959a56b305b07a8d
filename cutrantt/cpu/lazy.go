package cpu

// The lazy method: each output is one dot product, accumulated in 64 bits and
// reduced once: 16 products of residues below 2^30 stay below 2^64.
//
// b is prepared as the sequence w*b[1], ..., w*b[n-1], b[0], ..., b[n-1] and a
// is reversed, so that output t is a times the n words from position t.

func lazyKernel(n2 int) *kernel {
	words := 2*n2 - 1
	return &kernel{
		n2: n2, aWords: n2, bWords: words,
		prepA: func(dst, tile []uint32, _ *modulus) {
			for l := range lanes {
				reverseInto(dst[l*n2:(l+1)*n2], tile[l*n2:(l+1)*n2])
			}
		},
		prepB: func(dst, tile []uint32, w *[lanes]factor, m *modulus) {
			for l := range lanes {
				windows(dst[l*words:(l+1)*words], tile[l*n2:(l+1)*n2], w[l], m.q)
			}
		},
		mul: map[int]func(dst, a, b []uint32, m *modulus){2: lazyMul2, 4: lazyMul4, 8: lazyMul8, 16: lazyMul16}[n2],
	}
}

// reverseInto sets dst[i] = src[n-1-i].
func reverseInto(dst, src []uint32) {
	n := len(src)
	dst = dst[:n]
	for i, x := range src {
		dst[n-1-i] = x
	}
}

// windows prepares b (n words, in [0, q)) in e (2n-1 words) as above.
func windows(e, b []uint32, w factor, q uint32) {
	n := len(b)
	copy(e[n-1:], b)
	for i, x := range b[1:] {
		e[i] = w.mul(x, uint64(q))
	}
}

func lazyMul2(dst, a, b []uint32, m *modulus) {
	for l := range lanes {
		x, e, z := (*[2]uint32)(a[2*l:]), (*[3]uint32)(b[3*l:]), (*[2]uint32)(dst[2*l:])
		z[0] = m.reduce(dot2(x, (*[2]uint32)(e[0:])))
		z[1] = m.reduce(dot2(x, (*[2]uint32)(e[1:])))
	}
}

func lazyMul4(dst, a, b []uint32, m *modulus) {
	for l := range lanes {
		x, e, z := (*[4]uint32)(a[4*l:]), (*[7]uint32)(b[7*l:]), (*[4]uint32)(dst[4*l:])
		for t := range z {
			z[t] = m.reduce(dot4(x, (*[4]uint32)(e[t:])))
		}
	}
}

func lazyMul8(dst, a, b []uint32, m *modulus) {
	for l := range lanes {
		x, e, z := (*[8]uint32)(a[8*l:]), (*[15]uint32)(b[15*l:]), (*[8]uint32)(dst[8*l:])
		for t := range z {
			z[t] = m.reduce(dot8(x, (*[8]uint32)(e[t:])))
		}
	}
}

func lazyMul16(dst, a, b []uint32, m *modulus) {
	for l := range lanes {
		x, e, z := (*[16]uint32)(a[16*l:]), (*[31]uint32)(b[31*l:]), (*[16]uint32)(dst[16*l:])
		for t := range z {
			v := (*[16]uint32)(e[t:])
			z[t] = m.reduce(dot8((*[8]uint32)(x[:]), (*[8]uint32)(v[:])) + dot8((*[8]uint32)(x[8:]), (*[8]uint32)(v[8:])))
		}
	}
}

// The dot products wrap modulo 2^64; callers say why the result does not, or
// that it may.

func dot2(a, b *[2]uint32) uint64 {
	return uint64(a[0])*uint64(b[0]) + uint64(a[1])*uint64(b[1])
}

func dot4(a, b *[4]uint32) uint64 {
	return uint64(a[0])*uint64(b[0]) + uint64(a[1])*uint64(b[1]) +
		uint64(a[2])*uint64(b[2]) + uint64(a[3])*uint64(b[3])
}

func dot8(a, b *[8]uint32) uint64 {
	return uint64(a[0])*uint64(b[0]) + uint64(a[1])*uint64(b[1]) +
		uint64(a[2])*uint64(b[2]) + uint64(a[3])*uint64(b[3]) +
		uint64(a[4])*uint64(b[4]) + uint64(a[5])*uint64(b[5]) +
		uint64(a[6])*uint64(b[6]) + uint64(a[7])*uint64(b[7])
}
