package program

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr/ast"
)

// Programs across the devices of a class (fleet.mean and the like) run in two parts:
//
//   - What each window contributes is computed for the window alone: x, and x*x for a
//     variance. These parts are added up as the windows arrive. Nothing else is kept of them.
//   - The rest is computed once, from the sums: the sum over slots, the square of a mean.
//
// The parts are planned for the largest number of windows that the parameters hold, and so
// do not depend on how many come. The rest is planned for the windows that have come:
// evaluator and key holder find the same plan from the two counts in a result's header.

// Across returns the circuit that computes the result from the sums of the parts of windows,
// with samples in all of them together. Its inputs are SumInput(0), SumInput(1) and so on. It
// fails with ErrInput if the counts are not possible.
func (c *Circuit) Across(windows int, samples int64) (*Circuit, error) {
	a := c.across
	if a == nil {
		return nil, fmt.Errorf("%w: program %s is for single devices", ErrInput, c.Name())
	}
	full := int64(windows) * int64(c.prog.stream(c.Inputs()[0]).Window.Samples)
	if windows < 1 || windows > a.capacity || samples < int64(windows) || samples > full {
		return nil, fmt.Errorf("%w: program %s across %d windows with %d samples; it takes 1 to %d windows",
			ErrInput, c.Name(), windows, samples, a.capacity)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := [2]int64{int64(windows), samples}
	if made := a.made[key]; made != nil {
		return made, nil
	}
	ch := chainOf(c.params, &c.prog)
	ch.added = 1
	s := &search{prog: &c.prog, src: c.src, root: a.root, ch: ch,
		fleet: &fleet{windows: float64(windows), samples: float64(samples), from: a}}
	best, err := s.run()
	if err != nil {
		return nil, err
	}
	made := s.circuit(best, c.tree, "program "+c.Name())
	if a.made == nil || len(a.made) >= maxVariants {
		a.made = map[[2]int64]*Circuit{}
	}
	a.made[key] = made
	return made, nil
}

// Parts returns what every window contributes to a program across devices: it takes the
// window and has a result for each sum. nil for other programs.
func (c *Circuit) Parts() Routine {
	if c.across == nil {
		return nil
	}
	return &parts{c.across.window}
}

// Capacity returns the most windows that a result of a program across devices takes, and 0
// for other programs.
func (c *Circuit) Capacity() int {
	if c.across == nil {
		return 0
	}
	return c.across.capacity
}

// SumInput names sum k of the parts of a program across devices.
func SumInput(k int) Input { return Input{Stream: "sum", Lag: k} }

// parts is the Routine of what windows contribute.
type parts struct{ *routine }

// across is what is fixed of a program across devices, whoever reports.
type across struct {
	root     *node
	capacity int             // windows
	parts    map[*node][]val // of each fleet function; val.w counts the results of window
	window   *routine        // what each window contributes
	sums     []step          // the results of window

	mu   sync.Mutex
	made map[[2]int64]*Circuit // by windows and samples, at most maxVariants
}

// capacities are the numbers of windows that are tried. The header of a result counts to
// the first one.
var capacities = []int{1 << 16, 1 << 12, 1 << 8, 1 << 4}

// acrossDevices plans a program across devices for the largest number of windows that
// fits and gives a useful promise, else for the largest that fits.
func (s *search) acrossDevices(tree ast.Node) (*Circuit, error) {
	if s.prog.Packed {
		from, to := s.src.span(s.root.at)
		return nil, s.src.fail(ErrUnsupported, from, to, "leave out results: pack of this key set, or the program",
			"a result across devices does not go into a pack")
	}
	samples := 0
	for _, v := range s.prog.Vars {
		samples = max(samples, v.Stream.Window.Samples)
	}
	var best *plan
	var last *Error
	capacity := 0
	for _, n := range capacities {
		s.fleet = &fleet{windows: float64(n), samples: float64(n) * float64(samples)}
		p, err := s.run()
		if err != nil {
			last = err
			continue
		}
		fits := useful(p.lo, p.hi, p.out)
		if best == nil || fits {
			best, capacity = p, n
		}
		if fits {
			break
		}
	}
	if best == nil {
		return nil, last
	}
	if s.prog.compact() {
		s.ch.boot = bootstrapOf(s.ch.params)
	}
	c := s.circuit(best, tree, "program "+s.prog.Name)
	c.across = &across{root: s.root, capacity: capacity, parts: map[*node][]val{}}
	c.across.divide(best, &c.routine)
	return c, nil
}

// divide takes the parts of windows out of a plan.
func (a *across) divide(p *plan, r *routine) {
	var from []int // the steps that are added up
	for n, vs := range p.parts {
		a.parts[n] = slices.Clone(vs)
		for _, v := range vs {
			if at := p.steps[v.w].a; !slices.Contains(from, at) {
				from = append(from, at)
			}
		}
	}
	slices.Sort(from)
	for _, vs := range a.parts {
		for i := range vs {
			vs[i].w = slices.Index(from, p.steps[vs[i].w].a)
		}
	}
	steps, at := prune(p.steps, from)
	a.window = &routine{name: "a window of " + r.name, params: r.params, steps: steps, results: at,
		places: r.places, added: 1, compact: r.compact, boot: r.boot}
	for _, i := range at {
		a.sums = append(a.sums, steps[i])
	}
}

// fleet is the number of windows that a program across devices is planned for.
type fleet struct {
	windows, samples float64
	from             *across         // the parts are fixed, and their sums are inputs; nil: not yet
	made             map[*node][]val // what is added up for each function, as planned so far
	order            []int           // the steps that add up, as they were made
}

func (f *fleet) fresh() *fleet {
	return &fleet{windows: f.windows, samples: f.samples, from: f.from, made: map[*node][]val{}}
}

// gathers returns the steps that add windows up.
func (f *fleet) gathers() []int {
	if f == nil || f.from != nil {
		return nil
	}
	return f.order
}

// placed returns what is added up, after the steps of gathers were renumbered.
func (f *fleet) placed(at []int) map[*node][]val {
	if f == nil || f.from != nil {
		return nil
	}
	for _, vs := range f.made {
		for i := range vs {
			vs[i].w = at[slices.Index(f.order, vs[i].w)]
		}
	}
	return f.made
}

// acrossDevices plans a function across devices.
func (e *evaluator) acrossDevices(n *node) val {
	sums := e.summed(n)
	e.enter(n)
	if e.err != nil {
		return val{}
	}
	count := e.fleet.samples
	if n.op == opFleetVar {
		return e.varianceAcross(sums, count)
	}
	v := e.slotSum(sums[0])
	if n.op == opFleetMean {
		v.a /= count
		return v
	}
	v.b = v.b.times(exactly(count))
	v.lo, v.hi = v.lo*count, v.hi*count
	return v
}

// slotSum sums the slots of a sum of windows, which stand at all places. The bounds and B stay those of a sample.
func (e *evaluator) slotSum(x val) val {
	x.w = e.sumPlaces(e.sum(x.w, x.sh.stride, float64(x.sh.n)))
	x.sh = shape{}
	return x
}

// varianceAcross returns (n*sum(c*c) - sum(c)^2)/n^2 on the ciphertexts, from the sums of
// c*c and c, so that the offset of the channel does not enter.
func (e *evaluator) varianceAcross(sums []val, n float64) val {
	squares, plain := e.slotSum(sums[0]), e.slotSum(sums[1])
	square := e.times(plain.bare(), plain.bare())
	square, products := e.together(square, squares.bare())
	if e.err != nil {
		return val{}
	}
	a := plain.a * plain.a
	out := val{pos: products.pos}
	out.w, out.a = e.lin([]linTerm{{products.w, a * squares.a / n}, {square.w, -a * square.a / (n * n)}})
	out.hi = (plain.hi - plain.lo) / 2 * (plain.hi - plain.lo) / 2
	return out
}

// summed returns the sums over devices that a function needs: of the squares and of the
// samples for a variance, else of the samples.
func (e *evaluator) summed(n *node) []val {
	if vs := e.fleet.made[n]; vs != nil {
		return vs
	}
	var vs []val
	if from := e.fleet.from; from != nil {
		for _, v := range from.parts[n] {
			v.w = e.sumInput(v.w)
			vs = append(vs, v)
		}
	} else {
		x := e.eval(n.args[0])
		e.enter(n)
		vs = []val{x}
		if n.op == opFleetVar {
			vs = []val{e.times(x.bare(), x.bare()), x}
		}
		for i := range vs {
			vs[i].w = e.gather(vs[i])
		}
	}
	if e.err != nil {
		return nil
	}
	e.fleet.made[n] = vs
	return slices.Clone(vs)
}

// gather adds up the windows of all devices.
func (e *evaluator) gather(x val) int {
	if e.err != nil {
		return 0
	}
	a := e.summand(x.w, float64(x.sh.n)*e.fleet.windows)
	s := *e.get(a)
	s.op, s.a, s.b, s.k, s.by, s.plain, s.in = stepGather, a, 0, 0, 0, nil, Input{}
	w := e.add(e.overDevices(s))
	if !slices.Contains(e.fleet.order, w) {
		e.fleet.order = append(e.fleet.order, w)
	}
	return w
}

// overDevices returns a step with the magnitude and error of a sum over all windows.
func (e *evaluator) overDevices(s step) step {
	s.mag *= e.fleet.windows
	s.dev = s.dev.across(e.fleet.windows)
	e.check(s.level, s.mag, s.dev.limit(), s.scale, s.depth)
	return s
}

// sumInput returns sum k of the parts, which arrives as an input. All of them come from the
// same windows, so that their errors may depend on each other.
func (e *evaluator) sumInput(k int) int {
	s := e.fleet.from.sums[k]
	s.op, s.a, s.b, s.k, s.by, s.plain, s.in = stepInput, 0, 0, 0, 0, nil, SumInput(k)
	w := e.add(e.overDevices(s))
	if e.err == nil {
		e.steps[w].roots = set{}.with(0)
	}
	return w
}

const fleetPrefix = "fleet."

// fleetName returns the name of a function across devices, "" for other expressions.
func fleetName(callee ast.Node) string {
	m, ok := callee.(*ast.MemberNode)
	if !ok {
		return ""
	}
	of, ok := m.Node.(*ast.IdentifierNode)
	name, named := m.Property.(*ast.StringNode)
	if !ok || !named || of.Value+"." != fleetPrefix {
		return ""
	}
	return fleetPrefix + name.Value
}

// fleetCall is a call of a function across devices.
func (g *graph) fleetCall(t *ast.CallNode, name string, sc scope, depth int) *node {
	ops := map[string]op{"fleet.sum": opFleetSum, "fleet.mean": opFleetMean, "fleet.var": opFleetVar}
	kind, ok := ops[name]
	histogram := slices.Contains(counting, strings.TrimPrefix(name, fleetPrefix))
	switch {
	case !ok && !histogram:
		return g.fail(ErrName, t, "the functions across devices are fleet.mean, fleet.sum and fleet.var; of "+
			"histograms fleet."+strings.Join(counting, ", fleet."),
			"unknown function %q", excerpt(name, 0, 40))
	case len(t.Arguments) != 1 && !histogram:
		return g.fail(ErrType, t, "write "+functions[name].args, "%s has %d arguments, %s takes 1", g.text(t),
			len(t.Arguments), name)
	case g.prog.Class == "":
		return g.fail(ErrUnsupported, t, "write for: and the class, and inputs without a device",
			"%s is computed across the devices of a class, and the program is for none", g.text(t))
	case histogram:
		return g.histogram(t, strings.TrimPrefix(name, fleetPrefix), t.Arguments, true, sc, depth)
	}
	a := g.expr(t.Arguments[0], sc, depth+1)
	switch {
	case g.err != nil:
		return a
	case a.op == opConst:
		return g.noWindow(t, a)
	case !a.samplewise(map[*node]bool{}):
		return g.fail(ErrUnsupported, t.Arguments[0],
			"leave out mean, sum and other functions of a window, and fleet functions, inside "+name,
			"%s is not computed sample by sample from windows of one interval", g.text(t.Arguments[0]))
	}
	return g.intern(node{op: kind, args: []*node{a}, at: t})
}

// samplewise reports whether a node is computed sample by sample from windows of one interval.
func (n *node) samplewise(seen map[*node]bool) bool {
	if seen[n] {
		return true
	}
	seen[n] = true
	switch n.op {
	case opVar:
		return n.in.Lag == 0
	case opLin, opProd, opPoly:
		return n.shape.window() && !slices.ContainsFunc(n.args, func(a *node) bool { return !a.samplewise(seen) })
	}
	return false
}

// spans reports whether a node is computed across devices.
func (n *node) spans(seen map[*node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	return n.acrossDevices() || slices.ContainsFunc(n.args, func(a *node) bool { return a.spans(seen) })
}

// acrossDevices reports whether a node adds up windows of all devices.
func (n *node) acrossDevices() bool {
	return n.op == opFleetSum || n.op == opFleetMean || n.op == opFleetVar || n.op == opFleetBins
}

// checkFleet refuses a program that mixes values across devices with those of one, or reads
// several streams.
func (g *graph) checkFleet(root *node) {
	if !root.spans(map[*node]bool{}) {
		return
	}
	streams := map[string]bool{}
	seen := map[bool]map[*node]bool{false: {}, true: {}}
	var walk func(n *node, inside bool)
	walk = func(n *node, inside bool) {
		if seen[inside][n] || g.err != nil {
			return
		}
		seen[inside][n] = true
		if n.op == opVar || n.op == opBins {
			if streams[n.in.Stream] = true; !inside {
				g.fail(ErrUnsupported, n.at, "write two programs, and combine their results after decryption",
					"%s is a value of one device, and the result is one of all devices", g.text(n.at))
			}
			return
		}
		for _, a := range n.args {
			walk(a, inside || n.acrossDevices())
		}
	}
	walk(root, false)
	if len(streams) > 1 {
		g.fail(ErrUnsupported, root.at, "let each program across devices read one stream",
			"%s reads the streams %s", g.text(root.at), strings.Join(sortedKeys(streams), ", "))
	}
}
