package cpu

import (
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

func (r *ring) Add(dst, a, b *cutrantt.Batch) error {
	return r.binary(dst, a, b, func(z, x, y []uint32, q uint32) {
		if r.vec != nil {
			r.vec.add(&z[0], &x[0], &y[0], len(z), q)
			return
		}
		x, y = x[:len(z)], y[:len(z)]
		for j := range z {
			z[j] = add(x[j], y[j], q)
		}
	})
}

func (r *ring) Sub(dst, a, b *cutrantt.Batch) error {
	return r.binary(dst, a, b, func(z, x, y []uint32, q uint32) {
		if r.vec != nil {
			r.vec.sub(&z[0], &x[0], &y[0], len(z), q)
			return
		}
		x, y = x[:len(z)], y[:len(z)]
		for j := range z {
			z[j] = sub(x[j], y[j], q)
		}
	})
}

// binary runs f on every limb of dst and the matching ones of a and b.
func (r *ring) binary(dst, a, b *cutrantt.Batch, f func(z, x, y []uint32, q uint32)) error {
	if err := r.check.Elementwise(check.Broadcast, dst, a, b); err != nil {
		return err
	}
	limbs := dst.Limbs()
	r.eachLimb(dst.Polys(), len(limbs), r.n, func(p, l int) {
		f(r.limb(dst, p, l), r.source(a, p, l), r.source(b, p, l), r.moduli[limbs[l]].q)
	})
	dst.SetDomain(a.Domain())
	return nil
}

// unary runs f on every limb of dst and the matching one of a.
func (r *ring) unary(dst, a *cutrantt.Batch, f func(z, x []uint32, l int, q uint32)) error {
	if err := r.check.Elementwise(check.Equal, dst, a); err != nil {
		return err
	}
	limbs := dst.Limbs()
	r.eachLimb(dst.Polys(), len(limbs), r.n, func(p, l int) {
		f(r.limb(dst, p, l), r.limb(a, p, l), l, r.moduli[limbs[l]].q)
	})
	dst.SetDomain(a.Domain())
	return nil
}

func (r *ring) Neg(dst, a *cutrantt.Batch) error {
	return r.unary(dst, a, func(z, x []uint32, _ int, q uint32) {
		x = x[:len(z)]
		for j := range z {
			z[j] = neg(x[j], q)
		}
	})
}

func (r *ring) MulScalar(dst, a *cutrantt.Batch, c []uint32) error {
	if err := r.check.Batches(dst); err != nil {
		return err
	}
	if err := r.check.Scalars(dst, c); err != nil {
		return err
	}
	return r.unary(dst, a, func(z, x []uint32, l int, q uint32) {
		m := r.moduli[dst.Limbs()[l]]
		if r.vec != nil {
			w := m.shoup(c[l])
			r.vec.scale(&z[0], &x[0], len(z), &w, q)
			return
		}
		x = x[:len(z)]
		w := m.factor(c[l])
		for j := range z {
			z[j] = w.mul(x[j], uint64(q))
		}
	})
}

func (r *ring) AddScalar(dst, a *cutrantt.Batch, c []uint32) error {
	if err := r.check.Batches(dst, a); err != nil {
		return err
	}
	if err := r.check.Scalars(dst, c); err != nil {
		return err
	}
	// The constant term is coefficient 0, or coefficient 0 of every block,
	// which is all of column 0.
	count := 1
	if d := a.Domain(); d.NTT {
		count = r.n / int(d.N2)
	}
	return r.unary(dst, a, func(z, x []uint32, l int, q uint32) {
		for j := range count {
			z[j] = add(x[j], c[l], q)
		}
		copy(z[count:], x[count:])
	})
}

var _ cutrantt.Combiner = (*ring)(nil)

// combined is how many residues are combined at a time, so that their sum and a multiple stay in the first-level cache.
// It divides N.
const combined = 1 << cutrantt.MinLogN

// Combine implements cutrantt.Combiner.
func (r *ring) Combine(dst []*cutrantt.Batch, terms []cutrantt.Term, constants []uint32, more bool) error {
	all := slices.Clone(dst)
	for _, t := range terms {
		all = append(all, t.Of...)
	}
	if err := r.check.Batches(all...); err != nil {
		return err
	}
	polys, limbs, domain := dst[0].Polys(), dst[0].Limbs(), dst[0].Domain()
	if len(terms) == 0 {
		polys = 1 // nothing is added to the others
	} else {
		domain = terms[0].Of[0].Domain()
	}
	count := 1 // residues of the constant term
	if domain.NTT {
		count = r.n / int(domain.N2)
	}
	r.eachLimb(len(dst)*polys, len(limbs), r.n*(len(terms)+1), func(p, l int) {
		item, poly, m := p/polys, p%polys, r.moduli[limbs[l]]
		z := r.limb(dst[item], poly, l)
		r.combine(z, m, more, terms, l, func(t int) []uint32 { return r.limb(terms[t].Of[item], poly, l) })
		if poly > 0 || constants == nil {
			return
		}
		for j := range count {
			z[j] = add(z[j], constants[l], m.q)
		}
	})
	for _, d := range dst {
		d.SetDomain(domain)
	}
	return nil
}

// combine is Combine of limb l without its constant. of is the limb of a term.
func (r *ring) combine(z []uint32, m *modulus, more bool, terms []cutrantt.Term, l int, of func(t int) []uint32) {
	buf := getScratch(combined)
	defer buf.put()
	for lo := 0; lo < len(z) && len(terms) > 0; lo += combined {
		sum := z[lo : lo+combined]
		for t, term := range terms {
			x := of(t)[lo : lo+combined]
			switch {
			case term.By == nil && !more && t == 0:
				copy(sum, x)
			case term.By == nil:
				r.plus(sum, x, m)
			case !more && t == 0:
				r.times(sum, x, term.By[l], m)
			default:
				r.times(buf.words, x, term.By[l], m)
				r.plus(sum, buf.words, m)
			}
		}
	}
}

// plus adds x to z.
func (r *ring) plus(z, x []uint32, m *modulus) {
	if r.vec != nil {
		r.vec.add(&z[0], &z[0], &x[0], len(z), m.q)
		return
	}
	x = x[:len(z)]
	for j := range z {
		z[j] = add(z[j], x[j], m.q)
	}
}

// times sets z to c*x.
func (r *ring) times(z, x []uint32, c uint32, m *modulus) {
	if r.vec != nil {
		w := m.shoup(c)
		r.vec.scale(&z[0], &x[0], len(z), &w, m.q)
		return
	}
	x = x[:len(z)]
	w := m.factor(c)
	for j := range z {
		z[j] = w.mul(x[j], uint64(m.q))
	}
}
