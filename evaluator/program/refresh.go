package program

import (
	"fmt"
	"math"
	"sync"

	"github.com/hencedge/hencedge/config"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
)

// Programs that are deeper than their parameters bootstrap where these have levels for it:
//
//   - A value is bootstrapped where an operation would not fit without that, or one or two levels before.
//     The search tries all of these ways and takes the cheapest, as for other policies.
//   - Every value stays at a level, and so small, that it can still be bootstrapped.
//   - The error of bootstrapping, relative to the largest value, enters the promise. It counts as one that all
//     slots share, since nothing says that it is independent from slot to slot.

// bootstrapOf returns how the parameters bootstrap; nil if they do not.
func bootstrapOf(p henc.Parameters) *bootstrap.Plan {
	if known, ok := bootstrapPlans.Load(p.Hash()); ok {
		return known.(*bootstrap.Plan)
	}
	plan := newBootstrapPlan(p)
	bootstrapPlans.Store(p.Hash(), plan)
	return plan
}

// bootstrapPlans has a *bootstrap.Plan or nil for each parameter hash that was asked for.
var bootstrapPlans sync.Map

func newBootstrapPlan(p henc.Parameters) *bootstrap.Plan {
	lit, err := bootstrap.LiteralOf(p)
	if err != nil {
		return nil
	}
	plan, err := bootstrap.NewPlan(p, lit)
	if err != nil {
		return nil
	}
	return plan
}

// refreshed plans with bootstrapping what does not fit without, for the reason err.
func (s *search) refreshed(err *Error) (*plan, *Error) {
	if err.Kind != ErrDepth && err.Kind != ErrMagnitude || s.ch.boot != nil || s.fleet != nil {
		return nil, err
	}
	boot := bootstrapOf(s.ch.params)
	if boot == nil {
		return nil, err
	}
	deep, ch := *s, *s.ch
	ch.boot, deep.ch = boot, &ch
	return deep.run()
}

// ready bootstraps the factors of a product that would not fit otherwise, or that are at levels below
// what the policy allows.
func (p *planner) ready(a, b int) (int, int) {
	for range 2 {
		x, y := p.get(a), p.get(b)
		level := min(x.level, y.level)
		err := product(x.dev, y.dev, x.mag, y.mag, true).limit()
		if p.err != nil || level >= p.ch.floor()+p.pol.early && p.ch.fits(level, x.mag*y.mag, err, x.scale*y.scale) {
			break
		}
		switch {
		case a == b:
			a = p.lower(p.refresh(a))
			b = a
		case x.level <= y.level:
			a = p.lower(p.refresh(a))
		default:
			b = p.lower(p.refresh(b))
		}
	}
	return a, b
}

// refresh bootstraps a, if that gives it levels.
func (p *planner) refresh(a int) int {
	boot := p.ch.boot
	if p.err != nil || boot == nil || p.fresh(a) {
		return a
	}
	a = p.shrink(a, boot.MaxScale())
	s := p.get(a)
	if s.level < p.ch.floor() {
		return p.fail(ErrDepth, "send the windows at a higher level",
			"%s does not fit: it has to be bootstrapped, and is at level %d, below %d of parameters %s", p.text(),
			s.level, p.ch.floor(), p.ch.params.Name())
	}
	bound := s.mag + s.dev.limit()
	scale, err := boot.ScaleOf(s.scale * bound)
	if err != nil {
		return p.fail(ErrMagnitude, "",
			"%s does not fit: its values are up to %.4g at scale 2^%.1f where it has to be "+
				"bootstrapped, and parameters %s take 2^%.1f", p.text(), bound, math.Log2(s.scale), p.ch.params.Name(),
			math.Log2(boot.MaxScale()))
	}
	sd, fixed := boot.Error(s.scale * bound)
	n := step{op: stepBootstrap, a: a, k: s.scale * bound, level: boot.Level(), scale: scale / bound, mag: s.mag,
		dev: s.dev, depth: s.depth}
	n.dev.common = n.dev.common.plus(laplace(sd * bound))
	n.dev.fixed += fixed * bound
	return p.add(n)
}

// fresh reports whether a comes from bootstrapping as it is.
func (p *planner) fresh(a int) bool {
	for p.get(a).op == stepNote {
		a = p.get(a).a
	}
	return p.get(a).op == stepBootstrap
}

// shrink rescales a until its values times the scale are at most most, and where one rescaling is too much,
// multiplies first.
func (p *planner) shrink(a int, most float64) int {
	for p.err == nil {
		s := p.get(a)
		raw := s.scale * (s.mag + s.dev.limit())
		if raw <= most || s.level <= p.ch.floor() {
			break
		}
		if k := math.Floor(0.99 * most / raw * p.ch.factor[s.level]); k > 1 {
			a = p.scaleBy(a, k, s.scale*k, 1, 0)
		}
		a = p.rescale(a)
	}
	return a
}

// refreshLowest bootstraps the term at the lowest level; ok is false where that does not help.
func (p *planner) refreshLowest(terms []linTerm) (ok bool) {
	lowest := -1
	for i, t := range terms {
		if s := p.get(t.w); !p.fresh(t.w) && (lowest < 0 || s.level < p.get(terms[lowest].w).level) {
			lowest = i
		}
	}
	if p.ch.boot == nil || lowest < 0 || p.get(terms[lowest].w).level >= p.ch.boot.Level() {
		return false
	}
	terms[lowest].w = p.refresh(terms[lowest].w)
	return p.err == nil
}

// compactNoise is what bootstrapping adds at most to the error of a reading of a compact window, by parameter
// set. The first terms are asserted by TestCompactWindows of henc/bootstrap, the second are what packing windows of 64
// readings or more adds at most (compact.Packer.Pack).
var compactNoise = map[string]float64{"boot15": 0x1.ep-14 + 0x1p-18, "boot16": 0x1p-20 + 0x1p-26,
	"boot10-insecure": 0x1.9p-18 + 0x1p-22}

// compactProblem says why a stream cannot have compact windows under p, or "".
func compactProblem(p henc.Parameters, st config.Stream) string {
	noise, known := compactNoise[p.Name()]
	if !known {
		return fmt.Sprintf("parameters %s have no levels for bootstrapping; use boot15 or boot16", p.Name())
	}
	if st.Slots() > st.Readings() {
		return fmt.Sprintf("they take %d slots, and have at most %d", st.Slots(), st.Readings())
	}
	if st.Readings() > p.Slots() {
		return fmt.Sprintf("they have %d readings, parameters %s take %d", st.Readings(), p.Name(), p.Slots())
	}
	// The board's part: compact.Precision.Bound.
	bits := st.Compact()
	if math.Exp2(-float64(bits))*boardShare[bits]+noise > math.Exp2(-float64(bits)) {
		return fmt.Sprintf("the noise of parameters %s is too large for precision %d", p.Name(), bits)
	}
	return ""
}

// boardShare is which part of the promised error is that of the board.
var boardShare = map[int]float64{12: 0.508, 16: 0.583}

// compactError is the error of a compact window once it is bootstrapped: that of a reading, which may be the same in
// all slots, and what the last rescaling and the rotations that bring it to its place, two at the most, leave in every
// slot of the ring.
func (p *planner) compactError(st config.Stream, level int, scale float64) deviation {
	noise := laplace(2 * p.ch.noise.Rescale(scale)).plus(laplace(2 * p.ch.noise.KeySwitch(level, scale)))
	return deviation{own: noise, fixed: math.Exp2(-float64(st.Compact())) + p.ch.rounding}
}
