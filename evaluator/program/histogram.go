package program

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/config"
)

// Programs on histograms. A window of a stream with mode: histogram holds, for each channel,
// how many samples are in a cell of config.Grid or above. These counts are what comparisons
// with edges ask for:
//
//	#(x >  edge j) = #(cell >= 2j+1)        #(x <= edge j) = samples - #(x > edge j)
//	#(x >= edge j) = #(cell >= 2j)          #(x <  edge j) = samples - #(x >= edge j)
//
// So a count is one slot of the window, or of a sum of windows: nothing is multiplied and
// nothing rotated. What lies between two edges is a difference of two slots, and a quantile
// the cell at which the counts pass a rank; the key holder computes both after decryption.
//
// Results are exact. Every count is a whole number, and a program is refused unless the bound
// of the noise, which no value exceeds with a probability of 10^-16, is below a quarter: then
// rounding gives that number. A value errs by more than twice the bound with a probability
// below the square of that, so that all slots of a histogram together keep the promise.

// maxCountNoise is the bound of the noise from which counts would not be exact.
const maxCountNoise = 0.25

// reading says how the key holder makes one value of several counts.
type reading uint8

const (
	readSlots   reading = iota // it does not: every slot is a value
	readBetween                // samples of the first cell or above, less those of the last or above
	readRank                   // the sample of a rank
)

// Counts say how one value follows from counts of samples.
type Counts struct {
	kind  reading
	rank  int64       // 1 is the smallest sample
	total int64       // samples
	of    int64       // what a difference is divided by
	grid  config.Grid // of the channel
}

// value returns the value that follows from whole counts. It is defined for any, and for
// those of an honest result it is exact, or for a rank the cell is.
func (c *Counts) value(counts []float64) float64 {
	if c.kind == readBetween {
		return (counts[0]-counts[len(counts)-1])/float64(c.of) + 0
	}
	// The sample of rank r is in the first cell k with total - #(cell > k) >= r.
	cell := 0
	for _, above := range counts {
		if above > float64(c.total-c.rank) {
			cell++
		}
	}
	j := cell / 2
	if cell%2 == 0 {
		return c.grid.Edge(j)
	}
	return c.grid.Edge(j)/2 + c.grid.Edge(j+1)/2
}

// bound returns the largest distance of a value of a rank from the sample, which is anywhere
// between two edges or is an edge.
func (c *Counts) bound(value float64) float64 {
	if c.grid.Cell(value)%2 == 0 {
		return 0
	}
	return c.width()
}

// String says in words how the value follows; it is empty if there are no counts.
func (c *Counts) String() string {
	switch {
	case c.kind == readSlots:
		return ""
	case c.kind == readRank:
		return fmt.Sprintf("the sample of rank %d of %d", c.rank, c.total)
	case c.of > 1:
		return fmt.Sprintf("the first less the last, divided by %d", c.of)
	}
	return "the first less the last"
}

// width is half a bin, with what float64 rounds.
func (c *Counts) width() float64 {
	far := max(math.Abs(c.grid.Edge(0)), math.Abs(c.grid.Edge(c.grid.Bins)))
	return c.grid.Width()/2 + 0x1p-50*far
}

// counting are the functions of histograms.
var counting = []string{"count", "fraction", "quantile", "median", "min", "max"}

// histogram lowers a function of a histogram, across devices where fleet is set.
func (g *graph) histogram(t ast.Node, name string, args []ast.Node, fleet bool, sc scope, depth int) *node {
	if f := functions[name]; len(args) != f.min {
		return g.fail(ErrType, t, "write "+f.args, "%s has %d arguments, %s of a histogram takes %d", g.text(t),
			len(args), name, f.min)
	}
	if name == "count" || name == "fraction" {
		c := g.condition(args[0], sc, depth+1)
		if g.err != nil {
			return &node{op: opConst}
		}
		return g.countOf(t, name, c, fleet)
	}
	p := map[string]float64{"min": 0, "max": 1, "median": 0.5}[name]
	if name == "quantile" {
		b := g.expr(args[1], sc, depth+1)
		if g.err == nil && (!b.number() || !(b.c >= 0 && b.c <= 1)) {
			return g.fail(ErrType, args[1], "write a number from 0 to 1, such as 0.99",
				"%s is no share of the samples", g.text(args[1]))
		}
		p = b.c
	}
	a := g.across(args[0], g.bins(t, args[0], sc, depth+1), fleet)
	return g.intern(node{op: opRead, args: []*node{a}, exps: []int{int(readRank), 0, 0, 0}, c: p, at: t})
}

// countOf returns how many samples are in the cells of a condition, or which share.
func (g *graph) countOf(t ast.Node, name string, c condition, fleet bool) *node {
	cells := c.grid.Slots() + 1
	switch {
	case c.low >= c.high:
		return g.fail(ErrConstant, t, "compare with a value inside of the range",
			"%s holds for no sample", g.text(c.at))
	case c.low == 0 && c.high == cells:
		return g.fail(ErrConstant, t, "the number of samples travels with the result in the clear",
			"%s holds for every sample: the range is %g to %g", g.text(c.at), c.grid.Edge(0), c.grid.Edge(c.grid.Bins))
	}
	share := 0
	if name == "fraction" {
		share = 1
	}
	a := g.across(c.at, c.bins, fleet)
	switch {
	case c.high == cells:
		return g.intern(node{op: opCount, args: []*node{a}, exps: []int{c.low, 0, share}, at: t})
	case c.low == 0:
		return g.intern(node{op: opCount, args: []*node{a}, exps: []int{c.high, 1, share}, at: t})
	}
	return g.intern(node{op: opRead, args: []*node{a}, exps: []int{int(readBetween), c.low, c.high, share}, at: t})
}

// condition says which cells a comparison holds for: those from low on, below high.
type condition struct {
	bins      *node
	grid      config.Grid
	low, high int
	at        ast.Node
}

// condition lowers comparisons of a histogram with edges.
func (g *graph) condition(n ast.Node, sc scope, depth int) (c condition) {
	fail := func(kind error, hint, format string, args ...any) condition {
		g.fail(kind, n, hint, format, args...)
		return c
	}
	t, ok := n.(*ast.BinaryNode)
	switch {
	case g.err != nil:
		return c
	case depth > MaxTreeDeep:
		return fail(ErrSize, "split the program", "the expression is nested more than %d deep", MaxTreeDeep)
	case !ok || !slices.Contains([]string{"<", "<=", ">", ">=", "==", "&&", "and"}, t.Operator):
		return fail(ErrType, "write count(x > 80), count(20 < x <= 80) or count(x > 20 and x < 80)",
			"%s does not compare a histogram with numbers", g.text(n))
	case t.Operator == "&&" || t.Operator == "and":
		a, b := g.condition(t.Left, sc, depth+1), g.condition(t.Right, sc, depth+1)
		if g.err == nil && a.bins != b.bins {
			return fail(ErrUnsupported, "write a program for each, and combine their results after decryption",
				"%s compares two histograms: which samples belong together is not in them", g.text(n))
		}
		return condition{a.bins, a.grid, max(a.low, b.low), min(a.high, b.high), n}
	}
	x, number, operator := t.Left, t.Right, t.Operator
	if literal(x, 0) {
		x, number = number, x
		operator = map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}[operator]
	}
	if !literal(number, 0) || literal(x, 0) {
		return fail(ErrType, "write count(x > 80): a histogram on one side, a number on the other",
			"%s does not compare a histogram with a number", g.text(n))
	}
	c = condition{bins: g.bins(n, x, sc, depth+1), at: n}
	at := g.expr(number, scope{}, depth+1)
	if g.err != nil {
		return c
	}
	j := g.edge(n, x, &c, at.c)
	c.low, c.high = 0, c.grid.Slots()+1
	switch operator {
	case ">":
		c.low = 2*j + 1
	case ">=":
		c.low = 2 * j
	case "<":
		c.high = 2 * j
	case "<=":
		c.high = 2*j + 1
	default:
		c.low, c.high = 2*j, 2*j+1
	}
	return c
}

// edge sets the grid of a condition and returns the edge that a number is. Other numbers are
// refused: only comparisons with edges are decided for every sample.
func (g *graph) edge(n, x ast.Node, c *condition, v float64) int {
	leaf := c.bins
	for leaf.op != opBins {
		leaf = leaf.args[0]
	}
	grid, err := leaf.stream.Channels[leaf.channel].Grid()
	if c.grid = grid; err != nil {
		g.fail(ErrParams, n, "mend range: or resolution: of the channel", "%s: %v", g.text(x), err)
		return 0
	}
	low, high := grid.Edge(0), grid.Edge(grid.Bins)
	if v < low || v > high {
		g.fail(ErrConstant, n, "values outside of the range are counted as its ends",
			"%s is the same for all samples: the range of %s is %g to %g", g.text(n), g.text(x), low, high)
		return 0
	}
	cell := grid.Cell(v)
	if cell%2 == 1 {
		a, b := grid.Edge(cell/2), grid.Edge(cell/2+1)
		g.fail(ErrConstant, n, "write "+config.FormatNumber(a)+" or "+config.FormatNumber(b)+
			", or give the channel a finer resolution", "%s compares with a number between two edges of the bins "+
			"of %s, where the samples are not told apart", g.text(n), g.text(x))
	}
	return cell / 2
}

// literal reports whether a syntax tree is made of numbers alone.
func literal(n ast.Node, depth int) bool {
	switch t := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	case *ast.UnaryNode:
		return depth < MaxTreeDeep && literal(t.Node, depth+1)
	case *ast.BinaryNode:
		return depth < MaxTreeDeep && literal(t.Left, depth+1) && literal(t.Right, depth+1)
	}
	return false
}

// bins lowers the histogram that a function of t reads: a variable, an older window of it, or
// several windows added up.
func (g *graph) bins(t, n ast.Node, sc scope, depth int) *node {
	if g.err != nil || depth > MaxTreeDeep {
		return g.fail(ErrSize, nil, "split the program", "the expression is nested more than %d deep", MaxTreeDeep)
	}
	switch x := n.(type) {
	case *ast.IdentifierNode:
		for b := sc.let; b != nil; b = b.parent {
			if b.name == x.Value {
				inner := b.outer
				inner.lag = sc.lag
				return g.bins(t, b.value, inner, depth+1)
			}
		}
		v, ok := g.prog.Vars[x.Value]
		if !ok {
			return g.name(x, sc, depth) // says what is near
		}
		if !v.Stream.Histogram() {
			return g.fail(ErrUnsupported, t, "give the stream mode: histogram for exact counts, quantiles, minima and "+
				"maxima", "%s compares encrypted samples", g.text(t))
		}
		in := Input{Device: v.Device, Stream: v.Stream.Name, Lag: sc.lag}
		return g.intern(node{op: opBins, stream: v.Stream, in: in, channel: v.Channel, at: n,
			c: float64(g.prog.present(in, v.Stream))})
	case *ast.CallNode:
		callee, _ := x.Callee.(*ast.IdentifierNode)
		switch {
		case callee == nil:
		case callee.Value == "last":
			return g.last(t, x, sc, depth)
		case callee.Value == "prev" || callee.Value == "lag":
			if f := functions[callee.Value]; len(x.Arguments) != f.min {
				return g.fail(ErrType, n, "write "+f.args, "%s has %d arguments", g.text(n), len(x.Arguments))
			}
			if sc.lag = g.back(n, callee.Value, x.Arguments, sc, depth); g.err != nil {
				return &node{op: opConst}
			}
			return g.bins(t, x.Arguments[0], sc, depth+1)
		}
	}
	return g.fail(ErrUnsupported, n, "name an input whose stream has mode: histogram, or prev, lag or last of one",
		"%s is no histogram, and %s needs one", g.text(n), g.text(t))
}

// last adds up the windows of a histogram, from the newest one back.
func (g *graph) last(t ast.Node, n *ast.CallNode, sc scope, depth int) *node {
	if len(n.Arguments) != 2 {
		return g.fail(ErrType, n, "write "+functions["last"].args,
			"%s has %d arguments", g.text(n), len(n.Arguments))
	}
	k := g.expr(n.Arguments[1], sc, depth+1)
	if g.err == nil && (!k.number() || k.c != math.Trunc(k.c) || k.c < 1 || k.c > MaxInputs) {
		return g.fail(ErrType, n.Arguments[1], "write "+functions["last"].args,
			"last needs a whole number of windows from 1 to %d", MaxInputs)
	}
	sum := node{op: opJoin, at: n}
	for range int(k.c) {
		if sc.lag > MaxLag {
			return g.fail(ErrSize, n, "use longer windows",
				"%s looks %d windows back, at most %d are kept", g.text(n), sc.lag, MaxLag)
		}
		a := g.bins(t, n.Arguments[0], sc, depth+1)
		if a.op == opJoin { // the windows of several in each other would multiply
			return g.fail(ErrUnsupported, n, "write last once, with all windows", "%s adds up sums of windows",
				g.text(n))
		}
		sum.args, sum.c = append(sum.args, a), sum.c+a.c
		sc.lag++
	}
	return g.intern(sum)
}

// across returns the sum of a histogram over the devices of a class, where fleet is set.
func (g *graph) across(t ast.Node, a *node, fleet bool) *node {
	switch {
	case g.err != nil || !fleet:
		return a
	case a.op != opBins || a.in.Lag != 0:
		return g.fail(ErrUnsupported, t, "leave out prev, lag and last inside a function across devices",
			"%s is not about windows of one interval", g.text(t))
	}
	return g.intern(node{op: opFleetBins, args: []*node{a}, at: t})
}

// counts plans a node of a histogram. Its value is that of the first slot that it reads.
func (e *evaluator) counts(n *node) val {
	switch n.op {
	case opBins:
		e.enter(n)
		st := n.stream
		return val{a: 1 / st.CountUnit(), w: e.input(n.in, st), pos: n.channel * st.Stride(), hi: n.c}
	case opJoin:
		var terms []linTerm
		var v val
		for _, a := range n.args {
			v = e.eval(a)
			terms = append(terms, linTerm{v.w, 1})
		}
		e.enter(n)
		w, gain := e.lin(terms)
		v.w, v.a, v.hi = w, v.a*gain, n.c
		return v
	case opFleetBins:
		v := e.summed(n)
		e.enter(n)
		if e.err != nil {
			return val{}
		}
		return val{a: v[0].a, w: e.sumPlaces(v[0].w), pos: v[0].pos, hi: e.fleet.samples}
	}
	v, total := e.eval(n.args[0]), e.samples(n.args[0])
	e.enter(n)
	if n.op == opRead {
		return e.read(n, v)
	}
	v.pos += n.exps[0] - 1
	if n.exps[1] > 0 {
		v.a, v.b = -v.a, exactly(total)
	}
	if n.exps[2] > 0 {
		v.a, v.b, v.hi = v.a/total, exactly(v.b.value()/total), 1
	}
	return v
}

// read plans a value that the key holder makes of several counts.
func (e *evaluator) read(n *node, v val) val {
	grid := n.args[0].grid()
	v.sh = shape{grid.Slots(), grid.Slots()}
	if reading(n.exps[0]) == readRank {
		v.lo, v.hi = grid.Edge(0), grid.Edge(grid.Bins)
		return v
	}
	v.pos += n.exps[1] - 1
	v.sh.n = n.exps[2] - n.exps[1] + 1
	if n.exps[3] > 0 {
		v.hi = 1
	}
	return v
}

// grid returns the bins of a histogram, which have been checked.
func (n *node) grid() config.Grid {
	for n.op != opBins {
		n = n.args[0]
	}
	grid, _ := n.stream.Channels[n.channel].Grid()
	return grid
}

// samples returns how many samples a histogram counts.
func (e *evaluator) samples(n *node) float64 {
	if n.op == opFleetBins {
		return e.fleet.samples
	}
	return n.c
}

// counts reports whether the key holder may round the values of a root to whole numbers. Their results keep their noise
// as small as it is, so that none is refused.
func (n *node) counts() bool {
	switch n.op {
	case opCount, opTally, opAny, opRead:
		return true
	case opLin:
		return n.whole()
	}
	return false
}

// exact fills in how the key holder makes the exact value of a root that counts, of which
// out has the values before rounding. It refuses noise that rounding does not remove.
func (e *evaluator) exact(root *node, out *Output) {
	whole := 1.0
	switch {
	case root.op == opCount && root.exps[2] > 0:
		whole = e.samples(root.args[0])
	case root.op == opTally && root.exps[0] > 0:
		whole = root.c
	case root.op == opAny:
		out.AtLeast = float64(root.exps[0])
	case root.op == opCount || root.op == opRead || root.op == opTally:
	case root.op == opLin && root.whole() && out.Bound < maxCountNoise:
	default:
		return
	}
	noise := out.Bound * whole
	if tally := root.op == opTally || root.op == opAny; tally && e.err == nil && !(noise < maxCountNoise) {
		e.fail(ErrMagnitude, "use shorter windows",
			"%s would not be exact: noise and comparisons may add up to %.2g",
			e.text(), noise)
		return
	}
	if e.err == nil && !(noise < maxCountNoise) {
		e.fail(ErrParams, "use a larger log_scale on the stream, or shorter windows",
			"%s would not be exact: the noise may reach %.2g of a count", e.text(), noise)
		return
	}
	out.Whole, out.Noise, out.Bound = whole, noise, 0
	if root.op == opRead {
		out.Counts = Counts{kind: reading(root.exps[0]), grid: root.args[0].grid(), of: 1}
		c := &out.Counts
		c.total = int64(e.samples(root.args[0]))
		switch {
		case c.kind == readRank:
			c.rank = rankOf(root.c, c.total)
			out.Bound = c.width()
		case root.exps[3] > 0:
			c.of = c.total
		}
	}
}

// whole reports whether a sum is one of counts, with whole factors.
func (n *node) whole() bool {
	if n.c != math.Trunc(n.c) {
		return false
	}
	for i, a := range n.args {
		whole := a.op == opCount && a.exps[2] == 0 || a.op == opTally && a.exps[0] == 0
		if !whole || n.coef[i] != math.Trunc(n.coef[i]) {
			return false
		}
	}
	return true
}

// rankOf returns the rank of the p-quantile of n samples: the least whole number that is at
// least p*n, but 1. p counts as the decimal number that it was written as.
func rankOf(p float64, n int64) int64 {
	x, ok := new(big.Rat).SetString(strconv.FormatFloat(p, 'g', -1, 64))
	if !ok {
		return 1
	}
	x.Mul(x, new(big.Rat).SetInt64(n))
	rank := new(big.Int).Add(x.Num(), new(big.Int).Sub(x.Denom(), big.NewInt(1)))
	return min(max(rank.Div(rank, x.Denom()).Int64(), 1), max(n, 1))
}

// outermost refuses a value that the key holder makes anywhere but outermost.
func (g *graph) outermost(root *node) {
	seen := map[*node]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		if seen[n] || g.err != nil {
			return
		}
		seen[n] = true
		if n.op == opAny && n != root {
			g.fail(ErrUnsupported, n.at, "the key holder compares the count: any and all must be outermost; "+
				"write count", "%s is part of another value", g.text(n.at))
		}
		if n.op == opRead && n != root {
			hint := "the key holder makes it after decryption: quantile, median, min and max must be outermost"
			if reading(n.exps[0]) == readBetween {
				hint = "let it be outermost, or write count(x > 20) - count(x >= 80), which needs keys for rotations"
			}
			g.fail(ErrUnsupported, n.at, hint, "%s is part of another value", g.text(n.at))
		}
		for _, a := range n.args {
			walk(a)
		}
	}
	walk(root)
}
