package reference

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// elementwise runs f on every limb z of dst with the matching limbs x of the
// sources, and gives dst their domain.
func (r *ring) elementwise(
	c check.Polynomials, dst *cutrantt.Batch, f func(z []uint32, l int, m cutrantt.Modulus, x [][]uint32),
	srcs ...*cutrantt.Batch,
) error {
	if err := r.Elementwise(c, dst, srcs...); err != nil {
		return err
	}
	x := make([][]uint32, len(srcs))
	r.each(dst, func(p, l int, m cutrantt.Modulus) {
		for i, s := range srcs {
			x[i] = r.limb(s, p, l)
		}
		f(r.limb(dst, p, l), l, m, x)
	})
	dst.SetDomain(srcs[0].Domain())
	return nil
}

func (r *ring) Add(dst, a, b *cutrantt.Batch) error {
	return r.elementwise(check.Broadcast, dst, func(z []uint32, _ int, m cutrantt.Modulus, x [][]uint32) {
		for j := range z {
			z[j] = (x[0][j] + x[1][j]) % m.Q
		}
	}, a, b)
}

func (r *ring) Sub(dst, a, b *cutrantt.Batch) error {
	return r.elementwise(check.Broadcast, dst, func(z []uint32, _ int, m cutrantt.Modulus, x [][]uint32) {
		for j := range z {
			z[j] = (x[0][j] + m.Q - x[1][j]) % m.Q
		}
	}, a, b)
}

func (r *ring) Neg(dst, a *cutrantt.Batch) error {
	return r.elementwise(check.Equal, dst, func(z []uint32, _ int, m cutrantt.Modulus, x [][]uint32) {
		for j := range z {
			z[j] = (m.Q - x[0][j]) % m.Q
		}
	}, a)
}

func (r *ring) scalars(dst, a *cutrantt.Batch, c []uint32) error {
	if err := r.Batches(dst, a); err != nil {
		return err
	}
	return r.Scalars(dst, c)
}

func (r *ring) MulScalar(dst, a *cutrantt.Batch, c []uint32) error {
	if err := r.scalars(dst, a, c); err != nil {
		return err
	}
	return r.elementwise(check.Equal, dst, func(z []uint32, l int, m cutrantt.Modulus, x [][]uint32) {
		for j := range z {
			z[j] = uint32(uint64(x[0][j]) * uint64(c[l]) % uint64(m.Q))
		}
	}, a)
}

func (r *ring) AddScalar(dst, a *cutrantt.Batch, c []uint32) error {
	if err := r.scalars(dst, a, c); err != nil {
		return err
	}
	d := a.Domain()
	return r.elementwise(check.Equal, dst, func(z []uint32, l int, m cutrantt.Modulus, x [][]uint32) {
		constant, f := make([]uint32, len(z)), make([]uint32, len(z))
		f[0] = c[l]
		arrange(constant, f, d, m)
		for j := range z {
			z[j] = (x[0][j] + constant[j]) % m.Q
		}
	}, a)
}

// product is a*b modulo X^n2 - w block by block, by the schoolbook rule.
func product(a, b []uint32, n2 int, m cutrantt.Modulus) []uint32 {
	n, q := len(a), uint64(m.Q)
	z := make([]uint32, n)
	for block := range n / n2 {
		w, k := uint64(Root(m, n, n2, block)), block*n2
		for i := range n2 {
			for j := range n2 {
				t := uint64(a[at(k+i, n, n2)]) * uint64(b[at(k+j, n, n2)]) % q
				to := i + j
				if to >= n2 {
					to, t = to-n2, t*w%q
				}
				p := at(k+to, n, n2)
				z[p] = uint32((uint64(z[p]) + t) % q)
			}
		}
	}
	return z
}

func (r *ring) Mul(dst, a, b *cutrantt.Batch) error {
	return r.hadamard(dst, func(z []uint32, _ int, m cutrantt.Modulus, x [][]uint32) {
		copy(z, product(x[0], x[1], int(a.Domain().N2), m))
	}, a, b)
}

func (r *ring) MulAdd(dst, a, b *cutrantt.Batch) error {
	return r.hadamard(dst, func(z []uint32, _ int, m cutrantt.Modulus, x [][]uint32) {
		for j, y := range product(x[0], x[1], int(a.Domain().N2), m) {
			z[j] = (z[j] + y) % m.Q
		}
	}, a, b, dst)
}

func (r *ring) hadamard(
	dst *cutrantt.Batch, f func(z []uint32, l int, m cutrantt.Modulus, x [][]uint32), srcs ...*cutrantt.Batch,
) error {
	if err := r.Batches(srcs...); err != nil {
		return err
	}
	if err := check.Method(r.opts.Method, srcs[0]); err != nil {
		return err
	}
	return r.elementwise(check.Broadcast, dst, f, srcs...)
}

// operand is a copy of the batch.
type operand struct {
	ring *ring
	b    *cutrantt.Batch
}

func (o *operand) Shape() cutrantt.Shape { return o.b.Shape() }

func (o *operand) Release() {
	if o.ring.Wipe(o.b) == nil {
		o.ring.Free(o.b)
	}
}

func (r *ring) Precompute(b *cutrantt.Batch) (cutrantt.Operand, error) {
	if err := r.Batches(b); err != nil {
		return nil, err
	}
	if err := check.Method(r.opts.Method, b); err != nil {
		return nil, err
	}
	c, err := r.NewBatch(b.Polys(), b.Limbs(), b.Domain())
	if err != nil {
		return nil, err
	}
	return &operand{ring: r, b: c}, r.Copy(c, b)
}

func (r *ring) MulOperand(dst, a *cutrantt.Batch, b cutrantt.Operand) error {
	o, ok := b.(*operand)
	if !ok || o == nil || o.ring != r || r.Batches(o.b) != nil {
		return fmt.Errorf("%w: operand of another ring or backend, or released", cutrantt.ErrForeign)
	}
	where, err := r.Operand(dst, a, o.b.Shape())
	if err != nil {
		return err
	}
	n2, k := int(a.Domain().N2), dst.Polys()
	for l := range dst.Limbs() {
		m, sums := r.mod(dst, l), make([][]uint32, k)
		for j := range sums {
			sums[j] = make([]uint32, r.N())
			for i := range a.Polys() {
				for c, x := range product(r.limb(a, i, l), r.limb(o.b, i*k+j, where[l]), n2, m) {
					sums[j][c] = (sums[j][c] + x) % m.Q
				}
			}
		}
		for j, s := range sums {
			copy(r.limb(dst, j, l), s)
		}
	}
	dst.SetDomain(a.Domain())
	return nil
}
