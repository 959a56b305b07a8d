package lattigo

import (
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
)

// sets are the named sets of the default test; deepSets take minutes and
// several GiB, and need HENCEDGE_TEST_DEEP=1.
var (
	sets     = []string{"edge12-add", "edge12-d1", "edge13-d3", "edge13-d2p", "std14-d5", "std15-d8"}
	deepSets = []string{"std15-d11", "deep16-d23"}
)

// eachSet runs f on every set that the environment asks for.
func eachSet(t *testing.T, f func(t *testing.T, r *rig)) {
	eachNamed(t, func(henc.Parameters) bool { return true }, f)
}

// eachNamed runs f for the sets that want chooses.
func eachNamed(t *testing.T, want func(henc.Parameters) bool, f func(t *testing.T, r *rig)) {
	run := sets
	if os.Getenv("HENCEDGE_TEST_DEEP") != "" {
		run = append(append([]string(nil), sets...), deepSets...)
		// Keys and Lattigo's evaluator take 3 GiB at 2^16: leave little garbage.
		defer debug.SetGCPercent(debug.SetGCPercent(20))
	}
	for _, name := range run {
		if p, err := henc.NamedInsecure(name); err == nil && !want(p) {
			continue
		}
		t.Run(name, func(t *testing.T) { f(t, newRig(t, name)) })
	}
}

// eachSwitchingSet is eachSet for the sets that have key switching.
func eachSwitchingSet(t *testing.T, f func(t *testing.T, r *rig)) {
	eachNamed(t, func(p henc.Parameters) bool { return p.Alpha() > 0 }, f)
}

// rig is one parameter set on both sides.
type rig struct {
	p    henc.Parameters
	ctx  *henc.Context
	b    *Bridge
	lp   ckks.Parameters
	lenc *ckks.Encoder
	rng  *rand.Rand
}

func newRig(t *testing.T, name string, opts ...henc.Option) *rig {
	t.Helper()
	p := must(henc.Named(name))(t)
	ctx := must(henc.NewContext(p, opts...))(t)
	b := must(NewBridge(ctx))(t)
	return &rig{
		p: p, ctx: ctx, b: b, lp: b.Parameters(),
		lenc: ckks.NewEncoder(b.Parameters(), 53),
		rng:  rand.New(rand.NewPCG(2, uint64(p.N()))),
	}
}

// must gives the value or fails the test: must(f())(t).
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// values fills all N/2 slots from the square [-1, 1]^2.
func (r *rig) values() []complex128 {
	v := make([]complex128, r.p.Slots())
	for i := range v {
		v[i] = complex(2*r.rng.Float64()-1, 2*r.rng.Float64()-1)
	}
	return v
}

// ringAt is Lattigo's ring over the primes of our level.
func (r *rig) ringAt(level int) *ring.Ring { return r.lp.RingQ().AtLevel(r.b.LattigoLevel(level)) }

// integers are the centred coefficients of a polynomial in the NTT domain.
func (r *rig) integers(p ring.Poly) []*big.Int {
	rq := r.lp.RingQ().AtLevel(p.Level())
	tmp := *p.CopyNew()
	rq.INTT(tmp, tmp)
	out := bigInts(r.p.N())
	rq.PolyToBigintCentered(tmp, 1, out)
	return out
}

func bigInts(n int) []*big.Int {
	out := make([]*big.Int, n)
	for i := range out {
		out[i] = new(big.Int)
	}
	return out
}

// levels are the levels to test: all of a small set, some of a large one.
func (r *rig) levels() []int {
	top := r.p.MaxLevel()
	if r.p.LogN() >= 14 {
		return []int{0, 1, top}
	}
	var all []int
	for level := range top + 1 {
		all = append(all, level)
	}
	return all
}

// deviation is the root mean square of the coefficients of have - want, both
// in the NTT domain and over the same primes; infinite where they are not small
// (below 2^50 over three primes or more). It reads the difference from the first
// three primes and checks all others against it.
func (r *rig) deviation(have, want ring.Poly) float64 {
	rq := r.lp.RingQ().AtLevel(have.Level())
	diff := rq.NewPoly()
	rq.Sub(have, want, diff)
	rq.INTT(diff, diff)
	low := min(have.Level(), 2)
	small := bigInts(r.p.N())
	r.lp.RingQ().AtLevel(low).PolyToBigintCentered(ring.Poly{Coeffs: diff.Coeffs[:low+1]}, 1, small)
	for i := low + 1; i <= have.Level(); i++ {
		q := int64(rq.SubRings[i].Modulus)
		for j, x := range small {
			if !x.IsInt64() || ((x.Int64()%q)+q)%q != int64(diff.Coeffs[i][j]) {
				return math.Inf(1)
			}
		}
	}
	return rms(small, nil, nil)
}

// deviationScaled is the root mean square of have - want/divisor over the
// coefficients, where want may be over more primes.
func (r *rig) deviationScaled(have, want ring.Poly, divisor *big.Int) float64 {
	return rms(r.integers(have), r.integers(want), divisor)
}

// rms is the root mean square of a[i] - b[i]/d; a nil b stands for zeros.
func rms(a, b []*big.Int, d *big.Int) float64 {
	sum, x := 0.0, new(big.Float).SetPrec(200)
	for i := range a {
		x.SetInt(a[i])
		if b != nil {
			y := new(big.Float).SetPrec(2000).SetInt(b[i])
			y.Quo(y, new(big.Float).SetPrec(2000).SetInt(d))
			x.SetPrec(2000).SetInt(a[i]).Sub(x, y)
		}
		f, _ := x.Float64()
		sum += f * f
	}
	return math.Sqrt(sum / float64(len(a)))
}

// slotError turns the root mean square error of the coefficients into a bound on
// the error of every slot. A slot is a sum of N coefficients times roots of
// unity, so its error has deviation sqrt(N)*rms/scale. It is not normal: noise
// such as e1*s is, slot by slot, the product of two nearly normal variables, and
// exceeds t deviations with probability 2t*K1(2t), about sqrt(pi*t)*exp(-2t) (of
// 16384 slots one is often above 6.5). 16 deviations leave 2^-43 for a slot.
func (r *rig) slotError(rms, scale float64) float64 {
	return 16 * math.Sqrt(float64(r.p.N())) * rms / scale
}

// floatError bounds the float64 errors of encoding and decoding values of
// magnitude up to size.
func (r *rig) floatError(size float64) float64 { return size * 0x1p-44 }

// maxError is the largest |have - want| over the slots.
func maxError(have, want []complex128) float64 {
	worst := 0.0
	for i := range want {
		d := have[i] - want[i]
		worst = max(worst, math.Hypot(real(d), imag(d)))
	}
	return worst
}

// noise deviations of the two samplers of errors.
const (
	ourSigma     = prng.Sigma
	lattigoSigma = rlwe.DefaultNoise
)

// freshPK is the deviation of v*e + e0 + e1*s: public-key encryption.
func (r *rig) freshPK(sigma float64) float64 {
	return sigma * math.Sqrt(4*float64(r.p.N())/3+1)
}

// within reports whether have/want is in [1/1.1, 1.1]. Standard deviations are
// measured over at least 4096 coefficients, where 1.1 is more than eight
// deviations of the estimate away.
func within(t *testing.T, what string, have, want float64) {
	t.Helper()
	if !(have < 1.1*want && have > want/1.1) {
		t.Errorf("%s: deviation %.4g, want %.4g within a factor of 1.1", what, have, want)
	}
}
