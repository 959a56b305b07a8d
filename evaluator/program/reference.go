package program

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// value is a window (v != nil) or a single number.
type value struct {
	v []float64
	x float64
}

// reference computes an expression in float64 straight from its syntax tree,
// without the rewriting that the compiler does, so that it can be held against
// the circuit. It relies on the tree having passed lower.
type reference struct {
	inputs map[string][]float64
	prog   *Source
	across bool // windows hold the samples of all devices, one after another
}

// refScope mirrors scope.
type refScope struct {
	lag int
	let map[string]refBinding
}

type refBinding struct {
	value ast.Node
	scope refScope
	memo  map[int]value
}

// Reference returns the plain result in natural units for inputs in natural units:
// one number, or one per sample of the window. inputs holds under VarKey(name,
// lag) the samples of every window that the program reads (as many as are
// present); of a program across devices, the samples of all their windows one after another.
// The computation is ordinary float64 arithmetic: sums, products and
// a two-pass covariance, in the order of the text. It fails with ErrInput when
// a window is missing or has another length.
func (c *Circuit) Reference(inputs map[string][]float64) ([]float64, error) {
	r := &reference{inputs: inputs, prog: &c.prog, across: c.across != nil}
	out, err := r.eval(c.tree, refScope{})
	if err != nil {
		return nil, err
	}
	if out.v == nil {
		return []float64{out.x}, nil
	}
	return out.v, nil
}

func (r *reference) eval(n ast.Node, sc refScope) (value, error) {
	switch t := n.(type) {
	case *ast.IntegerNode:
		return value{x: float64(t.Value)}, nil
	case *ast.FloatNode:
		return value{x: t.Value}, nil
	case *ast.IdentifierNode:
		return r.variable(t.Value, sc)
	case *ast.UnaryNode:
		a, err := r.eval(t.Node, sc)
		switch t.Operator {
		case "-":
			a = a.each(func(x float64) float64 { return -x })
		case "not", "!":
			a = a.each(func(x float64) float64 { return 1 - x })
		}
		return a, err
	case *ast.VariableDeclaratorNode:
		inner := refScope{lag: sc.lag, let: map[string]refBinding{}}
		for k, v := range sc.let {
			inner.let[k] = v
		}
		inner.let[t.Name] = refBinding{t.Value, sc, map[int]value{}}
		return r.eval(t.Expr, inner)
	case *ast.BinaryNode:
		a, err := r.eval(t.Left, sc)
		if err != nil {
			return a, err
		}
		b, err := r.eval(t.Right, sc)
		if err != nil {
			return b, err
		}
		return zip(a, b, func(x, y float64) float64 { return arithmetic(t.Operator, x, y) })
	case *ast.CallNode:
		if name := fleetName(t.Callee); name != "" {
			return r.call(strings.TrimPrefix(name, fleetPrefix), t.Arguments, sc)
		}
		return r.call(t.Callee.String(), t.Arguments, sc)
	case *ast.BuiltinNode:
		return r.call(t.Name, t.Arguments, sc)
	}
	return value{}, fmt.Errorf("%w: %T in a compiled program", ErrInput, n)
}

func arithmetic(op string, x, y float64) float64 {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "<", ">", "<=", ">=", "==", "&&", "and", "||", "or":
		return truth(op, x, y)
	}
	return math.Pow(x, y)
}

// truth returns 1 if a comparison holds, else 0.
func truth(op string, x, y float64) float64 {
	holds := x == y
	switch op {
	case "<":
		holds = x < y
	case ">":
		holds = x > y
	case "<=":
		holds = x <= y
	case ">=":
		holds = x >= y
	case "&&", "and":
		holds = x != 0 && y != 0
	case "||", "or":
		holds = x != 0 || y != 0
	}
	if holds {
		return 1
	}
	return 0
}

// last returns the samples of several windows, one after another.
func (r *reference) last(args []ast.Node, sc refScope) (value, error) {
	k, err := r.eval(args[1], sc)
	var all []float64
	for range int(k.x) {
		if err != nil {
			return k, err
		}
		var w value
		w, err = r.eval(args[0], sc)
		all = append(all, w.v...)
		sc.lag++
	}
	return value{v: all}, err
}

func (r *reference) variable(name string, sc refScope) (value, error) {
	if b, ok := sc.let[name]; ok {
		if v, ok := b.memo[sc.lag]; ok {
			return v, nil
		}
		inner := b.scope
		inner.lag = sc.lag
		v, err := r.eval(b.value, inner)
		b.memo[sc.lag] = v
		return v, err
	}
	key := VarKey(name, sc.lag)
	x, ok := r.inputs[key]
	if !ok {
		return value{}, fmt.Errorf("%w: no samples for %s", ErrInput, key)
	}
	v := r.prog.Vars[name]
	in := Input{Device: v.Device, Stream: v.Stream.Name, Lag: sc.lag}
	if want := r.prog.present(in, v.Stream); len(x) != want && !r.across {
		return value{}, fmt.Errorf("%w: %d samples for %s, its window has %d", ErrInput, len(x), key, want)
	}
	return value{v: x}, nil
}

func (r *reference) call(name string, args []ast.Node, sc refScope) (value, error) {
	if name == "prev" || name == "lag" {
		k := value{x: 1}
		if name == "lag" {
			var err error
			if k, err = r.eval(args[1], sc); err != nil {
				return k, err
			}
		}
		sc.lag += int(k.x)
		return r.eval(args[0], sc)
	}
	if name == "last" {
		return r.last(args, sc)
	}
	if name == privateLess {
		return r.privateLess(args, sc)
	}
	a, err := r.eval(args[0], sc)
	if err != nil {
		return a, err
	}
	if len(args) > 1 && slices.Contains(deciding, name) {
		return r.decision(name, a, args[1:], sc)
	}
	if name == "quantile" {
		p, err := r.eval(args[1], sc)
		return value{x: ordered(a.v, p.x)}, err
	}
	if len(args) == 1 {
		switch name {
		case "sqrt":
			return a.each(math.Sqrt), nil
		case "abs":
			return a.each(math.Abs), nil
		case "step":
			return a.each(func(x float64) float64 { return truth(">", x, 0) }), nil
		}
		return value{x: single(name, a)}, nil
	}
	var list []float64
	if l, ok := args[1].(*ast.ArrayNode); ok {
		for _, e := range l.Nodes {
			w, err := r.eval(e, sc)
			if err != nil {
				return w, err
			}
			list = append(list, w.x)
		}
	}
	if name == "poly" {
		return a.each(func(x float64) float64 { return horner(list, x) }), nil
	}
	b := value{v: list}
	if list == nil {
		if b, err = r.eval(args[1], sc); err != nil {
			return b, err
		}
	}
	if name == "cov" {
		ma, mb := average(a.v), average(b.v)
		p, err := zip(a, b, func(x, y float64) float64 { return (x - ma) * (y - mb) })
		return value{x: average(p.v)}, err
	}
	p, err := zip(a, b, func(x, y float64) float64 { return x * y })
	return value{x: total(p.v)}, err
}

// decision computes the functions of several values that compare.
func (r *reference) decision(name string, a value, args []ast.Node, sc refScope) (value, error) {
	b, err := r.eval(args[0], sc)
	if err != nil {
		return b, err
	}
	switch name {
	case "max":
		return zip(a, b, func(x, y float64) float64 { return max(x, y) })
	case "min":
		return zip(a, b, func(x, y float64) float64 { return min(x, y) })
	}
	c, err := r.eval(args[1], sc)
	if err != nil {
		return c, err
	}
	if name == "clip" {
		return a.each(func(x float64) float64 { return min(max(x, b.x), c.x) }), nil
	}
	yes, err := zip(a, b, func(x, y float64) float64 { return x * y })
	if err != nil {
		return yes, err
	}
	no, err := zip(a, c, func(x, y float64) float64 { return (1 - x) * y })
	if err != nil {
		return no, err
	}
	return zip(yes, no, func(x, y float64) float64 { return x + y })
}

// single computes the functions of one window that give one number.
func single(name string, a value) float64 {
	switch name {
	case "sum", "count":
		return total(a.v)
	case "fraction":
		return average(a.v)
	case "any":
		return truth(">", total(a.v), 0)
	case "all":
		return truth(">=", total(a.v), float64(len(a.v)))
	case "min":
		return ordered(a.v, 0)
	case "median":
		return ordered(a.v, 0.5)
	case "max":
		return ordered(a.v, 1)
	case "mean":
		return average(a.v)
	case "rms":
		return math.Sqrt(average(a.each(func(x float64) float64 { return x * x }).v))
	case "var", "std":
		m := average(a.v)
		v := average(a.each(func(x float64) float64 { return (x - m) * (x - m) }).v)
		if name == "std" {
			return math.Sqrt(v)
		}
		return v
	}
	return 0
}

// ordered returns the p-quantile of samples.
func ordered(v []float64, p float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(v))[rankOf(p, int64(len(v)))-1]
}

func total(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

func average(v []float64) float64 { return total(v) / float64(max(len(v), 1)) }

func (a value) each(f func(float64) float64) value {
	if a.v == nil {
		return value{x: f(a.x)}
	}
	out := make([]float64, len(a.v))
	for i, x := range a.v {
		out[i] = f(x)
	}
	return value{v: out}
}

func zip(a, b value, f func(x, y float64) float64) (value, error) {
	switch {
	case a.v == nil && b.v == nil:
		return value{x: f(a.x, b.x)}, nil
	case a.v == nil:
		return b.each(func(y float64) float64 { return f(a.x, y) }), nil
	case b.v == nil:
		return a.each(func(x float64) float64 { return f(x, b.x) }), nil
	case len(a.v) != len(b.v):
		return value{}, fmt.Errorf("%w: windows of %d and %d samples", ErrInput, len(a.v), len(b.v))
	}
	out := make([]float64, len(a.v))
	for i := range out {
		out[i] = f(a.v[i], b.v[i])
	}
	return value{v: out}, nil
}

// privateLess compares the steps that devices round samples to.
func (r *reference) privateLess(args []ast.Node, sc refScope) (value, error) {
	var steps [2][]int
	for i, a := range args {
		w, err := r.eval(a, sc)
		if err != nil {
			return w, err
		}
		v := r.prog.Vars[a.(*ast.IdentifierNode).Value] // lower let nothing else pass
		grid, err := v.Stream.Channels[v.Channel].StepGrid()
		if err != nil {
			return w, err
		}
		for _, x := range w.v {
			steps[i] = append(steps[i], grid.Nearest(x))
		}
	}
	out := value{v: make([]float64, min(len(steps[0]), len(steps[1])))}
	for i := range out.v {
		out.v[i] = truth("<", float64(steps[0][i]), float64(steps[1][i]))
	}
	return out, nil
}
