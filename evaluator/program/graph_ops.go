package program

import (
	"math"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// factors gathers a product: a constant and powers of nodes, windows and single
// values apart.
type factors struct {
	c                float64
	windows, singles map[*node]int
	sh               shape
}

// power returns a^k for k >= 0; mul is power over several factors.
func (g *graph) power(at ast.Node, a *node, k int) *node { return g.mul(at, []*node{a}, []int{k}) }

// mul returns the product of args[i]^exps[i] (exponent 1 where exps is nil).
func (g *graph) mul(at ast.Node, args []*node, exps []int) *node {
	f := factors{c: 1, windows: map[*node]int{}, singles: map[*node]int{}}
	for i, a := range args {
		k := 1
		if exps != nil {
			k = exps[i]
		}
		if a.op == opSqrt {
			return g.mulRoot(at, args, exps)
		}
		if s := a.shape; s.window() {
			if f.sh.window() && f.sh != s {
				return g.fail(ErrType, at, "use windows of equal length", "%s combines windows of %d and %d samples",
					g.text(at),
					f.sh.n, s.n)
			}
			f.sh = s
		}
		f.add(a, k)
	}
	if f.c == 0 {
		return g.constantOf(at, 0, f.sh)
	}
	single := g.prodNode(at, f.singles, shape{})
	if !f.sh.window() {
		if single == nil {
			return g.constant(at, f.c)
		}
		return g.lin(at, 0, term{f.c, single})
	}
	if single != nil {
		f.windows[g.cast(at, single, f.sh)]++
	}
	p := g.prodNode(at, f.windows, f.sh)
	if p == nil {
		return g.constantOf(at, f.c, f.sh)
	}
	return g.lin(at, 0, term{f.c, p})
}

// mulRoot allows a square root times constants that are not negative.
func (g *graph) mulRoot(at ast.Node, args []*node, exps []int) *node {
	c, root := 1.0, (*node)(nil)
	for i, a := range args {
		switch {
		case a.op == opConst && exps == nil:
			c *= a.c
		case a.op == opSqrt && root == nil && (exps == nil || exps[i] == 1):
			root = a
		default:
			return g.insideRoot(at)
		}
	}
	return g.scaledRoot(at, 0, []term{{c, root}})
}

func (f *factors) add(a *node, k int) {
	switch {
	case k == 0:
	case a.op == opConst:
		f.c *= math.Pow(a.c, float64(k))
	case a.op == opLin && len(a.args) == 1 && a.c == 0:
		f.c *= math.Pow(a.coef[0], float64(k))
		f.add(a.args[0], k)
	case a.op == opProd:
		for i, b := range a.args {
			f.add(b, k*a.exps[i])
		}
	case a.op == opCast:
		f.add(a.args[0], k)
	case a.shape.window():
		f.windows[a] += k
	default:
		f.singles[a] += k
	}
}

// prodNode returns the product of powers, nil where there are none.
func (g *graph) prodNode(at ast.Node, powers map[*node]int, sh shape) *node {
	n := node{op: opProd, shape: sh, at: at}
	for a := range powers {
		n.args = append(n.args, a)
	}
	slices.SortFunc(n.args, func(a, b *node) int { return a.id - b.id })
	total := 0
	for _, a := range n.args {
		n.exps = append(n.exps, powers[a])
		total += powers[a]
	}
	switch {
	case total == 0:
		return nil
	case total == 1:
		return n.args[0]
	case total > MaxPower:
		return g.fail(ErrSize, at, "lower the power, or split the program",
			"%s is a product of %d factors, at most %d are allowed", g.text(at),
			total, MaxPower)
	}
	return g.intern(n)
}

// reduce returns the sum over the window of w[i]*a[i], or of a[i] where w is nil.
func (g *graph) reduce(at ast.Node, a *node, w []float64) *node {
	if a.op == opSqrt {
		return g.insideRoot(at)
	}
	sh := a.shape
	if a.op == opConst && !sh.window() {
		return g.noWindow(at, a)
	}
	if !sh.window() {
		return g.fail(ErrType, at, "give it an input, or write the value itself",
			"%s needs a window, but its argument is a single value", g.text(at))
	}
	total := float64(sh.n)
	if w != nil {
		total = 0
		same := true
		for _, x := range w {
			total, same = total+x, same && x == w[0]
		}
		if same {
			return g.lin(at, 0, term{w[0], g.reduce(at, a, nil)})
		}
	}
	windows, singles := pool{}, pool{}
	c := g.gather(a, 1, windows, singles)
	out := []term{}
	for _, t := range singles.sorted() {
		out = append(out, term{t.coef * total, t.node})
	}
	switch ts := windows.sorted(); len(ts) {
	case 0:
	case 1:
		out = append(out, term{ts[0].coef, g.reduceOne(at, ts[0].node, w)})
	default:
		out = append(out, term{1, g.reduceOne(at, g.linNode(at, 0, ts, sh), w)})
	}
	return g.lin(at, c*total, out...)
}

func (g *graph) noWindow(at ast.Node, a *node) *node {
	return g.fail(ErrConstant, at, "give it an input",
		"%s needs a window, but its argument is the constant %g, whatever the inputs are",
		g.text(at), a.c)
}

// reduceOne reduces a node, with a single value among its factors taken out.
func (g *graph) reduceOne(at ast.Node, a *node, w []float64) *node {
	if a.op == opProd {
		if i := slices.IndexFunc(a.args, func(b *node) bool { return b.op == opCast }); i >= 0 {
			rest := map[*node]int{}
			for j, b := range a.args {
				if j != i {
					rest[b] = a.exps[j]
				}
			}
			outer := g.power(at, a.args[i].args[0], a.exps[i])
			return g.mul(at, []*node{outer, g.reduce(at, g.prodNode(at, rest, a.shape), w)}, nil)
		}
	}
	if w == nil {
		sum, ok := g.sums[a]
		if !ok {
			if sum = g.centred(at, a); sum == nil {
				sum = g.intern(node{op: opSum, args: []*node{a}, at: at})
			}
			g.sums[a] = sum
		}
		return sum
	}
	return g.intern(node{op: opDot, args: []*node{a}, coef: w, at: at})
}

// centred returns the sum of a product of two windows, of which one has a sum that does not
// depend on the inputs, such as x - mean(x):
//
//	sum(a*b) = n*cov(a, b) + sum(a)*sum(b)/n
//
// The mean is not subtracted, which would cost a level and put its error into every
// sample. It is nil for other products.
func (g *graph) centred(at ast.Node, p *node) *node {
	if p.op != opProd {
		return nil
	}
	total := 0
	for _, e := range p.exps {
		total += e
	}
	if total != 2 {
		return nil
	}
	a, b := p.args[0], p.args[len(p.args)-1]
	for range 2 {
		if a.op == opLin && slices.ContainsFunc(a.args, func(x *node) bool { return x.op == opCast }) {
			if sum := g.reduce(at, a, nil); sum.op == opConst {
				n := float64(p.shape.n)
				return g.lin(at, 0, term{n, g.cov(at, a, b)}, term{sum.c / n, g.reduce(at, b, nil)})
			}
		}
		a, b = b, a
	}
	return nil
}

// cov returns the population covariance. It does not change when a constant or a
// single value is added, so both are left out; factors are taken out.
func (g *graph) cov(at ast.Node, a, b *node) *node {
	if a.op == opSqrt || b.op == opSqrt {
		return g.insideRoot(at)
	}
	switch {
	case a.op == opConst && !a.shape.window():
		return g.noWindow(at, a)
	case b.op == opConst && !b.shape.window():
		return g.noWindow(at, b)
	case !a.shape.window() || !b.shape.window():
		return g.fail(ErrType, at, "give it inputs",
			"%s needs windows, but an argument is a single value", g.text(at))
	}
	if a.shape != b.shape {
		return g.fail(ErrType, at, "use windows of equal length", "%s combines windows of %d and %d samples",
			g.text(at),
			a.shape.n, b.shape.n)
	}
	c := 1.0
	core := func(n *node) *node {
		windows := pool{}
		g.gather(n, 1, windows, pool{})
		ts := windows.sorted()
		if len(ts) == 1 {
			c *= ts[0].coef
			return ts[0].node
		}
		return g.linNode(at, 0, ts, n.shape)
	}
	x, y := core(a), core(b)
	if x.op == opConst || y.op == opConst {
		return g.constant(at, 0)
	}
	return g.lin(at, 0, term{c, g.intern(node{op: opCov, args: []*node{x, y}, at: at})})
}

// poly is sum coef[i]*a^i.
func (g *graph) poly(at ast.Node, a *node, coef []float64) *node {
	for len(coef) > 0 && coef[len(coef)-1] == 0 {
		coef = coef[:len(coef)-1]
	}
	switch {
	case a.op == opSqrt:
		return g.insideRoot(at)
	case len(coef) == 0:
		return g.constantOf(at, 0, a.shape)
	case len(coef) == 1:
		return g.constantOf(at, coef[0], a.shape)
	case len(coef) == 2:
		return g.lin(at, coef[0], term{coef[1], a})
	case a.op == opConst:
		return g.constantOf(at, horner(coef, a.c), a.shape)
	case a.op == opLin && len(a.args) == 1 && a.c == 0:
		// With an offset the coefficients could cancel: the planner folds it in
		// together with the channel's.
		return g.poly(at, a.args[0], substitute(coef, a.coef[0], double{}))
	case a.op == opCast:
		return g.cast(at, g.poly(at, a.args[0], coef), a.shape)
	}
	for _, c := range coef {
		if !finite(c) {
			return g.fail(ErrConstant, at, "use smaller numbers",
				"a coefficient of %s is not a finite number", g.text(at))
		}
	}
	d := len(coef) - 1
	if !slices.ContainsFunc(coef[1:d], func(c float64) bool { return c != 0 }) {
		return g.lin(at, coef[0], term{coef[d], g.power(at, a, d)})
	}
	inner := slices.Clone(coef)
	inner[0] = 0
	return g.lin(at, coef[0],
		term{1, g.intern(node{op: opPoly, args: []*node{a}, coef: inner, shape: a.shape, at: at})})
}

// horner returns p(x) for p with the given coefficients, lowest first.
func horner(coef []float64, x float64) float64 {
	v := 0.0
	for i := len(coef) - 1; i >= 0; i-- {
		v = v*x + coef[i]
	}
	return v
}

// substitute returns the coefficients of p(a*t + b) as a polynomial in t.
func substitute(coef []float64, a float64, b double) []float64 {
	c := make([]double, len(coef))
	for i, v := range coef {
		c[i] = exactly(v)
	}
	for i := range c { // synthetic division by (t - b), repeatedly
		for j := len(c) - 2; j >= i; j-- {
			c[j] = c[j].plus(b.times(c[j+1]))
		}
	}
	p, out := exactly(1), make([]float64, len(coef))
	for i := range out {
		out[i] = c[i].times(p).value()
		p = p.times(exactly(a))
	}
	return out
}
