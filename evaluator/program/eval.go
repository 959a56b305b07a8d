package program

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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
	case opSign, opAbs, opMax:
		v = e.decided(n)
	case opWithin, opTally, opAny:
		v = e.eval(n.args[0])
		e.enter(n)
		v.lo, v.hi = n.coef[0], n.coef[1]
	case opFleetSum, opFleetMean, opFleetVar:
		v = e.acrossDevices(n)
	case opBins, opJoin, opFleetBins, opCount, opRead:
		v = e.counts(n)
	default:
		e.enter(n)
		e.fail(ErrUnsupported, "write it with other functions", "%s cannot be planned", e.text())
	}
	e.done[n] = v
	return v
}

// decided plans what is decided by the sign of a value.
func (e *evaluator) decided(n *node) val {
	x := e.eval(n.args[0])
	e.enter(n)
	if e.err != nil {
		return val{}
	}
	switch n.op {
	case opSign:
		return e.sign(x, n.c, n.exps[0])
	case opAbs:
		return e.abs(x, n.c)
	}
	return e.largest(x, n.c, float64(n.exps[0]))
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

// linear returns c + sum coef_i*v_i. Terms of one place are added before they are
// moved to the place that takes the fewest rotations.
func (e *evaluator) linear(c float64, terms []valTerm) val {
	if e.err != nil {
		return val{}
	}
	out := val{a: 1, b: exactly(c), sh: terms[0].v.sh, lo: c, hi: c}
	places := map[int][]linTerm{}
	for _, t := range terms {
		v := t.v
		places[v.pos] = append(places[v.pos], linTerm{v.w, t.coef * v.a})
		out.b = out.b.plus(exactly(t.coef).times(v.b))
		out.full = out.full || v.full
		out.lo += min(t.coef*v.lo, t.coef*v.hi)
		out.hi += max(t.coef*v.lo, t.coef*v.hi)
	}
	order := make([]int, 0, len(places))
	for pos := range places {
		order = append(order, pos)
	}
	slices.Sort(order)
	out.pos = e.meeting(order)
	var sums []linTerm
	for _, pos := range order {
		w, gain := e.lin(places[pos])
		if e.err != nil {
			return val{}
		}
		if gain != 0 {
			sums = append(sums, linTerm{e.rotate(w, pos-out.pos), gain})
		}
	}
	if len(sums) == 0 {
		e.fail(ErrConstant, "leave it out, or write its value", "%s does not depend on its inputs", e.text())
		return val{}
	}
	out.w, out.a = e.lin(sums)
	return out
}

// meeting returns the one of some places that the others reach with the fewest
// rotations by powers of two.
func (e *evaluator) meeting(places []int) int {
	best, least := places[0], math.MaxInt
	for _, to := range places {
		cost := 0
		for _, from := range places {
			cost += bits.OnesCount(uint((from - to + e.ch.slots) % e.ch.slots))
		}
		if cost < least {
			best, least = to, cost
		}
	}
	return best
}

// together moves one of two values to the place of the other.
func (e *evaluator) together(x, y val) (val, val) {
	if x.pos != y.pos {
		to := e.meeting([]int{x.pos, y.pos})
		x.w, x.pos, y.w, y.pos = e.rotate(x.w, x.pos-to), to, e.rotate(y.w, y.pos-to), to
	}
	return x, y
}

// times returns x*y for values in one place or not:
// (A1*c1 + B1)(A2*c2 + B2) = A1*A2*c1*c2 + A1*B2*c1 + A2*B1*c2 + B1*B2.
func (e *evaluator) times(x, y val) val {
	if e.err != nil {
		return val{}
	}
	x, y = e.together(x, y)
	out := val{sh: x.sh, pos: x.pos}
	out.full = x.full && y.full || x.full && y.b != double{} || y.full && x.b != double{}
	corners := []float64{x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi}
	out.lo, out.hi = slices.Min(corners), slices.Max(corners)
	if x.w == y.w && x.a == y.a && x.b == y.b {
		out.lo, out.hi = max(out.lo, 0), max(x.lo*x.lo, x.hi*x.hi)
		if x.lo*x.hi > 0 {
			out.lo = min(x.lo*x.lo, x.hi*x.hi)
		}
	}
	w := e.mul(x.w, y.w)
	if e.err != nil {
		return val{}
	}
	out.w, out.a = e.lin([]linTerm{{w, x.a * y.a}, {x.w, x.a * y.b.value()}, {y.w, y.a * x.b.value()}})
	out.b = x.b.times(y.b)
	return out
}

// reduce returns the sum over the window.
func (e *evaluator) reduce(x val) val {
	if e.err != nil {
		return val{}
	}
	n := float64(x.sh.n)
	if x.full {
		ones := make([]float64, x.sh.n)
		for i := range ones {
			ones[i] = 1
		}
		x.w = e.mulPlain(x.w, ones, x.pos, fmt.Sprintf("ones %d+%d", x.pos, x.sh.n))
	}
	w, pos := e.total(x, n)
	return val{a: x.a, b: x.b.times(exactly(n)), w: w, pos: pos, lo: x.lo * n, hi: x.hi * n}
}

// dot returns the sum over the window of weight times sample.
func (e *evaluator) dot(x val, weights []float64) val {
	if e.err != nil {
		return val{}
	}
	largest, sum, abs := 0.0, double{}, 0.0
	lo, hi := 0.0, 0.0
	h := sha256.New()
	var word [8]byte
	for _, w := range weights {
		largest = max(largest, math.Abs(w))
		sum = sum.plus(exactly(w))
		abs += math.Abs(w)
		lo += min(w*x.lo, w*x.hi)
		hi += max(w*x.lo, w*x.hi)
		binary.LittleEndian.PutUint64(word[:], math.Float64bits(w))
		h.Write(word[:])
	}
	scaled := make([]float64, len(weights))
	for i, w := range weights {
		scaled[i] = w / largest
	}
	key := fmt.Sprintf("weights %d %x", x.pos, h.Sum(nil))
	x.w = e.mulPlain(x.w, scaled, x.pos, key)
	w, pos := e.total(x, abs/largest)
	return val{a: x.a * largest, b: x.b.times(sum), w: w, pos: pos, lo: lo, hi: hi}
}

// cov returns (n*sum(c1*c2) - sum(c1)*sum(c2))/n^2 on the ciphertexts themselves, so
// that the offsets of the channels do not enter.
func (e *evaluator) cov(x, y val) val {
	if e.err != nil {
		return val{}
	}
	u, v := x.bare(), y.bare()
	x, y = e.together(x, y)
	// Windows of one ciphertext are summed where they lie: one sum for both. In a set other
	// programs may need that sum too.
	if e.packs == nil && u.w != v.w {
		u, v = x.bare(), y.bare()
	}
	n := float64(x.sh.n)
	products := e.reduce(e.times(x.bare(), y.bare()))
	sums := e.times(e.reduce(u), e.reduce(v))
	sums, products = e.together(sums, products)
	if e.err != nil {
		return val{}
	}
	out := val{pos: products.pos}
	// In every slot this is a covariance of n numbers, so it cannot exceed the
	// product of their magnitudes. (With full blocks it would be other sums, and in a set
	// products may have moved.)
	within := math.Inf(1)
	if e.packs == nil && !x.full && !y.full {
		within = math.Abs(x.a*y.a) * e.get(x.w).mag * e.get(y.w).mag
	}
	out.w, out.a = e.linWithin([]linTerm{{products.w, x.a * y.a * products.a / n},
		{sums.w, -x.a * y.a * sums.a / (n * n)}}, within)
	out.hi = (x.hi - x.lo) / 2 * (y.hi - y.lo) / 2
	out.lo = -out.hi
	if x.w == y.w {
		out.lo = 0
	}
	return out
}
