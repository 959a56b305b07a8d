package program

import "math"

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
			e.fail(ErrConstant, "", "a coefficient of %s is too large once the offset of its argument is folded in",
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
