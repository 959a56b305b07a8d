package program

import (
	"math"
	"math/bits"

	"github.com/hencedge/hencedge/evaluator/program/minimax"
)

// poly is sum coef[i]*x^i, with the offset of x folded into the coefficients so
// that powers are taken of the ciphertext alone, whose slots are in [-1, 1] for
// an input.
func (e *evaluator) poly(x val, coef []float64) val {
	if e.err != nil {
		return val{}
	}
	lo, hi := polyRange(coef, x.lo, x.hi)
	q := substitute(coef, x.a, x.b)
	for _, c := range q {
		if !finite(c) {
			e.fail(ErrConstant, "use a narrower range: or smaller coefficients",
				"a coefficient of %s is too large once the offset of its argument is folded in",
				e.text())
			return val{}
		}
	}
	p := &powers{e: e, of: map[int]val{1: {a: 1, w: x.w, sh: x.sh, pos: x.pos, full: x.full}}}
	var out val
	if e.pol.giant && len(q) > 5 {
		baby := 1
		for baby*baby < len(q) {
			baby *= 2
		}
		out = p.split(q, baby)
	} else {
		out = p.linear(q)
	}
	out.lo, out.hi = lo, hi
	return out
}

// powers holds the powers of one value that were made.
type powers struct {
	e  *evaluator
	of map[int]val
}

// get returns the i-th power, i >= 1, in ceil(log2 i) multiplications one after
// another.
func (p *powers) get(i int) val {
	if v, ok := p.of[i]; ok {
		return v
	}
	half := 1
	for half*2 < i {
		half *= 2
	}
	v := p.e.times(p.get(half), p.get(i-half))
	p.of[i] = v
	return v
}

// linear returns sum q[i]*x^i from single powers.
func (p *powers) linear(q []float64) val {
	var terms []valTerm
	for i := 1; i < len(q); i++ {
		if q[i] != 0 {
			terms = append(terms, valTerm{q[i], p.get(i)})
		}
	}
	if len(terms) == 0 {
		one := p.get(1) // a constant; its ciphertext counts zero times
		return val{a: 0, b: exactly(q[0]), w: one.w, sh: one.sh, pos: one.pos}
	}
	return p.e.linear(q[0], terms)
}

// split returns q(x) = high(x)*x^g + low(x) with g the largest baby*2^j below len(q)
// (Paterson and Stockmeyer's scheme, recursively): about 2*sqrt(len(q))
// products of ciphertexts instead of len(q).
func (p *powers) split(q []float64, baby int) val {
	if p.e.err != nil {
		return val{}
	}
	for len(q) > 0 && q[len(q)-1] == 0 {
		q = q[:len(q)-1]
	}
	if len(q) == 0 {
		q = []float64{0}
	}
	if len(q) <= baby {
		return p.linear(q)
	}
	g := baby
	for g*2 < len(q) {
		g *= 2
	}
	high, low := p.split(q[g:], baby), p.split(q[:g], baby)
	x := p.get(g)
	if p.e.err != nil {
		return val{}
	}
	var top val
	if high.a == 0 {
		top = x
		top.a, top.b = x.a*high.b.value(), x.b.times(high.b)
	} else {
		top = p.e.times(high, x)
	}
	terms := []valTerm{{1, top}}
	c := low.b.value()
	if low.a != 0 {
		low.b = double{}
		terms = append(terms, valTerm{1, low})
	}
	return p.e.linear(c, terms)
}

// polyRange bounds a polynomial on [lo, hi] by Taylor's expansion around the
// middle: p(m) plus or minus sum |p_k| r^k.
func polyRange(coef []float64, lo, hi float64) (float64, float64) {
	t := substitute(coef, 1, exactly(lo/2+hi/2))
	r, power, spread := hi/2-lo/2, 1.0, 0.0
	for _, c := range t[1:] {
		power *= r
		spread += math.Abs(c) * power
	}
	return t[0] - spread, t[0] + spread
}

// Signs. The sign of x is a composition of polynomials (package minimax). What is proven of it does not follow noise
// through the composition: each polynomial takes what arrives, noise included, as an exact number, a note in the
// plan. As long as the noise that one polynomial adds stays within the margin of the next, decided values stay
// decided, so that only the error of the last polynomial and its own noise remain. Every slot of the ciphertext
// stays within [-1, 1] throughout, whether it is decided, or read at all.

// certain is the probability that the noise of a slot exceeds a margin: that of any slot in any of
// eight polynomials is the promised one.
func (e *evaluator) certain() float64 { return failure / float64(8*e.ch.slots) }

// exactly returns x as an exact number, whatever its error is.
func (e *evaluator) exactly(x val) val {
	if e.err != nil {
		return val{}
	}
	s := *e.get(x.w)
	s.mag += s.dev.limitAt(e.certain())
	s.op, s.a, s.b, s.k, s.by, s.plain, s.in = stepNote, x.w, 0, s.mag, 0, nil, Input{}
	s.dev, s.roots = deviation{}, nil
	x.w = e.add(s)
	return x
}

// known returns x with what is known of it: the magnitude of its values in every slot, and their error. It reads the
// ciphertext at the scale that makes A 1 or -1, so that A does not grow with every product.
func (e *evaluator) known(x val, most float64, dev deviation, roots set) val {
	if e.err != nil {
		return val{}
	}
	a := math.Abs(x.a)
	dev.fixed += 0x1p-50 * a * e.get(x.w).mag
	x.w, x.a = e.scaleBy(x.w, 1, e.get(x.w).scale/a, a, 0), x.a/a
	s := *e.get(x.w)
	s.op, s.a, s.b, s.k, s.by, s.plain, s.in = stepNote, x.w, 0, most, 1, nil, Input{}
	s.mag = min(s.mag, (most+math.Abs(x.b.value()))/math.Abs(x.a))
	s.dev, s.roots = dev.times(1/x.a), roots
	x.w = e.add(s)
	return x
}

// noiseOf returns the error of x, in its units.
func (e *evaluator) noiseOf(x val) deviation { return e.get(x.w).dev.times(x.a) }

// sign returns the sign of x, of values that are at least res from 0 to within 2^-beta and noise. With beta 0 it is
// as precise as res is to the largest value.
func (e *evaluator) sign(x val, res float64, beta int) val {
	s := e.get(x.w)
	off := math.Abs(x.a) * s.dev.limitAt(e.certain())
	far := math.Abs(x.a)*s.mag + math.Abs(x.b.value()) + off
	switch {
	case e.err != nil:
		return val{}
	case x.lo > 0 || x.hi < 0:
		e.fail(ErrConstant, "compare with a value inside of the range",
			"%s is always the same: what it compares is "+
				"%.6g to %.6g from the threshold", e.text(), x.lo, x.hi)
		return val{}
	case !(off < res/2):
		e.fail(ErrParams, "use a larger log_scale on the streams, or a coarser resolution",
			"%s cannot be decided within %g: the noise there may reach %.2g", e.text(), res, off)
		return val{}
	}
	// Values of res and more are above 7/8 of 2^-alpha with their noise.
	alpha := int(math.Ceil(math.Log2(0.875*far/(res-off)) - 1e-9))
	if beta == 0 {
		beta = max(alpha, 1) + 1
	}
	c, ok := minimax.Find(alpha, beta)
	if !ok {
		e.fail(ErrParams, "use a coarser resolution, or a narrower range on the channels",
			"%s: a resolution of %g for values up to %.4g has %d bits, at most %d can be decided (to 2^-%d)", e.text(),
			res, far, alpha, minimax.MaxAlpha, minimax.MaxBeta)
		return val{}
	}
	e.need += c.Depth()
	roots := s.roots
	y := val{a: x.a / far, b: x.b.times(exactly(1 / far)), w: x.w, sh: x.sh, pos: x.pos, full: x.full}
	for i := range c.Stages {
		st := &c.Stages[i]
		y = (&unit{e: e, of: map[int]val{1: e.exactly(y)}, baby: minimax.Baby(st.Degree())}).poly(st.Coef)
		if e.err != nil {
			return val{}
		}
		if i+1 < len(c.Stages) {
			y.w = e.between(y.w, minimax.Depth(c.Stages[i+1].Degree()))
		}
		noise := e.noiseOf(y)
		limit := noise.limitAt(e.certain())
		if i == len(c.Stages)-1 {
			noise.fixed += c.Error()
			y = e.known(y, st.Most+limit, noise, roots.or(e.get(y.w).roots))
			break
		}
		if !(limit <= c.Stages[i+1].Margin) {
			e.fail(ErrMagnitude, "use a coarser resolution, or parameters with larger scales",
				"%s cannot be decided within %g: the noise may reach %.2g of the range, %.2g is allowed", e.text(), res,
				limit, c.Stages[i+1].Margin)
			return val{}
		}
		y = e.known(y, 1, noise, e.get(y.w).roots)
	}
	y.lo, y.hi = -1-c.Error(), 1+c.Error()
	y.full = y.sh.n < y.sh.stride // where there is no sample, noise may have been decided on
	return y
}

// abs returns the magnitude of x to within res, and what the sign and noise add: nearer than res to 0 its sign is
// anything from 0 to the true one, or where it is wrong, x is below res/2. (Between -Low and Low a stage is odd, and
// concave above 0, so that noise of an eighth of Low, in at most five stages, turns nothing larger round.)
func (e *evaluator) abs(x val, res float64) val {
	switch {
	case e.err != nil || x.lo >= 0:
		return x
	case x.hi <= 0:
		return val{a: -x.a, b: x.b.times(exactly(-1)), w: x.w, sh: x.sh, pos: x.pos, full: x.full, lo: -x.hi, hi: -x.lo}
	}
	noise, roots := e.noiseOf(x), e.get(x.w).roots
	y := e.exactly(x)
	v := e.times(y, e.sign(y, res, 0))
	if e.err != nil {
		return val{}
	}
	noise = noise.with(e.noiseOf(v))
	noise.fixed += res
	far := math.Abs(y.a)*e.get(y.w).mag + math.Abs(y.b.value())
	v = e.known(v, far+noise.limitAt(e.certain()), noise, roots.or(e.get(v.w).roots))
	v.lo, v.hi = 0, max(-x.lo, x.hi)
	return v
}

// largest returns the largest value of a window to within res, or with sign -1 the smallest. Every round compares the
// window with itself, moved by as many samples as each slot has seen.
func (e *evaluator) largest(x val, res, sign float64) val {
	seen, rounds := 1, float64(bits.Len(uint(x.sh.n-1)))
	for seen < x.sh.n && e.err == nil {
		by := min(seen, x.sh.n-seen)
		noise := deviation{fixed: e.noiseOf(x).limitAt(e.certain())} // the larger of two errs by the larger error
		a := e.exactly(x)
		b := a
		b.w = e.rotate(a.w, by)
		d := e.linear(0, []valTerm{{1, a}, {-1, b}})
		d.lo, d.hi = x.lo-x.hi, x.hi-x.lo
		d = e.abs(d, res/rounds)
		m := e.linear(0, []valTerm{{0.5, a}, {0.5, b}, {sign / 2, d}})
		if e.err != nil {
			return val{}
		}
		noise = noise.with(e.noiseOf(m))
		far := math.Abs(a.a)*e.get(a.w).mag + math.Abs(a.b.value())
		m = e.known(m, far+noise.limitAt(e.certain()), noise, e.get(x.w).roots.or(e.get(m.w).roots))
		m.sh, m.pos, m.full, m.lo, m.hi = x.sh, x.pos, true, x.lo, x.hi
		x, seen = m, seen+by
	}
	x.sh, x.full = shape{}, false
	return x
}

// between bootstraps a, the result of a polynomial, if too few levels are left for the next one. Here, unlike
// inside of a polynomial, the next margin takes the error away.
func (p *planner) between(a, levels int) int {
	if p.ch.boot == nil || p.err != nil {
		return a
	}
	if low := p.lower(a); p.get(low).level-p.ch.floor() < levels {
		return p.lower(p.refresh(low))
	}
	return a
}

// unit evaluates polynomials in Chebyshev's basis of a value whose every slot is within [-1, 1].
type unit struct {
	e    *evaluator
	of   map[int]val // T_k
	baby int
}

// get returns T_k: T_2k = 2*T_k^2 - 1 for powers of two, and T_(g+j) = 2*T_g*T_j - T_(g-j) for others.
func (u *unit) get(k int) val {
	if v, ok := u.of[k]; ok || u.e.err != nil {
		return v
	}
	g := 1 << (bits.Len(uint(k)) - 1)
	var v val
	if g == k {
		half := u.get(k / 2)
		v = u.e.inner(half, half, 1, 1)
		v.a, v.b = 2*v.a, v.b.times(exactly(2)).plus(exactly(-1))
	} else {
		v = u.e.inner(u.get(g), u.get(k-g), 1, 1)
		v = u.e.linear(0, []valTerm{{2, v}, {-1, u.get(2*g - k)}})
	}
	v = u.bounded(v, 1)
	u.of[k] = v
	return v
}

// poly returns the sum of coef[k]*T_(2k+1).
func (u *unit) poly(coef []float64) val {
	if u.e.err != nil {
		return val{}
	}
	total := 0.0
	for _, c := range coef {
		total += math.Abs(c)
	}
	var terms []valTerm
	if 2*len(coef)-1 < u.baby {
		for k, c := range coef {
			if c != 0 {
				terms = append(terms, valTerm{c, u.get(2*k + 1)})
			}
		}
	} else {
		g, high, low := minimax.Split(coef)
		sum := 0.0
		for _, c := range high {
			sum += math.Abs(c)
		}
		terms = []valTerm{{1, u.e.inner(u.poly(high), u.get(g), sum, 1)}, {1, u.poly(low)}}
	}
	if u.e.err != nil {
		return val{}
	}
	return u.bounded(u.e.linear(0, terms), total)
}

// bounded returns v, of which the magnitude is known.
func (u *unit) bounded(v val, most float64) val {
	if u.e.err != nil {
		return val{}
	}
	s := u.e.get(v.w)
	limit := math.Abs(v.a) * s.dev.limitAt(u.e.certain())
	return u.e.known(v, most+limit, s.dev.times(v.a), s.roots)
}

// inner returns x*y, of values at one place that are at most most and least in magnitude. It is times with the error
// that follows from these magnitudes, which are smaller than those of the ciphertexts: where the offset of a value is
// 1/2, its ciphertext reaches 3/2.
func (e *evaluator) inner(x, y val, mostX, mostY float64) val {
	if e.err != nil {
		return val{}
	}
	x.w, y.w = e.lower(x.w), e.lower(y.w)
	if e.ch.boot != nil {
		x.w, y.w = e.ready(x.w, y.w)
	}
	m := e.mul(x.w, y.w)
	if e.err != nil {
		return val{}
	}
	s := *e.get(m)
	x.w, y.w = e.drop(x.w, s.level), e.drop(y.w, s.level)
	noise := product(e.noiseOf(x), e.noiseOf(y), mostX, mostY, true)
	out := val{a: x.a * y.a, b: x.b.times(y.b), w: m, sh: x.sh, pos: x.pos}
	out.full = x.full && y.full || x.full && y.b != double{} || y.full && x.b != double{}
	type side struct {
		w int
		r float64
	}
	sides := []side{{x.w, y.b.value() / y.a}, {y.w, x.b.value() / x.a}}
	if x.w == y.w {
		sides = []side{{x.w, sides[0].r + sides[1].r}}
	}
	lost := 0.0
	for _, t := range sides {
		from := e.get(t.w)
		k := math.RoundToEven(t.r * s.scale / from.scale)
		off := math.Abs(t.r-k*from.scale/s.scale)*from.mag + 0x1p-50*math.Abs(t.r)*from.mag
		switch lost += off; {
		case k > 0:
			out.w = e.combine(stepAdd, out.w, e.scaleBy(t.w, k, s.scale, t.r, off), math.Inf(1))
		case k < 0:
			out.w = e.combine(stepSub, out.w, e.scaleBy(t.w, -k, s.scale, -t.r, off), math.Inf(1))
		}
	}
	if e.err != nil {
		return val{}
	}
	noise = noise.noise(math.Abs(out.a) * e.ch.noise.KeySwitch(s.level, s.scale))
	noise.fixed += math.Abs(out.a) * lost
	return e.known(out, mostX*mostY+noise.limitAt(e.certain()), noise, e.get(out.w).roots)
}
