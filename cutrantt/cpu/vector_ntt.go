package cpu

// vectorBlock is the size of the blocks of the last five levels of a column. Every column
// has at least two of them, since MinLogN and MaxN2 leave 64 rows.
const vectorBlock = 32

// vectorTable holds the twiddles of n1-point columns as pairs: the twiddle w in the high
// half, its quotient in the low half. vectorCode.pair makes the pairs; for lazy code
// modulus.lazyPair does.
type vectorTable struct {
	lazy   *lazyPrime // nil: the code for all primes
	pairs  []uint64   // the first n1/32, as in modulus.twiddles
	stream []uint64   // for the last five levels of blocks of 32: 32 words a block, or 9
	lanes  []uint64   // not nil: stream is compact, and these are its constants
	scale  [2]uint64  // 1/n1 and t[1]/n1, as vectorCode.pair makes them
	roots  []uint32   // times 2^32: block b is modulo X^n2 - roots[b]; for n2 > 1
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
	t := &vectorTable{lazy: m.lazyPrime(c), pairs: make([]uint64, blocks)}
	pair := func(w uint32) uint64 { return c.pair(&m.barrett, w) }
	n := m.inv(uint32(n1))
	t.scale = [2]uint64{pair(n), pair(m.mul(n, w[1]))}
	if t.lazy != nil && !c.lazy.forwardOnly {
		pair = m.lazyPair
	}
	for k := range t.pairs {
		t.pairs[k] = pair(w[k])
	}
	if c.compact != nil && n1 >= c.compact.from {
		t.stream, t.lanes = c.compact.fill(w, pair)
	} else {
		t.stream = make([]uint64, n1)
		for b := range blocks {
			c.fill(t.stream[32*b:32*(b+1)], w, b, pair)
		}
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

// twiddle returns the factor of a group of neighbours of block b, at a distance of the
// last five levels. w holds the powers of an n1-point column.
func twiddle(w []uint32, distance, b, group int) uint32 {
	return w[len(w)/2/distance+b*(vectorBlock/2/distance)+group]
}

// TableBytes returns how many bytes the tables of transforms of n residues, a power of
// two, take for one prime in the code that New selects.
func TableBytes(n int) int {
	const word = 8
	pairs := n / vectorBlock
	switch c := selected().vec; {
	case c == nil:
		return word * n
	case c.compact != nil && n >= c.compact.from:
		return word * (pairs + compactWords*pairs)
	}
	return word * (pairs + n)
}

// blockLimit is the most residues of a part of a column. A part is finished before the
// next one begins, so that it stays in the first-level cache.
const blockLimit = 4096

// levelPlan splits levels into passes of at most most levels each, with most 2 or 3.
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

// compactWords is the number of words that a block has in a compact stream.
const compactWords = 9

// transform writes the forward transform of the column src to dst. The two are the same
// slice or do not overlap. Inputs lie in [0, 4q), outputs in [0, q).
func (c *vectorCode) transform(dst, src []uint32, m *modulus) { c.forwardTo(dst, src, m, nil) }

// forwardTo does what transform does. If d is not nil, dst is working memory and the
// result goes to the end of a division.
func (c *vectorCode) forwardTo(dst, src []uint32, m *modulus, d *quotient) {
	n1 := len(dst)
	t := m.vectorTable(c, n1)
	ks, n := levelPlan(log2(n1)-5, c.merged)
	var reduced [len(ks) + 1]bool
	if t.lazy != nil {
		reduced = t.lazy.reductions(ks[:n])
	}
	size, groups, from := n1, 1, &src[0]
	i := 0
	for ; i < n && (i == 0 || size > blockLimit); i++ {
		c.pass(t, ks[i], reduced[i], &dst[0], from, size>>ks[i], groups, groups, m.q)
		from, size, groups = &dst[0], size>>ks[i], groups<<ks[i]
	}
	if i == n {
		size, groups = n1, 1 // the last levels of all parts in one go
	}
	for b := range groups {
		part, inner := dst[b*size:(b+1)*size], 1
		for j := i; j < n; j++ {
			k := ks[j]
			c.pass(t, k, reduced[j], &part[0], &part[0], size/inner>>k, (groups+b)*inner, inner, m.q)
			inner <<= k
		}
		if d != nil {
			c.finish.end(t, &part[0], size/vectorBlock, b, reduced[n], m.q, d, b*size)
			continue
		}
		c.last(t, &part[0], size/vectorBlock, b, reduced[n], m.q)
	}
}

// last computes the last five levels of part b of a column, in parts of that many blocks.
func (c *vectorCode) last(t *vectorTable, x *uint32, blocks, b int, reduced bool, q uint32) {
	r, four := index(reduced), index(blocks%4 == 0)
	switch {
	case t.lanes != nil && t.lazy != nil:
		c.lazy.compactLast[r](x, blocks, &t.stream[compactWords*blocks*b], &t.lanes[0], &t.lazy.words[0])
	case t.lanes != nil:
		c.compact.forwardLast(x, blocks, &t.stream[compactWords*blocks*b], &t.lanes[0], q)
	case t.lazy != nil:
		c.lazy.forwardLast[r][four](x, blocks, &t.stream[32*blocks*b], &t.lazy.words[0])
	default:
		c.forwardLast[four](x, blocks, &t.stream[32*blocks*b], q)
	}
}

// first computes the first five levels of the inverse of a part that has the twiddles of
// part b.
func (c *vectorCode) first(t *vectorTable, dst, src *uint32, blocks, b int, q uint32) {
	four := index(blocks%4 == 0)
	switch {
	case t.lanes != nil && t.lazy != nil:
		c.lazy.compactFirst[t.lazy.class](
			dst, src, blocks, &t.stream[compactWords*(blocks*(b+1)-1)], &t.lanes[0], &t.lazy.words[0],
		)
	case t.lanes != nil:
		c.compact.inverseFirst(dst, src, blocks, &t.stream[compactWords*(blocks*(b+1)-1)], &t.lanes[0], q)
	case t.lazy != nil && !c.lazy.forwardOnly:
		c.lazy.inverseFirst[t.lazy.class][four](dst, src, blocks, &t.stream[32*(blocks*(b+1)-1)], &t.lazy.words[0])
	default:
		c.inverseFirst[four](dst, src, blocks, &t.stream[32*(blocks*(b+1)-1)], q)
	}
}

// pass computes k levels of the forward transform.
func (c *vectorCode) pass(t *vectorTable, k int, reduced bool, dst, src *uint32, size, first, groups int, q uint32) {
	if t.lazy != nil {
		c.lazy.forward[index(reduced)][k](dst, src, size, first, groups, &t.pairs[0], &t.lazy.words[0])
		return
	}
	c.forward[k](dst, src, size, first, groups, &t.pairs[0], q)
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// invert undoes transform. Inputs and outputs lie in [0, q). scale is nil, or the table's
// scale times a constant; the result is then multiplied by that constant.
func (c *vectorCode) invert(dst, src []uint32, m *modulus, scale *[2]uint64) {
	n1 := len(dst)
	t := m.vectorTable(c, n1)
	if scale == nil {
		scale = &t.scale
	}
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
		c.first(t, &part[0], &src[b*size], inner, mirror, m.q)
		for j := n - 1; j >= i; j-- {
			k := ks[j]
			inner >>= k
			c.undo(t, k, &part[0], size/inner>>k, (groups+mirror+1)*inner-1, inner, m.q)
		}
	}
	groups = n1 / vectorBlock
	for j := n - 1; j > 0; j-- {
		k := ks[j]
		groups >>= k
		if j < i {
			c.undo(t, k, &dst[0], n1/groups>>k, 2*groups-1, groups, m.q)
		}
	}
	if k := ks[0]; t.lazy != nil && !c.lazy.forwardOnly {
		c.lazy.inverseEnd[t.lazy.class][k](&dst[0], &dst[0], n1>>k, 1, 1, &t.pairs[0], &t.lazy.words[0], &scale[0])
	} else {
		c.inverseEnd[k](&dst[0], &dst[0], n1>>k, 1, 1, &t.pairs[0], m.q, &scale[0])
	}
}

// undo computes k levels of the inverse, in place.
func (c *vectorCode) undo(t *vectorTable, k int, x *uint32, size, first, groups int, q uint32) {
	if t.lazy != nil && !c.lazy.forwardOnly {
		c.lazy.inverse[t.lazy.class][k](x, x, size, first, groups, &t.pairs[0], &t.lazy.words[0])
		return
	}
	c.inverse[k](x, x, size, first, groups, &t.pairs[0], q)
}

// The functions of finishCode compute forwardLast of x, in its form, and then
// dst = (from - x)*w or dst = (from - x)*w + z.
type (
	finishLast        = func(x *uint32, blocks int, s *uint64, dst, from, z *uint32, w *uint64, q uint32)
	finishCompact     = func(x *uint32, blocks int, s, c *uint64, dst, from, z *uint32, w *uint64, q uint32)
	finishLazy        = func(x *uint32, blocks int, s *uint64, dst, from, z *uint32, w *uint64, m *uint32)
	finishLazyCompact = func(x *uint32, blocks int, s, c *uint64, dst, from, z *uint32, w *uint64, m *uint32)
)

// finishCode holds the functions for the last five levels of a forward transform together
// with the end of a division. The first index is 1 if z is added. The second one, of lazy
// code, is 1 if residues are reduced. The number of blocks is a multiple of four.
type finishCode struct {
	last        [2]finishLast
	compact     [2]finishCompact
	lazy        [2][2]finishLazy
	lazyCompact [2][2]finishLazyCompact
}

// quotient says how a division ends: dst = (from - e)*w, plus z unless that is nil, where e
// is the transform of the remainder. w points to a Shoup pair. dst may be the same slice
// as from.
type quotient struct {
	dst, from, z []uint32
	w            *uint64
}

// end is vectorCode.last for the residues of x that stand at lo in their column.
func (f *finishCode) end(t *vectorTable, x *uint32, blocks, b int, reduced bool, q uint32, d *quotient, lo int) {
	dst, from, z := &d.dst[lo], &d.from[lo], (*uint32)(nil)
	sum := index(d.z != nil)
	if d.z != nil {
		z = &d.z[lo]
	}
	switch {
	case t.lanes != nil && t.lazy != nil:
		f.lazyCompact[sum][index(reduced)](
			x, blocks, &t.stream[9*blocks*b], &t.lanes[0], dst, from, z, d.w, &t.lazy.words[0],
		)
	case t.lanes != nil:
		f.compact[sum](x, blocks, &t.stream[9*blocks*b], &t.lanes[0], dst, from, z, d.w, q)
	case t.lazy != nil:
		f.lazy[sum][index(reduced)](x, blocks, &t.stream[32*blocks*b], dst, from, z, d.w, &t.lazy.words[0])
	default:
		f.last[sum](x, blocks, &t.stream[32*blocks*b], dst, from, z, d.w, q)
	}
}

// divideBy transforms e in place, from residues in [0, 4q), and ends the division with it.
// The contents of e are undefined afterwards.
func (r *ring) divideBy(d *quotient, e []uint32, m *modulus) {
	if r.vec.finish != nil {
		r.vec.forwardTo(e, e, m, d)
		return
	}
	r.forward(e, e, m)
	switch {
	case d.z == nil:
		r.vec.subScale(&d.dst[0], &d.from[0], &e[0], r.n, d.w, m.q)
	case r.vec.subScaleAdd != nil:
		r.vec.subScaleAdd(&d.dst[0], &d.from[0], &e[0], &d.z[0], r.n, d.w, m.q)
	default:
		r.vec.subScale(&d.dst[0], &d.from[0], &e[0], r.n, d.w, m.q)
		r.vec.add(&d.dst[0], &d.dst[0], &d.z[0], r.n, m.q)
	}
}
