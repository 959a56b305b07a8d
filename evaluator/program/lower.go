package program

import (
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// scope is what names mean at a place: how many windows back, and the values
// of let.
type scope struct {
	lag  int
	beta int // comparisons are to be right to 2^-beta; 0: to comparing alone
	let  *binding
}

// binding is one "let name = value"; it is lowered once per lag and beta.
type binding struct {
	name   string
	value  ast.Node
	outer  scope
	made   map[[2]int]*node // by lag and beta
	parent *binding
}

// lower adds a syntax tree to the graph and returns its root.
func (g *graph) lower(src *source, prog *Source, tree ast.Node) (*node, error) {
	g.src, g.prog = src, prog
	root := g.expr(tree, scope{}, 0)
	if g.err != nil {
		return nil, g.err
	}
	if root.op == opConst {
		g.fail(ErrConstant, tree, "use an input in it",
			"%s is the constant %g, whatever the inputs are", g.text(tree),
			root.c)
		return nil, g.err
	}
	g.checkFleet(root)
	g.outermost(root)
	if g.err != nil {
		return nil, g.err
	}
	return root, nil
}

func (g *graph) expr(n ast.Node, sc scope, depth int) *node {
	if g.err != nil {
		return &node{op: opConst}
	}
	if depth > MaxTreeDeep {
		return g.fail(ErrSize, nil, "split it into several programs", "the expression is nested more than %d deep",
			MaxTreeDeep)
	}
	switch t := n.(type) {
	case *ast.IntegerNode:
		return g.constant(n, float64(t.Value))
	case *ast.FloatNode:
		return g.constant(n, t.Value)
	case *ast.IdentifierNode:
		return g.name(t, sc, depth)
	case *ast.UnaryNode:
		return g.unary(t, sc, depth)
	case *ast.BinaryNode:
		return g.binary(t, sc, depth)
	case *ast.CallNode:
		if name := fleetName(t.Callee); name != "" {
			return g.fleetCall(t, name, sc, depth)
		}
		callee, ok := t.Callee.(*ast.IdentifierNode)
		if !ok {
			return g.fail(ErrSyntax, n, "write the name of a function before the bracket",
				"%s is not a call of a function", g.text(n))
		}
		return g.call(t, callee.Value, t.Arguments, sc, depth)
	case *ast.BuiltinNode:
		return g.call(t, t.Name, t.Arguments, sc, depth)
	case *ast.VariableDeclaratorNode:
		return g.let(t, sc, depth)
	case *ast.ArrayNode:
		return g.fail(ErrType, n, "lists stand only as the second argument of dot and poly",
			"%s is a list where a value is needed", g.text(n))
	case *ast.ConditionalNode:
		return g.fail(ErrUnsupported, n, "write where(x > t, a, b)",
			"%s branches on a value that is encrypted", g.text(n))
	case *ast.BoolNode, *ast.StringNode, *ast.NilNode, *ast.BytesNode:
		return g.fail(ErrType, n, "write a number or an expression", "%s is not a number", g.text(n))
	case *ast.MemberNode, *ast.SliceNode, *ast.ChainNode:
		return g.fail(ErrUnsupported, n, "dot(x, [...]) with zero weights selects samples",
			"%s selects part of a value",
			g.text(n))
	}
	return g.fail(ErrSyntax, n, languageHint, "%s is not part of the language", g.text(n))
}

func (g *graph) name(t *ast.IdentifierNode, sc scope, depth int) *node {
	for b := sc.let; b != nil; b = b.parent {
		if b.name != t.Value {
			continue
		}
		key := [2]int{sc.lag, sc.beta}
		if v, ok := b.made[key]; ok {
			return v
		}
		inner := b.outer
		inner.lag, inner.beta = sc.lag, sc.beta
		v := g.expr(b.value, inner, depth+1)
		b.made[key] = v
		return v
	}
	v, ok := g.prog.Vars[t.Value]
	if !ok {
		names := sortedKeys(g.prog.Vars)
		hint := "the inputs are " + strings.Join(names, ", ")
		if s := nearest(t.Value, names); s != "" {
			hint = "did you mean " + s + "?"
		} else if f, ok := functions[t.Value]; ok {
			hint = t.Value + " is a function: " + f.args
		}
		return g.fail(ErrName, t, hint, "unknown variable %s", g.text(t))
	}
	if v.Stream.Histogram() {
		return g.fail(ErrType, t, "histograms stand in "+strings.Join(counting, ", "),
			"%s is a histogram: it holds counts, not samples", g.text(t))
	}
	in := Input{Device: v.Device, Stream: v.Stream.Name, Lag: sc.lag}
	return g.intern(node{op: opVar, stream: v.Stream, in: in, channel: v.Channel, at: t,
		shape: shape{g.prog.present(in, v.Stream), v.Stream.Stride()}})
}

func (g *graph) let(t *ast.VariableDeclaratorNode, sc scope, depth int) *node {
	if _, ok := functions[t.Name]; ok {
		return g.fail(ErrName, t, "choose another name", "let redefines the function %s", t.Name)
	}
	if _, ok := g.prog.Vars[t.Name]; ok {
		return g.fail(ErrName, t, "choose another name", "let redefines the input %s", t.Name)
	}
	sc.let = &binding{name: t.Name, value: t.Value, outer: sc, made: map[[2]int]*node{}, parent: sc.let}
	return g.expr(t.Expr, sc, depth+1)
}

func (g *graph) unary(t *ast.UnaryNode, sc scope, depth int) *node {
	switch t.Operator {
	case "-", "+":
		a := g.expr(t.Node, sc, depth+1)
		if t.Operator == "+" || g.err != nil {
			return a
		}
		return g.lin(t, 0, term{-1, a})
	}
	return g.truth(t, sc, depth)
}

func (g *graph) binary(t *ast.BinaryNode, sc scope, depth int) *node {
	switch t.Operator {
	case "+", "-", "*", "/", "^", "**":
	case "<", ">", "<=", ">=", "==", "!=", "and", "&&", "or", "||":
		return g.truth(t, sc, depth)
	case "%":
		return g.fail(ErrUnsupported, t, "compute it after decryption",
			"%s: the remainder of an encrypted value cannot be computed", g.text(t))
	default:
		return g.fail(ErrUnsupported, t, languageHint,
			"%s: the operator %s is not part of the language", g.text(t), t.Operator)
	}
	a := g.expr(t.Left, sc, depth+1)
	b := g.expr(t.Right, sc, depth+1)
	if g.err != nil {
		return a
	}
	switch t.Operator {
	case "+":
		return g.lin(t, 0, term{1, a}, term{1, b})
	case "-":
		return g.lin(t, 0, term{1, a}, term{-1, b})
	case "*":
		return g.mul(t, []*node{a, b}, nil)
	case "/":
		switch {
		case b.op != opConst:
			return g.fail(ErrUnsupported, t,
				"divide after decryption, or multiply by a polynomial that approximates the "+
					"reciprocal",
				"%s divides by the encrypted value %s", g.text(t), g.text(t.Right))
		case b.c == 0:
			return g.fail(ErrConstant, t, "divide by another constant", "%s divides by zero", g.text(t))
		case a.op == opConst && !a.shape.window() && !b.shape.window():
			return g.constant(t, a.c/b.c)
		}
		return g.mul(t, []*node{a, g.constantOf(t, 1/b.c, b.shape)}, nil)
	}
	return g.powerOp(t, a, b)
}

func (g *graph) powerOp(t *ast.BinaryNode, a, b *node) *node {
	switch {
	case !b.number():
		return g.fail(ErrUnsupported, t, "exponents are constants",
			"%s has the exponent %s, which is not a constant",
			g.text(t), g.text(t.Right))
	case a.op == opConst:
		return g.constantOf(t, math.Pow(a.c, b.c), a.shape)
	case b.c == 0.5:
		return g.fail(ErrUnsupported, t, "write sqrt(...), outermost", "%s is a square root", g.text(t))
	case b.c != math.Trunc(b.c) || b.c < 0:
		return g.fail(ErrUnsupported, t, "exponents are whole numbers from 0 on", "%s has the exponent %g",
			g.text(t), b.c)
	case b.c > MaxPower:
		return g.fail(ErrSize, t, "use a smaller exponent",
			"%s has the exponent %g, at most %d is allowed", g.text(t), b.c, MaxPower)
	}
	return g.power(t, a, int(b.c))
}

func (g *graph) call(t ast.Node, name string, args []ast.Node, sc scope, depth int) *node {
	f, ok := functions[name]
	switch {
	case slices.Contains(deciding, name) && !g.countsBins(args, sc, depth):
		return g.decision(t, name, args, sc, depth)
	case slices.Contains(counting, name):
		return g.histogram(t, name, args, false, sc, depth)
	case name == "last":
		return g.fail(ErrType, t, "write it where a histogram stands: quantile(last(x, 60), 0.99)",
			"%s is a histogram: it holds counts, not samples", g.text(t))
	case !ok:
		if why, ok := refused[name]; ok {
			return g.fail(ErrUnsupported, t, "compute it after decryption, or use a polynomial near it",
				"%s cannot be computed: %s", g.text(t), why)
		}
		hint := "the functions are " + strings.Join(functionNames(), ", ")
		if s := synonyms[strings.ToLower(name)]; s != "" {
			hint = "did you mean " + functions[s].args + "?"
		} else if s := nearest(name, functionNames()); s != "" {
			hint = "did you mean " + functions[s].args + "?"
		}
		return g.fail(ErrName, t, hint, "unknown function %q", excerpt(name, 0, 40))
	}
	if len(args) < f.min || len(args) > f.max {
		return g.fail(ErrType, t, "write "+f.args, "%s has %d arguments, %s takes %d", g.text(t),
			len(args), name, f.min)
	}
	if name == privateLess {
		return g.fail(ErrParams, t, "give both streams mode: digits and params: bfv13, at their devices too; or write "+
			"x < y with resolution: in the program",
			"%s compares streams of mode digits, and its inputs are of other modes", g.text(t))
	}
	if name == "lag" || name == "prev" {
		return g.lag(t, name, args, sc, depth)
	}
	a := g.expr(args[0], sc, depth+1)
	if g.err != nil {
		return a
	}
	switch name {
	case "sum":
		return g.reduce(t, a, nil)
	case "mean":
		return g.mean(t, a)
	case "var":
		return g.cov(t, a, a)
	case "std":
		return g.root(t, g.cov(t, a, a))
	case "rms":
		if !a.shape.window() {
			return g.reduce(t, a, nil) // explains what is wrong
		}
		return g.root(t, g.mean(t, g.power(t, a, 2)))
	case "sqrt":
		return g.root(t, a)
	case "cov":
		return g.cov(t, a, g.expr(args[1], sc, depth+1))
	case "dot":
		return g.dot(t, a, args[1], sc, depth)
	}
	coef := g.list(args[1], sc, depth)
	if len(coef)-1 > MaxDegree {
		return g.fail(ErrSize, args[1], "use a polynomial of smaller degree",
			"the polynomial has degree %d, at most %d is allowed",
			len(coef)-1, MaxDegree)
	}
	if g.err != nil {
		return a
	}
	return g.poly(t, a, coef)
}

func (g *graph) mean(t ast.Node, a *node) *node {
	if !a.shape.window() {
		return g.reduce(t, a, nil)
	}
	return g.lin(t, 0, term{1 / float64(a.shape.n), g.reduce(t, a, nil)})
}

// lag looks k windows back: every input below is an older window.
func (g *graph) lag(t ast.Node, name string, args []ast.Node, sc scope, depth int) *node {
	if sc.lag = g.back(t, name, args, sc, depth); g.err != nil {
		return &node{op: opConst}
	}
	return g.expr(args[0], sc, depth+1)
}

// back returns how many windows back the argument of lag or prev is.
func (g *graph) back(t ast.Node, name string, args []ast.Node, sc scope, depth int) int {
	k := 1
	if name == "lag" {
		b := g.expr(args[1], sc, depth+1)
		if g.err != nil {
			return 0
		}
		if !b.number() || b.c != math.Trunc(b.c) || b.c < 0 || b.c > MaxLag {
			g.fail(ErrType, args[1], "write "+functions["lag"].args,
				"lag needs a whole number of windows from 0 to %d", MaxLag)
			return 0
		}
		k = int(b.c)
	}
	if sc.lag += k; sc.lag > MaxLag {
		g.fail(ErrSize, t, "use longer windows",
			"%s looks %d windows back, at most %d are kept", g.text(t), sc.lag, MaxLag)
	}
	return sc.lag
}

func (g *graph) dot(t ast.Node, a *node, second ast.Node, sc scope, depth int) *node {
	if _, ok := second.(*ast.ArrayNode); !ok {
		b := g.expr(second, sc, depth+1)
		if g.err == nil && !b.shape.window() {
			return g.fail(ErrType, second, "write "+functions["dot"].args,
				"%s is neither a list of weights nor a window",
				g.text(second))
		}
		return g.reduce(t, g.mul(t, []*node{a, b}, nil), nil)
	}
	w := g.list(second, sc, depth)
	if g.err != nil {
		return a
	}
	if a.shape.window() && len(w) != a.shape.n {
		return g.fail(ErrType, second, "give one weight for each sample",
			"dot has %d weights for a window of %d samples",
			len(w), a.shape.n)
	}
	return g.reduce(t, a, w)
}

// list is a list of constants.
func (g *graph) list(n ast.Node, sc scope, depth int) []float64 {
	t, ok := n.(*ast.ArrayNode)
	if !ok {
		g.fail(ErrType, n, "write numbers between [ and ]", "%s is not a list of constants", g.text(n))
		return nil
	}
	if len(t.Nodes) == 0 {
		g.fail(ErrType, n, "write numbers between [ and ]", "the list is empty")
		return nil
	}
	out := make([]float64, len(t.Nodes))
	for i, e := range t.Nodes {
		v := g.expr(e, sc, depth+1)
		if g.err != nil {
			return nil
		}
		if !v.number() {
			g.fail(ErrType, e, "write numbers between [ and ]", "%s is not a constant", g.text(e))
			return nil
		}
		out[i] = v.c
	}
	return out
}
