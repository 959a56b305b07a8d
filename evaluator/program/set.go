package program

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/henc"
)

// Set is several programs that run together: one list of steps with a result for each
// program. It is immutable and safe for concurrent use.
//
// A set changes how results are made, never what they are:
//
//   - Every result has the level, scale, A, B, root, slots and promised error that its
//     program has alone. The key holder compiles each approved program alone and compares;
//     it need not know what ran together.
//   - Every result keeps that promise, and its coefficients stay within Circuit.Magnitude.
//   - A result depends on no other windows than its program reads alone.
//
// The slots that a program does not read may hold anything that is computed from the
// windows that it reads, as they do in a result that was made alone.
type Set struct {
	routine  // with one result for each program
	circuits []*Circuit
}

var _ Routine = (*Set)(nil)

// Fuse plans programs together. What several of them need is computed once, and sums of
// several quantities share one sum in free slots. rotations lists those that there are keys
// for; nil stands for all powers of two. Fuse fails with ErrParams if there are no programs,
// or if their parameters differ or they describe a window in two ways.
func Fuse(rotations []int, circuits ...*Circuit) (*Set, error) {
	if len(circuits) == 0 {
		return nil, fmt.Errorf("%w: a set has at least one program", ErrParams)
	}
	for _, c := range circuits {
		if !c.params.Equal(circuits[0].params) {
			return nil, fmt.Errorf("%w: programs %s and %s are compiled for parameters %s and %s", ErrParams,
				circuits[0].Name(), c.Name(), circuits[0].params.Name(), c.params.Name())
		}
	}
	s := &Set{circuits: slices.Clone(circuits)}
	s.name, s.params = "programs "+strings.Join(s.names(), ", "), circuits[0].params
	if err := s.alike(); err != nil {
		return nil, err
	}
	s.merge()
	if err := s.share(rotations); err != nil {
		return nil, err
	}
	return s, nil
}

// alike refuses programs that describe a window in two ways.
func (s *Set) alike() error {
	type window struct {
		layout  [32]byte
		level   int
		scale   float64
		present int
	}
	known := map[Input]window{}
	for _, c := range s.circuits {
		for _, in := range c.Inputs() {
			st := c.prog.stream(in)
			w := window{st.LayoutHash(), st.LevelAt(s.params.MaxLevel()), InputScale(s.params, st),
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

// merge takes the steps of every program, equal ones once. The results are those of the
// programs alone, bit for bit.
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

// share plans the programs in one plan, in which sums are shared. It keeps the cheapest
// plan that keeps what every program promises alone, if that is cheaper than their merged
// steps. It fails if a program that was compiled does not parse again.
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
			return nil // together they exceed the limit of operations
		}
		if root.op == opSqrt {
			root = root.args[0]
		}
		roots = append(roots, root)
	}
	ch := newChain(s.params)
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

// lacks reports of a rotation that it is not among some.
func lacks(some []int) func(int) bool { return func(k int) bool { return !slices.Contains(some, k) } }

// policies lists those of the programs alone, each from every level that one starts at.
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

// alone returns the key switches of the programs one by one; see switches.
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

// For returns the set of other programs, which differ from those of s in their devices and
// names alone; nil if they differ in more. It costs much less than Fuse.
func (s *Set) For(circuits ...*Circuit) *Set {
	if len(circuits) != len(s.circuits) {
		return nil
	}
	to, back := map[Input]Input{}, map[Input]Input{}
	for n, c := range circuits {
		old := s.circuits[n]
		if c.prog.Expr != old.prog.Expr || c.Packed() != old.Packed() || c.out != old.out || c.lo != old.lo || c.hi != old.hi ||
			c.Form() != old.Form() {
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
	for i := range out.steps {
		if out.steps[i].op == stepInput {
			out.steps[i].in = to[out.steps[i].in]
		}
	}
	return out
}

// Circuits returns the programs, in the order of the results.
func (s *Set) Circuits() []*Circuit { return slices.Clone(s.circuits) }

// Run computes the results of all programs, in their order. It is Circuit.Run otherwise.
func (s *Set) Run(ev *henc.Evaluator, inputs map[Input]*henc.Ciphertext) ([]*henc.Ciphertext, error) {
	return s.run(Item{Routine: s, Evaluator: ev, Inputs: inputs})
}

// set plans programs in one plan. It returns the steps and those of the results; ok is
// false if they do not fit, or would not keep what the programs promise alone.
func (e *evaluator) set(roots []*node, circuits []*Circuit) (steps []step, results []int, ok bool) {
	for range 2 { // the first pass finds the sums that the second one shares
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

// as brings a value to the level, scale, factor and slots of a program's result. ok is
// false where that would break the promise.
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
		e.err = nil // this way only
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
	alone := c.out.Bound
	if c.out.Sqrt {
		alone = c.out.Root
	}
	return best, least <= alone
}

// boundAs bounds the error of a step as the result of a program, of which v is the value;
// infinite where its coefficients may be too large. It is finish's bound but for the
// probability.
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
