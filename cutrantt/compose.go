package cutrantt

import (
	"errors"
	"fmt"
)

// tensor is MulTensor by the operations of Ring.
func tensor(r Ring, dst, a, b *Batch) error {
	if !a.Domain().NTT {
		return fmt.Errorf("%w: %v where an ntt domain is needed", ErrDomain, a.Domain())
	}
	v := func(x *Batch, i int) *Batch {
		p, _ := x.Slice(i, i+1, 0, len(x.Limbs())) // checked by the caller
		return p
	}
	d1 := v(dst, 1)
	steps := []func() error{
		func() error { return r.Mul(v(dst, 0), v(a, 0), v(b, 0)) },
		func() error { return r.Mul(d1, v(a, 0), v(b, 1)) },
		func() error {
			if a == b {
				return r.Add(d1, d1, d1)
			}
			return r.MulAdd(d1, v(a, 1), v(b, 0))
		},
		func() error { return r.Mul(v(dst, 2), v(a, 1), v(b, 1)) },
	}
	for _, f := range steps {
		if err := f(); err != nil {
			return err
		}
	}
	dst.SetDomain(a.Domain())
	return nil
}

// switcher is SwitchKeys by the operations of Ring.
type switcher struct {
	ring   Ring
	gadget Gadget
	digits *Batch // of the last X, over all limbs, transformed
}

func (s *switcher) free(bs ...*Batch) {
	for _, b := range bs {
		if b != nil {
			s.ring.Free(b)
		}
	}
}

// all are the limbs of x and the special ones.
func (s *switcher) all(x *Batch) []int {
	return append(append([]int(nil), x.Limbs()...), s.gadget.Special...)
}

// decompose cuts x into its digits, extended and transformed. A digit's own limbs
// are x's, so they are copied, not transformed again.
func (s *switcher) decompose(x *Batch) (err error) {
	r, n2 := s.ring, int(x.Domain().N2)
	limbs, all := x.Limbs(), s.all(x)
	count := s.gadget.Digits(len(limbs))
	s.free(s.digits)
	s.digits = nil
	coeff, err := r.NewBatch(1, limbs, Coeffs(n2))
	if err != nil {
		return err
	}
	defer s.free(coeff)
	out, err := r.NewBatch(count, all, Coeffs(n2))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.free(out)
		}
	}()
	if err := r.Inverse(coeff, x); err != nil {
		return err
	}
	for d := range count {
		lo, hi := d*s.gadget.Alpha, min((d+1)*s.gadget.Alpha, len(limbs))
		digit, e1 := out.Slice(d, d+1, 0, len(all))
		part, e2 := coeff.Slice(0, 1, lo, hi)
		if err := errors.Join(e1, e2); err != nil {
			return err
		}
		if err := r.Extend(digit, part); err != nil {
			return err
		}
		for _, span := range [2][2]int{{0, lo}, {hi, len(all)}} {
			if span[0] == span[1] {
				continue
			}
			v, err := digit.Slice(0, 1, span[0], span[1])
			if err != nil {
				return err
			}
			if err := r.Forward(v, v); err != nil {
				return err
			}
		}
		from, e1 := x.Slice(0, 1, lo, hi)
		to, e2 := digit.Slice(0, 1, lo, hi)
		if err := errors.Join(e1, e2); err != nil {
			return err
		}
		to.SetDomain(x.Domain())
		if err := r.Copy(to, from); err != nil {
			return err
		}
	}
	out.SetDomain(x.Domain())
	s.digits = out
	return nil
}

// apply finishes one item with the digits of its X.
func (s *switcher) apply(it KeySwitch) error {
	r, limbs, all, domain := s.ring, it.X.Limbs(), s.all(it.X), it.X.Domain()
	acc, err := r.NewBatch(2, all, domain)
	if err != nil {
		return err
	}
	defer s.free(acc)
	if err := r.MulOperand(acc, s.digits, it.Key); err != nil {
		return err
	}
	merged, turned := len(it.Dst.Limbs()) != len(limbs), it.Galois > 1
	if it.Low != nil && merged {
		if err := s.lift(acc, it.Low, len(limbs)); err != nil {
			return err
		}
	}
	if len(it.Dst.Limbs()) == len(all) {
		if turned {
			return r.Automorphism(it.Dst, acc, it.Galois)
		}
		it.Dst.SetDomain(domain)
		return r.Copy(it.Dst, acc)
	}
	out := it.Dst
	if turned {
		if out, err = r.NewBatch(2, it.Dst.Limbs(), domain); err != nil {
			return err
		}
		defer s.free(out)
	}
	if err := r.DivRound(out, acc); err != nil {
		return err
	}
	if it.Low != nil && !merged {
		to, err := out.Slice(0, it.Low.Polys(), 0, len(limbs))
		if err != nil {
			return err
		}
		if err := r.Add(to, to, it.Low); err != nil {
			return err
		}
	}
	if turned {
		return r.Automorphism(it.Dst, out, it.Galois)
	}
	return nil
}

// lift adds P*low to acc: it has no residues modulo the special primes. A low of more than own limbs has them, and is
// added as it is.
func (s *switcher) lift(acc, low *Batch, own int) error {
	r := s.ring
	if n := len(low.Limbs()); n > own {
		v, err := acc.Slice(0, low.Polys(), 0, n)
		if err != nil {
			return err
		}
		return r.Add(v, v, low)
	}
	t, err := r.NewBatch(low.Polys(), low.Limbs(), low.Domain())
	if err != nil {
		return err
	}
	defer s.free(t)
	if err := r.MulScalar(t, low, s.gadget.Product(r.Moduli(), low.Limbs())); err != nil {
		return err
	}
	v, err := acc.Slice(0, low.Polys(), 0, len(low.Limbs()))
	if err != nil {
		return err
	}
	return r.Add(v, v, t)
}

// Product is the product of the special moduli modulo each of limbs.
func (g Gadget) Product(moduli []Modulus, limbs []int) []uint32 {
	out := make([]uint32, len(limbs))
	for i, l := range limbs {
		q, x := uint64(moduli[l].Q), uint64(1)
		for _, s := range g.Special {
			x = x * (uint64(moduli[s].Q) % q) % q
		}
		out[i] = uint32(x % q)
	}
	return out
}
