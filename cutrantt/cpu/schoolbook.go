package cpu

// The schoolbook method reduces each term (paper, Algorithm 9). b is prepared
// as its words followed by w and its Shoup quotient.

func schoolbookKernel(n2 int) *kernel {
	words := n2 + 2
	return &kernel{
		n2: n2, aWords: n2, bWords: words,
		prepA: func(dst, tile []uint32, _ *modulus) { copy(dst, tile) },
		prepB: func(dst, tile []uint32, w *[lanes]shoup, _ *modulus) {
			for l := range lanes {
				e := dst[l*words : (l+1)*words]
				copy(e, tile[l*n2:(l+1)*n2])
				e[n2], e[n2+1] = w[l].w, w[l].s
			}
		},
		mul: func(dst, a, b []uint32, m *modulus) {
			for l := range lanes {
				y := b[l*words : (l+1)*words]
				schoolbook(dst[l*n2:(l+1)*n2], a[l*n2:(l+1)*n2], y[:n2], shoup{y[n2], y[n2+1]}, &m.barrett)
			}
		},
	}
}

// schoolbook sets z = a*b mod X^n - w; all in [0, q).
func schoolbook(z, a, b []uint32, w shoup, m *barrett) {
	n := len(z)
	var c [2 * 16]uint32 // c[n+k] is folded onto z[k]
	for i, x := range a {
		for j, y := range b {
			k := (i + j) & 31
			c[k] = add(c[k], m.mul(x, y), m.q)
		}
	}
	for k := range z {
		z[k] = add(c[k], mulShoup(c[n+k], w, m.q), m.q)
	}
}
