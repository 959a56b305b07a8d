package program

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// function describes one function of the language.
type function struct {
	args string // how it is called, for messages and documentation
	min  int    // least number of arguments
	max  int
	doc  string
}

// functions are all functions of the language.
var functions = map[string]function{
	"sum":  {"sum(x)", 1, 1, "sum of the samples of a window"},
	"mean": {"mean(x)", 1, 1, "arithmetic mean of a window"},
	"var":  {"var(x)", 1, 1, "population variance of a window"},
	"std":  {"std(x)", 1, 1, "population standard deviation; outermost only"},
	"rms":  {"rms(x)", 1, 1, "root mean square of a window; outermost only"},
	"sqrt": {"sqrt(v)", 1, 1, "square root; outermost only"},
	"cov":  {"cov(x, y)", 2, 2, "population covariance of two windows"},
	"dot":  {"dot(x, [w0, w1, ...])", 2, 2, "sum of the samples times weights, or times the samples of another window"},
	"poly": {"poly(x, [c0, c1, c2, ...])", 2, 2, "c0 + c1*x + c2*x^2 + ..."},
	"prev": {"prev(x)", 1, 1, "the window before"},
	"lag":  {"lag(x, k)", 2, 2, "the window k windows ago"},

	"step":  {"step(v)", 1, 1, "1 where v is above 0, else 0"},
	"abs":   {"abs(v)", 1, 1, "magnitude"},
	"clip":  {"clip(v, low, high)", 3, 3, "v, but at least low and at most high"},
	"where": {"where(x > t, a, b)", 3, 3, "a where the comparison holds, else b"},
	"any":   {"any(x > t)", 1, 1, "1 if a comparison holds for a sample, else 0; outermost only"},
	"all":   {"all(x > t)", 1, 1, "1 if a comparison holds for all samples, else 0; outermost only"},

	"count":    {"count(x > t)", 1, 1, "samples that a comparison holds for"},
	"fraction": {"fraction(a < x < b)", 1, 1, "their share of all samples"},
	"quantile": {"quantile(x, p)", 2, 2, "least sample of a histogram that a share p of all samples does not exceed"},
	"median":   {"median(x)", 1, 1, "quantile(x, 0.5)"},
	"min":      {"min(x)", 1, 2, "least sample, or the smaller of two values"},
	"max":      {"max(x)", 1, 2, "largest sample, or the larger of two values"},
	"last":     {"last(x, k)", 2, 2, "the k newest windows of a histogram as one"},

	privateLess: {"private_less(x, y)", 2, 2, "1 where a sample of x is below that of y; alone, of mode digits"},

	"fleet.sum":  {"fleet.sum(x)", 1, 1, "sum of the samples of all devices of a class"},
	"fleet.mean": {"fleet.mean(x)", 1, 1, "arithmetic mean over all samples of all devices of a class"},
	"fleet.var":  {"fleet.var(x)", 1, 1, "population variance over all samples of all devices of a class"},

	"fleet.count":    {"fleet.count(x > t)", 1, 1, "as count, over all devices of a class"},
	"fleet.fraction": {"fleet.fraction(a < x < b)", 1, 1, "as fraction, over all devices of a class"},
	"fleet.quantile": {"fleet.quantile(x, p)", 2, 2, "as quantile, over all devices of a class"},
	"fleet.median":   {"fleet.median(x)", 1, 1, "as median, over all devices of a class"},
	"fleet.min":      {"fleet.min(x)", 1, 1, "as min, over all devices of a class"},
	"fleet.max":      {"fleet.max(x)", 1, 1, "as max, over all devices of a class"},
}

// refused are functions that people try, with the reason why they cannot work.
var refused = map[string]string{
	"sign":  "write 2*step(x) - 1",
	"round": "rounding is not a polynomial",
	"floor": "rounding is not a polynomial",
	"ceil":  "rounding is not a polynomial",
	"int":   "rounding is not a polynomial",
	"exp":   "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"log":   "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"ln":    "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"sin":   "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"cos":   "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"corr": "it divides by encrypted values; compute cov(x, y), var(x) and var(y) as three programs and divide after " +
		"decryption",
	"len": "the number of samples travels with the result in the clear",
	"if":  "a branch on an encrypted value would reveal it; write where(x > t, a, b)",
}

// synonyms are names of functions under which people look for them.
var synonyms = map[string]string{
	"avg": "mean", "average": "mean", "total": "sum", "variance": "var", "stddev": "std", "stdev": "std",
	"sd": "std", "sigma": "std", "covariance": "cov", "inner": "dot", "weighted": "dot", "polynomial": "poly",
	"delay": "lag", "shift": "lag", "previous": "prev", "last": "prev", "pow": "poly", "norm": "rms",
}

// functionNames lists the functions in alphabetical order.
func functionNames() []string {
	names := make([]string, 0, len(functions))
	for n := range functions {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// nearest returns the candidate that differs from name by the fewest edits, at most
// a third of its length; "" if none does, the first of several.
func nearest(name string, candidates []string) string {
	if len(name) > 64 {
		return ""
	}
	best, at := max(1, len(name)/3)+1, ""
	for _, c := range candidates {
		if len(c) > 64 {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < best {
			best, at = d, c
		}
	}
	return at
}

// distance returns the number of insertions, deletions, replacements and swaps of
// neighbours between a and b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}

// deciding are the functions that compare samples. Those that stand in counting too are of histograms where
// their argument is one.
var deciding = []string{"step", "abs", "clip", "where", "any", "all", "count", "fraction", "min", "max"}

// countsBins reports whether an expression names a histogram.
func (g *graph) countsBins(args []ast.Node, sc scope, depth int) bool {
	if depth > MaxTreeDeep {
		return false
	}
	for _, n := range args {
		if id, ok := n.(*ast.IdentifierNode); ok {
			b := sc.let
			for b != nil && b.name != id.Value {
				b = b.parent
			}
			if b != nil && g.countsBins([]ast.Node{b.value}, b.outer, depth+1) ||
				b == nil && g.prog.Vars[id.Value].Stream.Histogram() {
				return true
			}
		} else if g.countsBins(children(n), sc, depth+1) {
			return true
		}
	}
	return false
}

// decision lowers a function that compares samples.
func (g *graph) decision(t ast.Node, name string, args []ast.Node, sc scope, depth int) *node {
	f := functions[name]
	if len(args) < f.min || len(args) > f.max {
		return g.fail(ErrType, t, "write "+f.args, "%s has %d arguments", g.text(t), len(args))
	}
	switch name {
	case "count", "fraction", "any", "all":
		return g.tally(t, name, args[0], sc, depth)
	case "where":
		c, a, b := g.truth(args[0], sc, depth+1), g.expr(args[1], sc, depth+1), g.expr(args[2], sc, depth+1)
		if g.err != nil {
			return c
		}
		return g.lin(t, 0, term{1, g.mul(t, []*node{c, g.lin(t, 0, term{1, a}, term{-1, b})}, nil)}, term{1, b})
	}
	vs := make([]*node, len(args))
	for i, a := range args {
		if vs[i] = g.expr(a, sc, depth+1); g.err != nil {
			return vs[i]
		}
		if vs[i].op == opSqrt {
			return g.insideRoot(t)
		}
	}
	switch name {
	case "step":
		return g.step(t, vs[0], sc)
	case "abs":
		return g.abs(t, vs[0])
	case "clip":
		return g.clip(t, args, vs)
	}
	sign := 1
	if name == "min" {
		sign = -1
	}
	if len(vs) == 2 {
		d := g.abs(t, g.lin(t, 0, term{1, vs[0]}, term{-1, vs[1]}))
		return g.lin(t, 0, term{0.5, vs[0]}, term{0.5, vs[1]}, term{float64(sign) / 2, d})
	}
	if !vs[0].shape.window() {
		return g.fail(ErrType, t, "write "+name+"(x) of a window, or "+name+"(v, w) of two values",
			"%s needs a window, but its argument is a single value", g.text(t))
	}
	if vs[0].op == opConst || vs[0].op == opCast || vs[0].shape.n == 1 {
		return g.lin(t, 0, term{1 / float64(vs[0].shape.n), g.reduce(t, vs[0], nil)}) // all are equal
	}
	return g.intern(node{op: opMax, args: vs, exps: []int{sign}, c: g.resolution(t), at: t})
}

// resolution returns that of the program, which what is compared needs.
func (g *graph) resolution(at ast.Node) float64 {
	if g.prog.Resolution == 0 {
		g.fail(ErrUnsupported, at, "give the program a resolution, such as resolution: 0.5: values nearer to a "+
			"threshold are undecided; or write count(x > t) in a stream with mode: histogram, which is exact",
			"%s compares encrypted values, and the program has no resolution", g.text(at))
	}
	return g.prog.Resolution
}

// defaultBeta is how right comparisons are where nothing asks for more: to 2^-11 of 0 and 1.
const defaultBeta = 10

// step is 1 where v is above 0, else 0.
func (g *graph) step(at ast.Node, v *node, sc scope) *node {
	if v.op == opConst {
		return g.constantOf(at, truth(">", v.c, 0), v.shape)
	}
	if v.op == opCast {
		return g.cast(at, g.step(at, v.args[0], sc), v.shape)
	}
	beta := max(sc.beta, defaultBeta)
	s := g.intern(node{op: opSign, args: []*node{v}, exps: []int{beta}, c: g.resolution(at), shape: v.shape, at: at})
	return g.lin(at, 0.5, term{0.5, s})
}

func (g *graph) abs(at ast.Node, v *node) *node {
	if v.op == opConst {
		return g.constantOf(at, math.Abs(v.c), v.shape)
	}
	if v.op == opCast {
		return g.cast(at, g.abs(at, v.args[0]), v.shape)
	}
	return g.intern(node{op: opAbs, args: []*node{v}, c: g.resolution(at), shape: v.shape, at: at})
}

// clip is (low + high + |v - low| - |v - high|)/2, so that both magnitudes are computed side by side.
func (g *graph) clip(t ast.Node, args []ast.Node, vs []*node) *node {
	for i := 1; i < 3; i++ {
		if !vs[i].number() {
			return g.fail(ErrType, args[i], "write "+functions["clip"].args, "%s is not a constant", g.text(args[i]))
		}
	}
	low, high := vs[1].c, vs[2].c
	if !(low < high) {
		return g.fail(ErrConstant, t, "write the lower limit first", "%s: %g is not below %g", g.text(t), low, high)
	}
	a := g.abs(t, g.lin(t, -low, term{1, vs[0]}))
	b := g.abs(t, g.lin(t, -high, term{1, vs[0]}))
	v := g.lin(t, low/2+high/2, term{0.5, a}, term{-0.5, b})
	if v.op == opConst || g.err != nil {
		return v
	}
	return g.intern(node{op: opWithin, args: []*node{v}, coef: []float64{low, high}, shape: v.shape, at: t})
}

// tally counts the samples that a condition holds for.
func (g *graph) tally(t ast.Node, name string, condition ast.Node, sc scope, depth int) *node {
	most := 1
	for _, v := range g.prog.Vars {
		most = max(most, v.Stream.Window.Samples)
	}
	sc.beta = bits.Len(uint(most)) + 3 // all samples together err by at most 1/32
	c := g.truth(condition, sc, depth+1)
	if g.err != nil {
		return c
	}
	n := float64(c.shape.n)
	sum := g.reduce(t, c, nil)
	if sum.op == opConst || g.err != nil {
		return g.fail(ErrConstant, t, "use an input in it", "%s is the same, whatever the inputs are", g.text(t))
	}
	tally := node{op: opTally, args: []*node{sum}, exps: []int{0}, coef: []float64{0, n}, c: n, at: t}
	if name == "fraction" {
		tally.args[0] = g.lin(t, 0, term{1 / n, sum})
		tally.exps[0], tally.coef[1] = 1, 1
	}
	counted := g.intern(tally)
	switch name {
	case "any":
		return g.intern(node{op: opAny, args: []*node{counted}, exps: []int{1}, coef: []float64{0, 1}, at: t})
	case "all":
		return g.intern(node{op: opAny, args: []*node{counted}, exps: []int{c.shape.n}, coef: []float64{0, 1}, at: t})
	}
	return counted
}

// truth lowers a condition: 1 where it holds, else 0.
func (g *graph) truth(n ast.Node, sc scope, depth int) *node {
	if depth > MaxTreeDeep {
		return g.fail(ErrSize, nil, "split it into several programs", "the expression is nested more than %d deep",
			MaxTreeDeep)
	}
	switch t := n.(type) {
	case *ast.UnaryNode:
		if t.Operator == "not" || t.Operator == "!" {
			a := g.truth(t.Node, sc, depth+1)
			return g.lin(t, 1, term{-1, a})
		}
	case *ast.IdentifierNode:
		for b := sc.let; b != nil; b = b.parent {
			if b.name == t.Value {
				if inner := b.outer; conditional(b.value) {
					inner.lag, inner.beta = sc.lag, sc.beta
					return g.truth(b.value, inner, depth+1)
				}
				break
			}
		}
	case *ast.CallNode:
		if id, ok := t.Callee.(*ast.IdentifierNode); ok && id.Value == "step" {
			return g.expr(t, sc, depth+1)
		}
	case *ast.BinaryNode:
		switch t.Operator {
		case "<", "<=", ">", ">=":
			a, b := g.expr(t.Left, sc, depth+1), g.expr(t.Right, sc, depth+1)
			if t.Operator[0] == '<' {
				a, b = b, a
			}
			if g.err != nil {
				return a
			}
			return g.step(t, g.lin(t, 0, term{1, a}, term{-1, b}), sc)
		case "==", "!=":
			return g.fail(ErrUnsupported, t, "write 79.5 < x and x < 80.5",
				"%s compares encrypted values, which are not told apart nearer than the resolution", g.text(t))
		case "and", "&&", "or", "||":
			a, b := g.truth(t.Left, sc, depth+1), g.truth(t.Right, sc, depth+1)
			if g.err != nil {
				return a
			}
			both := g.mul(t, []*node{a, b}, nil)
			if t.Operator == "and" || t.Operator == "&&" {
				return both
			}
			return g.lin(t, 0, term{1, a}, term{1, b}, term{-1, both})
		}
	}
	return g.fail(ErrType, n, "write x > 80, or several comparisons with and, or, not",
		"%s is no comparison", g.text(n))
}

// conditional reports whether an expression is one that truth lowers.
func conditional(n ast.Node) bool {
	switch t := n.(type) {
	case *ast.UnaryNode:
		return t.Operator == "not" || t.Operator == "!"
	case *ast.BinaryNode:
		return slices.Contains([]string{"<", "<=", ">", ">=", "==", "!=", "and", "&&", "or", "||"}, t.Operator)
	case *ast.CallNode:
		id, ok := t.Callee.(*ast.IdentifierNode)
		return ok && id.Value == "step"
	case *ast.IdentifierNode:
		return true
	}
	return false
}
