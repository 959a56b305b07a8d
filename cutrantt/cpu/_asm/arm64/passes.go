package main

import "fmt"

const passArgs = "dst, src *uint32, size, first, groups int, t *uint64, q uint32"

func passes(g *file) {
	for k := 1; k <= 3; k++ {
		f := g.modular(fmt.Sprintf("forward%d", k), passArgs,
			fmt.Sprintf(`is %d levels of the forward transform over groups of %d parts of size
residues, from src to dst, which are equal or apart: (-2q, 2q) to (-2q, 2q), signed. The
twiddles of the first group have index first in the outermost level.`, k, 1<<k))
		f.pass(k, 1, nil, f.levels)
	}
	for k := 1; k <= 3; k++ {
		f := g.modular(fmt.Sprintf("inverse%d", k), passArgs,
			fmt.Sprintf(`undoes forward%d. In and out, the first half of a group is in [0, 2q) and the
second in (-q, q), in the input group by group of the pass before, so that the halves
are those of a part. The twiddles are read backwards: first is the mirrored index
2m-1-i of group i of m.`, k))
		f.undo(k, nil)
	}
	for k := 1; k <= 3; k++ {
		f := g.modular(fmt.Sprintf("inverseEnd%d", k), passArgs+", scale *uint64",
			fmt.Sprintf(`is inverse%d for the last levels, with one group and with results in [0, q). scale
is the pair of factors of the sums and of the differences of the last level.`, k))
		v, p := f.take(), f.param("scale")
		f.load(v, p, 0)
		f.undo(k, &v)
	}
}

// levels is the levels of a pass of the forward transform.
func (f *function) levels(x []vreg, w [][]twiddle) {
	for j := range w {
		f.level(x, len(x)>>(j+1), w[j])
	}
}

// undo is a pass of the inverse, the last one if there is a scale.
func (f *function) undo(k int, scale *vreg) {
	minus, turn := f.take(), f.take()
	f.op1(negate, minus, f.q2)
	f.move(turn, minus)
	f.pass(k, -1, &turn, func(x []vreg, w [][]twiddle) {
		for j := k - 1; j >= 0; j-- {
			d := len(x) >> (j + 1)
			f.each(len(x)/2, func(i int) {
				s, at := i/d, i/d*2*d+i%d
				c := turn
				switch { // the level before left sums, or products
				case j < k-1 && i%d < d/2:
					c = minus
				case j < k-1:
					c = f.q2
				}
				if j == 0 && scale != nil {
					f.inverseEnd(x[at], x[at+d], c, *scale)
				} else {
					f.inverseButterfly(x[at], x[at+d], c, w[j][1<<j-1-s])
				}
			})
		}
	})
}

// level is the butterflies of a group x at distance d; w are the twiddles of its parts.
func (f *function) level(x []vreg, d int, w []twiddle) {
	sums := f.takeAll(len(x) / 2)
	f.each(len(x)/2, func(i int) {
		at := i/d*2*d + i%d
		f.butterfly(&x[at], &x[at+d], &sums[i], w[i/d])
	})
	f.give(sums...)
}

// butterfly is the Cooley-Tukey butterfly (a + w*b, a - w*b): (-2q, 2q) to (-2q, 2q),
// with a in [-q, q) on the way; lazy, |a| grows by less than q. sum is a register that a takes.
func (f *function) butterfly(a, b, sum *vreg, w twiddle) {
	f.times(*b, w)
	if !f.lazy {
		f.least(*a, f.q2)
		f.op(sub, *a, *a, f.q)
	}
	f.op(add, *sum, *a, *b)
	f.op(sub, *b, *a, *b)
	*a, *sum = *sum, *a
}

// inverseButterfly is the Gentleman-Sande butterfly (a + b, w*(b - a)) with the
// negated inverse twiddle. a and b are both in [0, 2q), and c is -2q, or both in
// (-q, q), and c is 2q; the sum is in [0, 2q), the product in (-q, q).
func (f *function) inverseButterfly(a, b, c vreg, w twiddle) {
	t := f.take()
	f.op(add, t, a, b)
	f.op(sub, b, b, a)
	f.op(add, a, t, c)
	f.op(minimum, a, a, t)
	f.give(t)
	f.times(b, w)
}

// inverseEnd is inverseButterfly for the last level, with both results scaled and in
// [0, q).
func (f *function) inverseEnd(a, b, c, scale vreg) {
	f.inverseButterfly(a, b, c, pairAt(scale, 1))
	f.times(a, pairAt(scale, 0))
	f.least(a, f.q)
	f.least(b, f.q)
}

// pass is the common frame of the passes that merge k levels whose distances are
// whole vectors. A group has 1<<k parts of size residues; its twiddles are those of
// index first (going up or down by step for the next group) of the outermost level,
// two from twice that index of the next level, and so on. body works on the parts x of
// a group in place with w[level][i]. turn is negated after each half of the parts.
func (f *function) pass(k, step int, turn *vreg, body func(x []vreg, w [][]twiddle)) {
	dst, src, size, groups := f.param("dst"), f.param("src"), f.bytes("size"), f.param("groups")
	levels := make([]xreg, k)
	t, first := f.param("t"), f.param("first")
	for j := range levels {
		levels[j] = f.scalar()
		f.line("ADD %v<<%d, %v, %v", first, 3+j, t, levels[j])
	}
	n, halves := t, first // used up
	parts := make([]xreg, 1<<k)
	parts[0] = -1
	for i := 1; i < len(parts); i++ {
		if parts[i] = size; i > 1 {
			parts[i] = f.scalar()
			f.line("ADD %v, %v, %v", size, parts[i-1], parts[i])
		}
	}
	tables := f.takeAll([]int{0, 1, 2, 4}[k])
	x := f.takeAll(len(parts))
	f.loop(groups, 1, func() {
		w := make([][]twiddle, k)
		for j := range w {
			switch j {
			case 0:
				f.load64(tables[0], levels[0], 0)
			case 1:
				f.load(tables[1], levels[1], 0)
			default:
				f.loadPair(tables[2], tables[3], levels[2], 0)
			}
			for i := range 1 << j {
				w[j] = append(w[j], pairAt(tables[j+i/2], i%2))
			}
		}
		vectors := func() {
			f.loop(n, 16, func() {
				f.load(x[0], src, 0)
				for i, p := range parts[1:] {
					f.loadAt(x[i+1], src, p)
				}
				body(x, w)
				f.store(x[0], dst, 0)
				for i, p := range parts[1:] {
					f.storeAt(x[i+1], dst, p)
				}
				f.advance(src, 16)
				f.advance(dst, 16)
			})
		}
		if turn == nil {
			f.line("MOVD %v, %v", size, n)
			vectors()
		} else {
			f.line("MOVD $2, %v", halves)
			f.loop(halves, 1, func() {
				f.line("LSR $1, %v, %v", size, n)
				vectors()
				f.op1(negate, *turn, *turn)
			})
		}
		for _, p := range []xreg{src, dst} { // to the next group: over the other parts
			f.line("ADD %v, %v", parts[len(parts)-1], p)
		}
		for j, l := range levels {
			f.advance(l, step*8<<j)
		}
	})
}
