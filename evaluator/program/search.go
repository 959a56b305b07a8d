package program

import (
	"math"
	"slices"
)

// search tries the planning policies and keeps the best plan.
type search struct {
	prog *Source
	src  *source
	root *node
	ch   *chain
	// fleet says over how many windows a program across devices is planned; nil for others.
	fleet *fleet
}

// plan is a finished plan.
type plan struct {
	steps  []step
	out    Output
	sh     shape
	lo, hi float64
	policy policy
	cost   float64
	parts  map[*node][]val // of a program across devices: what is added up
}

// run takes the best plan of the ordinary policies, or of those that trim factors
// where that more than halves the promised error or makes a program fit that was too
// large. It starts the plan at the lowest level at which the promise holds up.
func (s *search) run() (*plan, *Error) {
	best, least, err := s.cheapest(false)
	if best != nil && best.multiplies() || best == nil && err.Kind == ErrMagnitude {
		trimmed, bound, _ := s.cheapest(true)
		if trimmed != nil && (best != nil && 2*bound < least ||
			best == nil && useful(trimmed.lo, trimmed.hi, trimmed.out)) {
			best, least = trimmed, bound
		}
	}
	if best == nil {
		return s.refreshed(err)
	}
	for level := range s.topLevel() {
		pol := best.policy
		pol.start = level
		if p, err := s.plan(pol); err == nil && p.out.Bound <= least*math.Sqrt2 && p.cost < best.cost {
			return p, nil
		}
	}
	return best, nil
}

// cheapest plans under every policy. Among the plans whose promised error is within half
// a bit of the least, it takes the cheapest one.
func (s *search) cheapest(trim bool) (best *plan, least float64, first *Error) {
	var plans []*plan
	least = math.Inf(1)
	for i, pol := range s.policies() {
		pol.trim = trim
		p, err := s.plan(pol)
		if err != nil {
			if first == nil {
				first = err
			}
			if err.Kind == ErrSize || err.Kind == ErrParams || err.Kind == ErrConstant {
				break
			}
			continue
		}
		plans = append(plans, p)
		least = min(least, p.out.Bound)
		if i == 0 && !p.multiplies() {
			break // the policies differ in nothing else
		}
	}
	for _, p := range plans {
		if p.out.Bound <= least*math.Sqrt2 && (best == nil || p.cost < best.cost) {
			best = p
		}
	}
	return best, least, first
}

// topLevel returns the highest level of an input.
func (s *search) topLevel() int {
	top := 0
	for _, v := range s.prog.Vars {
		top = max(top, InputLevel(s.ch.params, v.Stream))
	}
	return top
}

// bootstraps reports whether a step does.
func (p *plan) bootstraps() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.op == stepBootstrap })
}

func (p *plan) multiplies() bool {
	for i := range p.steps {
		if o := p.steps[i].op; o == stepMul || o == stepMulPlain {
			return true
		}
	}
	return false
}

// policies lists what is tried, the ordinary policy first: keep factors of
// products at about the scale of the inputs.
func (s *search) policies() []policy {
	scale := math.Inf(1)
	for _, v := range s.prog.Vars {
		scale = min(scale, math.Log2(InputScale(s.ch.params, v.Stream)))
	}
	keeps := []float64{scale - 1, scale - 4, scale - 8, scale - 13, scale - 18, scale + 6, math.Inf(1)}
	var out []policy
	for _, giant := range []bool{false, true} {
		if giant && !s.hasPoly(s.root, map[*node]bool{}) {
			continue
		}
		for _, low := range []bool{false, true} {
			for _, k := range keeps {
				out = append(out, policy{keep: k, sumLow: low, giant: giant, start: s.ch.maxLevel})
			}
		}
	}
	if s.ch.boot != nil {
		for early := 1; early < min(s.ch.maxLevel, 3); early++ {
			for _, pol := range out[:len(out):len(out)] {
				if pol.early == 0 {
					pol.early = early
					out = append(out, pol)
				}
			}
		}
	}
	return out
}

func (s *search) hasPoly(n *node, seen map[*node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	if n.op == opPoly && len(n.coef) > 5 {
		return true
	}
	for _, a := range n.args {
		if s.hasPoly(a, seen) {
			return true
		}
	}
	return false
}

func (s *search) plan(pol policy) (*plan, *Error) {
	p := &planner{ch: s.ch, src: s.src, pol: pol, memo: map[stepKey]int{}, stays: s.prog.Earlier || s.root.counts()}
	e := &evaluator{planner: p, done: map[*node]val{}, depths: depths{}}
	root, sqrt := s.root, false
	if root.op == opSqrt {
		root, sqrt = root.args[0], true
	}
	if s.fleet != nil {
		e.fleet = s.fleet.fresh()
	}
	v := e.eval(root)
	e.enter(root)
	if p.err == nil && v.a == 0 {
		p.fail(ErrConstant, "give it an input whose value matters", "%s does not depend on its inputs", p.text())
	}
	if p.err == nil && (!finite(v.a) || !finite(v.b.value())) {
		p.fail(ErrConstant, "use smaller numbers", "%s has no finite value", p.text())
	}
	if p.err == nil && sqrt && v.hi < 0 {
		p.fail(ErrUnsupported, "take the root of a value that is not negative",
			"%s is never positive, so it has no square root", p.text())
	}
	if p.err != nil {
		return nil, p.err
	}
	var w int
	var bound float64
	if s.prog.Packed {
		w, v.a, bound = p.finishPacked(v)
	} else {
		w, bound = p.finish(v)
	}
	if p.err != nil {
		return nil, p.err
	}
	if n := max(v.sh.n, 1); p.ch.places > 1 && v.pos+n > p.ch.span() {
		p.fail(ErrParams, "leave out places: on the streams", "%s does not stand within one place", p.text())
		return nil, p.err
	}
	if s.root.op != opRead { // of which lo and hi are those of samples, and the bound that of counts
		bound += 0x1p-46 * max(math.Abs(v.lo), math.Abs(v.hi)) // Reference's own rounding
	}
	out := Output{A: v.a, B: v.b.value(), Sqrt: sqrt, Slot: v.pos, Count: max(v.sh.n, 1), Bound: bound}
	if sqrt {
		out.Bound, out.Root = rootError(bound, v.lo), bound
	}
	if root.decides(map[*node]bool{}) {
		out.Resolution = s.prog.Resolution
	}
	if !finite(out.Bound) || !finite(v.lo) || !finite(v.hi) {
		p.fail(ErrConstant, "use smaller numbers", "%s is beyond the range of float64, or its error is", p.text())
		return nil, p.err
	}
	if e.exact(s.root, &out); p.err != nil {
		return nil, p.err
	}
	steps, at := p.live(append([]int{w}, e.fleet.gathers()...)...)
	pl := &plan{steps: steps, out: out, sh: v.sh, lo: v.lo, hi: v.hi, policy: pol, parts: e.fleet.placed(at[1:])}
	pl.cost = s.ch.cost(pl.steps)
	return pl, nil
}

// rootError bounds |sqrt(v+e) - sqrt(v)| for |e| <= err and v >= lo, with the
// square root of a negative number read as 0.
func rootError(err, lo float64) float64 {
	if lo > err {
		return err / (math.Sqrt(lo) + math.Sqrt(lo-err))
	}
	return math.Sqrt(err)
}

// finish shortens the result: it rescales and drops levels to the fewest limbs
// that cost at most a quarter more error than the best choice. Within that quarter it
// goes to lower levels still, at smaller scales; see shorter.
func (p *planner) finish(v val) (w int, bound float64) {
	type choice struct {
		w, limbs int
		bound    float64
	}
	var all []choice
	least := math.Inf(1)
	for w := v.w; p.err == nil; w = p.rescale(w) {
		s := p.get(w)
		err := s.dev.limit()
		level := s.level
		for level > 0 && p.ch.fits(level-1, s.mag, err, s.scale) {
			level--
		}
		if s.scale <= maxResultScale && p.ch.fits(level, s.mag, err, s.scale) {
			b := p.boundOf(w, v)
			all = append(all, choice{p.drop(w, level), p.ch.params.LimbsAt(level), b})
			least = min(least, b)
		}
		if !p.canRescale(w, 0) {
			break
		}
	}
	best := -1
	for i, c := range all {
		if c.bound <= least*resultLoss && (best < 0 || c.limbs < all[best].limbs || c.limbs == all[best].limbs &&
			c.bound < all[best].bound) {
			best = i
		}
	}
	if best < 0 {
		p.fail(ErrMagnitude, "", "%s has no scale at which the result can be sent", p.text())
		return 0, 0
	}
	w, bound = all[best].w, all[best].bound
	for lower := !p.stays; lower; {
		lower = false
		for _, spare := range []float64{shareBits, 0} {
			low, ok := p.shorter(w, spare)
			if !ok {
				continue
			}
			if b := p.boundOf(low, v); b <= least*resultLoss {
				w, bound, lower = low, b, true
				break
			}
		}
	}
	return w, bound
}

// shareBits is how many bits a result leaves free at a lower level if it can: where programs share a sum, slots that
// nobody reads hold up to twice as much. Without room for that they would each sum alone.
const shareBits = 1

// resultLoss is by how much the promised error may grow so that a result has fewer limbs.
const resultLoss = 1.25

// boundOf bounds the error of step w as the result v.
func (p *planner) boundOf(w int, v val) float64 {
	s := p.get(w)
	return math.Abs(v.a)*(s.dev.limit()+p.ch.rounding*s.mag) + 0x1p-48*math.Abs(v.a)*s.mag +
		0x1p-50*math.Abs(v.b.value())
}

// shorter brings a result one level further down than its scale allows: to the largest scale
// that fits there and leaves spare bits, by an integer before a rescaling. So it gives up only bits
// of the scale that the noise covers. ok is false if there is no such scale.
func (p *planner) shorter(w int, spare float64) (low int, ok bool) {
	s := *p.get(w)
	if s.level == 0 || p.err != nil {
		return 0, false
	}
	fits := math.Exp2(min(p.ch.room(s.level-1)-spare, 1000)) / (s.mag + 2*s.dev.limit())
	k := coarse(fits / s.scale * p.ch.factor[s.level])
	if k < 1 || k > 0x1p53 || !p.ch.fits(s.level, s.mag, s.dev.limit(), s.scale*k) {
		return 0, false
	}
	low = p.rescale(p.scaleBy(w, k, s.scale*k, 1, 0))
	if p.err != nil { // no more steps are allowed: the result stays where it is
		p.err = nil
		return 0, false
	}
	n := p.get(low)
	return low, n.scale <= maxResultScale && p.ch.fits(n.level, n.mag, n.dev.limit(), n.scale)
}

// coarse rounds down to a whole number of at most five significant bits: the same number on every
// processor, also where the last bits of x differ.
func coarse(x float64) float64 {
	if !(x >= 1) || math.IsInf(x, 1) {
		return 0
	}
	frac, exp := math.Frexp(x)
	return math.Floor(math.Ldexp(math.Floor(frac*32), exp-5))
}

// maxResultScale is the largest scale that a signed header carries.
const maxResultScale = 0x1p120

// live are the steps that results depend on, with products and rescalings fused,
// renumbered: the last one is a result.
func (p *planner) live(results ...int) ([]step, []int) {
	steps, at := prune(p.steps, results)
	fuse(steps, at)
	return prune(steps, at)
}

// prune keeps the steps that results depend on, without notes.
func prune(steps []step, results []int) (out []step, at []int) {
	used := make([]bool, len(steps))
	for _, w := range results {
		used[w] = true
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if used[i] {
			for _, a := range steps[i].operands() {
				used[a] = true
			}
		}
	}
	to := make([]int, len(steps))
	for i := range steps {
		if used[i] && steps[i].op == stepNote {
			to[i] = to[steps[i].a]
			continue
		}
		if used[i] {
			s := steps[i]
			s.a, s.b = to[s.a], to[s.b]
			s.roots = nil
			to[i] = len(out)
			out = append(out, s)
		}
	}
	for _, w := range results {
		at = append(at, to[w])
	}
	return out, at
}

// cost weighs a plan: limbs transformed in key switches, and a little for
// everything else.
func (c *chain) cost(steps []step) float64 {
	sum := 0.0
	for i := range steps {
		s := &steps[i]
		limbs := float64(c.params.LimbsAt(s.level))
		if s.op == stepBootstrap {
			_, limbs := c.boot.KeySwitches()
			sum += float64(limbs)
		} else if k := s.switches(); k > 0 {
			sum += float64(k*c.params.Dnum(s.level)) * (limbs + float64(len(c.params.P())))
		}
		sum += limbs / 8
	}
	return sum
}
