package program

import "math"

// linTerm is r times the value of step w.
type linTerm struct {
	w int
	r float64
}

// lin computes the sum of r_i*v_i as gain*v_w and returns w and gain.
//
// CKKS adds only equal scales. Term i is brought to the common scale S by the
// integer k_i = r_i*S/scale_i, so that r_i*v_i = k_i*raw_i/S. A term above the
// lowest level may also be multiplied by k_i = r_i*S*q/scale_i and rescaled by
// q, which reaches any scale. S is the smallest that keeps the terms of the
// lowest level whole, then doubled until rounding the k_i to integers costs
// less than a sixteenth of the noise that is there anyway. That rounding enters
// the promised error.
func (p *planner) lin(terms []linTerm) (w int, gain float64) {
	return p.linWithin(terms, math.Inf(1))
}

// linWithin is lin where the sum is known to stay within limit in every slot,
// although its terms might not.
func (p *planner) linWithin(terms []linTerm, limit float64) (w int, gain float64) {
	terms = mergeTerms(terms)
	if p.err != nil || len(terms) == 0 {
		return 0, 0
	}
	if len(terms) == 1 {
		return terms[0].w, terms[0].r
	}
	for _, t := range terms {
		gain = max(gain, math.Abs(t.r))
	}
	for i := range terms {
		terms[i].r /= gain
	}
	for p.err == nil {
		if w, ok := p.tryLin(terms, limit/gain); ok {
			return w, gain
		}
		// Too large: coarsen the term whose scale is finest, if a level is left.
		finest := -1
		for i, t := range terms {
			if p.canRescale(t.w, min(p.pol.keep, 200)) && (finest < 0 || p.fineness(t) > p.fineness(terms[finest])) {
				finest = i
			}
		}
		if finest < 0 && p.refreshLowest(terms) {
			continue
		}
		if finest < 0 {
			p.failLin(terms, limit/gain)
			break
		}
		terms[finest].w = p.rescale(terms[finest].w)
	}
	return 0, 0
}

// fineness returns the common scale at which a term's factor is 1.
func (p *planner) fineness(t linTerm) float64 { return p.get(t.w).scale / math.Abs(t.r) }

// share is how one term reaches the common scale.
type share struct {
	k       float64 // integral, with the sign of r; 0 leaves the term out
	rescale bool    // after multiplying
	lost    float64 // error of rounding k
}

// aligned is a common scale and how the terms reach it.
type aligned struct {
	level  int
	scale  float64
	shares []share
	lost   float64
}

// align finds the common scale; ok is false where no scale fits the level.
func (p *planner) align(terms []linTerm, within float64) (best aligned, ok bool) {
	level, mag := math.MaxInt, 0.0
	var noise deviation
	var roots set
	for _, t := range terms {
		s := p.get(t.w)
		level = min(level, s.level)
		mag += math.Abs(t.r) * s.mag
		d := s.dev.times(t.r)
		if roots.meets(s.roots) {
			noise = noise.with(d)
		} else {
			noise = noise.plus(d)
		}
		roots = roots.or(s.roots)
	}
	mag = min(mag, within)
	limit := noise.limit()
	enough := limit / float64(16*len(terms))
	finest := func(above float64) (scale float64) {
		for _, t := range terms {
			if s := p.get(t.w); s.level == level && math.Abs(t.r)*s.mag > above {
				scale = max(scale, p.fineness(t))
			}
		}
		return scale
	}
	// A term that may be left out whole asks for no scale. The rounding of constants leaves
	// such terms, of 10^-17 times the others, and their scales would fit nowhere.
	scale := finest(enough)
	if scale == 0 {
		scale = finest(-1)
	}
	for range 41 {
		if !p.ch.fits(level, mag, limit, scale) {
			break
		}
		a := aligned{level: level, scale: scale}
		for _, t := range terms {
			sh := p.share(t, level, scale, enough)
			a.shares, a.lost = append(a.shares, sh), a.lost+sh.lost
		}
		if !ok || a.lost < best.lost {
			best, ok = a, true
		}
		if best.lost <= limit/16 {
			break
		}
		scale *= 2
	}
	return best, ok
}

// share finds the factor of one term; an error up to enough is good enough.
func (p *planner) share(t linTerm, level int, scale, enough float64) (sh share) {
	s := p.get(t.w)
	exact := t.r * scale / s.scale
	sh.k = math.RoundToEven(exact)
	float := 0x1p-50 * math.Abs(t.r) * s.mag // of the arithmetic here
	sh.lost = math.Abs(t.r-sh.k*s.scale/scale)*s.mag + float
	if sh.lost <= enough || s.level == level {
		return sh
	}
	q := p.ch.factor[s.level]
	k := math.RoundToEven(exact * q)
	if k == 0 || !p.ch.fits(s.level, s.mag*math.Abs(t.r), s.dev.limit()*math.Abs(t.r), scale*q) {
		return sh
	}
	lost := math.Abs(t.r-k*s.scale/(scale*q))*s.mag + float
	if lost+laplace(p.ch.noise.Rescale(scale)).limit() < sh.lost {
		return share{k, true, lost}
	}
	return sh
}

// tryLin emits the steps of a sum; ok is false where it does not fit.
func (p *planner) tryLin(terms []linTerm, within float64) (w int, ok bool) {
	a, ok := p.align(terms, within)
	if !ok {
		return 0, false
	}
	w = -1
	left := 0.0 // error of the terms left out
	for i, t := range terms {
		sh := a.shares[i]
		if sh.k == 0 {
			left += sh.lost
			continue
		}
		k := sh.k
		if w >= 0 && k < 0 {
			k = -k
		}
		v := p.bring(t, sh, k, a)
		switch {
		case w < 0:
			w = v
		case sh.k < 0:
			w = p.combine(stepSub, w, v, within)
		default:
			w = p.combine(stepAdd, w, v, within)
		}
	}
	if p.err == nil {
		p.steps[w].dev.fixed += left
	}
	return w, true
}

// bring takes a term to the common level and scale.
func (p *planner) bring(t linTerm, sh share, k float64, a aligned) int {
	r := math.Abs(t.r)
	if !sh.rescale {
		return p.scaleBy(p.drop(t.w, a.level), k, a.scale, r, sh.lost)
	}
	q := p.ch.factor[p.get(t.w).level]
	return p.drop(p.rescaleTo(p.scaleBy(t.w, k, a.scale*q, r, sh.lost), a.scale), a.level)
}

// combine returns a + b or a - b, of magnitude at most within.
func (p *planner) combine(op stepOp, a, b int, within float64) int {
	x, y := p.get(a), p.get(b)
	n := step{op: op, a: a, b: b, level: x.level, scale: x.scale, mag: min(x.mag+y.mag, within),
		depth: max(x.depth, y.depth)}
	if x.roots.meets(y.roots) {
		n.dev = x.dev.with(y.dev)
	} else {
		n.dev = x.dev.plus(y.dev)
	}
	return p.add(n)
}

func (p *planner) failLin(terms []linTerm, within float64) {
	level, scale, mag, depth := math.MaxInt, 0.0, 0.0, 0
	for _, t := range terms {
		s := p.get(t.w)
		if s.level < level {
			level, scale = s.level, 0
		}
		if s.level == level {
			scale = max(scale, p.fineness(t))
		}
		depth = max(depth, s.depth)
		mag += math.Abs(t.r) * s.mag
	}
	p.check(level, min(mag, within), 0, scale, depth)
	if p.err == nil { // it missed by the noise
		p.fail(ErrMagnitude, "", "%s does not fit level %d of parameters %s", p.text(), level, p.ch.params.Name())
	}
}

// mergeTerms adds up terms of one step and leaves out zeros, in order.
func mergeTerms(terms []linTerm) []linTerm {
	var out []linTerm
	at := map[int]int{}
	for _, t := range terms {
		if i, ok := at[t.w]; ok {
			out[i].r += t.r
			continue
		}
		at[t.w] = len(out)
		out = append(out, t)
	}
	kept := out[:0]
	for _, t := range out {
		if t.r != 0 {
			kept = append(kept, t)
		}
	}
	return kept
}
