package cpu

// Functions of finishCode: forwardLast of x, in its form, and then dst = (from - x)*w
// or with z added.
type (
	finishLast        = func(x *uint32, blocks int, s *uint64, dst, from, z *uint32, w *uint64, q uint32)
	finishCompact     = func(x *uint32, blocks int, s, c *uint64, dst, from, z *uint32, w *uint64, q uint32)
	finishLazy        = func(x *uint32, blocks int, s *uint64, dst, from, z *uint32, w *uint64, m *uint32)
	finishLazyCompact = func(x *uint32, blocks int, s, c *uint64, dst, from, z *uint32, w *uint64, m *uint32)
)

// finishCode is the last five levels of a forward transform together with the end of a
// division: [0] without and [1] with a sum, then for lazy code [0] without and [1]
// with reductions. The number of blocks is a multiple of four.
type finishCode struct {
	last        [2]finishLast
	compact     [2]finishCompact
	lazy        [2][2]finishLazy
	lazyCompact [2][2]finishLazyCompact
}

// quotient is the end of a division: dst = (from - e)*w, plus z unless that is nil,
// for the transform e of a remainder. w points to a Shoup pair, dst may be from.
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
		f.lazyCompact[sum][index(reduced)](x, blocks, &t.stream[9*blocks*b], &t.lanes[0], dst, from, z, d.w, &t.lazy.words[0])
	case t.lanes != nil:
		f.compact[sum](x, blocks, &t.stream[9*blocks*b], &t.lanes[0], dst, from, z, d.w, q)
	case t.lazy != nil:
		f.lazy[sum][index(reduced)](x, blocks, &t.stream[32*blocks*b], dst, from, z, d.w, &t.lazy.words[0])
	default:
		f.last[sum](x, blocks, &t.stream[32*blocks*b], dst, from, z, d.w, q)
	}
}

// divideBy transforms e, from [0, 4q) and in place, and ends the division with it. What
// it leaves in e is of no use.
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
