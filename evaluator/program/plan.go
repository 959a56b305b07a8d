package program

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
)

// policy is one way to plan: the knobs that the search in search.go turns.
type policy struct {
	// keep is log2 of the slot magnitude (times scale) below which a factor of
	// a product is not rescaled. +Inf never rescales before a product.
	keep float64
	// trim also brings factors that hold more than that down to keep, by a multiplication
	// with the right integer before a rescaling. It costs a level and saves the bits.
	trim bool
	// sumLow rescales before summing, which is cheaper and less exact.
	sumLow bool
	// start is the level that inputs are brought down to at once, so that
	// everything is done on fewer limbs.
	start int
	// giant evaluates polynomials by baby and giant steps instead of by the
	// tree of all powers.
	giant bool
	// early bootstraps the factors of products that would be at a lower level; 0: only where
	// they do not fit otherwise.
	early int
}

// planner makes steps. Its first error sticks.
type planner struct {
	ch    *chain
	src   *source
	pol   policy
	steps []step
	memo  map[stepKey]int
	fills map[Input]int // slots of each input that hold samples
	at    ast.Node      // the part of the program that is being planned
	need  int           // multiplications one after another that it needs
	stays bool          // the result leaves at the level where its scale lets it fit
	err   *Error
}

func (p *planner) fail(kind error, hint, format string, args ...any) int {
	if p.err == nil {
		from, to := 0, 0
		if p.at != nil {
			from, to = p.src.span(p.at)
		}
		p.err = p.src.fail(kind, from, to, hint, format, args...)
	}
	return 0
}

func (p *planner) text() string {
	from, to := p.src.span(p.at)
	return "`" + excerpt(p.src.text, from, to) + "`"
}

// add makes a step, or finds the equal one that exists.
func (p *planner) add(s step) int {
	if p.err != nil {
		return 0
	}
	key := s.key()
	if i, ok := p.memo[key]; ok {
		return i
	}
	if len(p.steps) >= MaxSteps {
		return p.fail(ErrSize, "split the program",
			"the program needs more than %d operations on ciphertexts", MaxSteps)
	}
	s.at = p.at
	i := len(p.steps)
	switch s.op {
	case stepInput:
		s.roots = set{}.with(i)
	case stepAdd, stepSub, stepMul:
		s.roots = p.steps[s.a].roots.or(p.steps[s.b].roots).with(i)
	case stepDrop, stepMulInt:
		s.roots = p.steps[s.a].roots
	case stepNote: // says itself what its error depends on
	default:
		s.roots = p.steps[s.a].roots.with(i)
	}
	p.steps = append(p.steps, s)
	p.memo[key] = i
	return i
}

// get returns step i; after an error, which may leave i without a step, a harmless
// one.
func (p *planner) get(i int) *step {
	if i >= len(p.steps) {
		return &step{scale: 1, mag: 1}
	}
	return &p.steps[i]
}

// input returns the window of a stream.
func (p *planner) input(in Input, st config.Stream) int {
	level := InputLevel(p.ch.params, st)
	if st.Compact() > 0 {
		if problem := compactProblem(p.ch.params, st); problem != "" {
			return p.fail(ErrParams, "leave out mode: compact, or use parameters that bootstrap",
				"the windows of %s are compact: %s", in, problem)
		}
	}
	if level < 0 || level > p.ch.maxLevel {
		return p.fail(ErrParams, "leave out level: of the stream",
			"%s is encrypted at level %d, parameters %s have levels 0 to %d",
			in, level, p.ch.params.Name(), p.ch.maxLevel)
	}
	scale := InputScale(p.ch.params, st)
	if !p.ch.fits(level, 1, 0, scale) {
		return p.fail(ErrMagnitude, "choose a smaller log_scale",
			"%s is encrypted at scale 2^%.0f, level %d of parameters %s holds less than 2^%.1f",
			in, math.Log2(scale), level, p.ch.params.Name(), p.ch.room(level))
	}
	inputs := 0
	for i := range p.steps {
		if p.steps[i].op == stepInput && p.steps[i].in != in {
			inputs++
		}
	}
	if inputs >= MaxInputs {
		return p.fail(ErrSize, "split the program, or use longer windows",
			"the program reads more than %d windows", MaxInputs)
	}
	// A fresh error is v*e + s*e1: two products of equal size, hence the lighter
	// tail. Seeded encryption has less noise and is covered.
	fresh := p.ch.noise.FreshPK(scale)
	d := deviation{own: spread{fresh, fresh / 2}, fixed: p.ch.rounding}
	d = d.across(float64(p.ch.added)) // each adds its noise, and samples only where the others have none
	if st.Compact() > 0 {
		d = p.compactError(st, level, scale)
	}
	if p.fills == nil {
		p.fills = map[Input]int{}
	}
	p.fills[in] = st.Slots()
	return p.drop(p.add(step{op: stepInput, in: in, level: level, scale: scale, mag: 1, dev: d}),
		min(level, p.pol.start))
}

// drop brings a to a lower level.
func (p *planner) drop(a, level int) int {
	s := p.get(a)
	if s.level == level {
		return a
	}
	p.check(level, s.mag, s.dev.limit(), s.scale, s.depth)
	n := *s
	n.op, n.a, n.b, n.k, n.by, n.level, n.plain = stepDrop, a, 0, 0, 0, level, nil
	n.in = Input{}
	return p.add(n)
}

// canRescale reports whether rescaling a leaves at least 2^keep.
func (p *planner) canRescale(a int, keep float64) bool {
	s := p.get(a)
	if s.level <= p.ch.floor() || len(p.steps) == 0 {
		return false
	}
	left := math.Log2(s.scale) - math.Log2(p.ch.factor[s.level])
	return left >= 4 && left+math.Log2(s.mag) >= keep
}

func (p *planner) rescale(a int) int {
	s := p.get(a)
	if p.err != nil {
		return 0
	}
	return p.rescaleTo(a, s.scale/p.ch.factor[s.level])
}

// rescaleTo is rescale where the scale after it is known, to the last bit of a
// float64, to be scale.
func (p *planner) rescaleTo(a int, scale float64) int {
	s := p.get(a)
	n := step{op: stepRescale, a: a, level: s.level - 1, scale: scale, mag: s.mag, depth: s.depth}
	n.dev = s.dev.noise(p.ch.noise.Rescale(n.scale))
	return p.add(n)
}

// lower rescales a as long as the policy says so.
func (p *planner) lower(a int) int {
	for p.err == nil && p.canRescale(a, p.pol.keep) {
		a = p.rescale(a)
	}
	if p.pol.trim && p.err == nil {
		a = p.trim(a)
	}
	return a
}

// trim rescales a to the magnitude (times scale) 2^keep, where that saves enough bits
// to be worth a level.
func (p *planner) trim(a int) int {
	s := p.get(a)
	if s.level <= p.ch.floor() || math.Log2(s.scale*s.mag) < p.pol.keep+trimBits {
		return a
	}
	k := math.Floor(math.Exp2(p.pol.keep) / (s.scale * s.mag) * p.ch.factor[s.level])
	if k < 1 || !p.ch.fits(s.level, s.mag, s.dev.limit(), s.scale*k) {
		return a
	}
	return p.rescale(p.scaleBy(a, k, s.scale*k, 1, 0))
}

// trimBits is how many bits trim saves at least.
const trimBits = 4

// mul returns a*b. It brings both factors to the lower of their levels.
func (p *planner) mul(a, b int) int {
	if !p.switches("multiplying ciphertexts") {
		return 0
	}
	a, b = p.lower(a), p.lower(b)
	if p.ch.boot != nil {
		a, b = p.ready(a, b)
	}
	if p.err != nil {
		return 0
	}
	level := min(p.get(a).level, p.get(b).level)
	a, b = p.drop(a, level), p.drop(b, level)
	if a > b {
		a, b = b, a
	}
	x, y := p.get(a), p.get(b)
	n := step{op: stepMul, a: a, b: b, level: level, scale: x.scale * y.scale, mag: x.mag * y.mag,
		depth: max(x.depth, y.depth) + 1}
	n.dev = product(x.dev, y.dev, x.mag, y.mag, x.roots.meets(y.roots))
	if p.err == nil {
		n.dev = n.dev.noise(p.ch.noise.KeySwitch(level, n.scale))
	}
	p.check(level, n.mag, n.dev.limit(), n.scale, n.depth)
	return p.add(n)
}

// mulPlain multiplies by plain slot values of magnitude at most 1, the same at every place. The values
// are encoded just finely enough not to matter beside the noise of a, and at a scale of
// at least N: one slot of 1 has coefficients of up to 2*scale/N, and if all of them
// rounded to 0, what is lost would be the value and no noise.
func (p *planner) mulPlain(a int, values []float64, first int, key string) int {
	s, scale := p.get(a), p.plainScale(a)
	if p.err == nil && !p.ch.fits(s.level, s.mag, s.dev.limit(), s.scale*scale) && p.canRescale(a, 0) {
		a = p.rescale(a)
		s = p.get(a)
	}
	if p.ch.boot != nil && !p.ch.fits(s.level, s.mag, s.dev.limit(), s.scale*scale) {
		a = p.refresh(a)
		s, scale = p.get(a), p.plainScale(a)
	}
	n := step{op: stepMulPlain, a: a, level: s.level, scale: s.scale * scale, mag: s.mag, depth: s.depth + 1,
		plain: &plain{key, values, first, scale}}
	enc := deviation{fixed: p.ch.rounding}
	enc.own = spread{sd: p.ch.noise.Encode(scale)}
	n.dev = s.dev.plus(enc.times(s.mag + s.dev.limit()))
	p.check(n.level, n.mag, n.dev.limit(), n.scale, n.depth)
	return p.add(n)
}

// plainScale returns the scale of plain values that a is multiplied by.
func (p *planner) plainScale(a int) float64 {
	s := p.get(a)
	err := max(s.dev.limit(), 0x1p-50*s.mag)
	need := p.ch.noise.Encode(1) * s.mag * 8 / (err / 4)
	scale := math.Exp2(math.Ceil(math.Log2(max(need, float64(2*p.ch.slots)))))
	return min(scale, math.Exp2(math.Round(math.Log2(p.ch.params.DefaultScale()))))
}

// rotate moves slot j+k to slot j, by rotations by powers of two: the only ones
// that a key set holds unless more are asked for.
func (p *planner) rotate(a, k int) int {
	k = ((k % p.ch.slots) + p.ch.slots) % p.ch.slots
	if k == 0 || !p.switches("rotating slots") {
		return a
	}
	for power := 1; power <= k && p.err == nil; power <<= 1 {
		if k&power == 0 {
			continue
		}
		n := *p.get(a)
		n.op, n.a, n.b, n.k, n.by, n.plain, n.in = stepRotate, a, 0, float64(power), 0, nil, Input{}
		n.dev = n.dev.noise(p.ch.noise.KeySwitch(n.level, n.scale))
		p.check(n.level, n.mag, n.dev.limit(), n.scale, n.depth)
		a = p.add(n)
	}
	return a
}

// sum adds the stride slots of a block. Their magnitudes add up to at most total
// times the largest, for instance the number of samples.
func (p *planner) sum(a, stride int, total float64) int {
	if stride == 1 {
		return a
	}
	if !p.switches("summing a window") {
		return 0
	}
	a = p.summand(a, total)
	s := p.get(a)
	n := step{op: stepSum, a: a, k: float64(stride), level: s.level, scale: s.scale, mag: s.mag * total, depth: s.depth}
	n.dev = s.dev.sum(stride, total)
	// The noise of the rotation by 2^i comes stride/2^(i+1) times.
	ks := rotations(p.ch.noise.KeySwitch(n.level, n.scale), bits.Len(uint(stride))-1, stride-1)
	n.dev = n.dev.plus(deviation{own: ks})
	p.check(n.level, n.mag, n.dev.limit(), n.scale, n.depth)
	return p.add(n)
}

// summand rescales what is to be summed, as far as the policy or the sum's size asks for.
func (p *planner) summand(a int, total float64) int {
	if p.pol.sumLow {
		a = p.lower(a)
	}
	s := p.get(a)
	if !p.ch.fits(s.level, s.mag*total, s.dev.limit(), s.scale) && p.canRescale(a, 0) {
		a = p.rescale(a)
	}
	if s = p.get(a); p.ch.boot != nil && !p.ch.fits(s.level, s.mag*total, s.dev.limit(), s.scale) {
		a = p.refresh(a)
	}
	return a
}

// sumPlaces adds up the slots at all places: over windows of which each stands at one of
// them, so that the magnitude stays.
func (p *planner) sumPlaces(a int) int {
	n := p.ch.places
	if n < 2 || !p.switches("summing places") {
		return a
	}
	s := *p.get(a)
	s.op, s.a, s.b, s.k, s.by, s.plain, s.in = stepSum, a, 0, float64(n), p.ch.span(), nil, Input{}
	ks := rotations(p.ch.noise.KeySwitch(s.level, s.scale), bits.Len(uint(n))-1, n-1)
	fixed := s.dev.fixed
	if s.dev = s.dev.sum(n, float64(n)).plus(deviation{own: ks}); p.ch.compact {
		s.dev.fixed = fixed // that of readings, which like these stand at one place each
	}
	p.check(s.level, s.mag, s.dev.limit(), s.scale, s.depth)
	return p.add(s)
}

// spread copies the value of slot pos to a window of n samples at pos.
func (p *planner) spread(a, pos int, sh shape) int {
	a = p.mulPlain(a, []float64{1}, pos, fmt.Sprintf("mask %d", pos))
	if sh.stride == 1 {
		return a
	}
	masked := *p.get(a)
	source := p.get(masked.a)
	a = p.rotate(a, -(sh.stride - 1))
	rotated := p.get(a)
	if p.err != nil {
		return 0
	}
	n := step{op: stepSum, a: a, k: float64(sh.stride), level: rotated.level, scale: rotated.scale, mag: masked.mag,
		depth: rotated.depth}
	// Besides the value's own error each slot collects the noise of the empty
	// slots: of the mask's encoding, and of the rotations and the sum.
	several := bits.Len(uint(p.ch.slots)) + 1
	ks := rotations(p.ch.noise.KeySwitch(n.level, n.scale), several, several*sh.stride)
	enc := deviation{own: spread{sd: p.ch.noise.Encode(masked.plain.scale)}, fixed: p.ch.rounding}.times(source.mag)
	n.dev = masked.dev.plus(enc.sum(sh.stride, float64(sh.stride))).plus(deviation{own: ks}).shared()
	p.check(n.level, n.mag, n.dev.limit(), n.scale, n.depth)
	return p.add(n)
}

// switches refuses key switching under parameters without special primes.
func (p *planner) switches(what string) bool {
	if p.err == nil && !p.ch.switching {
		p.fail(ErrDepth, "", "%s needs key switching (%s), but parameters %s have no special primes", p.text(), what,
			p.ch.params.Name())
	}
	return p.err == nil
}

// check refuses a value that its level cannot hold.
func (p *planner) check(level int, mag, err, scale float64, depth int) {
	if p.err != nil || p.ch.fits(level, mag, err, scale) {
		return
	}
	name := p.ch.params.Name()
	top := 0
	for i := range p.steps {
		if p.steps[i].op == stepInput {
			top = max(top, p.steps[i].level)
		}
	}
	depth = max(depth, p.need)
	switch {
	case p.ch.boot != nil:
		p.fail(ErrMagnitude, "",
			"%s does not fit, with bootstrapping neither: it needs %.1f bits (values up to %.4g at scale 2^%.1f), "+
				"level %d of parameters %s holds %.1f where it can still be bootstrapped", p.text(),
			math.Log2(mag+err)+math.Log2(scale), mag, math.Log2(scale), level, name, p.ch.room(level))
	case depth > p.ch.maxLevel:
		p.fail(ErrDepth, "", "%s needs level %d (multiplications one after another), parameters %s have %d",
			p.text(), depth,
			name, p.ch.maxLevel)
	case depth > top:
		p.fail(ErrDepth, "encrypt at a higher level",
			"%s needs level %d (multiplications one after another), its inputs are encrypted at level "+
				"%d", p.text(), depth, top)
	default:
		p.fail(ErrMagnitude, "",
			"%s does not fit: it needs %.1f bits (values up to %.4g at scale 2^%.1f), level %d of "+
				"parameters %s holds %.1f",
			p.text(), math.Log2(mag+err)+math.Log2(scale), mag, math.Log2(scale), level, name, p.ch.room(level))
	}
}

// scaleBy multiplies by the integer k and reads the result at another scale, so
// that its value is r times that of a up to the error lost. The error that a has
// is multiplied by what r was rounded to.
func (p *planner) scaleBy(a int, k, scale, r, lost float64) int {
	s := p.get(a)
	if k == 1 && s.scale == scale && r == 1 {
		return a
	}
	n := step{op: stepMulInt, a: a, k: k, level: s.level, scale: scale, mag: s.mag * r, depth: s.depth}
	n.dev = s.dev.times(k * s.scale / scale)
	n.dev.fixed += lost
	return p.add(n)
}

// String names a policy for Explain.
func (p policy) String() string {
	parts := []string{fmt.Sprintf("factors kept at 2^%.0f or more", p.keep)}
	if math.IsInf(p.keep, 1) {
		parts[0] = "factors not rescaled"
	}
	if p.trim {
		parts[0] = fmt.Sprintf("factors trimmed to 2^%.0f", p.keep)
	}
	if p.sumLow {
		parts = append(parts, "windows summed after rescaling")
	}
	if p.giant {
		parts = append(parts, "polynomials in baby and giant steps")
	}
	if p.early > 0 {
		parts = append(parts, fmt.Sprintf("bootstrapped for products below level %d", p.early))
	}
	return strings.Join(parts, ", ")
}

// chain is what the planner needs of the parameters.
type chain struct {
	params    henc.Parameters
	slots     int
	places    int  // windows that share the slots; 1: they stand alone
	added     int  // windows that may have been added up before the program runs; at most places
	compact   bool // the windows are compact: bootstrapped together, where their samples are
	maxLevel  int
	logQ      []float64 // log2 of the modulus by level
	factor    []float64 // what rescaling from a level divides by
	noise     henc.NoiseModel
	switching bool            // there are special primes: products and rotations work
	rounding  float64         // float64 error of encoding or decoding, relative to the largest slot
	boot      *bootstrap.Plan // how to bootstrap where that is needed; nil: not at all
}

func newChain(p henc.Parameters) *chain {
	c := &chain{params: p, slots: p.Slots(), places: 1, added: 1, maxLevel: p.Depth(), noise: p.Noise(),
		switching: p.Alpha() > 0}
	for l := range p.MaxLevel() + 1 { // bootstrapping may lead above Depth
		c.logQ = append(c.logQ, p.LogQ(l))
		c.factor = append(c.factor, p.RescaleFactor(l))
	}
	// The encoder states a root mean square; eight times it covers every slot.
	c.rounding = 8 * henc.EncodingError(p.LogN())
	return c
}

// chainOf returns the chain for a program. Only devices of one class share a ciphertext: the
// same program of the class reads all of them.
func chainOf(p henc.Parameters, prog *Source) *chain {
	c := newChain(p)
	c.places, c.compact = prog.places(c.slots), prog.compact()
	if prog.Class != "" {
		c.added = c.places
	}
	return c
}

// span returns the slots of one place.
func (c *chain) span() int { return c.slots / c.places }

// margin is what a ciphertext leaves free below half its modulus, in bits.
const margin = 0.2

// room returns log2 of the largest slot value at scale 1 that a level holds.
func (c *chain) room(level int) float64 {
	if c.boot != nil && level >= c.floor() { // a value that comes down to the lowest level can be bootstrapped there
		return c.logQ[level] - c.logQ[c.floor()] + math.Log2(c.boot.MaxScale())
	}
	return c.logQ[level] - 1 - margin
}

// floor returns the lowest level that values are brought to: with bootstrapping that at which they still can be.
// Results may go lower.
func (c *chain) floor() int {
	if c.boot != nil {
		return c.boot.LowestLevel()
	}
	return 0
}

// fits reports whether slot values up to mag with the given error can be held.
func (c *chain) fits(level int, mag, err, scale float64) bool {
	return scale >= 1 && math.Log2(scale) <= min(c.room(level), 1000) &&
		math.Log2(mag+err)+math.Log2(scale) <= c.room(level)
}
