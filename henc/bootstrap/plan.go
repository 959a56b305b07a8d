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
	// ToSlots are the levels at the top that the transform of coefficients into slots takes, ToCoefficients those
	// at the bottom that the other one takes, before the modulus is raised.
	ToSlots, ToCoefficients int
	// LogLargest is log2 of the largest values that a message at the default scale can have. Smaller ones are
	// multiplied by an integer, up to 2^LogLargest.
	LogLargest int
	// LogSlots is log2 of the number of slots, which repeat to fill all; 0 means all N/2.
	LogSlots int
	// LogError is log2 of the root mean square of the random error of the real or imaginary part of a slot, for values
	// of 1 at the default scale. Tests assert it.
	LogError float64
}

// literals are the bootstrappings of the named sets.
var literals = map[string]Literal{
	"boot10-insecure": {Stages: 3, ToSlots: 2, ToCoefficients: 3, LogLargest: 8, LogError: -18.5},
	"boot15":          {Stages: 3, ToSlots: 2, ToCoefficients: 3, LogLargest: 8, LogError: -15.5},
	"boot16":          {Stages: 3, ToSlots: 2, ToCoefficients: 2, LogLargest: 2, LogError: -22.5},
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
	halfWidth  = 11.75 // K
	chebyshev  = 15    // degree in T_2(u)
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
	largest float64 // scale of the input, times the integer that it is multiplied by
	decode  []stage // SlotsToCoeffs
	message float64 // scale of the coefficients that are raised
	encode  []stage // CoeffsToSlots
	working float64 // scale of the sine's operand
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
		return bad("it takes %d levels at the top and %d at the bottom, of %d", lit.ToSlots+sineLevels,
			lit.ToCoefficients, p.MaxLevel())
	}
	if lit.LogLargest < 0 || lit.LogLargest > 16 {
		return bad("values of up to 2^%d, it takes 2^0 to 2^16", lit.LogLargest)
	}
	pl := &Plan{params: p, lit: lit}
	if err := henc.CheckSparse(p, p.SparseLimbs()); err != nil {
		return nil, fmt.Errorf("bootstrapping with %q: %w", p.Name(), err)
	}
	for i := range lit.Stages {
		pl.groups = append(pl.groups, (lit.LogSlots+lit.Stages-1-i)/lit.Stages)
	}
	pl.schedule()
	if ratio := math.Log2(pl.modulus() / pl.message); ratio < leastRatio {
		return bad("the modulus of level 0 is 2^%.1f times a message, it must be at least 2^%d", ratio, leastRatio)
	}
	return pl, nil
}

// leastRatio is log2 of the least message ratio: the modulus of level 0 over the largest coefficient of a message.
const leastRatio = 9

// schedule fixes the levels and scales of all steps.
func (pl *Plan) schedule() {
	p, n := pl.params, pl.params.Slots()
	top := p.MaxLevel()
	level := top - pl.lit.ToSlots // of the sine's operand
	pl.working = 2 * operandScale(p, level)
	// The sum over the repeated slots multiplies by n/slots, toCoefficients by slots, and
	// z + conj(z) by 2.
	factor := 1 / (2 * halfWidth * float64(n))
	// A slot of the raised message is a sum of N coefficients.
	pl.encode = pl.stages(interpolation(n, pl.groups), top, level, pl.modulus(), pl.working*factor,
		pl.working/math.Sqrt(float64(p.N())))
	// The sine of 2*pi*v*message/modulus at its scale is v at the scale of the result's level.
	pl.message = pl.scale() / sineScale(p, level) * pl.modulus() / (2 * math.Pi)
	in := pl.lit.ToCoefficients
	pl.largest = math.Ldexp(p.ScaleAt(in), pl.lit.LogLargest)
	// What rounding in between adds is to be small beside the error that the message has.
	pl.decode = pl.stages(evaluation(n, pl.groups), in, 0, pl.largest, pl.message, 0x1p8*pl.largest)
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

// Level is the level of a bootstrapped ciphertext. It may be above the parameters' Depth.
func (pl *Plan) Level() int {
	if pl == nil {
		return 0
	}
	return max(pl.params.MaxLevel()-pl.lit.ToSlots-sineLevels, 0)
}

// LowestLevel is the lowest level of a ciphertext that can be bootstrapped: Level less what it leaves to compute with.
func (pl *Plan) LowestLevel() int {
	if pl == nil {
		return 0
	}
	return pl.lit.ToCoefficients
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
	return pl.largest
}

// scale is that of bootstrapped ciphertexts: rescaled, the square of one has the scale of the level below. That is
// ScaleAt(Level), where the parameters have one for it.
func (pl *Plan) scale() float64 {
	p, level := pl.params, pl.Level()
	if level <= p.Depth() {
		return p.ScaleAt(level)
	}
	return math.Sqrt(p.ScaleAt(level-1) * p.RescaleFactor(level))
}

// ScaleOf is the scale of a bootstrapped ciphertext that had the given one: such that its square, rescaled, has
// ScaleAt(Level-1), but for what the integer that multiplies the message is rounded by. It fails with henc.ErrScale
// outside 1..MaxScale.
func (pl *Plan) ScaleOf(scale float64) (float64, error) {
	if !pl.ready() {
		return 0, fmt.Errorf("%w: no plan", henc.ErrParams)
	}
	if !(scale >= 1) || scale > pl.largest {
		return 0, fmt.Errorf("%w: scale 2^%.2f, bootstrapping takes 2^0 to 2^%.2f", henc.ErrScale, math.Log2(scale),
			math.Log2(pl.largest))
	}
	return pl.scale() * (pl.multiplied(scale) / pl.largest), nil
}

// times is the integer that a message of the scale is multiplied by, which brings it near the largest scale.
func (pl *Plan) times(scale float64) int64 { return max(int64(pl.largest/scale*(1+1./256)), 1) }

// multiplied is the scale of a message of the scale, times that integer.
func (pl *Plan) multiplied(scale float64) float64 { return float64(pl.times(scale)) * scale }

// Error is what bootstrapping adds to the real part of a slot, for real values in [-1, 1] at the scale: a
// random error of standard deviation sd, whose law is that of noise times a key, and one of at most fixed
// that follows from the message, by what the sine differs from its argument: with f a slot times the message's scale
// over the modulus of level 0, by at most (2*pi*f)^2/6 of it.
func (pl *Plan) Error(scale float64) (sd, fixed float64) {
	if _, err := pl.ScaleOf(scale); err != nil {
		return math.Inf(1), math.Inf(1)
	}
	multiplied := pl.multiplied(scale)
	x := 2 * math.Pi * pl.message / pl.modulus() * (multiplied / pl.largest)
	return math.Exp2(pl.lit.LogError) * max(pl.largest/multiplied, 1), x * x / 6
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
	top := p.MaxLevel() - pl.lit.ToSlots
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
