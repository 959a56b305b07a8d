// Package check holds what every backend of cutrantt verifies about its
// arguments before it touches memory, so that all of them refuse the same
// calls with the same sentinel errors.
package check

import (
	"fmt"
	"math"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/taint"
)

// MaxResidues bounds one batch: 2^31 residues are 8 GiB.
const MaxResidues = 1 << 31

// Handle is what a backend keeps as the memory of its batches.
type Handle interface {
	// Owner is the ring that allocated the memory.
	Owner() *Ring
	// Len is the number of residues, 0 once the memory was freed.
	Len() int
}

// Ring verifies the arguments of the operations of one cutrantt.Ring. Its
// address is the identity of that ring.
type Ring struct {
	n      int
	logN   int
	moduli []cutrantt.Modulus
}

// NewRing checks the arguments of Backend.NewRing and returns the verifier,
// which holds its own copy of the moduli.
func NewRing(logN int, moduli []cutrantt.Modulus, opts cutrantt.Options) (*Ring, error) {
	if logN < cutrantt.MinLogN || logN > cutrantt.MaxLogN {
		return nil, fmt.Errorf(
			"%w: degree 2^%d, choose 2^%d to 2^%d", cutrantt.ErrNotSupported, logN, cutrantt.MinLogN, cutrantt.MaxLogN,
		)
	}
	if opts.Method > cutrantt.MethodToomCook4 {
		return nil, fmt.Errorf("%w: Hadamard method %d", cutrantt.ErrNotSupported, opts.Method)
	}
	if opts.Workers < 0 {
		return nil, fmt.Errorf("%w: %d workers", cutrantt.ErrNotSupported, opts.Workers)
	}
	if len(moduli) == 0 {
		return nil, fmt.Errorf("%w: a ring needs at least one modulus", cutrantt.ErrModulus)
	}
	seen := make(map[uint32]bool, len(moduli))
	for i, m := range moduli {
		if err := m.Check(logN); err != nil {
			return nil, fmt.Errorf("modulus %d: %w", i, err)
		}
		if seen[m.Q] {
			return nil, fmt.Errorf("modulus %d: %w: q = %d appears twice", i, cutrantt.ErrModulus, m.Q)
		}
		seen[m.Q] = true
	}
	return &Ring{n: 1 << logN, logN: logN, moduli: slices.Clone(moduli)}, nil
}

// N is the ring degree.
func (r *Ring) N() int { return r.n }

// LogN is the base-2 logarithm of the ring degree.
func (r *Ring) LogN() int { return r.logN }

// Moduli are the ring's moduli.
func (r *Ring) Moduli() []cutrantt.Modulus { return r.moduli }

// Shape checks the shape of a new batch: at least one polynomial, one or more
// different known limbs, a valid domain, a size within MaxResidues.
func (r *Ring) Shape(polys int, limbs []int, d cutrantt.Domain) error {
	if polys < 1 || len(limbs) < 1 {
		return fmt.Errorf("%w: a batch of %d polynomials with %d limbs", cutrantt.ErrShape, polys, len(limbs))
	}
	if !d.Valid() {
		return fmt.Errorf("%w: %v is not a domain", cutrantt.ErrDomain, d)
	}
	if len(limbs) > len(r.moduli) || polys > MaxResidues/r.n/len(limbs) {
		return fmt.Errorf(
			"%w: a batch of %d polynomials with %d limbs of %d residues is too large", cutrantt.ErrShape, polys,
			len(limbs), r.n,
		)
	}
	seen := make([]bool, len(r.moduli))
	for _, l := range limbs {
		if l < 0 || l >= len(r.moduli) {
			return fmt.Errorf("%w: no modulus %d in a ring of %d moduli", cutrantt.ErrShape, l, len(r.moduli))
		}
		if seen[l] {
			return fmt.Errorf("%w: modulus %d appears twice in a batch", cutrantt.ErrShape, l)
		}
		seen[l] = true
	}
	return nil
}

// Batches checks that every b is a live batch of this ring.
func (r *Ring) Batches(bs ...*cutrantt.Batch) error {
	for _, b := range bs {
		if b == nil {
			return fmt.Errorf("%w: nil batch", cutrantt.ErrForeign)
		}
		h, ok := b.Mem().(Handle)
		if !ok || h.Owner() != r || b.N() != r.n {
			return fmt.Errorf("%w: made by another ring or backend", cutrantt.ErrForeign)
		}
		if p, l := b.Polys(), len(b.Limbs()); p > 0 && l > 0 && b.Offset(p-1, l-1)+r.n > h.Len() {
			return fmt.Errorf("%w: its memory was freed", cutrantt.ErrForeign)
		}
		if !b.Domain().Valid() {
			return fmt.Errorf("%w: %v is not a domain", cutrantt.ErrDomain, b.Domain())
		}
	}
	return nil
}

// Polynomials says how the polynomial counts of sources relate to dst's.
type Polynomials int

const (
	Equal     Polynomials = iota // each source has as many as dst
	Broadcast                    // or one, applied to each polynomial of dst
)

// Elementwise checks dst and the sources of an element-wise operation: live
// batches with the same limbs, polynomial counts that fit, sources in one
// domain, no partial overlap.
func (r *Ring) Elementwise(p Polynomials, dst *cutrantt.Batch, srcs ...*cutrantt.Batch) error {
	if err := r.Batches(dst); err != nil {
		return err
	}
	if err := r.Batches(srcs...); err != nil {
		return err
	}
	for _, s := range srcs {
		if !s.Shape().SameLimbs(dst.Shape()) {
			return fmt.Errorf("%w: limbs %v and %v", cutrantt.ErrShape, dst.Limbs(), s.Limbs())
		}
		if s.Polys() != dst.Polys() && (p == Equal || s.Polys() != 1) {
			return fmt.Errorf("%w: %d polynomials from %d", cutrantt.ErrShape, dst.Polys(), s.Polys())
		}
		if s.Domain() != srcs[0].Domain() {
			return fmt.Errorf("%w: %v and %v in one operation", cutrantt.ErrDomain, srcs[0].Domain(), s.Domain())
		}
		if err := Overlap(dst, s); err != nil {
			return err
		}
	}
	return nil
}

// Overlap refuses a destination that shares memory with a source other than
// limb for limb in the same place.
func Overlap(dst, src *cutrantt.Batch) error {
	if dst.Mem() == src.Mem() && dst.Polys() == src.Polys() && dst.Offset(0, 0) == src.Offset(0, 0) &&
		dst.Offset(1, 0) == src.Offset(1, 0) && len(dst.Limbs()) == len(src.Limbs()) {
		return nil // one place; the pairs below are many
	}
	return overlap(dst, src, func(dp, dl, sp, sl int) bool {
		return dp == sp && dl == sl &&
			dst.Polys() == src.Polys()
	})
}

// Disjoint refuses a destination that shares any memory with a source.
func Disjoint(dst, src *cutrantt.Batch) error {
	return overlap(dst, src, func(_, _, _, _ int) bool { return false })
}

// overlap looks at every pair of runs of limbs (one run a polynomial) that
// share memory. Limbs lie on multiples of N from the start of the memory.
func overlap(dst, src *cutrantt.Batch, allowed func(dp, dl, sp, sl int) bool) error {
	if dst.Mem() != src.Mem() {
		return nil
	}
	n, dl, sl := dst.N(), len(dst.Limbs()), len(src.Limbs())
	for dp := range dst.Polys() {
		d0 := dst.Offset(dp, 0)
		for sp := range src.Polys() {
			s0 := src.Offset(sp, 0)
			lo, hi := max(d0, s0), min(d0+dl*n, s0+sl*n)
			if lo < hi && !allowed(dp, (lo-d0)/n, sp, (lo-s0)/n) {
				return fmt.Errorf("%w: the destination partly overlaps a source", cutrantt.ErrShape)
			}
		}
	}
	return nil
}

// Coeffs checks that b is in a coefficient domain, NTT that it is transformed.
func Coeffs(b *cutrantt.Batch) error { return inDomain(b, false) }

// NTT checks that b is in a transform domain.
func NTT(b *cutrantt.Batch) error { return inDomain(b, true) }

func inDomain(b *cutrantt.Batch, ntt bool) error {
	if b.Domain().NTT == ntt {
		return nil
	}
	want := "a coefficient"
	if ntt {
		want = "an ntt"
	}
	return fmt.Errorf("%w: %v where %s domain is needed", cutrantt.ErrDomain, b.Domain(), want)
}

// Scalars checks one scalar below its modulus for each limb of b.
func (r *Ring) Scalars(b *cutrantt.Batch, c []uint32) error {
	if len(c) != len(b.Limbs()) {
		return fmt.Errorf("%w: %d scalars for %d limbs", cutrantt.ErrShape, len(c), len(b.Limbs()))
	}
	for i, l := range b.Limbs() {
		if q := r.moduli[l].Q; c[i] >= q {
			return fmt.Errorf("%w: scalar %d is %d, modulus %d", cutrantt.ErrRange, i, c[i], q)
		}
	}
	return nil
}

// Transfer checks an upload to or a download from b of n residues.
func (r *Ring) Transfer(b *cutrantt.Batch, n int) error {
	if err := r.Batches(b); err != nil {
		return err
	}
	if n != b.Len() {
		return fmt.Errorf("%w: %d host residues for a batch of %d", cutrantt.ErrShape, n, b.Len())
	}
	return nil
}

// Single checks that dst is a live single polynomial.
func (r *Ring) Single(dst *cutrantt.Batch) error {
	if err := r.Batches(dst); err != nil {
		return err
	}
	if dst.Polys() != 1 {
		return fmt.Errorf("%w: %d polynomials where one is needed", cutrantt.ErrShape, dst.Polys())
	}
	return nil
}

// Coefficients checks the destination of n natural-order coefficients.
func (r *Ring) Coefficients(dst *cutrantt.Batch, n int) error {
	if err := r.Single(dst); err != nil {
		return err
	}
	if err := Coeffs(dst); err != nil {
		return err
	}
	if n != r.n {
		return fmt.Errorf("%w: %d coefficients for degree %d", cutrantt.ErrShape, n, r.n)
	}
	return nil
}

// Small checks |v| < 2^30 for every element, without branches on the values.
func Small(v []int32) error {
	var bad uint32
	for _, x := range v {
		bad |= uint32(x+(1<<30-1)) & (1 << 31) // set below -(2^30-1)
		bad |= uint32((1<<30-1)-x) & (1 << 31) // set above 2^30-1
	}
	if !taint.Outcome(bad == 0) {
		return fmt.Errorf("%w: a coefficient is not below 2^30 in magnitude", cutrantt.ErrRange)
	}
	return nil
}

// Floats checks that every element is finite and integral.
func Floats(v []float64) error {
	_, err := FloatsUpTo(v)
	return err
}

// FloatsUpTo is Floats that gives the largest magnitude, without a branch on an element:
// a message is refused as a whole. Below 2^52, adding and subtracting 2^52 rounds to an
// integer; from there on every finite float64 is one.
func FloatsUpTo(v []float64) (largest float64, err error) {
	const whole, infinite = 1 << 52, 0x7ff << 52
	least := math.Float64bits(whole)
	var top, bad uint64
	for _, x := range v {
		b := math.Float64bits(x) &^ (1 << 63)
		below := uint64(int64(b-least) >> 63)
		bad |= (math.Float64bits(math.Float64frombits(b)+whole-whole) ^ b) & below
		top = max(top, b)
	}
	if taint.Outcome(bad == 0) && taint.Outcome(top < infinite) {
		return math.Float64frombits(top), nil
	}
	i := slices.IndexFunc(v, func(x float64) bool { return math.IsInf(x, 0) || math.Trunc(x) != x })
	return 0, fmt.Errorf("%w: coefficient %d is not a finite integer", cutrantt.ErrRange, i)
}

// Seeded checks the destination and the seed of a sampler.
func (r *Ring) Seeded(dst *cutrantt.Batch, seed *[32]byte) error {
	if err := r.Single(dst); err != nil {
		return err
	}
	if seed == nil {
		return fmt.Errorf("%w: nil seed", cutrantt.ErrRange)
	}
	return nil
}

// Galois checks the arguments of Automorphism.
func (r *Ring) Galois(dst, a *cutrantt.Batch, g uint64) error {
	if err := r.Elementwise(Equal, dst, a); err != nil {
		return err
	}
	if err := Disjoint(dst, a); err != nil {
		return err
	}
	if g%2 == 0 || g >= uint64(2*r.n) {
		return fmt.Errorf("%w: Galois element %d is not odd or not below %d", cutrantt.ErrRange, g, 2*r.n)
	}
	return nil
}

// MaxExtend is the most limbs that Extend reads and DivRound drops: the sum of
// 255 fixed-point fractions below 2^56 and the rounding constant stay below 2^64.
const MaxExtend = 255

// Extend checks the arguments of Ring.Extend.
func (r *Ring) Extend(dst, src *cutrantt.Batch) error {
	if err := r.Batches(dst, src); err != nil {
		return err
	}
	if err := Coeffs(src); err != nil {
		return err
	}
	if dst.Domain() != src.Domain() {
		return fmt.Errorf("%w: extending %v to %v", cutrantt.ErrDomain, src.Domain(), dst.Domain())
	}
	if dst.Polys() != src.Polys() {
		return fmt.Errorf("%w: %d polynomials from %d", cutrantt.ErrShape, dst.Polys(), src.Polys())
	}
	if k := len(src.Limbs()); k < 1 || k > MaxExtend {
		return fmt.Errorf("%w: extending %d limbs, 1 to %d are possible", cutrantt.ErrShape, k, MaxExtend)
	}
	return Disjoint(dst, src)
}

// DivRound checks the arguments of Ring.DivRound; dst may be the leading limbs
// of src.
func (r *Ring) DivRound(dst, src *cutrantt.Batch) error {
	if err := r.Batches(dst, src); err != nil {
		return err
	}
	k := len(src.Limbs()) - len(dst.Limbs())
	if dst.Polys() != src.Polys() || k < 1 || k > MaxExtend ||
		!slices.Equal(dst.Limbs(), src.Limbs()[:len(dst.Limbs())]) {
		return fmt.Errorf(
			"%w: dividing %d polynomials with limbs %v to %d with limbs %v", cutrantt.ErrShape, src.Polys(),
			src.Limbs(), dst.Polys(), dst.Limbs(),
		)
	}
	return Overlap(dst, src)
}

// Method checks that a Hadamard method exists for the NTT-domain batch b.
func Method(m cutrantt.Method, b *cutrantt.Batch) error {
	if err := NTT(b); err != nil {
		return err
	}
	if n2 := int(b.Domain().N2); !m.Supports(n2) {
		return fmt.Errorf("%w: Hadamard method %v with n2 = %d", cutrantt.ErrNotSupported, m, n2)
	}
	return nil
}

// Operand checks the arguments of Ring.MulOperand for an operand of shape b
// and returns, for each limb of dst, its position among b's limbs.
func (r *Ring) Operand(dst, a *cutrantt.Batch, b cutrantt.Shape) ([]int, error) {
	if err := r.Batches(dst, a); err != nil {
		return nil, err
	}
	if err := NTT(a); err != nil {
		return nil, err
	}
	if a.Domain() != b.Domain {
		return nil, fmt.Errorf("%w: %v and an operand in %v", cutrantt.ErrDomain, a.Domain(), b.Domain)
	}
	if !a.Shape().SameLimbs(dst.Shape()) {
		return nil, fmt.Errorf("%w: limbs %v and %v", cutrantt.ErrShape, dst.Limbs(), a.Limbs())
	}
	if a.Polys() < 1 || dst.Polys() < 1 || a.Polys()*dst.Polys() != b.Polys {
		return nil, fmt.Errorf(
			"%w: %d results of %d terms from an operand of %d polynomials", cutrantt.ErrShape, dst.Polys(), a.Polys(),
			b.Polys,
		)
	}
	at := make([]int, len(a.Limbs()))
	for i, l := range a.Limbs() {
		if at[i] = slices.Index(b.Limbs, l); at[i] < 0 {
			return nil, fmt.Errorf("%w: the operand has no limb for modulus %d", cutrantt.ErrShape, l)
		}
	}
	return at, Overlap(dst, a)
}
