package henc

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/toy"
)

// Name is the set's name. It does not enter Hash.
func (p Parameters) Name() string { return p.data().lit.Name }

// LogN is log2 of the ring degree.
func (p Parameters) LogN() int { return p.data().lit.LogN }

// N is the ring degree.
func (p Parameters) N() int {
	if p.d == nil {
		return 0
	}
	return 1 << p.d.lit.LogN
}

// Slots is the number of complex slots, N/2.
func (p Parameters) Slots() int { return p.N() / 2 }

// Mode is single, pair or mixed rescaling.
func (p Parameters) Mode() Mode { return p.data().lit.Mode }

// LogScale is log2 of the default scale.
func (p Parameters) LogScale() int { return p.data().lit.LogScale }

// Q is a copy of the ciphertext primes, bottom first.
func (p Parameters) Q() []uint32 { return slices.Clone(p.data().lit.Q) }

// P is a copy of the special primes of key switching.
func (p Parameters) P() []uint32 { return slices.Clone(p.data().lit.P) }

// Moduli are all moduli with their roots, Q then P: the ring's limb indices.
func (p Parameters) Moduli() []cutrantt.Modulus { return slices.Clone(p.data().moduli) }

// Alpha is the number of primes in a key-switching digit; 0 without special primes.
func (p Parameters) Alpha() int { return p.data().lit.Alpha }

// Dnum is the number of key-switching digits at level, 0 without special primes.
func (p Parameters) Dnum(level int) int {
	a := p.data().lit.Alpha
	if a == 0 {
		return 0
	}
	return (p.LimbsAt(level) + a - 1) / a
}

// MaxLevel is the top level: Depth plus the Upper levels of the literal.
func (p Parameters) MaxLevel() int { return max(len(p.data().counts)-1, 0) }

// UpperLevels is how many of the top levels are for the steps of bootstrapping and for what it gives.
func (p Parameters) UpperLevels() int { return len(p.data().lit.Upper) }

// Depth is the highest level that messages are encrypted at: MaxLevel without UpperLevels.
func (p Parameters) Depth() int { return p.MaxLevel() - p.UpperLevels() }

// PrimesPerLevel is how many primes one rescaling drops below UpperLevels, 1 or 2; 0 where that differs from level to
// level.
func (p Parameters) PrimesPerLevel() int { return p.data().ppl }

// LimbsAt is the number of limbs of a polynomial at level; 0 where level is not
// in 0..MaxLevel.
func (p Parameters) LimbsAt(level int) int {
	d := p.data()
	if level < 0 || level >= len(d.logQ) {
		return 0
	}
	return d.counts[level]
}

// QLimbs are the limb indices 0..LimbsAt(level)-1.
func (p Parameters) QLimbs(level int) []int {
	return slices.Clone(p.data().limbs[:p.LimbsAt(level)])
}

// PLimbs are the limb indices of the special primes.
func (p Parameters) PLimbs() []int {
	d := p.data()
	return slices.Clone(d.limbs[len(d.lit.Q):])
}

// SparseLimbs are the limbs that a key of the sparse secret of bootstrapping may have: those of
// level 0 and one special prime. There are none without special primes.
func (p Parameters) SparseLimbs() []int {
	if p.Alpha() == 0 {
		return nil
	}
	return append(p.QLimbs(0), p.PLimbs()[0])
}

// QPLimbs are QLimbs(level) followed by PLimbs.
func (p Parameters) QPLimbs(level int) []int { return append(p.QLimbs(level), p.PLimbs()...) }

// LogQ is log2 of the modulus at level; 0 where level does not exist.
func (p Parameters) LogQ(level int) float64 {
	if p.LimbsAt(level) == 0 {
		return 0
	}
	return p.d.logQ[level]
}

// LogP is log2 of the product of the special primes.
func (p Parameters) LogP() float64 { return p.data().logP }

// LogQP is log2 of the modulus of the keys, the number that security depends on.
func (p Parameters) LogQP() float64 { return p.LogQ(p.MaxLevel()) + p.LogP() }

// QProduct is a copy of the modulus at level, 1 where level does not exist.
func (p Parameters) QProduct(level int) *big.Int {
	if p.LimbsAt(level) == 0 {
		return big.NewInt(1)
	}
	return new(big.Int).Set(p.d.productQ[level])
}

// PProduct is a copy of the product of the special primes, 1 without any.
func (p Parameters) PProduct() *big.Int { return new(big.Int).Set(p.data().productP) }

// DefaultScale is the scale at the top level and at those of bootstrapping, 2^LogScale.
func (p Parameters) DefaultScale() float64 { return p.ScaleAt(p.MaxLevel()) }

// ScaleAt is the scale that ciphertexts at level have when each level below the
// top, or below UpperLevels, is reached by multiplying two ciphertexts of the level above and rescaling:
// ScaleAt(L-1) = ScaleAt(L)^2 / (the primes that the rescaling drops). It is 0
// where level does not exist.
func (p Parameters) ScaleAt(level int) float64 {
	if p.LimbsAt(level) == 0 {
		return 0
	}
	return p.d.scales[level]
}

// RescaleFactor is the product of the primes that rescaling from level drops; 1
// where there is no level below.
func (p Parameters) RescaleFactor(level int) float64 {
	f := 1.0
	if level > 0 && level <= p.MaxLevel() {
		for _, q := range p.data().lit.Q[p.LimbsAt(level-1):p.LimbsAt(level)] {
			f *= float64(q)
		}
	}
	return f
}

// Insecure reports whether the literal was admitted with the insecure flag. Keys
// of such parameters are never written (CheckKeys).
func (p Parameters) Insecure() bool { return p.data().lit.Insecure }

// CheckKeys fails with ErrInsecureKey if keys of p are neither written nor read: those of insecure
// parameters, except in builds for the chaos test.
func (p Parameters) CheckKeys() error {
	if p.Insecure() && !toy.Allowed {
		return fmt.Errorf("%w: %q", ErrInsecureKey, p.Name())
	}
	return nil
}

// SwitchingKeyBytes is about the size of a relinearisation or Galois key in a file, with the seed of its uniform
// halves.
func (p Parameters) SwitchingKeyBytes() int {
	sum := 0
	for _, m := range p.data().moduli {
		sum += bits.Len32(m.Q)
	}
	return p.Dnum(p.MaxLevel()) * sum * p.N() / 8
}

// SecurityBound is the largest log2(QP) for 128 bits at this ring degree, 0 where
// the table has none.
func (p Parameters) SecurityBound() int { return p.data().securityBound }

// Literal is a copy of what the parameters were made from, with the roots and
// Alpha filled in.
func (p Parameters) Literal() ParametersLiteral { return p.data().lit.clone() }

// Equal reports whether both describe the same arithmetic (equal Hash). The
// zero value equals only itself.
func (p Parameters) Equal(o Parameters) bool { return p.Hash() == o.Hash() }

// Hash identifies the parameters on the wire: SHA-256 of the ASCII text
// "hencedge/params/v1", one zero byte, then as 32-bit little-endian words logN,
// logScale, primes per level, depth, alpha, insecure (0 or 1), len(Q), len(P), and
// for each prime of Q and then of P the prime and its root psi. The name is left
// out. With upper levels the text ends in "v2", and their number and the primes of each
// follow len(P). In ModeMixed it ends in "v3", primes per level are 0, and the primes of each lower level follow
// those of the upper ones. The zero Parameters have the zero hash.
func (p Parameters) Hash() [32]byte { return p.data().hash }

// CheckLevel fails with ErrLevel unless level is in 0..MaxLevel.
func (p Parameters) CheckLevel(level int) error {
	if p.LimbsAt(level) == 0 {
		return fmt.Errorf("%w: level %d, %q has levels 0..%d", ErrLevel, level, p.Name(), p.MaxLevel())
	}
	return nil
}

// CheckScale fails with ErrLevel or ErrScale unless level exists and 1 <= scale
// <= Q_level/2, the only scales at which a ciphertext can hold anything.
func (p Parameters) CheckScale(level int, scale float64) error {
	if err := p.CheckLevel(level); err != nil {
		return err
	}
	if !(scale >= 1) || scale > p.d.maxScale[level] {
		return fmt.Errorf("%w: scale %g at level %d, it must be in 1..2^%.1f", ErrScale, scale, level, p.LogQ(level)-1)
	}
	return nil
}

// maxScale is q/2, or the largest float64 below 2^1023 if that is smaller.
func maxScale(q *big.Int) float64 {
	f, _ := new(big.Float).SetInt(q).Float64()
	return min(f, 0x1p1023) / 2
}

// maxCoeff is the largest float64 that is at most (q-1)/2.
func maxCoeff(q *big.Int) float64 {
	half := new(big.Int).Rsh(q, 1)
	f, _ := new(big.Float).SetMode(big.ToZero).SetPrec(53).SetInt(half).Float64()
	return min(f, math.MaxFloat64)
}
