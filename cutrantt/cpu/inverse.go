package cpu

import "math/bits"

// inverse undoes forward: in and out in [0, q). The levels are
// Gentleman-Sande with values in [0, 2q) between levels, merged two by two;
// the factor 1/n1 is part of the last one. The inverse of twiddle t[m+i] is
// -t[2m-1-i] (see twiddles), so each difference is taken the other way round
// and the one table is read backwards. t has at least n1 entries; scale is
// inverseScale for this n1.
func inverse(a []uint32, t []shoup, scale [2]shoup, q uint32) {
	n1 := len(a)
	m, size := n1/4, 4 // groups of the upper level of the pass, group size
	inverseFirst(a, t[m:2*m], t[2*m:4*m], q)
	for m, size = m/4, 16; m >= 2; m, size = m/4, size*4 {
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
func (m *modulus) inverseScale(n1 int, t []shoup) [2]shoup {
	n := m.inv(uint32(n1))
	return [2]shoup{newShoup(n, m.q), newShoup(m.mul(n, t[1].w), m.q)}
}

// inverseFirst is the first two levels, over groups of four neighbours, with
// the twiddles read backwards: [0, q) to [0, 2q).
func inverseFirst(a []uint32, t1, t2 []shoup, q uint32) {
	n := len(t1)
	for i := range t1 {
		g, w := (*[4]uint32)(a[4*i:]), (*[2]shoup)(t2[2*(n-1-i):])
		g[0], g[1], g[2], g[3] = inverseButterfly4(g[0], g[1], g[2], g[3], t1[n-1-i], w[1], w[0], q)
	}
}

// inverse4 is two levels over one group of four quarters: w2 and w3 multiply
// the differences in the halves, then w1 that of the halves; [0, 2q) to [0, 2q).
func inverse4(x0, x1, x2, x3 []uint32, w1, w2, w3 shoup, q uint32) {
	x1, x2, x3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)]
	for j := range x0 {
		x0[j], x1[j], x2[j], x3[j] = inverseButterfly4(x0[j], x1[j], x2[j], x3[j], w1, w2, w3, q)
	}
}

// inverseButterfly4 takes and gives values in [0, 2q).
func inverseButterfly4(a, b, c, d uint32, w1, w2, w3 shoup, q uint32) (_, _, _, _ uint32) {
	q2 := 2 * q
	a, b = corr(a+b, q2), mulLazy(b-a+q2, w2, q) // [0, 2q) from [0, 4q)
	c, d = corr(c+d, q2), mulLazy(d-c+q2, w3, q)
	return corr(a+c, q2), corr(b+d, q2), mulLazy(c-a+q2, w1, q), mulLazy(d-b+q2, w1, q)
}

// inverseLast4 is the last two levels with the scaling: [0, 2q) to [0, q).
func inverseLast4(x0, x1, x2, x3 []uint32, scale [2]shoup, w2, w3 shoup, q uint32) {
	x1, x2, x3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)]
	q2, n, w1 := 2*q, scale[0], scale[1]
	for j := range x0 {
		a, b, c, d := x0[j], x1[j], x2[j], x3[j]
		a, b = corr(a+b, q2), mulLazy(b-a+q2, w2, q) // [0, 2q) from [0, 4q)
		c, d = corr(c+d, q2), mulLazy(d-c+q2, w3, q)
		x0[j], x1[j] = mulShoup(a+c, n, q), mulShoup(b+d, n, q) // [0, q) from [0, 4q)
		x2[j], x3[j] = mulShoup(c-a+q2, w1, q), mulShoup(d-b+q2, w1, q)
	}
}

// inverseLast2 is the last level alone, with the scaling: [0, 2q) to [0, q).
func inverseLast2(x, y []uint32, scale [2]shoup, q uint32) {
	y = y[:len(x)]
	for j, u := range x {
		v := y[j]
		x[j] = mulShoup(u+v, scale[0], q)     // from [0, 4q)
		y[j] = mulShoup(v-u+2*q, scale[1], q) // from (0, 4q)
	}
}

func log2(n int) int { return bits.Len(uint(n)) - 1 }
