package cutrantt

import (
	"errors"
	"fmt"
	"slices"
)

// Gadget is the shape of a hybrid key switch (Han and Ki, eprint 2019/688): a
// polynomial is cut into digits of Alpha limbs, and the key has limbs modulo the
// special moduli too.
type Gadget struct {
	Alpha   int
	Special []int // modulus indices
}

// Digits is how many digits a polynomial of so many limbs has.
func (g Gadget) Digits(limbs int) int {
	if g.Alpha < 1 {
		return 0
	}
	return (limbs + g.Alpha - 1) / g.Alpha
}

// KeySwitch is one key switch in the transform domain. With x_d the digits of X
// (Ring.Extend of its limbs d*Alpha to (d+1)*Alpha over all limbs of X and the
// special ones, transformed), P the product of the special moduli and
//
//	acc_k = sum over d of x_d * key_(2d+k) + P*Low_k        (k = 0, 1)
//
// over the limbs of X and then the special ones, Dst is DivRound of acc, and its
// image under X -> X^Galois if that is neither 0 nor 1. Where Dst has all limbs of
// X, acc/P rounded + Low is the same; where it has fewer, a rescaling is merged.
type KeySwitch struct {
	Dst    *Batch  // two polynomials over leading limbs of X, apart from all sources
	X      *Batch  // one polynomial
	Low    *Batch  // nil, or one or two polynomials over X's limbs; Low_1 = 0 if one
	Key    Operand // 2*Digits polynomials over X's limbs and the special ones at least
	Galois uint64  // odd, below 2N; 0 means 1
}

// Fused is an optional interface of a Ring. It runs sequences of operations in fewer
// passes over memory, for one or more independent items of one shape. Its results equal
// those of the separate operations bit for bit. Call the functions of the same names
// instead of the methods: they check that the items fit together. They run the separate
// operations if a ring does not implement Fused or refuses with ErrNotSupported.
type Fused interface {
	MulTensor(dst, a, b []*Batch) error
	SwitchKeys(g Gadget, items []KeySwitch) error
	DivRounds(dst, src []*Batch) error
	// NewResult is NewBatch without the zeros: until an operation has written all
	// of it the residues are arbitrary words.
	NewResult(polys int, limbs []int, d Domain) (*Batch, error)
}

// NewResult allocates a batch that the next operation overwrites as a whole.
func NewResult(r Ring, polys int, limbs []int, d Domain) (*Batch, error) {
	if f, ok := r.(Fused); ok {
		return f.NewResult(polys, limbs, d)
	}
	return r.NewBatch(polys, limbs, d)
}

// MulTensor sets dst[i] = (a0*b0, a0*b1 + a1*b0, a1*b1) for a[i] = (a0, a1) and
// b[i] = (b0, b1): the degree-2 products of ciphertexts. All are in one transform
// domain over the same limbs; dst has three polynomials, apart from the
// factors.
func MulTensor(r Ring, dst, a, b []*Batch) error {
	if len(dst) != len(a) || len(dst) != len(b) {
		return fmt.Errorf("%w: %d products of %d and %d factors", ErrShape, len(dst), len(a), len(b))
	}
	var same like
	for i := range dst {
		if err := errors.Join(
			same.check("factor", a[i], 2), same.check("factor", b[i], 2), own("product", dst, i, a[i], b[i]),
		); err != nil {
			return err
		}
		if dst[i].Polys() != 3 || !dst[i].Shape().SameLimbs(a[i].Shape()) {
			return fmt.Errorf(
				"%w: a product of %d polynomials with limbs %v, factors with limbs %v", ErrShape, dst[i].Polys(),
				dst[i].Limbs(), a[i].Limbs(),
			)
		}
	}
	if f, ok := r.(Fused); ok {
		if err := f.MulTensor(dst, a, b); !errors.Is(err, ErrNotSupported) {
			return err
		}
	}
	for i := range dst {
		if err := tensor(r, dst[i], a[i], b[i]); err != nil {
			return err
		}
	}
	return nil
}

// DivRounds is Ring.DivRound for each pair; all have one shape, and the
// quotients lie apart from the sources.
func DivRounds(r Ring, dst, src []*Batch) error {
	if len(dst) != len(src) {
		return fmt.Errorf("%w: %d quotients of %d batches", ErrShape, len(dst), len(src))
	}
	var from, to like
	for i := range dst {
		if src[i] == nil || src[0] == nil {
			return fmt.Errorf("%w: nil batch", ErrForeign)
		}
		if err := own("quotient", dst, i, src...); err != nil {
			return err
		}
		if err := errors.Join(
			from.any(src[i], src[0].Polys()), to.any(dst[i].domain(src[i].Domain()), src[0].Polys()),
		); err != nil {
			return err
		}
	}
	if f, ok := r.(Fused); ok && len(dst) > 1 {
		if err := f.DivRounds(dst, src); !errors.Is(err, ErrNotSupported) {
			return err
		}
	}
	for i := range dst {
		if err := r.DivRound(dst[i], src[i]); err != nil {
			return err
		}
	}
	return nil
}

// SwitchKeys runs key switches of one shape: limbs and domain of X, Dst and Low
// and the shape of the keys agree, and either all of them have a Low or none.
// Items that follow each other with the same X share its digits (hoisting).
func SwitchKeys(r Ring, g Gadget, items []KeySwitch) error {
	if err := checkSwitches(r, g, items); err != nil {
		return err
	}
	if f, ok := r.(Fused); ok && len(items) > 0 {
		if err := f.SwitchKeys(g, items); !errors.Is(err, ErrNotSupported) {
			return err
		}
	}
	var s switcher
	defer func() { s.free(s.digits) }()
	for i, it := range items {
		s.ring, s.gadget = r, g
		if i == 0 || it.X != items[i-1].X {
			if err := s.decompose(it.X); err != nil {
				return err
			}
		}
		if err := s.apply(it); err != nil {
			return err
		}
	}
	return nil
}

func checkSwitches(r Ring, g Gadget, items []KeySwitch) error {
	if len(items) == 0 {
		return nil
	}
	if g.Alpha < 1 || len(g.Special) < 1 {
		return fmt.Errorf("%w: digits of %d limbs with %d special moduli", ErrShape, g.Alpha, len(g.Special))
	}
	var x, low, to like
	dsts := make([]*Batch, len(items))
	for i := range items {
		dsts[i] = items[i].Dst
	}
	first := items[0].Key
	for i, it := range items {
		if it.Key == nil || first == nil {
			return fmt.Errorf("%w: no key", ErrForeign)
		}
		if err := errors.Join(
			x.check("switched polynomial", it.X, 1), own("result", dsts, i, it.X, it.Low),
		); err != nil {
			return err
		}
		limbs, shape := it.X.Limbs(), it.Key.Shape()
		n := len(it.Dst.Limbs())
		if it.Dst.Polys() != 2 || n > len(limbs) || !slices.Equal(it.Dst.Limbs(), limbs[:n]) {
			return fmt.Errorf(
				"%w: a key switch of limbs %v to %d polynomials with limbs %v", ErrShape, limbs, it.Dst.Polys(),
				it.Dst.Limbs(),
			)
		}
		if err := to.any(it.Dst.domain(it.X.Domain()), 2); err != nil {
			return err
		}
		if (it.Low == nil) != (items[0].Low == nil) {
			return fmt.Errorf("%w: some key switches have a sum to add and some have none", ErrShape)
		}
		if it.Low != nil {
			if err := low.check("sum", it.Low, items[0].Low.Polys()); err != nil {
				return err
			}
			if it.Low.Polys() > 2 || it.Low.Domain() != it.X.Domain() || !it.Low.Shape().SameLimbs(it.X.Shape()) {
				return fmt.Errorf(
					"%w: %d polynomials with limbs %v in %v to add to limbs %v in %v", ErrShape, it.Low.Polys(),
					it.Low.Limbs(), it.Low.Domain(), limbs, it.X.Domain(),
				)
			}
		}
		if shape.Polys != 2*g.Digits(len(limbs)) || !shape.SameLimbs(first.Shape()) || shape.Domain != it.X.Domain() {
			return fmt.Errorf(
				"%w: a key of %d polynomials in %v for %d digits in %v", ErrShape, shape.Polys, shape.Domain,
				g.Digits(len(limbs)), it.X.Domain(),
			)
		}
		if it.Galois != 0 && (it.Galois%2 == 0 || it.Galois >= uint64(2*r.N())) {
			return fmt.Errorf("%w: Galois element %d is not odd or not below %d", ErrRange, it.Galois, 2*r.N())
		}
	}
	return nil
}

// like checks that batches agree with the first that it sees.
type like struct{ first *Batch }

// check is any for a batch in a transform domain.
func (l *like) check(what string, b *Batch, polys int) error {
	if err := l.any(b, polys); err != nil {
		return err
	}
	if !b.Domain().NTT {
		return fmt.Errorf("%w: a %s in %v where an ntt domain is needed", ErrDomain, what, b.Domain())
	}
	return nil
}

func (l *like) any(b *Batch, polys int) error {
	if b == nil {
		return fmt.Errorf("%w: nil batch", ErrForeign)
	}
	if l.first == nil {
		l.first = b
	}
	f := l.first
	if b.Polys() != polys || !b.Shape().SameLimbs(f.Shape()) {
		return fmt.Errorf(
			"%w: %d polynomials with limbs %v, %d with limbs %v expected", ErrShape, b.Polys(), b.Limbs(), polys,
			f.Limbs(),
		)
	}
	if b.Domain() != f.Domain() {
		return fmt.Errorf("%w: %v and %v in one call", ErrDomain, f.Domain(), b.Domain())
	}
	return nil
}

// domain is b with the label that the operation will give it; nil stays nil.
func (b *Batch) domain(d Domain) *Batch {
	if b == nil {
		return nil
	}
	c := *b
	c.SetDomain(d)
	return &c
}

// own checks that dst[i] shares memory with no source and no other destination.
func own(what string, dst []*Batch, i int, sources ...*Batch) error {
	if dst[i] == nil {
		return fmt.Errorf("%w: nil batch", ErrForeign)
	}
	for _, s := range sources {
		if s != nil && dst[i].overlaps(s) {
			return fmt.Errorf("%w: a %s shares memory with what it is made from", ErrShape, what)
		}
	}
	for _, d := range dst[:i] {
		if dst[i].overlaps(d) {
			return fmt.Errorf("%w: two results share memory", ErrShape)
		}
	}
	return nil
}

// overlaps reports whether two batches have residues in common.
func (b *Batch) overlaps(o *Batch) bool {
	if b.mem != o.mem || b.Polys() == 0 || o.Polys() == 0 || b.end(b.Polys()) <= o.offset ||
		o.end(o.Polys()) <= b.offset {
		return false
	}
	for i := range b.Polys() {
		for j := range o.Polys() {
			if b.Offset(i, 0) < o.end(j+1) && o.Offset(j, 0) < b.end(i+1) {
				return true
			}
		}
	}
	return false
}

// end is where the polynomials before number k end.
func (b *Batch) end(k int) int { return b.Offset(k-1, 0) + len(b.Limbs())*b.n }
