package program

import (
	"slices"
)

func (e *evaluator) eval(n *node) val {
	if v, ok := e.done[n]; ok || e.err != nil {
		return v
	}
	var v val
	switch n.op {
	case opVar:
		v = e.variable(n)
	case opLin:
		terms := make([]valTerm, len(n.args))
		for i, a := range n.args {
			terms[i] = valTerm{n.coef[i], e.eval(a)}
		}
		e.enter(n)
		v = e.linear(n.c, terms)
	case opProd:
		v = e.product(n)
	case opSum:
		a := e.eval(n.args[0])
		e.enter(n)
		v = e.reduce(a)
	case opDot:
		a := e.eval(n.args[0])
		e.enter(n)
		v = e.dot(a, n.coef)
	case opCov:
		x, y := e.eval(n.args[0]), e.eval(n.args[1])
		e.enter(n)
		v = e.cov(x, y)
	case opPoly:
		a := e.eval(n.args[0])
		e.enter(n)
		v = e.poly(a, n.coef)
	case opCast:
		a := e.eval(n.args[0])
		e.enter(n)
		v = e.cast(a, n.shape)
	case opFleetSum, opFleetMean, opFleetVar:
		v = e.acrossDevices(n)
	case opBins, opJoin, opFleetBins, opCount, opRead:
		v = e.counts(n)
	default:
		e.enter(n)
		e.fail(ErrUnsupported, "", "%s cannot be planned", e.text())
	}
	e.done[n] = v
	return v
}

// cast makes a single value a window, moved so that the window does not reach
// over the last slot.
func (e *evaluator) cast(a val, sh shape) val {
	if e.err != nil {
		return val{}
	}
	if last := e.ch.span() - sh.stride; a.pos > last {
		a.w, a.pos = e.rotate(a.w, a.pos-last), last
	}
	return val{a: a.a, b: a.b, w: e.spread(a.w, a.pos, sh), sh: sh, pos: a.pos, full: sh.n < sh.stride,
		lo: a.lo, hi: a.hi}
}

// enter makes n the part of the program that errors point at. Nodes of a set come from
// several texts; nobody sees its errors.
func (e *evaluator) enter(n *node) {
	if e.packs == nil {
		e.at = n.at
	}
	e.need = e.depths.of(n)
}

func (e *evaluator) variable(n *node) val {
	st := n.stream
	mid, half := st.Channels[n.channel].Affine()
	e.enter(n)
	return val{a: half, b: exactly(mid), w: e.input(n.in, st), sh: n.shape, pos: n.channel * n.shape.stride,
		lo: mid - half, hi: mid + half}
}

// product multiplies powers with the least depth: every power is split into
// squares of squares, and the two shallowest factors are multiplied first.
func (e *evaluator) product(n *node) val {
	var factors []val
	for i, a := range n.args {
		v := e.eval(a)
		e.enter(n)
		for k := n.exps[i]; k > 0 && e.err == nil; k >>= 1 {
			if k&1 == 1 {
				factors = append(factors, v)
			}
			if k > 1 {
				v = e.times(v, v)
			}
		}
	}
	for len(factors) > 1 && e.err == nil {
		slices.SortStableFunc(factors, func(a, b val) int { return e.get(a.w).depth - e.get(b.w).depth })
		factors = append(factors[2:], e.times(factors[0], factors[1]))
	}
	if e.err != nil {
		return val{}
	}
	return factors[0]
}
