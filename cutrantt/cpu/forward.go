package cpu

// forward transforms one column of n1 = len(a) residues in place: input in
// [0, q), output in [0, q), block order of cutrantt.Modulus. The levels are
// Cooley-Tukey, merged two by two (radix 4) in one pass over the data; where
// log2 n1 is odd one radix-2 level comes first. Between passes values are in
// [0, 4q), which fits in 32 bits as q < 2^30. t has at least n1 entries.
func forward(a []uint32, t []factor, q uint32) {
	n1 := len(a)
	m, size := 1, n1 // groups and group size
	if log2(n1)&1 == 1 {
		forward2(a[:n1/2], a[n1/2:], t[1], q)
		m, size = 2, n1/2
	}
	for ; size > 16; m, size = 4*m, size/4 {
		for i, w1 := range t[m : 2*m] {
			g, w := a[i*size:(i+1)*size], (*[2]factor)(t[2*m+2*i:])
			h := size / 4
			forward4(g[:h], g[h:2*h], g[2*h:3*h], g[3*h:], w1, w[0], w[1], q)
		}
	}
	forwardLast(a, t[m:2*m], t[2*m:4*m], t[4*m:8*m], t[8*m:16*m], q)
}

// butterfly is one Cooley-Tukey butterfly. For a in [0, kq), k <= 3, and any b
// the results are in [0, (k+1)q), as the product is in [0, q).
func butterfly(a, b uint32, w factor, q uint64) (_, _ uint32) {
	v := w.mul(b, q)
	return a + v, a - v + uint32(q)
}

// forward2 is a radix-2 level over one group: [0, q) to [0, 2q).
func forward2(x, y []uint32, w factor, q uint32) {
	y = y[:len(x)]
	for j := range x {
		x[j], y[j] = butterfly(x[j], y[j], w, uint64(q))
	}
}

// forward4 is two levels over one group of four quarters: w1 multiplies the
// upper half, then w2 and w3 the odd quarters. In and out: [0, 4q).
func forward4(x0, x1, x2, x3 []uint32, w1, w2, w3 factor, q uint32) {
	x1, x2, x3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)]
	q1, q2 := uint64(q), 2*q
	for j := range x0 {
		a, c := butterfly(corr(x0[j], q2), x2[j], w1, q1) // [0, 3q)
		b, d := butterfly(corr(x1[j], q2), x3[j], w1, q1) // [0, 3q)
		x0[j], x1[j] = butterfly(a, b, w2, q1)            // [0, 4q)
		x2[j], x3[j] = butterfly(c, d, w3, q1)
	}
}

// forwardLast is the last four levels, over groups of 16 neighbours: [0, 4q)
// to [0, q). t1, t2, t3, t4 are the factors of the levels; a group takes 1, 2,
// 4 and 8 of them.
func forwardLast(a []uint32, t1, t2, t3, t4 []factor, q uint32) {
	q1, q2 := uint64(q), 2*q
	for i, w1 := range t1 {
		x, w := (*[16]uint32)(a[16*i:]), (*[2]factor)(t2[2*i:])
		w2, w3 := w[0], w[1]
		for j := range 4 {
			a, c := butterfly(corr(x[j], q2), x[8+j], w1, q1)
			b, d := butterfly(corr(x[4+j], q2), x[12+j], w1, q1)
			x[j], x[4+j] = butterfly(a, b, w2, q1)
			x[8+j], x[12+j] = butterfly(c, d, w3, q1)
		}
		u, v := (*[4]factor)(t3[4*i:]), (*[8]factor)(t4[8*i:])
		for j, w1 := range u {
			y := (*[4]uint32)(x[4*j&15:])
			a, c := butterfly(corr(y[0], q2), y[2], w1, q1)
			b, d := butterfly(corr(y[1], q2), y[3], w1, q1)
			a, b = butterfly(a, b, v[2*j&7], q1)
			c, d = butterfly(c, d, v[2*j&7+1], q1)
			y[0], y[1] = corr(corr(a, q2), q), corr(corr(b, q2), q)
			y[2], y[3] = corr(corr(c, q2), q), corr(corr(d, q2), q)
		}
	}
}
