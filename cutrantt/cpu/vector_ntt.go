package cpu

// vectorBlock is the size of the blocks of the last levels of a column; its columns
// have at least two (MinLogN and MaxN2 leave 64 rows).
const vectorBlock = 32

// vectorTable holds the twiddles of n1-point columns as pairs: w in the high half and
// in the low one its quotient, floor(w*2^32/q) or what vectorCode.pair makes.
type vectorTable struct {
	pairs  []uint64  // the first n1/32, as in modulus.twiddles
	stream []uint64  // 32 words for each block of 32, for the last five levels
	scale  [2]uint64 // 1/n1 and t[1]/n1
	roots  []uint32  // times 2^32: block b is modulo X^n2 - roots[b]; for n2 > 1
}

// vectorTable returns the table for n1-point columns.
func (m *modulus) vectorTable(c *vectorCode, n1 int) *vectorTable {
	at := &m.vectors[c.index][log2(n1)]
	if t := at.Load(); t != nil {
		return t
	}
	m.grow.Lock()
	defer m.grow.Unlock()
	if t := at.Load(); t != nil {
		return t
	}
	w, blocks := m.powers(n1), n1/vectorBlock
	t := &vectorTable{pairs: make([]uint64, blocks), stream: make([]uint64, n1)}
	for k := range t.pairs {
		t.pairs[k] = c.pair(&m.barrett, w[k])
	}
	n := m.inv(uint32(n1))
	t.scale = [2]uint64{c.pair(&m.barrett, n), c.pair(&m.barrett, m.mul(n, w[1]))}
	for b := range blocks {
		c.fill(m, t.stream[32*b:32*(b+1)], w, b)
	}
	if log2(n1) < m.logN {
		t.roots = make([]uint32, n1)
		for g, w := range w[n1/2:] {
			t.roots[2*g] = m.montgomery(w)
			t.roots[2*g+1] = neg(t.roots[2*g], m.q)
		}
	}
	at.Store(t)
	return t
}

// twiddle is the factor of a group of neighbours of block b, at a distance of the last
// five levels; w are the powers of an n1-point column.
func twiddle(w []uint32, distance, b, group int) uint32 {
	return w[len(w)/2/distance+b*(vectorBlock/2/distance)+group]
}

// blockLimit is the size of a part of a column that is finished before the next one
// begins, so that it stays in the first-level cache.
const blockLimit = 4096

// levelPlan splits levels into passes of at most most, 2 or 3.
func levelPlan(levels, most int) (ks [6]int, n int) {
	for ; levels > 0; n++ {
		k := min(most, levels)
		if levels == 4 {
			k = 2
		}
		ks[n], levels = k, levels-k
	}
	return ks, n
}

// farColumn is the size of columns whose twiddles are fetched ahead: from here on
// they come from beyond the second-level cache. (Times of 57 limbs of 2^16 fall by a
// quarter; at 2^13 the instructions cost 3 %.)
const farColumn = 1 << 15

// endCode selects the code of the last five levels for blocks of an n1-point column.
func endCode(blocks, n1 int) int {
	switch {
	case blocks%4 != 0:
		return 0
	case n1 < farColumn:
		return 1
	}
	return 2
}

// transform is the forward transform of a column, from src to dst, which are equal or apart:
// in and out in [0, q).
func (c *vectorCode) transform(dst, src []uint32, m *modulus) {
	n1 := len(dst)
	t := m.vectorTable(c, n1)
	ks, n := levelPlan(log2(n1)-5, c.merged)
	size, groups, from := n1, 1, &src[0]
	i := 0
	for ; i < n && (i == 0 || size > blockLimit); i++ {
		c.forward[ks[i]](&dst[0], from, size>>ks[i], groups, groups, &t.pairs[0], m.q)
		from, size, groups = &dst[0], size>>ks[i], groups<<ks[i]
	}
	if i == n {
		size, groups = n1, 1 // the last levels of all parts in one go
	}
	for b := range groups {
		part, inner := dst[b*size:(b+1)*size], 1
		for j := i; j < n; j++ {
			k := ks[j]
			c.forward[k](&part[0], &part[0], size/inner>>k, (groups+b)*inner, inner, &t.pairs[0], m.q)
			inner <<= k
		}
		c.forwardLast[endCode(size/vectorBlock, n1)](&part[0], size/vectorBlock, &t.stream[b*size], m.q)
	}
}

// invert undoes transform.
func (c *vectorCode) invert(dst, src []uint32, m *modulus) {
	n1 := len(dst)
	t := m.vectorTable(c, n1)
	ks, n := levelPlan(log2(n1)-5, c.merged)
	size, groups := n1, 1
	i := 0
	for ; i < n && (i == 0 || size > blockLimit); i++ {
		size, groups = size>>ks[i], groups<<ks[i]
	}
	if i == n {
		size, groups = n1, 1
	}
	for b := range groups {
		mirror := groups - 1 - b
		part, inner := dst[b*size:(b+1)*size], size/vectorBlock
		c.inverseFirst[endCode(inner, n1)](&part[0], &src[b*size], inner, &t.stream[(mirror+1)*size-vectorBlock], m.q)
		for j := n - 1; j >= i; j-- {
			k := ks[j]
			inner >>= k
			c.inverse[k](&part[0], &part[0], size/inner>>k, (groups+mirror+1)*inner-1, inner, &t.pairs[0], m.q)
		}
	}
	groups = n1 / vectorBlock
	for j := n - 1; j > 0; j-- {
		k := ks[j]
		groups >>= k
		if j < i {
			c.inverse[k](&dst[0], &dst[0], n1/groups>>k, 2*groups-1, groups, &t.pairs[0], m.q)
		}
	}
	c.inverseEnd[ks[0]](&dst[0], &dst[0], n1>>ks[0], 1, 1, &t.pairs[0], m.q, &t.scale[0])
}
