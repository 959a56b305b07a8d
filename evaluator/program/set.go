package program

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/henc"
)

// Set is several programs that run together: one list of steps with one result per
// program. It is immutable and safe for concurrent use.
//
// A set changes how results are computed, but not what they are:
//
//   - Each result has the level, scale, A, B, root, slots and promised error of its program
//     compiled alone. The key holder compiles every approved program alone and compares, so
//     it need not know which programs ran together.
//   - Each result keeps that promise, and its coefficients stay within Circuit.Magnitude.
//   - Each result depends only on the windows that its program reads.
//
// Slots that a program does not read may hold anything computed from the windows that it
// does read. That holds for a program that runs alone, too.
type Set struct {
	routine  // with one result per program
	circuits []*Circuit
}

var _ Routine = (*Set)(nil)

// Fuse plans programs together. Common steps run once, and several sums share one by using
// its free slots. rotations lists the rotations that have keys; nil means every power of two.
// Fuse fails with ErrParams if there are no programs, if their parameters differ, or if they
// describe the same window differently.
func Fuse(rotations []int, circuits ...*Circuit) (*Set, error) {
	if len(circuits) == 0 {
		return nil, fmt.Errorf("%w: a set has at least one program", ErrParams)
	}
	for _, c := range circuits {
		if c.Bootstraps() > 0 {
			return nil, fmt.Errorf("%w: program %s bootstraps, and so runs alone", ErrParams, c.Name())
		}
		if !c.params.Equal(circuits[0].params) {
			return nil, fmt.Errorf("%w: programs %s and %s are compiled for parameters %s and %s", ErrParams,
				circuits[0].Name(), c.Name(), circuits[0].params.Name(), c.params.Name())
		}
	}
	s := &Set{circuits: slices.Clone(circuits)}
	s.name, s.params = "programs "+strings.Join(s.names(), ", "), circuits[0].params
	s.places, s.added, s.compact, s.boot = circuits[0].places, circuits[0].added, circuits[0].compact, circuits[0].boot
	if err := s.alike(); err != nil {
		return nil, err
	}
	s.merge()
	if err := s.share(rotations); err != nil {
		return nil, err
	}
	return s, nil
}

// alike refuses programs that describe the same window differently.
func (s *Set) alike() error {
	type window struct {
		layout  [32]byte
		level   int
		scale   float64
		present int
	}
	known := map[Input]window{}
	for _, c := range s.circuits {
		if c.places != s.places || c.added != s.added || c.compact != s.compact ||
			s.added > 1 && c.Class() != s.circuits[0].Class() {
			return fmt.Errorf("%w: the windows of programs %s and %s share ciphertexts in different ways", ErrParams,
				s.circuits[0].Name(), c.Name())
		}
		for _, in := range c.Inputs() {
			st := c.prog.stream(in)
			w := window{st.LayoutHash(), InputLevel(s.params, st), InputScale(s.params, st),
				c.prog.present(in, st)}
			if old, ok := known[in]; ok && old != w {
				return fmt.Errorf("%w: program %s describes %s in another way than a program before", ErrParams,
					c.Name(), in)
			}
			known[in] = w
		}
	}
	return nil
}

// merge joins the steps of all programs and keeps one of equal steps. Every result equals
// that of its program alone, bit for bit.
func (s *Set) merge() {
	memo := map[stepKey]int{}
	for _, c := range s.circuits {
		to := make([]int, len(c.steps))
		for i := range c.steps {
			st := c.steps[i]
			switch len(st.operands()) {
			case 1:
				st.a = to[st.a]
			case 2:
				st.a, st.b = to[st.a], to[st.b]
			}
			at, ok := memo[st.key()]
			if !ok {
				at = len(s.steps)
				memo[st.key()] = at
				s.steps = append(s.steps, st)
			}
			to[i] = at
		}
		s.results = append(s.results, to[c.results[0]])
	}
}

// share looks for a plan of all programs in which sums are shared. If the cheapest one that
// keeps every promise costs less than the merged steps, it replaces them. share fails only if
// a compiled program does not parse again.
func (s *Set) share(rotations []int) error {
	g := newGraph()
	var roots []*node
	var src *source
	for _, c := range s.circuits {
		var tree ast.Node
		var err error
		if src, tree, err = parse(c.prog.Name, c.prog.Expr); err != nil {
			return err
		}
		root, err := g.lower(src, &c.prog, tree)
		if err != nil {
			return nil // together the programs have too many operations
		}
		if root.op == opSqrt {
			root = root.args[0]
		}
		roots = append(roots, root)
	}
	ch := chainOf(s.params, &s.circuits[0].prog)
	least := ch.cost(s.steps)
	for _, pol := range s.policies() {
		for _, limit := range []int{1, 2, 4, 16} {
			p := &planner{ch: ch, src: src, pol: pol, memo: map[stepKey]int{}}
			e := &evaluator{planner: p, depths: depths{}, packs: newPacks(limit)}
			steps, results, ok := e.set(roots, s.circuits)
			if !ok || ch.cost(steps) >= least {
				continue
			}
			r := routine{steps: steps}
			if rotations == nil || !slices.ContainsFunc(r.Rotations(), lacks(rotations)) {
				s.steps, s.results, least = steps, results, ch.cost(steps)
			}
		}
	}
	return nil
}

// lacks returns a function that reports whether a rotation is missing from some.
func lacks(some []int) func(int) bool { return func(k int) bool { return !slices.Contains(some, k) } }

// policies returns the policy of each program, combined with the starting level of each.
func (s *Set) policies() (out []policy) {
	var levels []int
	for _, c := range s.circuits {
		levels = append(levels, c.policy.start)
	}
	for _, c := range s.circuits {
		for _, level := range levels {
			pol := c.policy
			pol.start = level
			if !slices.Contains(out, pol) {
				out = append(out, pol)
			}
		}
	}
	return out
}

// alone returns what switches returns, summed over the programs compiled alone.
func (s *Set) alone() (count, limbs int) {
	for _, c := range s.circuits {
		n, l := c.switches()
		count, limbs = count+n, limbs+l
	}
	return count, limbs
}

// names returns the names of the programs.
func (s *Set) names() []string {
	names := make([]string, len(s.circuits))
	for i, c := range s.circuits {
		names[i] = c.Name()
	}
	return names
}

// For returns the set of circuits that differ from those of s only in devices and names. It
// costs much less than Fuse, and returns nil if they differ in anything else.
func (s *Set) For(circuits ...*Circuit) *Set {
	if len(circuits) != len(s.circuits) {
		return nil
	}
	to, back := map[Input]Input{}, map[Input]Input{}
	for n, c := range circuits {
		old := s.circuits[n]
		if c.prog.Expr != old.prog.Expr || c.Packed() != old.Packed() || c.out != old.out || c.lo != old.lo ||
			c.hi != old.hi || c.Form() != old.Form() || c.added != old.added || c.Class() != old.Class() {
			return nil
		}
		for i := range c.steps {
			a, b := old.steps[i].in, c.steps[i].in
			if c.steps[i].op != stepInput {
				continue
			}
			st, was := c.prog.stream(b), old.prog.stream(a)
			if st.LayoutHash() != was.LayoutHash() || c.prog.present(b, st) != old.prog.present(a, was) {
				return nil
			}
			known, ok := to[a]
			other, taken := back[b]
			if ok && known != b || taken && other != a {
				return nil
			}
			to[a], back[b] = b, a
		}
	}
	out := &Set{circuits: slices.Clone(circuits)}
	out.name, out.params, out.steps, out.results = "programs "+strings.Join(out.names(), ", "), s.params,
		slices.Clone(s.steps), s.results
	out.places, out.added, out.compact, out.boot = s.places, s.added, s.compact, s.boot
	for i := range out.steps {
		if out.steps[i].op == stepInput {
			out.steps[i].in = to[out.steps[i].in]
		}
	}
	return out
}

// Circuits returns the programs, in the order of the results.
func (s *Set) Circuits() []*Circuit { return slices.Clone(s.circuits) }

// Run is Circuit.Run for all programs. The results are in the order of the programs.
func (s *Set) Run(ev *henc.Evaluator, inputs map[Input]*henc.Ciphertext) ([]*henc.Ciphertext, error) {
	return s.run(Item{Routine: s, Evaluator: ev, Inputs: inputs})
}

// set plans all programs together. It returns the steps, and which of them are the results.
// ok is false if a program does not fit or its promise would be broken.
func (e *evaluator) set(roots []*node, circuits []*Circuit) (steps []step, results []int, ok bool) {
	for range 2 { // the second pass shares the sums that the first one finds
		e.done, results = map[*node]val{}, nil
		for i, root := range roots {
			v := e.eval(root)
			if e.err != nil {
				return nil, nil, false
			}
			if e.packs.moved == nil {
				continue
			}
			as := e.as
			if circuits[i].Packed() {
				as = e.asPacked
			}
			w, ok := as(v, circuits[i])
			if !ok {
				return nil, nil, false
			}
			results = append(results, w)
		}
		if e.packs.moved == nil {
			e.pack()
		}
	}
	if e.err != nil {
		return nil, nil, false
	}
	steps, results = e.live(results...)
	return steps, results, true
}

// as adds the steps that bring a value to the level, scale, factor and slots of a program's
// result, and returns the last. ok is false if that would break the promise.
func (e *evaluator) as(v val, c *Circuit) (w int, ok bool) {
	want, r := c.last(), v.a/c.out.A
	if r == 0 || !finite(r) {
		return 0, false
	}
	best, least := 0, math.Inf(1)
	try := func(steps func() int) {
		if w := e.rotate(steps(), v.pos-c.out.Slot); e.err == nil {
			if b := e.boundAs(w, v, c); b < least {
				best, least = w, b
			}
		}
		e.err = nil // another way may work
	}
	for w := v.w; ; w = e.rescale(w) {
		s := *e.get(w)
		if s.level < want.level {
			break
		}
		factor := func(scale float64) (k, lost float64) {
			k = math.RoundToEven(r * scale / s.scale)
			return k, (math.Abs(r-k*s.scale/scale) + 0x1p-50*math.Abs(r)) * s.mag
		}
		try(func() int {
			k, lost := factor(want.scale)
			return e.drop(e.scaleBy(w, k, want.scale, math.Abs(r), lost), want.level)
		})
		if s.level == want.level {
			break
		}
		try(func() int {
			scale := want.scale * e.ch.factor[s.level]
			k, lost := factor(scale)
			scaled := e.scaleBy(w, k, scale, math.Abs(r), lost)
			n := e.get(scaled)
			e.check(n.level, n.mag, n.dev.limit(), n.scale, n.depth)
			return e.drop(e.rescaleTo(scaled, want.scale), want.level)
		})
		if !e.canRescale(w, 0) {
			break
		}
	}
	return best, least <= c.out.raw()
}

// asPacked is as for a program that is compiled for a pack.
func (e *evaluator) asPacked(v val, c *Circuit) (w int, ok bool) {
	factor := v.a / c.out.A
	if factor == 0 || !finite(factor) {
		return 0, false
	}
	least := math.Inf(1)
	for x := v.w; e.err == nil; x = e.rescale(x) {
		s := e.get(x)
		for level := 1; level <= s.level; level++ {
			if !e.ch.fits(level, s.mag, s.dev.limit(), s.scale) {
				continue
			}
			m, masked := e.mask(e.drop(x, level), v.pos, factor)
			if masked {
				m = e.rotate(m, v.pos-c.out.Slot)
			}
			if !masked || e.err != nil {
				continue
			}
			b := e.packedBound(m, c.out.A, c.out.B, failureTogether) + math.Abs(v.b.value()-c.out.B) +
				0x1p-46*max(math.Abs(c.lo), math.Abs(c.hi))
			if b < least {
				w, least = m, b
			}
			break
		}
		if !e.canRescale(x, 0) {
			break
		}
	}
	e.err = nil // this way only
	return w, least <= c.out.raw()
}

// boundAs bounds the error of step w as the result of program c, where v is the value of the
// step. It returns +Inf if the coefficients may be too large. Only the probability that it
// allows differs from the bound of finish.
func (e *evaluator) boundAs(w int, v val, c *Circuit) float64 {
	s, out := e.get(w), c.out
	if !e.ch.fits(s.level, s.mag, s.dev.limit(), s.scale) || (s.mag+s.dev.limit())*s.scale > c.Magnitude() {
		return math.Inf(1)
	}
	err := s.dev.limitAt(failureTogether)
	b := math.Abs(out.A)*(err+e.ch.rounding*s.mag) + 0x1p-48*math.Abs(out.A)*s.mag
	b += 0x1p-50*math.Abs(out.B) + math.Abs(v.b.value()-out.B)
	return b + 0x1p-46*max(math.Abs(c.lo), math.Abs(c.hi))
}
