package lattigo

import (
	"errors"
	"fmt"
	"math"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Errors that conversions wrap; test with errors.Is.
var (
	// ErrObject: a Lattigo object that has no counterpart here (wrong degree,
	// domain, packing, decomposition), or a nil object.
	ErrObject = errors.New("lattigo: object cannot be converted")
	// ErrNoSpecialPrimes: the parameters have no special primes P.
	ErrNoSpecialPrimes = errors.New("lattigo: parameters have no special primes")
)

// ParametersLiteral is our set as Lattigo's: the same moduli in the same order
// and the same default scale. Pair sets keep both primes of a level: what is one
// level here is two in Lattigo. Lattigo derives the same roots of unity from
// the moduli (NewBridge checks it). The distributions are left to Lattigo's
// defaults, a uniform ternary secret and Gaussian noise with deviation 3.2.
func ParametersLiteral(p henc.Parameters) ckks.ParametersLiteral {
	return ckks.ParametersLiteral{
		LogN:            p.LogN(),
		Q:               widen(p.Q()),
		P:               widen(p.P()),
		LogDefaultScale: int(math.Round(math.Log2(p.DefaultScale()))),
	}
}

func widen(src []uint32) []uint64 {
	if len(src) == 0 {
		return nil // Lattigo tells a missing P by nil
	}
	dst := make([]uint64, len(src))
	for i, v := range src {
		dst[i] = uint64(v)
	}
	return dst
}

// Bridge converts between one context and Lattigo's parameters of the same set.
// Its methods never share memory between what they read and what they return.
// A Bridge is immutable and safe for concurrent use.
type Bridge struct {
	ctx     *henc.Context
	params  ckks.Parameters
	layouts []*Layout // by modulus index, Q then P, with n2 of ctx
}

// NewBridge makes the conversions of ctx. It fails if Lattigo refuses the
// parameters or uses another root of unity (ErrLayout).
func NewBridge(ctx *henc.Context) (*Bridge, error) {
	p := ctx.Parameters()
	lit := ParametersLiteral(p)
	params, err := ckks.NewParametersFromLiteral(lit)
	if err != nil {
		return nil, fmt.Errorf("lattigo refuses parameters %s: %w", p.Name(), err)
	}
	b := &Bridge{ctx: ctx, params: params}
	subs := append([]*ring.SubRing(nil), params.RingQ().SubRings...)
	if params.RingP() != nil {
		subs = append(subs, params.RingP().SubRings...)
	}
	for i, m := range p.Moduli() {
		l, err := NewLayout(subs[i], ctx.N2(), m.Psi)
		if err != nil {
			return nil, fmt.Errorf("modulus %d of %s: %w", i, p.Name(), err)
		}
		b.layouts = append(b.layouts, l)
	}
	return b, nil
}

// Context is the context of our side.
func (b *Bridge) Context() *henc.Context { return b.ctx }

// Parameters are Lattigo's parameters of the set.
func (b *Bridge) Parameters() ckks.Parameters { return b.params }

// LattigoLevel is the level in Lattigo (one prime per level) of our level.
func (b *Bridge) LattigoLevel(level int) int { return b.ctx.Parameters().LimbsAt(level) - 1 }

// levelOf is our level of a polynomial over limbs primes of Q.
func (b *Bridge) levelOf(limbs int) (int, error) {
	p := b.ctx.Parameters()
	for level := range p.MaxLevel() + 1 {
		if p.LimbsAt(level) == limbs {
			return level, nil
		}
	}
	return 0, fmt.Errorf("%w: %s has no level with %d primes (in a pair set rescale twice)", henc.ErrLevel,
		p.Name(), limbs)
}

// limbs are the residues of one polynomial in Lattigo's order, by limb.
type limbs = [][]uint64

// export reads every polynomial of batch (domain ntt/n2). With mont the
// residues are multiplied by R = 2^64, Lattigo's form of keys.
func (b *Bridge) export(batch *cutrantt.Batch, mont bool) ([]limbs, error) {
	if want := cutrantt.NTT(b.ctx.N2()); batch.Domain() != want {
		return nil, fmt.Errorf("%w: batch in %s, want %s", cutrantt.ErrDomain, batch.Domain(), want)
	}
	host := make([]uint32, batch.Len())
	defer clear(host)
	if err := b.ctx.Ring().Download(host, batch); err != nil {
		return nil, fmt.Errorf("reading residues: %w", err)
	}
	n := batch.N()
	out := make([]limbs, batch.Polys())
	rest := host
	for p := range out {
		out[p] = make(limbs, len(batch.Limbs()))
		for i, m := range batch.Limbs() {
			l, dst := b.layouts[m], make([]uint64, n)
			if err := l.ToLattigo(dst, rest[:n]); err != nil {
				return nil, fmt.Errorf("polynomial %d, modulus %d: %w", p, m, err)
			}
			if mont {
				l.sub.MForm(dst, dst)
			}
			out[p][i], rest = dst, rest[n:]
		}
	}
	return out, nil
}

// load is the inverse of export: it makes a batch in ntt/n2 over the moduli idx
// from polynomials in Lattigo's order; with mont they are in Montgomery form.
func (b *Bridge) load(polys []limbs, idx []int, mont bool) (*cutrantt.Batch, error) {
	n := b.ctx.Parameters().N()
	host := make([]uint32, len(polys)*len(idx)*n)
	defer clear(host)
	plain := make([]uint64, n)
	defer clear(plain)
	rest := host
	for p, poly := range polys {
		if len(poly) != len(idx) {
			return nil, fmt.Errorf("%w: polynomial %d has %d limbs, want %d", ErrObject, p, len(poly), len(idx))
		}
		for i, m := range idx {
			src, l := poly[i], b.layouts[m]
			if mont && len(src) == n {
				l.sub.IMForm(src, plain)
				src = plain
			}
			if err := l.FromLattigo(rest[:n], src); err != nil {
				return nil, fmt.Errorf("polynomial %d, modulus %d: %w", p, m, err)
			}
			rest = rest[n:]
		}
	}
	batch, err := b.ctx.Ring().NewBatch(len(polys), idx, cutrantt.NTT(b.ctx.N2()))
	if err != nil {
		return nil, fmt.Errorf("making a batch: %w", err)
	}
	if err := b.ctx.Ring().Upload(batch, host); err != nil {
		b.ctx.Ring().Free(batch)
		return nil, fmt.Errorf("writing residues: %w", err)
	}
	return batch, nil
}

// metaData is Lattigo's description of our ciphertexts and plaintexts: N/2
// complex slots, complete transform, not in Montgomery form.
func (b *Bridge) metaData(scale float64) *rlwe.MetaData {
	m := &rlwe.MetaData{}
	m.Scale = rlwe.NewScale(scale)
	m.LogDimensions = b.params.LogMaxDimensions()
	m.IsBatched = true
	m.IsNTT = true
	return m
}

// checkMeta refuses what has no counterpart here and returns the scale. A scale
// that is no float64 is rounded to one (relative error 2^-53).
func (b *Bridge) checkMeta(m *rlwe.MetaData) (float64, error) {
	switch {
	case m == nil:
		return 0, fmt.Errorf("%w: no metadata", ErrObject)
	case !m.IsNTT || m.IsMontgomery:
		return 0, fmt.Errorf("%w: IsNTT = %t, IsMontgomery = %t, want true and false", ErrObject, m.IsNTT,
			m.IsMontgomery)
	case !m.IsBatched || m.IsBitReversed || m.LogDimensions != b.params.LogMaxDimensions():
		return 0, fmt.Errorf("%w: packing must be %d slots in natural order (batched = %t, bit-reversed = %t, log "+
			"dimensions = %v)",
			ErrObject, b.params.MaxSlots(), m.IsBatched, m.IsBitReversed, m.LogDimensions)
	case m.Scale.Mod != nil:
		return 0, fmt.Errorf("%w: scale modulo a plaintext modulus", ErrObject)
	}
	return m.Scale.Float64(), nil
}
