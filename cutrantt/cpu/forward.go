package cpu

// forward transforms one column of n1 = len(a) residues in place: input in
// [0, q), output in [0, q), block order of cutrantt.Modulus. The levels are
// Cooley-Tukey with Harvey's lazy ranges: every value between levels is in
// [0, 4q), which fits as q < 2^30. Two levels are merged into one pass over
// the data (radix 4); where log2 n1 is odd one radix-2 level comes first.
// t has at least n1 entries.
func forward(a []uint32, t []shoup, q uint32) {
	n1 := len(a)
	m, size := 1, n1 // groups and group size
	if log2(n1)&1 == 1 {
		forward2(a[:n1/2], a[n1/2:], t[1], q)
		m, size = 2, n1/2
	}
	for ; size > 4; m, size = 4*m, size/4 {
		for i := range m {
			g := a[i*size : (i+1)*size]
			h := size / 4
			forward4(g[:h], g[h:2*h], g[2*h:3*h], g[3*h:], t[m+i], t[2*m+2*i], t[2*m+2*i+1], q)
		}
	}
	forwardLast(a, t[m:2*m], t[2*m:4*m], q)
}

// forward2 is a radix-2 level over one group: x, y in [0, q) to [0, 3q).
func forward2(x, y []uint32, w shoup, q uint32) {
	y = y[:len(x)]
	for j, u := range x {
		v := mulLazy(y[j], w, q) // [0, 2q)
		x[j] = u + v             // [0, 3q)
		y[j] = u - v + 2*q       // (0, 3q)
	}
}

// forward4 is two levels over one group of four quarters: w1 multiplies the
// upper half, then w2 and w3 the odd quarters. In and out: [0, 4q).
func forward4(x0, x1, x2, x3 []uint32, w1, w2, w3 shoup, q uint32) {
	x1, x2, x3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)]
	for j := range x0 {
		x0[j], x1[j], x2[j], x3[j] = butterfly4(x0[j], x1[j], x2[j], x3[j], w1, w2, w3, q)
	}
}

// butterfly4 takes and gives values in [0, 4q).
func butterfly4(a, b, c, d uint32, w1, w2, w3 shoup, q uint32) (_, _, _, _ uint32) {
	q2 := 2 * q
	a, b = corr(a, q2), corr(b, q2)                    // [0, 2q)
	c, d = mulLazy(c, w1, q), mulLazy(d, w1, q)        // [0, 2q)
	a, c = corr(a+c, q2), a-c+q2                       // [0, 2q), (0, 4q)
	b, d = mulLazy(b+d, w2, q), mulLazy(b-d+q2, w3, q) // [0, 2q), from [0, 4q)
	c = corr(c, q2)                                    // [0, 2q)
	return a + b, a - b + q2, c + d, c - d + q2        // [0, 4q)
}

// forwardLast is the last two levels, over groups of four neighbours, with the
// full reduction: [0, 4q) to [0, q). t1 has one factor a group, t2 two.
func forwardLast(a []uint32, t1, t2 []shoup, q uint32) {
	for i, w1 := range t1 {
		g, w := (*[4]uint32)(a[4*i:]), (*[2]shoup)(t2[2*i:])
		x0, x1, x2, x3 := butterfly4(g[0], g[1], g[2], g[3], w1, w[0], w[1], q)
		g[0], g[1] = corr(corr(x0, 2*q), q), corr(corr(x1, 2*q), q)
		g[2], g[3] = corr(corr(x2, 2*q), q), corr(corr(x3, 2*q), q)
	}
}
