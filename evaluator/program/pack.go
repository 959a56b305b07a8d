package program

import (
	"fmt"
	"math/bits"
	"slices"
)

// total returns the step with the sum of x over the window, and the slot of that sum.
func (e *evaluator) total(x val, total float64) (w, pos int) {
	stride := x.sh.stride
	if e.packs == nil || stride == 1 || x.pos%stride != 0 {
		return e.sum(x.w, stride, total), x.pos
	}
	a := summand{e.summand(x.w, total), x.sh}
	if e.err != nil {
		return 0, 0
	}
	if p, ok := e.packs.moved[a]; ok {
		return e.sum(p.step, stride, float64(x.sh.n)), (x.pos - p.shift + e.ch.slots) % e.ch.slots
	}
	if e.packs.moved == nil {
		e.want(a)
	}
	return e.sum(a.step, stride, total), x.pos
}

// want records a summand that could share a sum.
func (e *evaluator) want(a summand) {
	if slices.ContainsFunc(e.packs.wanted, func(p packing) bool { return p.summand == a }) {
		return
	}
	p := packing{summand: a}
	var ok bool
	if p.quiet, ok = e.quiet(a.step); !ok {
		return
	}
	p.blocks = e.blocks(a.step, a.sh.stride)
	for i := range e.steps {
		if e.steps[i].op == stepInput && (set{}).with(i).meets(e.get(a.step).roots) {
			p.inputs = p.inputs.with(i)
		}
	}
	e.packs.wanted = append(e.packs.wanted, p)
}

// pack moves the summands that the first pass recorded together. Only summands with the same
// inputs share a sum, so that no result depends on windows that its program does not read.
// Shape, level and scale must match as well.
func (e *evaluator) pack() {
	e.packs.moved = map[summand]placed{}
	if e.packs.limit < 2 {
		return
	}
	groups := map[string][]packing{}
	var order []string
	for _, p := range e.packs.wanted {
		s := e.get(p.step)
		if p.quiet.all().limit() > s.dev.limit()/2 {
			continue // its empty slots are as noisy as its values
		}
		key := fmt.Sprint(p.sh, s.level, s.scale, p.inputs)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], p)
	}
	for _, key := range order {
		for rest := groups[key]; len(rest) > 1; {
			rest = e.share(rest)
		}
	}
}

// share moves as many summands as fit into the free blocks of the first one. It returns the
// rest.
func (e *evaluator) share(all []packing) (rest []packing) {
	stride := all[0].sh.stride
	members, shifts := all[:1:1], []int{0}
	taken := slices.Clone(all[0].blocks)
	for _, p := range all[1:] {
		shift, ok := 0, false
		if len(members) < e.packs.limit {
			shift, ok = e.room(taken, p.blocks, stride)
		}
		if !ok {
			rest = append(rest, p)
			continue
		}
		for i, b := range p.blocks {
			taken[(i-shift/stride+len(taken))%len(taken)] = taken[(i-shift/stride+len(taken))%len(taken)] || b
		}
		members, shifts = append(members, p), append(shifts, shift)
	}
	if len(members) == 1 {
		return rest
	}
	w := e.beside(members, shifts)
	for i, p := range members {
		e.packs.moved[p.summand] = placed{w, shifts[i]}
	}
	return rest
}

// room returns the rotation that moves blocks to free ones. Of several it takes the cheapest
// there and back, counted in rotations by powers of two.
func (e *evaluator) room(taken, blocks []bool, stride int) (shift int, ok bool) {
	n := len(taken)
	var full []int
	for i, b := range blocks {
		if b {
			full = append(full, i)
		}
	}
	least := 0
	for by := range n {
		free := !slices.ContainsFunc(full, func(i int) bool { return taken[(i-by+n)%n] })
		cost := bits.OnesCount(uint(by)) + bits.OnesCount(uint((n-by)%n))
		if free && (!ok || cost < least) {
			shift, least, ok = by*stride, cost, true
		}
	}
	return shift, ok
}

// beside rotates summands into each other's free blocks and adds them up. In the blocks of
// one summand, the others add only the error of their empty slots.
func (e *evaluator) beside(members []packing, shifts []int) int {
	var parts []int
	var noise []quiet
	for i, p := range members {
		w := e.rotate(p.step, shifts[i])
		q, _ := e.quiet(w)
		parts, noise = append(parts, w), append(noise, q)
	}
	if e.err != nil {
		return 0
	}
	sum := parts[0]
	for n := 2; n <= len(parts); n++ {
		x, y := e.get(sum), e.get(parts[n-1])
		s := step{op: stepAdd, a: sum, b: parts[n-1], level: x.level, scale: x.scale, mag: max(x.mag, y.mag),
			depth: max(x.depth, y.depth)}
		for i := range n {
			dev, roots := e.get(parts[i]).dev, e.get(parts[i]).roots
			for j, q := range noise[:n] {
				switch {
				case j == i:
					continue
				case q.roots.meets(roots):
					dev = dev.with(q.all())
				default:
					dev = dev.plus(q.fresh).with(q.tied)
				}
				roots = roots.or(q.roots)
			}
			s.dev = s.dev.or(dev)
		}
		e.check(s.level, s.mag, s.dev.limit(), s.scale, s.depth)
		sum = e.add(s)
	}
	return sum
}

// quiet returns the error of a step in slots where all its operands hold zero. ok is false
// for steps that mix slots.
func (e *evaluator) quiet(i int) (q quiet, ok bool) {
	if q, ok := e.packs.quiet[i]; ok {
		return q, true
	}
	if q, ok = e.quietOf(i); ok {
		// The fixed part bounds the error in every slot, so also here.
		q.fresh.fixed, q.tied.fixed = 0, e.get(i).dev.fixed
		e.packs.quiet[i] = q
	}
	return q, ok
}

func (e *evaluator) quietOf(i int) (quiet, bool) {
	s := e.get(i)
	if s.op == stepInput {
		return quiet{fresh: s.dev, roots: set{}.with(i)}, true
	}
	q, ok := e.quiet(s.a)
	if !ok {
		return q, false
	}
	noise := func(sd float64) {
		q.fresh, q.roots = q.fresh.noise(sd), q.roots.with(i)
	}
	switch s.op {
	case stepDrop:
	case stepMulInt:
		f := s.k * e.get(s.a).scale / s.scale
		q.fresh, q.tied = q.fresh.times(f), q.tied.times(f)
	case stepRotate:
		noise(e.ch.noise.KeySwitch(s.level, s.scale))
	case stepRescale:
		noise(e.ch.noise.Rescale(s.scale))
	case stepAdd, stepSub, stepMul:
		r, ok := e.quiet(s.b)
		if !ok {
			return q, false
		}
		switch {
		case s.op == stepMul:
			q = quiet{tied: product(q.all(), r.all(), 0, 0, true)}
			noise(e.ch.noise.KeySwitch(s.level, s.scale))
		case q.roots.meets(r.roots):
			q = quiet{tied: q.all().with(r.all())}
		default:
			q = quiet{q.fresh.plus(r.fresh), q.roots.or(r.roots), q.tied.with(r.tied)}
		}
	case stepMulPlain:
		// Slots outside the plain values are empty, too, from here on.
		a := e.get(s.a)
		enc := deviation{own: spread{sd: e.ch.noise.Encode(s.plain.scale)}}
		q.tied = q.tied.with(enc.times(a.mag + a.dev.limit()))
	default:
		return q, false
	}
	return q, true
}

// blocks reports, for each block of stride slots, whether it holds more than the error of
// quiet. It handles the steps that quiet handles.
func (e *evaluator) blocks(i, stride int) []bool {
	key := summand{i, shape{stride: stride}}
	if known, ok := e.packs.blocks[key]; ok {
		return known
	}
	out := e.blocksOf(i, stride)
	e.packs.blocks[key] = out
	return out
}

func (e *evaluator) blocksOf(i, stride int) []bool {
	n := e.ch.slots / stride
	out := make([]bool, n)
	s := e.get(i)
	if s.op == stepInput {
		for place := 0; place < e.ch.slots; place += e.ch.span() {
			for b := place / stride; b*stride < place+e.fills[s.in]; b++ {
				out[b] = true
			}
		}
		return out
	}
	a := e.blocks(s.a, stride)
	switch s.op {
	case stepRotate:
		by := int(s.k) / stride
		for b, full := range a {
			if full {
				out[(b-by+n)%n] = true
				if int(s.k)%stride != 0 {
					out[(b-by-1+2*n)%n] = true
				}
			}
		}
		return out
	case stepAdd, stepSub, stepMul:
		for i, full := range e.blocks(s.b, stride) {
			out[i] = a[i] || full
		}
	case stepMulPlain:
		for place := 0; place < e.ch.slots; place += e.ch.span() {
			first := place + s.plain.first
			for i := first / stride; i <= (first+len(s.plain.values)-1)/stride; i++ {
				out[i%n] = a[i%n]
			}
		}
	default:
		return a
	}
	return out
}
