package cutrantt

import (
	"cmp"
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
// X, acc/P rounded + Low is the same; where it has fewer, a rescaling is merged. Where it has
// the special ones too, nothing is divided: Dst is acc or its image, to be added to others and
// divided later. Then Low may have the special limbs as well, and is added as it is, without P.
type KeySwitch struct {
	Dst    *Batch  // two polynomials over leading limbs of X, or all and the special ones, apart from all sources
	X      *Batch  // one polynomial
	Low    *Batch  // nil, or one or two polynomials over X's limbs (or Dst's, see above); Low_1 = 0 if one
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
	Collect(dst *Batch, src []*Batch) error
	SumProducts(dst, a []*Batch, b [][]*Batch, flat bool) error
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
		if err := errors.Join(same.check("factor", a[i], 2), same.check("factor", b[i], 2)); err != nil {
			return err
		}
		if dst[i] == nil {
			return fmt.Errorf("%w: nil batch", ErrForeign)
		}
		if dst[i].Polys() != 3 || !dst[i].Shape().SameLimbs(a[i].Shape()) {
			return fmt.Errorf(
				"%w: a product of %d polynomials with limbs %v, factors with limbs %v", ErrShape, dst[i].Polys(),
				dst[i].Limbs(), a[i].Limbs(),
			)
		}
	}
	if err := apart("product", dst, a, b); err != nil {
		return err
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
		polys := src[0].Polys()
		if err := errors.Join(from.any(src[i], polys), to.shape(dst[i], polys)); err != nil {
			return err
		}
	}
	if err := apart("quotient", dst, src); err != nil {
		return err
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

// Collect copies batches of one shape next to each other: the polynomials of src[0] to the
// first ones of dst, and so on. dst has as many as all of them together, over the same
// limbs, apart from them.
func Collect(r Ring, dst *Batch, src []*Batch) error {
	var from like
	for _, b := range src {
		if b == nil {
			return fmt.Errorf("%w: nil batch", ErrForeign)
		}
		if err := from.any(b, src[0].Polys()); err != nil {
			return err
		}
	}
	if dst == nil || len(src) == 0 {
		return fmt.Errorf("%w: %d batches to collect", ErrForeign, len(src))
	}
	polys := src[0].Polys()
	if dst.Polys() != len(src)*polys || !dst.Shape().SameLimbs(src[0].Shape()) {
		return fmt.Errorf("%w: %d times %d polynomials with limbs %v to %d with limbs %v", ErrShape, len(src), polys,
			src[0].Limbs(), dst.Polys(), dst.Limbs())
	}
	if err := apart("copy", []*Batch{dst}, src); err != nil {
		return err
	}
	if f, ok := r.(Fused); ok && len(src) > 1 {
		if err := f.Collect(dst, src); !errors.Is(err, ErrNotSupported) {
			return err
		}
	}
	for i, b := range src {
		v, err := dst.Slice(i*polys, (i+1)*polys, 0, len(dst.Limbs()))
		if err != nil {
			return err
		}
		if err := r.Copy(v, b); err != nil {
			return err
		}
	}
	dst.SetDomain(src[0].Domain())
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
	first := items[0].Key
	if first == nil {
		return fmt.Errorf("%w: no key", ErrForeign)
	}
	digits, special := 2*g.Digits(limbsOf(items[0].X)), first.Shape()
	var same switchShape
	dst, x := make([]*Batch, len(items)), make([]*Batch, len(items))
	var low []*Batch
	for i := range items {
		it := &items[i]
		if it.Key == nil {
			return fmt.Errorf("%w: no key", ErrForeign)
		}
		if err := same.check(g, it, items[0].Low); err != nil {
			return err
		}
		shape, domain := it.Key.Shape(), it.X.Domain()
		if shape.Polys != digits || !shape.SameLimbs(special) || shape.Domain != domain {
			return fmt.Errorf("%w: a key of %d polynomials in %v for %d digits in %v", ErrShape, shape.Polys,
				shape.Domain, digits/2, domain)
		}
		if it.Galois != 0 && (it.Galois%2 == 0 || it.Galois >= uint64(2*r.N())) {
			return fmt.Errorf("%w: Galois element %d is not odd or not below %d", ErrRange, it.Galois, 2*r.N())
		}
		if dst[i], x[i] = it.Dst, it.X; it.Low != nil {
			low = append(low, it.Low)
		}
	}
	return apart("result", dst, x, low)
}

func limbsOf(b *Batch) int {
	if b == nil {
		return 0
	}
	return len(b.Limbs())
}

// switchShape checks that the batches of key switches have one shape.
type switchShape struct{ x, low, to like }

// check refuses an item whose batches do not fit each other or the items before. first
// is the sum of the first item.
func (s *switchShape) check(g Gadget, it *KeySwitch, first *Batch) error {
	if err := s.x.check("switched polynomial", it.X, 1); err != nil {
		return err
	}
	if it.Dst == nil {
		return fmt.Errorf("%w: nil batch", ErrForeign)
	}
	limbs, n := it.X.Limbs(), len(it.Dst.Limbs())
	all := slices.Concat(limbs, g.Special)
	if it.Dst.Polys() != 2 || n > len(limbs) && n < len(all) || n > len(all) ||
		!slices.Equal(it.Dst.Limbs(), all[:n]) {
		return fmt.Errorf(
			"%w: a key switch of limbs %v to %d polynomials with limbs %v", ErrShape, limbs, it.Dst.Polys(),
			it.Dst.Limbs(),
		)
	}
	if err := s.to.shape(it.Dst, 2); err != nil {
		return err
	}
	if (it.Low == nil) != (first == nil) {
		return fmt.Errorf("%w: some key switches have a sum to add and some have none", ErrShape)
	}
	if it.Low == nil {
		return nil
	}
	if err := s.low.check("sum", it.Low, first.Polys()); err != nil {
		return err
	}
	if it.Low.Polys() > 2 || it.Low.Domain() != it.X.Domain() || !it.Low.Shape().SameLimbs(it.X.Shape()) &&
		(n < len(all) || !it.Low.Shape().SameLimbs(it.Dst.Shape())) {
		return fmt.Errorf(
			"%w: %d polynomials with limbs %v in %v to add to limbs %v in %v", ErrShape, it.Low.Polys(),
			it.Low.Limbs(), it.Low.Domain(), limbs, it.X.Domain(),
		)
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

// any refuses another shape or domain than the first batch has.
func (l *like) any(b *Batch, polys int) error {
	if err := l.shape(b, polys); err != nil {
		return err
	}
	if f := l.first; b.Domain() != f.Domain() {
		return fmt.Errorf("%w: %v and %v in one call", ErrDomain, f.Domain(), b.Domain())
	}
	return nil
}

// shape is any for results, which may have any domain: they get that of the operation.
func (l *like) shape(b *Batch, polys int) error {
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
	return nil
}

// apart refuses results that share memory with each other or with a source of any item.
// what names a result. It sorts what lies in the memory of results, which takes n log n
// steps, or n where they lie in order.
func apart(what string, dst []*Batch, sources ...[]*Batch) error {
	owners := map[any]int{}
	all := make([]extent, 0, len(dst))
	for _, b := range dst {
		if _, known := owners[b.mem]; !known {
			owners[b.mem] = len(owners)
		}
		all = b.extents(all, owners[b.mem], true)
	}
	for _, list := range sources {
		for _, b := range list {
			if owner, shared := owners[b.mem]; shared {
				all = b.extents(all, owner, false)
			}
		}
	}
	order := func(a, b extent) int { return cmp.Or(a.owner-b.owner, a.lo-b.lo) }
	if !slices.IsSortedFunc(all, order) {
		slices.SortFunc(all, order)
	}
	owner, results, read := -1, 0, 0 // where results and sources end so far
	for _, e := range all {
		if e.owner != owner {
			owner, results, read = e.owner, 0, 0
		}
		switch {
		case e.result && e.lo < results:
			return fmt.Errorf("%w: two results share memory", ErrShape)
		case e.result && e.lo < read, !e.result && e.lo < results:
			return fmt.Errorf("%w: a %s shares memory with what it is made from", ErrShape, what)
		case e.result:
			results = max(results, e.hi)
		default:
			read = max(read, e.hi)
		}
	}
	return nil
}

// extent is residues that lie side by side in one memory.
type extent struct {
	owner, lo, hi int
	result        bool
}

// extents appends the extents of b.
func (b *Batch) extents(to []extent, owner int, result bool) []extent {
	size := len(b.Limbs()) * b.n
	if b.Polys() == 0 || size == 0 {
		return to
	}
	if b.polyStride == size {
		return append(to, extent{owner, b.offset, b.offset + b.Polys()*size, result})
	}
	for i := range b.Polys() {
		to = append(to, extent{owner, b.Offset(i, 0), b.Offset(i, 0) + size, result})
	}
	return to
}
