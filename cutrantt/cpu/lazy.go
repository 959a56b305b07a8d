package cpu

import "github.com/hencedge/hencedge/cutrantt"

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
			z[t] = m.reduce(
				dot8((*[8]uint32)(x[:]), (*[8]uint32)(v[:])) + dot8((*[8]uint32)(x[8:]), (*[8]uint32)(v[8:])),
			)
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

// Products with n2 > 1 by vector code are this method with blocks in lanes: with the windows e =
// w*b_1, ..., w*b_(n2-1), b_0, ..., b_(n2-1), each a
// column of n1 blocks, column t of a product is the sum over i of a_i times window
// t + n2-1 - i. That is one inner product (vectorCode.inner) with a as its terms,
// which reads the windows backwards. The windows stand in pieces like the
// polynomials of an operand, and carry the factor 2^32.

// lazyVector reports whether products with n2 columns are done so. Other methods that
// are asked for by name stay what they are.
func (r *ring) lazyVector(n2 int) bool {
	return r.vec != nil && n2 > 1 && (r.method == cutrantt.MethodAuto || r.method == cutrantt.MethodLazy)
}

// windowWords is the length of the windows of one limb.
func (r *ring) windowWords(n2 int) int { return (2*n2 - 1) * (r.n / n2) }

// setWindows sets e to the windows of the limb b.
func (r *ring) setWindows(e, b []uint32, n2 int, m *modulus) {
	c, n1 := r.vec, r.n/n2
	roots := m.vectorTable(c, n1).roots
	buf := getScratch(2 * n1)
	defer buf.put()
	col, turned := buf.words[:n1], buf.words[n1:]
	place := func(window int, x []uint32) {
		for at := 0; at < n1; at += c.piece {
			copy(e[at*(2*n2-1)+window*c.piece:][:c.piece], x[at:])
		}
	}
	factor := m.shoup(m.montgomery(1))
	for j := range n2 {
		c.scale(&col[0], &b[j*n1], n1, &factor, m.q)
		place(n2-1+j, col)
		if j > 0 { // (b*2^32) * (w*2^32) / 2^32
			c.inner[0](&turned[0], &col[0], &roots[0], 0, 0, 0, c.piece, 1, n1, uint32(m.qinv), m.q)
			place(j-1, turned)
		}
	}
}

// mulWindows sets z to the product of the limb a and what has the windows e; z is
// apart from both.
func (r *ring) mulWindows(z, a, e []uint32, n2 int, m *modulus) {
	c, n1 := r.vec, r.n/n2
	for t := range n2 {
		c.inner[0](
			&z[t*n1], &a[0], &e[(t+n2-1)*c.piece], 0, n1, -c.piece, (2*n2-1)*c.piece, n2, n1, uint32(m.qinv), m.q,
		)
	}
}

// hadamardWindows is Mul or, with acc, MulAdd.
func (r *ring) hadamardWindows(dst, a, b *cutrantt.Batch, acc bool, n2 int) {
	limbs, words := dst.Limbs(), r.windowWords(n2)
	r.eachLimb(dst.Polys(), len(limbs), n2*r.n, func(p, l int) {
		m, z := r.moduli[limbs[l]], r.limb(dst, p, l)
		buf := getScratch(words + r.n)
		defer buf.put()
		e, product := buf.words[:words], buf.words[words:]
		r.setWindows(e, r.source(b, p, l), n2, m)
		r.mulWindows(product, r.source(a, p, l), e, n2, m)
		if acc {
			r.vec.add(&z[0], &z[0], &product[0], r.n, m.q)
		} else {
			copy(z, product)
		}
	})
}

// operandWindows is MulOperand for limb l of dst, at position at of o.
func (r *ring) operandWindows(dst, a *cutrantt.Batch, o *operand, l, at, n2 int) {
	m, terms, results := r.moduli[dst.Limbs()[l]], a.Polys(), dst.Polys()
	buf := getScratch((results + 1) * r.n) // a may be dst
	defer buf.put()
	row := func(j int) []uint32 { return buf.words[j*r.n : (j+1)*r.n] }
	for i := range terms {
		for j := range results {
			to := row(j)
			if i > 0 {
				to = row(results)
			}
			r.mulWindows(to, r.limb(a, i, l), o.at(i*results+j, at), n2, m)
			if i > 0 {
				r.vec.add(&row(j)[0], &row(j)[0], &to[0], r.n, m.q)
			}
		}
	}
	for j := range results {
		copy(r.limb(dst, j, l), row(j))
	}
}
