// Package program turns an expression over sensor windows, such as
// "mean(x)", "cov(x, y)" or "x*y + 0.5*z", into a circuit over CKKS
// ciphertexts, and runs it without any secret key.
//
// The way of an expression:
//
//	parse     text -> syntax tree (expr-lang's grammar), with limits
//	lower     syntax tree -> graph: types, constant folding, common parts once
//	plan      graph -> steps: levels, scales, rescaling, rotations, error bound
//	run       steps over a henc.Evaluator
//
// A value is held as A*ct + B with public numbers A and B, so that units,
// offsets and divisions cost neither a level nor noise. The planner tries a few
// policies of when to rescale and keeps the cheapest plan whose promised error is
// within half a bit of the best. Everything is decided at compile time, without keys; docs/programs.md explains
// the language and how the promised error is computed.
//
// The package holds no secret and imports no secret-key code.
package program

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/compare"
)

// Compile checks and plans a program for the parameters. It needs no keys. It
// fails with an *Error that wraps one of the sentinels of this package and, when
// the program does not fit, names parameters or a scale that would do.
func Compile(prog Source, params henc.Parameters) (*Circuit, error) {
	c, err := compile(prog, params)
	var refused *Error
	if errors.As(err, &refused) {
		refused.Hint = (&adviser{prog, params}).advice(refused)
	}
	return c, err
}

// adviser knows what else a refused program could be compiled for.
type adviser struct {
	prog   Source
	params henc.Parameters
}

// advice returns what would make a refused program fit.
func (a *adviser) advice(err *Error) string {
	if !errors.Is(err, ErrDepth) && !errors.Is(err, ErrMagnitude) {
		return err.Hint
	}
	var ways []string
	lowered := false
	for _, v := range a.prog.Vars {
		lowered = lowered || v.Stream.Level != nil && *v.Stream.Level < a.params.Depth()
	}
	if lowered {
		if c, e := compileChanged(a.prog, a.params, func(st *config.Stream) { st.Level = nil }); e == nil {
			ways = append(ways, fmt.Sprintf("leave out level: of the streams (promised error %.2g)", c.out.Bound))
		}
	}
	if errors.Is(err, ErrMagnitude) {
		top := 0
		for _, v := range a.prog.Vars {
			top = max(top, int(math.Round(math.Log2(InputScale(a.params, v.Stream)))))
		}
		for scale := min(top-1, a.params.LogScale()); scale >= 12; scale-- {
			c, e := compileChanged(a.prog, a.params, func(st *config.Stream) { st.LogScale = scale })
			if e == nil && c.Useful() {
				ways = append(ways, fmt.Sprintf("set log_scale: %d on the streams (promised error %.2g)",
					scale, c.out.Bound))
				break
			}
		}
	}
	if c := a.otherParams(); c != nil {
		ways = append(ways, fmt.Sprintf("use parameters %s (promised error %.2g)", c.params.Name(), c.out.Bound))
	}
	if len(ways) == 0 {
		if err.Hint != "" {
			return err.Hint
		}
		return "no named parameters fit; split the program, or compute part of it after decryption"
	}
	return strings.Join(ways, "; or ")
}

// otherParams returns the program under the first named parameters that give a
// useful promise, else under the first that fit.
func (a *adviser) otherParams() (fits *Circuit) {
	for _, name := range append(henc.Names(), henc.BootstrapNames()...) {
		p, err := henc.Named(name)
		if err != nil || name == a.params.Name() {
			continue
		}
		c, err := compileChanged(a.prog, p, func(st *config.Stream) {
			if st.Params, st.LogScale, st.Level = name, 0, nil; st.Histogram() {
				st.LogScale = config.HistogramLogScale
			}
		})
		if err == nil && c.Useful() {
			return c
		}
		if err == nil && fits == nil {
			fits = c
		}
	}
	return fits
}

// Variants holds the circuits of a program for windows that are not full. It is safe for
// concurrent use.
type Variants struct {
	mu       sync.Mutex
	circuits map[string]*Circuit
}

// Circuit returns the circuit for windows with the given samples by input. It calls
// compile if it does not have that circuit yet.
func (v *Variants) Circuit(present map[Input]int, compile func(map[Input]int) (*Circuit, error)) (*Circuit, error) {
	key := fmt.Sprint(present) // in the order of the inputs
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.circuits[key]; c != nil {
		return c, nil
	}
	c, err := compile(present)
	if err != nil {
		return nil, err
	}
	if v.circuits == nil || len(v.circuits) >= maxVariants {
		v.circuits = map[string]*Circuit{}
	}
	v.circuits[key] = c
	return c, nil
}

// maxVariants bounds the circuits that Variants holds.
const maxVariants = 64

// privateLess is the function that compares samples of two streams of mode digits.
const privateLess = "private_less"

// Comparison is what private_less compares: sample i of Less with sample i of Than, for i below Samples.
type Comparison struct {
	Less, Than Input
	Samples    int
	Window     compare.Window
	grid       config.Grid
	unit       string
}

// Open returns the answers in the body of a result, 1 where a sample is below that of the other stream and otherwise 0.
// decrypt returns the slots of a ciphertext. A slot that is neither, which no honest result has, becomes the largest
// float64: a refusal would reveal something about it. It fails with answer.ErrModel if the body is not one ciphertext.
func (c *Comparison) Open(body []byte, decrypt func([]byte) ([]uint64, error)) ([]float64, error) {
	all, err := answer.Ciphertexts(body)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%w: a comparison has one ciphertext, not %d", answer.ErrModel, len(all))
	}
	slots, err := decrypt(all[0])
	if err != nil {
		return nil, err
	}
	values := make([]float64, c.Samples)
	for i := range values {
		values[i] = math.MaxFloat64
		if at := c.Window.Slot(i); at < len(slots) && slots[at] <= 1 {
			values[i] = float64(slots[at])
		}
	}
	return values, nil
}

// Comparison returns what the circuit compares; nil: it is of another kind.
func (c *Circuit) Comparison() *Comparison { return c.compared }

// compareWindows compiles an expression on whole numbers: private_less of two inputs.
func compareWindows(prog Source, params henc.Parameters) (*Circuit, error) {
	src, tree, err := parse(prog.Name, prog.Expr)
	if err != nil {
		return nil, err
	}
	g := newGraph()
	g.src, g.prog = src, &prog
	compared := g.comparison(tree, params)
	if g.err != nil {
		return nil, g.err
	}
	c := &Circuit{prog: prog, src: src, tree: tree, hi: 1, out: Output{A: 1, Count: compared.Samples},
		compared: compared, routine: routine{name: "program " + prog.Name, params: params, results: []int{0}, places: 1,
			added: 1}}
	for _, in := range []Input{compared.Less, compared.Than} {
		c.steps = append(c.steps, step{op: stepInput, in: in, level: params.MaxLevel(), scale: henc.DefaultT})
	}
	c.lowered = params.MaxLevel()
	// With a bit to spare the noise takes half of what decryption removes, and the rounding at the lowest level takes
	// no more than the other half.
	if p, err := bfv.NewParameters(params, henc.DefaultT); err == nil && compared.Window.Budget(p) >= 1 {
		c.lowered = p.LowestLevel()
	}
	return c, nil
}

// calls returns the arguments if n calls a function, and whether it does.
func calls(n ast.Node, name string) ([]ast.Node, bool) {
	call, ok := n.(*ast.CallNode)
	if !ok {
		return nil, false
	}
	callee, ok := call.Callee.(*ast.IdentifierNode)
	return call.Arguments, ok && callee.Value == name
}

// find returns the first node, from the outside in, that is wanted, or nil.
func find(n ast.Node, wanted func(ast.Node) bool, depth int) ast.Node {
	if n == nil || depth > MaxTreeDeep {
		return nil
	}
	if wanted(n) {
		return n
	}
	for _, c := range children(n) {
		if at := find(c, wanted, depth+1); at != nil {
			return at
		}
	}
	return nil
}

// comparison checks an expression on whole numbers.
func (g *graph) comparison(tree ast.Node, params henc.Parameters) *Comparison {
	args, ok := calls(tree, privateLess)
	if !ok {
		g.onlyCompared(tree)
		return nil
	}
	if len(args) != 2 {
		g.fail(ErrType, tree, "write "+functions[privateLess].args, "%s has %d arguments", g.text(tree), len(args))
		return nil
	}
	var vars [2]Var
	for i, a := range args {
		if vars[i], ok = g.compared(a); !ok {
			return nil
		}
	}
	a, b := vars[0], vars[1]
	if a.Device == b.Device && a.Stream.Name == b.Stream.Name && a.Channel == b.Channel {
		g.fail(ErrConstant, tree, "compare two streams", "%s is the constant 0: both are the same readings",
			g.text(tree))
		return nil
	}
	g.comparable(tree, a, b)
	if g.prog.Resolution != 0 {
		g.fail(ErrUnsupported, tree, "remove resolution: from the program",
			"%s is exact to the steps of its streams, "+
				"and the program has a resolution of %g", g.text(tree), g.prog.Resolution)
	}
	if g.prog.Packed {
		g.fail(ErrParams, tree, "leave out results:", "answers of %s are whole numbers and go out alone",
			g.text(tree))
	}
	if g.err != nil {
		return nil
	}
	return g.laidOut(tree, a, b, params)
}

// onlyCompared refuses an expression on whole numbers that is no comparison.
func (g *graph) onlyCompared(tree ast.Node) {
	inner := find(tree, func(n ast.Node) bool { _, ok := calls(n, privateLess); return ok }, 0)
	if inner != nil {
		g.fail(ErrUnsupported, inner, "write private_less(a, b) alone, and compute with its answers, which are 0 or "+
			"1, after decryption", "%s stands inside another expression", g.text(inner))
		return
	}
	at := find(tree, func(n ast.Node) bool {
		id, ok := n.(*ast.IdentifierNode)
		return ok && g.prog.Vars[id.Value].Stream.Whole()
	}, 0)
	if at == nil {
		at = tree
	}
	g.fail(ErrUnsupported, at, "write private_less(a, b), or leave out mode: digits of the streams",
		"%s is a stream of digits, which only private_less reads", g.text(at))
}

// compared returns the input that an argument names.
func (g *graph) compared(n ast.Node) (Var, bool) {
	id, ok := n.(*ast.IdentifierNode)
	if !ok {
		g.fail(ErrUnsupported, n, "write private_less(a, b) of two inputs, which are compared as their devices "+
			"encrypted them", "%s is no input", g.text(n))
		return Var{}, false
	}
	v, ok := g.prog.Vars[id.Value]
	if !ok {
		names := sortedKeys(g.prog.Vars)
		hint := "the inputs are " + strings.Join(names, ", ")
		if s := nearest(id.Value, names); s != "" {
			hint = "did you mean " + s + "?"
		}
		g.fail(ErrName, n, hint, "unknown variable %s", g.text(n))
		return v, false
	}
	if !v.Stream.Digits() {
		g.fail(ErrParams, n, "give the stream mode: digits, at its device too", "%s is not of mode digits, which "+
			"private_less compares", g.text(n))
		return v, false
	}
	return v, true
}

// comparable refuses inputs whose steps or windows differ.
func (g *graph) comparable(tree ast.Node, a, b Var) {
	x, y := a.Stream.Channels[a.Channel], b.Stream.Channels[b.Channel]
	if x.Range != y.Range || x.Resolution != y.Resolution || x.Unit != y.Unit {
		g.fail(ErrParams, tree, "give both channels the same unit, range and resolution", "%s compares channels of "+
			"different steps: %g to %g %s in steps of %g, and %g to %g %s in steps of %g", g.text(tree), x.Range[0],
			x.Range[1], x.Unit, x.Resolution, y.Range[0], y.Range[1], y.Unit, y.Resolution)
	}
	if n, m := a.Stream.Window.Samples, b.Stream.Window.Samples; n != m {
		g.fail(ErrType, tree, "give both streams the same window", "%s compares windows of %d and %d samples",
			g.text(tree), n, m)
	}
	in := func(v Var) Input { return Input{Device: v.Device, Stream: v.Stream.Name} }
	if n, m := g.prog.present(in(a), a.Stream), g.prog.present(in(b), b.Stream); n != m {
		g.fail(ErrType, tree, "a window that is not full is compared with one of as many samples",
			"%s compares windows that hold %d and %d samples", g.text(tree), n, m)
	}
}

// laidOut returns the comparison of two inputs whose steps agree.
func (g *graph) laidOut(tree ast.Node, a, b Var, params henc.Parameters) *Comparison {
	channel := a.Stream.Channels[a.Channel]
	grid, err := channel.StepGrid()
	if err != nil {
		g.fail(ErrParams, tree, "mend range: or resolution: of the channel",
			"%s: channel %s: %v", g.text(tree), channel.Name, err)
		return nil
	}
	p, err := bfv.NewParameters(params, henc.DefaultT)
	var w compare.Window
	if err == nil {
		w, err = compare.NewWindow(p, grid.Bins)
	}
	if err != nil {
		g.fail(ErrParams, tree, "use a coarser resolution, or params: bfv14", "%s: %v", g.text(tree), err)
		return nil
	}
	if n := a.Stream.Window.Samples; n > w.Numbers() {
		g.fail(ErrSize, tree, "use shorter windows, a coarser resolution, or params: bfv14",
			"%s compares windows of "+
				"%d samples of %d bits; %s has room for %d", g.text(tree), n, w.Bits(), params.Name(), w.Numbers())
		return nil
	}
	if budget := w.Budget(p); budget < 0 {
		g.fail(ErrDepth, tree, "use a coarser resolution, or params: bfv14",
			"%s compares samples of %d bits, which "+
				"takes %.1f bits more noise than %s has", g.text(tree), w.Bits(), -budget, params.Name())
		return nil
	}
	in := Input{Device: a.Device, Stream: a.Stream.Name}
	return &Comparison{Less: in, Than: Input{Device: b.Device, Stream: b.Stream.Name},
		Samples: g.prog.present(in, a.Stream), Window: w, grid: grid, unit: channel.Unit}
}
