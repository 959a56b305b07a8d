package bootstrap

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hencedge/hencedge/henc"
)

// Literal describes a bootstrapping, unchecked; NewPlan checks it.
type Literal struct {
	// Stages is how many factors each of the two linear transforms has.
	Stages int
	// ToCoefficients and ToSlots are the levels that the two transforms take.
	ToCoefficients, ToSlots int
	// LogRatio is log2 of the message ratio: the modulus of level 0 over the largest
	// coefficient that a message with values of 1 can have.
	LogRatio int
	// LogSlots is log2 of the number of slots, which repeat to fill all; 0 means all N/2.
	LogSlots int
	// LogError is log2 of the root mean square error of the real or imaginary part of a slot, for messages whose
	// slots are as large as the scale allows and not all alike. Tests assert it.
	LogError float64
}

// literals are the bootstrappings of the named sets.
var literals = map[string]Literal{
	"boot10-insecure": {Stages: 3, ToCoefficients: 2, ToSlots: 1, LogRatio: 9, LogError: -18.5},
	"boot15":          {Stages: 3, ToCoefficients: 2, ToSlots: 1, LogRatio: 9, LogError: -15.5},
	"boot16":          {Stages: 3, ToCoefficients: 3, ToSlots: 1, LogRatio: 9, LogError: -21.5},
}

// LiteralOf is the literal for a named parameter set, for all slots. It fails with
// henc.ErrUnknownSet where the set is not made for bootstrapping.
func LiteralOf(p henc.Parameters) (Literal, error) {
	l, ok := literals[p.Name()]
	if !ok {
		return l, fmt.Errorf("bootstrapping: %w: %q has no levels for it; use boot15 or boot16", henc.ErrUnknownSet,
			p.Name())
	}
	return l, nil
}

// The approximation of the modular reduction (sine.go).
const (
	halfWidth  = 8.75 // K
	chebyshev  = 15   // degree in T_2(u)
	doublings  = 3
	sineLevels = 1 + 4 + doublings
)

// Weight is the number of nonzero coefficients of the ephemeral sparse secret.
const Weight = henc.SparseWeight

// Plan is a checked bootstrapping: which levels and scales its steps have, and the keys
// that it needs. It is immutable.
type Plan struct {
	params  henc.Parameters
	lit     Literal
	groups  []int
	scaleIn float64 // of the input, at level 0
	encode  []stage // CoeffsToSlots
	decode  []stage // SlotsToCoeffs
	working float64 // scale of the sine's operand
	sine    float64 // scale of its result
}

// stage is one factor of a linear transform.
type stage struct {
	factor
	level int
	scale float64 // of the encoded matrix
	drop  int     // rescalings after it
}

// NewPlan makes the plan of lit for p. It fails with henc.ErrParams where p has too few
// levels or no special primes or lit is inconsistent, and with henc.ErrSecurity where p is not
// marked insecure and the modulus of the sparse secret's key is above henc.SparseBound.
func NewPlan(p henc.Parameters, lit Literal) (*Plan, error) {
	bad := func(format string, args ...any) (*Plan, error) {
		args = append([]any{p.Name(), henc.ErrParams}, args...)
		return nil, fmt.Errorf("bootstrapping with %q: %w: "+format, args...)
	}
	if p.Alpha() == 0 {
		return bad("it needs special primes and levels")
	}
	if lit.LogSlots == 0 {
		lit.LogSlots = p.LogN() - 1
	}
	if lit.LogSlots < 1 || lit.LogSlots >= p.LogN() || lit.Stages < 1 || lit.Stages > lit.LogSlots {
		return bad("%d stages for 2^%d slots", lit.Stages, lit.LogSlots)
	}
	if most := p.MaxLevel(); lit.ToCoefficients < 1 || lit.ToSlots < 1 || lit.ToCoefficients > most ||
		lit.ToSlots > most || lit.ToCoefficients+lit.ToSlots+sineLevels > p.MaxLevel() {
		return bad("it takes %d, %d and %d levels of %d", lit.ToCoefficients, sineLevels, lit.ToSlots, p.MaxLevel())
	}
	pl := &Plan{params: p, lit: lit, scaleIn: p.ScaleAt(0)}
	room := p.LogQ(0) - math.Log2(pl.scaleIn)
	if lit.LogRatio < 3 || float64(lit.LogRatio) > room+0.5 {
		return bad("the message ratio 2^%d is outside 2^3..2^%.1f", lit.LogRatio, room)
	}
	if err := henc.CheckSparse(p, p.SparseLimbs()); err != nil {
		return nil, fmt.Errorf("bootstrapping with %q: %w", p.Name(), err)
	}
	for i := range lit.Stages {
		pl.groups = append(pl.groups, (lit.LogSlots+lit.Stages-1-i)/lit.Stages)
	}
	pl.schedule()
	return pl, nil
}

// schedule fixes the levels and scales of all steps.
func (pl *Plan) schedule() {
	p, n := pl.params, pl.params.Slots()
	top := p.MaxLevel()
	working := 2 * p.RescaleFactor(top-pl.lit.ToCoefficients) // sine works with twice its operand
	// The sum over the repeated slots multiplies by n/slots, toCoefficients by slots, and
	// z + conj(z) by 2.
	factor := 1 / (2 * halfWidth * float64(n))
	// A slot of the raised message is a sum of N coefficients.
	pl.encode = pl.stages(toCoefficients(n, pl.groups), top, top-pl.lit.ToCoefficients, pl.modulus(),
		working*factor, working/math.Sqrt(float64(p.N())))
	level := top - pl.lit.ToCoefficients
	pl.working, pl.sine = working, sineScale(p, level, working)
	level -= sineLevels
	out := level - pl.lit.ToSlots
	factor = pl.modulus() / (pl.raised(pl.scaleIn) * 2 * math.Pi)
	pl.decode = pl.stages(toSlots(n, pl.groups), level, out, pl.sine, p.ScaleAt(out)*factor, working/2)
}

// stages spreads the factors over the levels from..to. The operand has scale in, the result
// out. A level is dropped as soon as the scale stays above least, which is for the operand: sums of each butterfly
// are larger by the root of 2, so that less will do. The remaining levels are dropped at the end.
//
// What rounding the values of a factor costs grows with the root of how many coefficients they have, and those of
// blocks of 2^k slots are polynomials with 2^(k+1). The factors share the bits so that each costs as much.
func (pl *Plan) stages(ms []factor, from, to int, in, out, least float64) []stage {
	p := pl.params
	each := out / in
	for l := from; l > to; l-- {
		each *= p.RescaleFactor(l)
	}
	for _, m := range ms {
		each /= m.rounding()
	}
	each = math.Pow(each, 1/float64(len(ms)))
	stages, level, scale := make([]stage, len(ms)), from, in
	for i, m := range ms {
		s := stage{factor: m, level: level, scale: each * m.rounding()}
		if i == len(ms)-1 { // exactly the scale wanted
			want := out
			for l := to + 1; l <= level; l++ {
				want *= p.RescaleFactor(l)
			}
			s.scale = want / scale
		}
		scale *= s.scale
		least /= math.Exp2(float64(m.levels) / 2)
		for level > to && (i == len(ms)-1 || scale/p.RescaleFactor(level) >= least) {
			scale /= p.RescaleFactor(level)
			level--
			s.drop++
		}
		stages[i] = s
	}
	return stages
}

// modulus is the modulus of level 0 as a float64.
func (pl *Plan) modulus() float64 {
	q := 1.0
	for _, v := range pl.params.Q()[:pl.params.LimbsAt(0)] {
		q *= float64(v)
	}
	return q
}

// Parameters are the parameters that the plan is for; the zero ones for no plan.
func (pl *Plan) Parameters() henc.Parameters {
	if pl == nil {
		return henc.Parameters{}
	}
	return pl.params
}

// ready reports whether NewPlan made the plan. The getters of others return zeros.
func (pl *Plan) ready() bool { return pl != nil && pl.encode != nil }

// Slots is the number of slots, which repeat to fill all N/2.
func (pl *Plan) Slots() int {
	if !pl.ready() {
		return 0
	}
	return 1 << pl.lit.LogSlots
}

// Level is the level of a bootstrapped ciphertext: the rescalings that are left.
func (pl *Plan) Level() int {
	if !pl.ready() {
		return 0
	}
	return pl.params.MaxLevel() - pl.lit.ToCoefficients - sineLevels - pl.lit.ToSlots
}

// Rotations are the rotations whose Galois keys make bootstrapping fast, ascending. It needs conjugation
// and the relinearisation key too.
func (pl *Plan) Rotations() []int { return pl.rotations(henc.TransformRotations) }

// LeastRotations are the fewest rotations that will do, at more key switches: powers of two, and some of
// them the other way.
func (pl *Plan) LeastRotations() []int { return pl.rotations(henc.LeastTransformRotations) }

func (pl *Plan) rotations(of func(n int, diagonals []int) []int) []int {
	if !pl.ready() {
		return nil
	}
	set := map[int]bool{}
	n := pl.params.Slots()
	for _, s := range append(append([]stage(nil), pl.encode...), pl.decode...) {
		for _, k := range of(n, s.diagonals()) {
			set[k] = true
		}
	}
	for _, k := range henc.SumRotations(n/pl.Slots(), pl.Slots()) {
		set[k] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// MaxScale is the largest scale of a ciphertext whose values have parts in [-1, 1].
func (pl *Plan) MaxScale() float64 {
	if !pl.ready() {
		return 0
	}
	return pl.modulus() / math.Exp2(float64(pl.lit.LogRatio))
}

// ScaleOf is the scale of a bootstrapped ciphertext that had the given one: ScaleAt(Level), but for what the
// integer that raises the message is rounded by. It fails with henc.ErrScale outside 1..MaxScale.
func (pl *Plan) ScaleOf(scale float64) (float64, error) {
	if !pl.ready() {
		return 0, fmt.Errorf("%w: no plan", henc.ErrParams)
	}
	if !(scale >= 1) || scale > pl.MaxScale() {
		return 0, fmt.Errorf("%w: scale 2^%.2f, bootstrapping takes 2^0 to 2^%.2f", henc.ErrScale, math.Log2(scale),
			math.Log2(pl.MaxScale()))
	}
	return pl.params.ScaleAt(pl.Level()) * (pl.raised(scale) / pl.raised(pl.scaleIn)), nil
}

// Error is what bootstrapping adds to the real part of a slot, for real values in [-1, 1] at the scale: a
// random error of standard deviation sd, whose law is that of noise times a key, and one of at most fixed
// that follows from the message, by what the sine differs from its argument.
func (pl *Plan) Error(scale float64) (sd, fixed float64) {
	if _, err := pl.ScaleOf(scale); err != nil {
		return math.Inf(1), math.Inf(1)
	}
	return math.Exp2(pl.lit.LogError) * max(pl.MaxScale()/pl.raised(scale), 1), pl.sineError(scale)
}

// KeySwitches is about how many key switches a bootstrapping takes, and the sum of their digits times limbs. Its time
// grows with them, but switches of baby steps, which share digits and divisions, take a quarter of the others.
func (pl *Plan) KeySwitches() (count, limbs int) {
	if !pl.ready() {
		return 0, 0
	}
	p := pl.params
	add := func(level, n int) {
		count += n
		limbs += n * p.Dnum(level) * (p.LimbsAt(level) + len(p.P()))
	}
	add(p.MaxLevel(), 1) // to the dense secret; the one before is small
	for _, s := range slices.Concat(pl.encode, pl.decode) {
		add(s.level, henc.TransformSwitches(s.n, s.diagonals()))
	}
	top := p.MaxLevel() - pl.lit.ToCoefficients
	add(top, 1) // conjugation
	for l := range sineLevels {
		add(top-l, 2*sineProducts/sineLevels)
	}
	return count, limbs
}

// Memory is about how many bytes the matrices take, and how many a bootstrapping works in at most, keys aside.
func (pl *Plan) Memory() (matrices, working int64) {
	if !pl.ready() {
		return 0, 0
	}
	p := pl.params
	polynomial := func(level int) int64 { return 4 * int64(p.N()) * int64(p.LimbsAt(level)+len(p.P())) }
	for _, s := range slices.Concat(pl.encode, pl.decode) {
		matrices += int64(len(s.diagonals())) * polynomial(s.level)
	}
	return matrices, workingPolynomials * polynomial(p.MaxLevel())
}

// workingPolynomials is more than a bootstrapping holds at a time, counted at the top level with the special limbs.
const workingPolynomials = 200

// sineProducts is about how many products the sine takes, of one half.
const sineProducts = 12
