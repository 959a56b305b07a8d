package program

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/config"
)

// op is what a node of the graph computes.
type op uint8

const (
	opConst     op = iota // c
	opVar                 // one channel of an input window
	opLin                 // c + sum coef[i]*args[i]
	opProd                // product of args[i]^exps[i]
	opSum                 // sum over the window
	opDot                 // sum over the window of coef[i]*sample i
	opCov                 // population covariance of two windows
	opPoly                // sum coef[i]*arg^i, coef[0] = 0
	opCast                // a single value as a window of equal samples
	opSqrt                // square root by the key holder; only as the root
	opFleetSum            // sum over all samples of all devices of a class
	opFleetMean           // mean over them
	opFleetVar            // population variance over them
	opBins                // the counts of one channel of a histogram; c is the number of samples
	opJoin                // the sum of histograms; c as above
	opFleetBins           // the sum of a histogram over all devices of a class
	opCount               // samples in cell exps[0] or above; below it if exps[1]; their share if exps[2]
	opRead                // what the key holder makes of several counts; only as the root
	opSign                // the sign of each value, undecided nearer than c to 0, to within 2^-exps[0]
	opAbs                 // the magnitude of each value, to within c
	opMax                 // the larger of two values, or the largest of a window; the smaller if exps[0] < 0
	opWithin              // args[0], which is known to be from coef[0] to coef[1]
	opTally               // args[0], a number of samples, or their share if exps[0]
	opAny                 // whether args[0], a number of samples, is at least exps[0]; only as the root
)

// shape is the kind of a value: a window of n samples in blocks of stride
// slots, or a single value (the zero shape).
type shape struct{ n, stride int }

func (s shape) window() bool { return s.n > 0 }

func (s shape) String() string {
	if s.window() {
		return fmt.Sprintf("a window of %d samples", s.n)
	}
	return "a single value"
}

// node is one operation. Nodes are immutable and shared: equal operations on
// equal operands are one node.
type node struct {
	id      int
	op      op
	args    []*node
	coef    []float64
	exps    []int
	c       float64
	in      Input
	channel int
	stream  config.Stream // of a variable
	shape   shape
	at      ast.Node // where it stands first in the text
}

// graph makes nodes. The first error sticks; afterwards every call returns a
// harmless constant.
type graph struct {
	src   *source
	prog  *Source
	nodes map[[32]byte]*node
	sums  map[*node]*node // of windows, so that what is centred is looked at once
	count int
	err   *Error
}

func newGraph() *graph { return &graph{nodes: map[[32]byte]*node{}, sums: map[*node]*node{}} }

func (g *graph) fail(kind error, at ast.Node, hint, format string, args ...any) *node {
	if g.err == nil {
		from, to := 0, 0
		if at != nil {
			from, to = g.src.span(at)
		}
		g.err = g.src.fail(kind, from, to, hint, format, args...)
	}
	return &node{op: opConst}
}

// text returns the source text of a node, in backquotes.
func (g *graph) text(at ast.Node) string {
	from, to := g.src.span(at)
	return "`" + excerpt(g.src.text, from, to) + "`"
}

// intern returns the node that n describes, an older equal one if there is one.
func (g *graph) intern(n node) *node {
	if g.err != nil {
		return &node{op: opConst}
	}
	h := sha256.New()
	var w [8]byte
	put := func(v uint64) {
		binary.LittleEndian.PutUint64(w[:], v)
		h.Write(w[:])
	}
	put(uint64(n.op))
	put(uint64(len(n.args)))
	for _, a := range n.args {
		put(uint64(a.id))
	}
	put(uint64(len(n.coef)))
	for _, c := range n.coef {
		put(math.Float64bits(c))
	}
	for _, e := range n.exps {
		put(uint64(e))
	}
	put(math.Float64bits(n.c))
	put(uint64(n.shape.n))
	put(uint64(n.shape.stride))
	put(uint64(n.channel))
	fmt.Fprintf(h, "%q%q%d", n.in.Device, n.in.Stream, n.in.Lag)
	key := [32]byte(h.Sum(nil))
	if old, ok := g.nodes[key]; ok {
		return old
	}
	if g.count++; g.count > MaxGraph {
		return g.fail(ErrSize, n.at, "split the program", "the program needs more than %d operations", MaxGraph)
	}
	n.id = g.count
	g.nodes[key] = &n
	return &n
}

// decides reports whether a node compares: what is undecided may be in it.
func (n *node) decides(seen map[*node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	return n.op == opSign || slices.ContainsFunc(n.args, func(a *node) bool { return a.decides(seen) })
}

// constant is a number.
func (g *graph) constant(at ast.Node, c float64) *node { return g.constantOf(at, c, shape{}) }

// constantOf is a number with a shape: what is left of a window whose samples
// turn out not to matter.
func (g *graph) constantOf(at ast.Node, c float64, sh shape) *node {
	if !finite(c) {
		return g.fail(ErrConstant, at, "use smaller numbers", "%s is not a finite number", g.text(at))
	}
	if c == 0 {
		c = 0 // no negative zero
	}
	return &node{op: opConst, c: c, shape: sh, at: at}
}

// number reports whether n is a plain number, not what is left of a window.
func (n *node) number() bool { return n.op == opConst && !n.shape.window() }

// term is coef*node.
type term struct {
	coef float64
	node *node
}

// pool gathers the terms of a sum by node.
type pool map[*node]weight

// weight is a sum of coefficients and of their magnitudes.
type weight struct{ sum, abs float64 }

func (p pool) add(n *node, c float64) {
	w := p[n]
	p[n] = weight{w.sum + c, w.abs + math.Abs(c)}
}

// sorted returns the terms by age. What cancels, up to float64's rounding, is left
// out: x - mean(x) has the mean 0, not a mean of 1e-17.
func (p pool) sorted() []term {
	ts := make([]term, 0, len(p))
	for n, w := range p {
		if math.Abs(w.sum) > w.abs*0x1p-46 {
			ts = append(ts, term{w.sum, n})
		}
	}
	slices.SortFunc(ts, func(a, b term) int { return a.node.id - b.node.id })
	return ts
}

// lin returns c + sum of the terms: nested sums are flattened, equal terms merged,
// and single values that are added to windows gathered into one opCast.
func (g *graph) lin(at ast.Node, c float64, terms ...term) *node {
	windows, singles := pool{}, pool{}
	var sh shape
	for _, t := range terms {
		if t.node.op == opSqrt {
			return g.scaledRoot(at, c, terms)
		}
		if s := t.node.shape; s.window() {
			if sh.window() && sh != s {
				return g.fail(ErrType, at, "use windows of equal length", "%s combines windows of %d and %d samples",
					g.text(at),
					sh.n, s.n)
			}
			sh = s
		}
		if t.coef != 0 {
			c += t.coef * g.gather(t.node, t.coef, windows, singles)
		}
	}
	ones := singles.sorted()
	if sh.window() && len(ones) > 0 {
		inner := g.linNode(at, 0, ones, shape{})
		windows.add(g.cast(at, inner, sh), 1)
		ones = nil
	}
	return g.linNode(at, c, append(windows.sorted(), ones...), sh)
}

// gather adds coef*n to the pools and returns the constant part of n.
func (g *graph) gather(n *node, coef float64, windows, singles pool) (c float64) {
	switch {
	case n.op == opConst:
		return n.c
	case n.op == opLin:
		c = n.c
		for i, a := range n.args {
			c += n.coef[i] * g.gather(a, coef*n.coef[i], windows, singles)
		}
		return c
	case n.op == opCast && n.args[0].op == opLin:
		inner := n.args[0]
		for i, a := range inner.args {
			singles.add(a, coef*inner.coef[i])
		}
		return inner.c
	case n.op == opCast:
		singles.add(n.args[0], coef)
	case n.shape.window():
		windows.add(n, coef)
	default:
		singles.add(n, coef)
	}
	return 0
}

func (g *graph) linNode(at ast.Node, c float64, terms []term, sh shape) *node {
	if len(terms) == 0 {
		return g.constantOf(at, c, sh)
	}
	if len(terms) > MaxTerms {
		return g.fail(ErrSize, at, "split the program",
			"%s has %d terms, at most %d are allowed", g.text(at), len(terms), MaxTerms)
	}
	if len(terms) == 1 && terms[0].coef == 1 && c == 0 {
		return terms[0].node
	}
	n := node{op: opLin, c: c, shape: sh, at: at}
	for _, t := range terms {
		if !finite(t.coef) || !finite(c) {
			return g.fail(ErrConstant, at, "use smaller numbers",
				"a constant in %s is not a finite number", g.text(at))
		}
		n.args, n.coef = append(n.args, t.node), append(n.coef, t.coef)
	}
	return g.intern(n)
}

// scaledRoot allows one thing that may be done to a square root: multiplying it
// by a constant that is not negative.
func (g *graph) scaledRoot(at ast.Node, c float64, terms []term) *node {
	if len(terms) == 1 && c == 0 && terms[0].coef > 0 && terms[0].node.op == opSqrt {
		k := terms[0].coef
		return g.root(at, g.lin(at, 0, term{k * k, terms[0].node.args[0]}))
	}
	return g.insideRoot(at)
}

func (g *graph) insideRoot(at ast.Node) *node {
	return g.fail(ErrUnsupported, at,
		"the key holder takes the root after decryption: sqrt, std and rms must be outermost; compute the square "+
			"(var(x), mean(x^2)) instead",
		"%s computes with a square root", g.text(at))
}

// root returns a node for the square root that the key holder takes.
func (g *graph) root(at ast.Node, n *node) *node {
	switch {
	case n.op == opSqrt:
		return g.insideRoot(at)
	case n.op == opConst && n.c < 0:
		return g.fail(ErrConstant, at, "take the root of a value that is not negative",
			"%s is the square root of a negative number", g.text(at))
	case n.op == opConst:
		return g.constant(at, math.Sqrt(n.c))
	}
	return g.intern(node{op: opSqrt, args: []*node{n}, shape: n.shape, at: at})
}

// cast makes a single value a window of equal samples.
func (g *graph) cast(at ast.Node, n *node, sh shape) *node {
	if n.op == opConst {
		return g.constantOf(at, n.c, sh)
	}
	return g.intern(node{op: opCast, args: []*node{n}, shape: sh, at: at})
}
