package reference

import (
	"math/big"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
	"github.com/hencedge/hencedge/cutrantt/prng"
)

// mod is x mod q in [0, q).
func mod(x *big.Int, q uint32) uint32 {
	return uint32(new(big.Int).Mod(x, big.NewInt(int64(q))).Uint64())
}

// basis is some primes q_i with their product S, and for each S/q_i and its inverse
// modulo q_i.
type basis struct {
	ms       []cutrantt.Modulus
	s        *big.Int
	hats     []*big.Int
	inverses []uint64
}

func basisOf(ms []cutrantt.Modulus) basis {
	b := basis{ms: ms, s: modulusProduct(ms)}
	for _, m := range ms {
		hat := new(big.Int).Div(b.s, big.NewInt(int64(m.Q)))
		b.hats = append(b.hats, hat)
		b.inverses = append(b.inverses, inv(uint64(mod(hat, m.Q)), m.Q))
	}
	return b
}

// centred reads an integer from its residues x modulo the primes of the basis, with
// the fixed-point rounding of Ring.Extend.
func (b basis) centred(x []uint32) *big.Int {
	sum, v := new(big.Int), uint64(1<<55)
	for i, m := range b.ms {
		y := uint64(x[i]) * b.inverses[i] % uint64(m.Q)
		sum.Add(sum, new(big.Int).Mul(b.hats[i], new(big.Int).SetUint64(y)))
		v += y * ((1 << 56) / uint64(m.Q))
	}
	return sum.Sub(sum, new(big.Int).Mul(b.s, new(big.Int).SetUint64(v>>56)))
}

func modulusProduct(ms []cutrantt.Modulus) *big.Int {
	s := big.NewInt(1)
	for _, m := range ms {
		s.Mul(s, big.NewInt(int64(m.Q)))
	}
	return s
}

// moduliOf is the moduli of some limbs.
func (r *ring) moduliOf(limbs []int) []cutrantt.Modulus {
	ms := make([]cutrantt.Modulus, len(limbs))
	for i, l := range limbs {
		ms[i] = r.Moduli()[l]
	}
	return ms
}

func (r *ring) Extend(dst, src *cutrantt.Batch) error {
	if err := r.Ring.Extend(dst, src); err != nil {
		return err
	}
	ms, from := r.moduliOf(src.Limbs()), src.Limbs()
	x, b := make([]uint32, len(ms)), basisOf(ms)
	for p := range src.Polys() {
		for c := range r.N() {
			for i := range x {
				x[i] = r.limb(src, p, i)[c]
			}
			value := b.centred(x)
			for j, l := range dst.Limbs() {
				if i := slices.Index(from, l); i >= 0 {
					r.limb(dst, p, j)[c] = x[i]
				} else {
					r.limb(dst, p, j)[c] = mod(value, r.Moduli()[l].Q)
				}
			}
		}
	}
	return nil
}

func (r *ring) DivRound(dst, src *cutrantt.Batch) error {
	if err := r.Ring.DivRound(dst, src); err != nil {
		return err
	}
	keep, d := len(dst.Limbs()), src.Domain()
	ms := r.moduliOf(src.Limbs())
	dropped := basisOf(ms[keep:])
	inverses := make([]uint64, keep) // of the dropped product, modulo each prime kept
	for l, m := range ms[:keep] {
		inverses[l] = inv(uint64(mod(dropped.s, m.Q)), m.Q)
	}
	x := make([]uint32, len(ms)-keep)
	for p := range src.Polys() {
		f := make([][]uint32, len(ms)) // natural-order coefficients of each limb
		for l, m := range ms {
			f[l] = coefficients(r.limb(src, p, l), d, m)
		}
		for k := range r.N() {
			for i := range x {
				x[i] = f[keep+i][k]
			}
			rest := dropped.centred(x)
			for l, m := range ms[:keep] {
				t := uint64(f[l][k]) + uint64(m.Q) - uint64(mod(rest, m.Q))
				f[l][k] = uint32(t % uint64(m.Q) * inverses[l] % uint64(m.Q))
			}
		}
		for l, m := range ms[:keep] {
			arrange(r.limb(dst, p, l), f[l], d, m)
		}
	}
	dst.SetDomain(d)
	return nil
}

// set fills dst with the integers v(0), v(1), ... in natural order.
func (r *ring) set(dst *cutrantt.Batch, v func(k int) *big.Int) {
	r.each(dst, func(p, l int, m cutrantt.Modulus) {
		f := make([]uint32, r.N())
		for k := range f {
			f[k] = mod(v(k), m.Q)
		}
		arrange(r.limb(dst, p, l), f, dst.Domain(), m)
	})
}

func (r *ring) SetSmall(dst *cutrantt.Batch, v []int32) error {
	if err := r.Coefficients(dst, len(v)); err != nil {
		return err
	}
	if err := check.Small(v); err != nil {
		return err
	}
	r.set(dst, func(k int) *big.Int { return big.NewInt(int64(v[k])) })
	return nil
}

func (r *ring) SetFloats(dst *cutrantt.Batch, v []float64) error {
	if err := r.Coefficients(dst, len(v)); err != nil {
		return err
	}
	if err := check.Floats(v); err != nil {
		return err
	}
	r.set(dst, func(k int) *big.Int {
		x, _ := big.NewFloat(v[k]).Int(nil)
		return x
	})
	return nil
}

func (r *ring) SampleUniform(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	if err := r.Seeded(dst, seed); err != nil {
		return err
	}
	r.each(dst, func(p, l int, m cutrantt.Modulus) {
		prng.Uniform(r.limb(dst, p, l), seed, label, uint32(dst.Limbs()[l]), m.Q)
	})
	return nil
}

func (r *ring) SampleTernary(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return r.sample(dst, seed, label, prng.Ternary)
}

func (r *ring) SampleCBD(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return r.sample(dst, seed, label, prng.CBD)
}

func (r *ring) sample(dst *cutrantt.Batch, seed *[32]byte, label uint32, draw func([]int32, *[32]byte, uint32)) error {
	if err := r.Seeded(dst, seed); err != nil {
		return err
	}
	v := make([]int32, r.N())
	draw(v, seed, label)
	return r.SetSmall(dst, v)
}
