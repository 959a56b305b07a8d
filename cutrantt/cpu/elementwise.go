package cpu

import (
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
