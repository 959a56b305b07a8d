package cpu

import "math/bits"

// inverse undoes forward: in and out in [0, q), and so are all values between
// passes. The levels are Gentleman-Sande, merged two by two; the factor 1/n1 is
// part of the last one. The inverse of twiddle t[m+i] is -t[2m-1-i] (see
// twiddles), so each difference is taken the other way round and the one table
// is read backwards. t has at least n1 entries; scale is inverseScale for n1.
func inverse(a []uint32, t []factor, scale [2]factor, q uint32) {
	n1 := len(a)
	m, size := n1/16, 16 // groups and group size
	inverseFirst(a, t[m:2*m], t[2*m:4*m], t[4*m:8*m], t[8*m:16*m], q)
	for m, size = m/4, 4*size; m >= 2; m, size = m/4, 4*size {
		for i := range m {
			g := a[i*size : (i+1)*size]
			h := size / 4
			inverse4(g[:h], g[h:2*h], g[2*h:3*h], g[3*h:], t[2*m-1-i], t[4*m-1-2*i], t[4*m-2-2*i], q)
		}
	}
	h := n1 / 4
	if m == 1 { // log2 n1 is even
		inverseLast4(a[:h], a[h:2*h], a[2*h:3*h], a[3*h:], scale, t[3], t[2], q)
	} else {
		inverseLast2(a[:2*h], a[2*h:], scale, q)
	}
}

// inverseScale is the pair of factors of the last level: 1/n1 for the sums and
// t[1]/n1 for the (turned) differences.
func (m *modulus) inverseScale(n1 int) [2]factor {
	n := m.inv(uint32(n1))
	root := m.pow(m.psi, 1<<(m.logN-1)) // t[1] = psi^(N/2)
	return [2]factor{m.factor(n), m.factor(m.mul(n, root))}
}

// inverseButterfly is one Gentleman-Sande butterfly with the negated inverse
// twiddle w, lift a multiple of q. For a, b in [0, lift) the sum is in
// [0, 2*lift), below 2^32 for lift <= 2q, and the product in [0, q).
func inverseButterfly(a, b, lift uint32, w factor, q uint64) (_, _ uint32) {
	return a + b, w.mul(b-a+lift, q)
}

// inverse4 is two levels over one group of four quarters: w2 and w3 multiply
// the differences in the halves, then w1 that of the halves; in and out [0, q).
func inverse4(x0, x1, x2, x3 []uint32, w1, w2, w3 factor, q uint32) {
	x1, x2, x3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)]
	q1, q2 := uint64(q), 2*q
	for j := range x0 {
		a, b := inverseButterfly(x0[j], x1[j], q, w2, q1) // [0, 2q), [0, q)
		c, d := inverseButterfly(x2[j], x3[j], q, w3, q1)
		a, x2[j] = inverseButterfly(a, c, q2, w1, q1) // [0, 4q), [0, q)
		b, x3[j] = inverseButterfly(b, d, q, w1, q1)  // [0, 2q), [0, q)
		x0[j], x1[j] = corr(corr(a, q2), q), corr(b, q)
	}
}

// inverseFirst is the first four levels, over groups of 16 neighbours, in and
// out in [0, q). The factors t1 to t4 are those of forwardLast, read backwards.
func inverseFirst(a []uint32, t1, t2, t3, t4 []factor, q uint32) {
	q1, q2 := uint64(q), 2*q
	n := len(t1)
	for i := range n {
		k := n - 1 - i
		x, u, v := (*[16]uint32)(a[16*i:]), (*[4]factor)(t3[4*k:]), (*[8]factor)(t4[8*k:])
		for j := range 4 {
			y, w1 := (*[4]uint32)(x[4*j&15:]), u[3-j]
			a, b := inverseButterfly(y[0], y[1], q, v[(7-2*j)&7], q1)
			c, d := inverseButterfly(y[2], y[3], q, v[(6-2*j)&7], q1)
			a, c = inverseButterfly(a, c, q2, w1, q1)
			b, d = inverseButterfly(b, d, q, w1, q1)
			y[0], y[1], y[2], y[3] = corr(corr(a, q2), q), corr(b, q), c, d
		}
		w := (*[2]factor)(t2[2*k:])
		w1, w2, w3 := t1[k], w[1], w[0]
		for j := range 4 {
			a, b := inverseButterfly(x[j], x[4+j], q, w2, q1)
			c, d := inverseButterfly(x[8+j], x[12+j], q, w3, q1)
			a, x[8+j] = inverseButterfly(a, c, q2, w1, q1)
			b, x[12+j] = inverseButterfly(b, d, q, w1, q1)
			x[j], x[4+j] = corr(corr(a, q2), q), corr(b, q)
		}
	}
}

// inverseLast4 is the last two levels with the scaling; in and out [0, q).
func inverseLast4(x0, x1, x2, x3 []uint32, scale [2]factor, w2, w3 factor, q uint32) {
	x1, x2, x3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)]
	q1, q2, n, w1 := uint64(q), 2*q, scale[0], scale[1]
	for j := range x0 {
		a, b := inverseButterfly(x0[j], x1[j], q, w2, q1) // [0, 2q), [0, q)
		c, d := inverseButterfly(x2[j], x3[j], q, w3, q1)
		a, x2[j] = inverseButterfly(a, c, q2, w1, q1)
		b, x3[j] = inverseButterfly(b, d, q, w1, q1)
		x0[j], x1[j] = n.mul(a, q1), n.mul(b, q1) // from [0, 4q)
	}
}

// inverseLast2 is the last level alone, with the scaling; in and out [0, q).
func inverseLast2(x, y []uint32, scale [2]factor, q uint32) {
	y = y[:len(x)]
	q1, n, w := uint64(q), scale[0], scale[1]
	for j := range x {
		var a uint32
		a, y[j] = inverseButterfly(x[j], y[j], q, w, q1)
		x[j] = n.mul(a, q1) // from [0, 2q)
	}
}

func log2(n int) int { return bits.Len(uint(n)) - 1 }
