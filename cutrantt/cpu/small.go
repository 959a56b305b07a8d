package cpu

import (
	"math"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/internal/taint"
)

func (r *ring) SetSmall(dst *cutrantt.Batch, v []int32) error {
	if err := r.check.Coefficients(dst, len(v)); err != nil {
		return err
	}
	if err := check.Small(v); err != nil {
		return err
	}
	n2, limbs := int(dst.Domain().N2), dst.Limbs()
	if r.vec != nil && r.fits(v, limbs) {
		r.eachNatural(dst, func(to []uint32, m *modulus) { r.vec.liftSmall(&to[0], &v[0], r.n, m.q) })
		return nil
	}
	r.eachLimb(1, len(limbs), r.n, func(_, l int) {
		m, to := r.moduli[limbs[l]], r.limb(dst, 0, l)
		const shift = 1 << 30
		back := m.reduce(shift)
		n1 := r.n / n2
		for c := range n2 {
			col := to[c*n1 : (c+1)*n1]
			for row, k := 0, c; row < len(col); row, k = row+1, k+n2 {
				col[row] = sub(m.reduce(uint64(int64(v[k])+shift)), back, m.q)
			}
		}
	})
	return nil
}

// fits reports whether all of v is below every modulus in magnitude.
func (r *ring) fits(v []int32, limbs []int) bool {
	q := uint32(cutrantt.MaxQ)
	for _, l := range limbs {
		q = min(q, r.moduli[l].q)
	}
	var top uint32
	for _, x := range v {
		sign := x >> 31 // 0 or -1
		top = max(top, uint32((x^sign)-sign))
	}
	return taint.Outcome(top < q)
}

// eachNatural runs f for every limb of the single polynomial dst with natural order
// of coefficients, and brings what it writes into the layout of dst.
func (r *ring) eachNatural(dst *cutrantt.Batch, f func(to []uint32, m *modulus)) {
	n2, limbs := int(dst.Domain().N2), dst.Limbs()
	r.eachLimb(1, len(limbs), r.n, func(_, l int) {
		to := r.limb(dst, 0, l)
		if n2 == 1 {
			f(to, r.moduli[limbs[l]])
			return
		}
		tmp := getScratch(r.n)
		defer tmp.put()
		f(tmp.words, r.moduli[limbs[l]])
		relayout(to, tmp.words, 1, n2)
	})
}

// gather fills a limb of n2 columns from a function of the coefficient index.
func gather(to []uint32, n2 int, f func(k int) uint32) {
	n1 := len(to) / n2
	for c := range n2 {
		col := to[c*n1 : (c+1)*n1]
		for row := range col {
			col[row] = f(row*n2 + c)
		}
	}
}

func (r *ring) SetFloats(dst *cutrantt.Batch, v []float64) error {
	if err := r.check.Coefficients(dst, len(v)); err != nil {
		return err
	}
	largest, err := check.FloatsUpTo(v)
	if err != nil {
		return err
	}
	if r.vec != nil && taint.Outcome(largest < maxWide) {
		s := r.newWide(v, nil)
		defer s.put()
		r.eachNatural(dst, func(to []uint32, m *modulus) { s.residues(r, to, m) })
		return nil
	}
	n2, limbs, parts := int(dst.Domain().N2), dst.Limbs(), floatParts(largest)
	r.eachLimb(1, len(limbs), 2*r.n, func(_, l int) {
		m, to := r.moduli[limbs[l]], r.limb(dst, 0, l)
		if taint.Outcome(largest < 1<<63) {
			gather(to, n2, func(k int) uint32 { return m.reduceInt64(int64(v[k])) })
			return
		}
		gather(to, n2, func(k int) uint32 { return m.reduceFloat(v[k], parts) })
	})
	return nil
}

// reduceInt64 is x mod q, for |x| < 2^63, without a branch on x.
func (b *barrett) reduceInt64(x int64) uint32 {
	sign := x >> 63 // 0 or -1
	a := b.reduce(uint64((x ^ sign) - sign))
	return corr(a^(uint32(sign)&(a^(b.q-a))), b.q) // a, or q-a corrected
}

// floatPart is how many bits of a float64 are reduced at a time; 18 parts make one.
const floatPart, maxFloatParts = 60, 18

// floatParts is how many parts numbers up to largest have.
func floatParts(largest float64) int {
	parts := 2
	for parts < maxFloatParts && taint.Outcome(largest >= powerOfTwo(floatPart*parts)) {
		parts++
	}
	return parts
}

// powerOfTwo is 2^e for |e| < 1023.
func powerOfTwo(e int) float64 { return math.Float64frombits(uint64(1023+e) << 52) }

// reduceFloat is the integral x mod q, for |x| < 2^(floatPart*parts): Horner's rule on
// its parts, each of which and what is left are exact. No branch depends on x.
func (b *barrett) reduceFloat(x float64, parts int) uint32 {
	var r uint32
	step := b.reduce(1 << floatPart)
	for i := parts - 1; i >= 0; i-- {
		high := math.Trunc(x * powerOfTwo(-floatPart*i))
		x -= high * powerOfTwo(floatPart*i)
		r = add(b.mul(r, step), b.reduceInt64(int64(high)), b.q)
	}
	return r
}

func (r *ring) SampleUniform(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	if err := r.check.Seeded(dst, seed); err != nil {
		return err
	}
	limbs := dst.Limbs()
	r.eachLimb(1, len(limbs), 8*r.n, func(_, l int) {
		prng.Uniform(r.limb(dst, 0, l), seed, label, uint32(limbs[l]), r.moduli[limbs[l]].q)
	})
	return nil
}

func (r *ring) SampleTernary(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return r.sampleSmall(dst, seed, label, prng.Ternary)
}

func (r *ring) SampleCBD(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return r.sampleSmall(dst, seed, label, prng.CBD)
}

func (r *ring) sampleSmall(
	dst *cutrantt.Batch, seed *[32]byte, label uint32, draw func([]int32, *[32]byte, uint32),
) error {
	if err := r.check.Seeded(dst, seed); err != nil {
		return err
	}
	s := getScratch(r.n)
	defer s.put()
	v := signed(s.words)
	draw(v, seed, label)
	return r.SetSmall(dst, v)
}
