package bfv

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Errors that this package wraps besides those of package henc; test with errors.Is.
var (
	// ErrPlainModulus: t is not a prime below 2^30 that is 1 modulo 2N, or is a modulus of the parameters.
	ErrPlainModulus = errors.New("henc/bfv: unusable plaintext modulus")
	// ErrNoise: the noise of the result might exceed what decryption can remove.
	ErrNoise = errors.New("henc/bfv: too much noise")
)

// DefaultT is the plaintext modulus unless another is asked for.
const DefaultT = henc.DefaultT

// Parameters are those of package henc with a plaintext modulus t and the auxiliary primes B of products. They are
// checked and immutable. The zero value belongs to no ring; NewContext refuses it.
type Parameters struct {
	base henc.Parameters
	t    cutrantt.Modulus
	aux  []cutrantt.Modulus // B, largest first
}

// Names lists the named sets, smallest ring first. All are within the 128-bit bound of the 2024 guidelines.
func Names() []string { return henc.IntegerNames() }

// Named returns a named set with the plaintext modulus t; 0 is DefaultT. It fails with henc.ErrUnknownSet, or with
// ErrPlainModulus.
func Named(name string, t uint32) (Parameters, error) {
	base, err := henc.Named(name)
	if err != nil || !base.Integers() {
		return Parameters{}, fmt.Errorf("%w: %q; known: %s", henc.ErrUnknownSet, name, strings.Join(Names(), ", "))
	}
	return NewParameters(base, t)
}

// NewParameters joins base, of which the top level is used, with the plaintext modulus t, 0 for DefaultT. It fails
// with henc.ErrParams for zero parameters or too few primes, and with ErrPlainModulus.
func NewParameters(base henc.Parameters, t uint32) (Parameters, error) {
	if base.N() == 0 {
		return Parameters{}, fmt.Errorf("%w: the zero Parameters", henc.ErrParams)
	}
	if t == 0 {
		t = DefaultT
	}
	tm, err := henc.NewModulus(t, base.LogN())
	if err != nil {
		return Parameters{}, fmt.Errorf("%w: %w", ErrPlainModulus, err)
	}
	if slices.ContainsFunc(base.Moduli(), func(m cutrantt.Modulus) bool { return m.Q == t }) {
		return Parameters{}, fmt.Errorf("%w: %d is a modulus of %s", ErrPlainModulus, t, base.Name())
	}
	more, err := henc.IntegerModuli(base, t)
	if err != nil {
		return Parameters{}, err
	}
	p := Parameters{base: base, t: tm, aux: more[:len(more)-1]}
	if _, err := p.scale(p.level()); err != nil {
		return Parameters{}, err
	}
	return p, nil
}

// KeyRotations returns the rotations, ascending, that key sets for integers have keys of: those to the right by powers
// of two, and those that are the automorphisms X -> X^(2^k+1), k at least 2, which take the coefficients of a
// ciphertext apart. Rows of at most N/2 coefficients need no others.
func KeyRotations(p henc.Parameters) []int {
	wanted := map[uint64]bool{}
	for k := 1; k < p.N()/2; k *= 2 {
		wanted[henc.GaloisElement(p, -k)] = true
	}
	for e := 4; e <= p.N(); e *= 2 {
		wanted[uint64(e+1)] = true
	}
	var out []int
	for k := 1; k < p.N()/2; k++ {
		if wanted[henc.GaloisElement(p, k)] {
			out = append(out, k)
		}
	}
	return out
}

// Base is the parameters of package henc, which keys and the wire form name.
func (p Parameters) Base() henc.Parameters { return p.base }

// T is the plaintext modulus.
func (p Parameters) T() uint32 { return p.t.Q }

// N is the ring degree, which is also the number of slots and of coefficients.
func (p Parameters) N() int { return p.base.N() }

// level is the level of ciphertexts that can be computed with.
func (p Parameters) level() int { return p.base.MaxLevel() }

// Scale is Q/t, the scale of every ciphertext in package henc, 0 of the zero Parameters.
func (p Parameters) Scale() float64 {
	if p.N() == 0 {
		return 0
	}
	s, _ := p.scale(p.level())
	return s
}

// scale is Q/t at a level.
func (p Parameters) scale(level int) (float64, error) {
	s, _ := new(big.Rat).SetFrac(p.base.QProduct(level), big.NewInt(int64(p.t.Q))).Float64()
	return s, p.base.CheckScale(level, s)
}

// LowestLevel is the lowest level that Evaluator.ModSwitch leaves ciphertexts of little noise at: there its rounding
// leaves at least a bit of what decryption can remove. It is the top level where there is none, and 0 of the zero
// Parameters.
func (p Parameters) LowestLevel() int {
	m := p.Noise()
	for level := range p.level() {
		if down := p.level() - level; m.BudgetAt(m.ModSwitch(Noise{}, down), down) >= 1 {
			return level
		}
	}
	return p.level()
}

// limbs are the indices of the moduli in the ring of a context.
type limbs struct {
	q, aux, t []int
	both      []int // q, then aux
}

func (p Parameters) limbs() limbs {
	l := limbs{q: p.base.QLimbs(p.level())}
	first := len(p.base.Moduli())
	for i := range p.aux {
		l.aux = append(l.aux, first+i)
	}
	l.t = []int{first + len(p.aux)}
	l.both = append(slices.Clone(l.q), l.aux...)
	return l
}

// product is the product of moduli.
func product(ms []cutrantt.Modulus) *big.Int {
	x := big.NewInt(1)
	for _, m := range ms {
		x.Mul(x, big.NewInt(int64(m.Q)))
	}
	return x
}

// logProduct is log2 of the product of moduli.
func logProduct(ms []cutrantt.Modulus) float64 {
	sum := 0.0
	for _, m := range ms {
		sum += math.Log2(float64(m.Q))
	}
	return sum
}

// residues is x modulo each of ms.
func residues(x *big.Int, ms []cutrantt.Modulus) []uint32 {
	out := make([]uint32, len(ms))
	for i, m := range ms {
		out[i] = uint32(new(big.Int).Mod(x, big.NewInt(int64(m.Q))).Uint64())
	}
	return out
}

// inverses is the inverse of x modulo each of ms, which do not divide it.
func inverses(x *big.Int, ms []cutrantt.Modulus) []uint32 {
	out := make([]uint32, len(ms))
	for i, m := range ms {
		q := big.NewInt(int64(m.Q))
		out[i] = uint32(new(big.Int).ModInverse(new(big.Int).Mod(x, q), q).Uint64())
	}
	return out
}

// negated is -x modulo each of ms.
func negated(x []uint32, ms []cutrantt.Modulus) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		if v > 0 {
			out[i] = ms[i].Q - v
		}
	}
	return out
}
