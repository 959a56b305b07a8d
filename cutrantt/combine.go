package cutrantt

import (
	"errors"
	"fmt"
)

// Term is a term of Combine: a batch for each result, and a factor below q for each limb. Without factors it counts
// once.
type Term struct {
	Of []*Batch
	By []uint32
}

// Combiner is an optional interface of a Ring. It makes linear combinations in one pass over memory. Call the function
// Combine instead of the method: it checks that the terms fit together, and runs the separate operations if a ring does
// not implement Combiner or refuses with ErrNotSupported.
type Combiner interface {
	Combine(dst []*Batch, terms []Term, constants []uint32, add bool) error
}

// Combine sets dst[i] to the sum over terms of By*Of[i], with add to that and dst[i] itself. The constant polynomial
// constants[l] < q_l is added to limb l of polynomial 0 of each dst[i]; nil stands for zeros. All batches have one
// shape and one domain, and the results lie apart from the terms. There is a term, or add is set. Factors and constants
// are public: a device may keep them. The residues equal those of MulScalar, Add and AddScalar bit for bit.
func Combine(r Ring, dst []*Batch, terms []Term, constants []uint32, add bool) error {
	if len(dst) == 0 {
		return nil
	}
	if err := checkTerms(dst, terms, add); err != nil {
		return err
	}
	for _, t := range terms {
		if t.By != nil {
			if err := checkFactors(r, dst[0], t.By); err != nil {
				return err
			}
		}
	}
	if constants != nil {
		if err := checkFactors(r, dst[0], constants); err != nil {
			return err
		}
	}
	if c, ok := r.(Combiner); ok {
		if err := c.Combine(dst, terms, constants, add); !errors.Is(err, ErrNotSupported) {
			return err
		}
	}
	for i, d := range dst {
		if err := combine(r, d, i, terms, constants, add); err != nil {
			return err
		}
	}
	return nil
}

// checkTerms refuses results and terms that do not fit together.
func checkTerms(dst []*Batch, terms []Term, add bool) error {
	if len(terms) == 0 && !add {
		return fmt.Errorf("%w: a combination of nothing", ErrShape)
	}
	if dst[0] == nil {
		return fmt.Errorf("%w: nil batch", ErrForeign)
	}
	polys := dst[0].Polys()
	var sums, same like
	for _, d := range dst {
		err := sums.shape(d, polys)
		if err == nil && add {
			err = same.any(d, polys)
		}
		if err != nil {
			return err
		}
	}
	sources := make([][]*Batch, len(terms))
	for k, t := range terms {
		if len(t.Of) != len(dst) {
			return fmt.Errorf("%w: a term of %d batches for %d results", ErrShape, len(t.Of), len(dst))
		}
		for _, b := range t.Of {
			if err := same.any(b, polys); err != nil {
				return err
			}
			if !b.Shape().SameLimbs(dst[0].Shape()) {
				return fmt.Errorf("%w: limbs %v combined from limbs %v", ErrShape, dst[0].Limbs(), b.Limbs())
			}
		}
		sources[k] = t.Of
	}
	return apart("combination", dst, sources...)
}

// checkFactors refuses anything but one number below q for each limb.
func checkFactors(r Ring, b *Batch, c []uint32) error {
	if len(c) != len(b.Limbs()) {
		return fmt.Errorf("%w: %d factors for %d limbs", ErrShape, len(c), len(b.Limbs()))
	}
	for i, l := range b.Limbs() {
		if moduli := r.Moduli(); l < len(moduli) && c[i] >= moduli[l].Q {
			return fmt.Errorf("%w: factor %d of limb %d, modulus %d", ErrRange, c[i], i, moduli[l].Q)
		}
	}
	return nil
}

// combine is Combine of result i by the operations of Ring.
func combine(r Ring, dst *Batch, i int, terms []Term, constants []uint32, add bool) error {
	var scaled *Batch
	defer func() {
		if scaled != nil {
			r.Free(scaled)
		}
	}()
	for k, t := range terms {
		x := t.Of[i]
		if k == 0 && !add {
			f := func() error { return r.Copy(dst, x) }
			if t.By != nil {
				f = func() error { return r.MulScalar(dst, x, t.By) }
			}
			if err := f(); err != nil {
				return err
			}
			continue
		}
		if t.By != nil {
			if scaled == nil {
				var err error
				if scaled, err = r.NewBatch(dst.Polys(), dst.Limbs(), x.Domain()); err != nil {
					return err
				}
			}
			if err := r.MulScalar(scaled, x, t.By); err != nil {
				return err
			}
			x = scaled
		}
		if err := r.Add(dst, dst, x); err != nil {
			return err
		}
	}
	if constants == nil {
		return nil
	}
	first, err := dst.Slice(0, 1, 0, len(dst.Limbs()))
	if err != nil {
		return err
	}
	return r.AddScalar(first, first, constants)
}
