package cutrantt

import (
	"errors"
	"fmt"
)

// SumProducts sets dst[i] to the sum over t of a[t]*b[i][t]: several sums of products that share
// their first factors. b has a row for each sum, as long as a; nil stands for a product that is left out, and a
// sum of none is 0. Each b[i][t] has one polynomial, which multiplies all of a[t]; the a[t] have as many as the
// dst[i]. All factors are in one transform domain over the same limbs, and the sums lie apart from them.
//
// flat says that each b[i][t] is a polynomial in X^N2, so that all its columns but the first are 0: a backend
// may leave these out. The result is undefined where they are not.
func SumProducts(r Ring, dst, a []*Batch, b [][]*Batch, flat bool) error {
	if len(dst) != len(b) {
		return fmt.Errorf("%w: %d sums of %d rows of factors", ErrShape, len(dst), len(b))
	}
	if len(dst) == 0 {
		return nil
	}
	if err := checkSums(dst, a, b); err != nil {
		return err
	}
	if f, ok := r.(Fused); ok {
		if err := f.SumProducts(dst, a, b, flat); !errors.Is(err, ErrNotSupported) {
			return err
		}
	}
	for i, sum := range dst {
		op := r.Mul
		for t, y := range b[i] {
			if y == nil {
				continue
			}
			if err := op(sum, a[t], y); err != nil {
				return err
			}
			op = r.MulAdd
		}
		if !some(b[i]) {
			sum.SetDomain(a[0].Domain())
			if err := r.Wipe(sum); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSums refuses sums and factors that do not fit together.
func checkSums(dst, a []*Batch, b [][]*Batch) error {
	if len(a) == 0 || a[0] == nil {
		return fmt.Errorf("%w: no factors", ErrForeign)
	}
	var left, right, sums like
	for _, x := range a {
		if err := left.check("factor", x, a[0].Polys()); err != nil {
			return err
		}
	}
	var factors []*Batch
	for i, row := range b {
		if len(row) != len(a) {
			return fmt.Errorf("%w: %d factors for %d", ErrShape, len(row), len(a))
		}
		for _, y := range row {
			if y == nil {
				continue
			}
			if err := right.check("factor", y, 1); err != nil {
				return err
			}
			factors = append(factors, y)
		}
		if err := sums.shape(dst[i], a[0].Polys()); err != nil {
			return err
		}
	}
	for _, f := range []*Batch{right.first, sums.first} {
		if f != nil && !f.Shape().SameLimbs(a[0].Shape()) {
			return fmt.Errorf("%w: limbs %v and %v in sums of products", ErrShape, f.Limbs(), a[0].Limbs())
		}
	}
	if f := right.first; f != nil && f.Domain() != a[0].Domain() {
		return fmt.Errorf("%w: %v times %v", ErrDomain, a[0].Domain(), f.Domain())
	}
	return apart("sum", dst, a, factors)
}

// some reports whether a row has a factor.
func some(row []*Batch) bool {
	for _, y := range row {
		if y != nil {
			return true
		}
	}
	return false
}
