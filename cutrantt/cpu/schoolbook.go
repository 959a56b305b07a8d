package cpu

// The schoolbook method reduces each term (paper, Algorithm 9). b is prepared
// as its words followed by the two halves of the factor w.

func schoolbookKernel(n2 int) *kernel {
	words := n2 + 2
	return &kernel{
		n2: n2, aWords: n2, bWords: words,
		prepA: func(dst, tile []uint32, _ *modulus) { copy(dst, tile) },
		prepB: func(dst, tile []uint32, w *[lanes]factor, _ *modulus) {
			for l := range lanes {
				e := dst[l*words : (l+1)*words]
				copy(e, tile[l*n2:(l+1)*n2])
				e[n2], e[n2+1] = uint32(w[l]), uint32(w[l]>>32)
			}
		},
		mul: func(dst, a, b []uint32, m *modulus) {
			for l := range lanes {
				y := b[l*words : (l+1)*words]
				schoolbook(dst[l*n2:(l+1)*n2], a[l*n2:(l+1)*n2], y[:n2], factor(y[n2])|factor(y[n2+1])<<32, &m.barrett)
			}
		},
	}
}

// schoolbook sets z = a*b mod X^n - w; all in [0, q).
func schoolbook(z, a, b []uint32, w factor, m *barrett) {
	n := len(z)
	var c [2 * 16]uint32 // c[n+k] is folded onto z[k]
	for i, x := range a {
		for j, y := range b {
			k := (i + j) & 31
			c[k] = add(c[k], m.mul(x, y), m.q)
		}
	}
	for k := range z {
		z[k] = add(c[k], w.mul(c[n+k], uint64(m.q)), m.q)
	}
}
