package main

// Products with a constant w are signed: with w' = w*2^31/q rounded to an integer and
// t = x*w'/2^31 rounded (SQRDMULH), x*w - t*q is in
//
//	[-q/2 - |x|*q/2^32, q/2 + |x|*q/2^32],
//
// as each rounding is off by at most 1/2. For |x| < 2^31 that is in (-q, q), so its
// low 32 bits, which MUL and MLS give, are all of it. (Becker, Hwang, Kannwischer,
// Yang, Yang, "Neon NTT", 2022, section 2.4: Barrett multiplication; q < 2^30.)
//
// Reductions are minima without sign: where x is in [-2q, 2q) modulo 2^32, the smaller of x
// and x + 2q is in [0, 2q), and where it is in [0, 4q), that of x and x - 2q.

// twiddle is a constant w, with its quotient w', in vectors or in one lane each.
type twiddle struct{ high, low any }

// pairAt is the i-th pair (quotient, w) in v.
func pairAt(v vreg, i int) twiddle { return twiddle{lane{v, 2 * i}, lane{v, 2*i + 1}} }

// by is d = n op m, m a vreg or a lane.
func (f *function) by(i three, d, n vreg, m any) {
	if l, ok := m.(lane); ok {
		f.opLane(i, d, n, l)
	} else {
		f.op(i, d, n, m.(vreg))
	}
}

// times replaces x, |x| < 2^31, by x*w modulo q in (-q, q).
func (f *function) times(x vreg, w twiddle) {
	t := f.take()
	f.by(rdmulh, t, x, w.high)
	f.by(mul, x, x, w.low)
	f.op(mls, x, t, f.q)
	f.give(t)
}

// least replaces x by the smaller of x and x + c, without sign; less of x and x - c.
func (f *function) least(x, c vreg) { f.smaller(add, x, c) }
func (f *function) less(x, c vreg)  { f.smaller(sub, x, c) }

func (f *function) smaller(op three, x, c vreg) {
	t := f.take()
	f.op(op, t, x, c)
	f.op(minimum, x, x, t)
	f.give(t)
}

// montgomery sets dst to acc/2^32 modulo q in [0, q), for sums acc < 2q*2^32 in the
// lanes of low and high, which are used up. With m = acc/q mod 2^32, acc - m*q is a
// multiple of 2^32 in (-q*2^32, 2q*2^32).
func (f *function) montgomery(dst, low, high, qinv vreg) {
	f.op(uzp1, dst, low, high)
	f.op(mul, dst, dst, qinv)
	f.op(mlsl, low, dst, f.q)
	f.op(mlsl2, high, dst, f.q)
	f.op(uzp2, dst, low, high)
	f.least(dst, f.q2)
	f.less(dst, f.q)
}

// foldAt is 2q*2^32 in both 64-bit lanes: (0, 2q, 0, 2q).
func (f *function) foldAt() vreg {
	v := f.take()
	f.opBy(left64, v, f.q2, 32)
	return v
}

// fold brings sums in [0, 4q*2^32) to [0, 2q*2^32): a minimum of the upper words, as
// the lower ones lose nothing.
func (f *function) fold(acc []vreg, full vreg) {
	for len(acc) > 0 {
		n := min(4, len(acc))
		f.each(n, func(i int) { f.less(acc[i], full) })
		acc = acc[n:]
	}
}
