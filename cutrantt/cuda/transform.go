package cuda

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

func (r *ring) Forward(dst, src *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	if err := check.Coeffs(src); err != nil {
		return err
	}
	n2 := int(src.Domain().N2)
	err := r.exec(func() error {
		return r.forward(r.tensor(dst), r.tensor(src), dst.Polys(), dst.Limbs(), n2)
	}, dst, src)
	if err == nil {
		dst.SetDomain(cutrantt.NTT(n2))
	}
	return err
}

func (r *ring) Inverse(dst, src *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	if err := check.NTT(src); err != nil {
		return err
	}
	n2 := int(src.Domain().N2)
	err := r.exec(func() error {
		return r.inverse(r.tensor(dst), r.tensor(src), dst.Polys(), dst.Limbs(), n2)
	}, dst, src)
	if err == nil {
		dst.SetDomain(cutrantt.Coeffs(n2))
	}
	return err
}

// forward queues the transform of polys polynomials over limbs.
func (r *ring) forward(dst, src tensor, polys int, limbs []int, n2 int) error {
	return r.transform(dst, src, polys, limbs, n2, func(p plan, split int, one, head, tail func(name string, from tensor) error) error {
		if split == 0 {
			return one(p.name("forward"), src)
		}
		if err := head(fmt.Sprintf("forward_head_%d", split), src); err != nil {
			return err
		}
		return tail("forward_tail", dst)
	})
}

// inverse queues the inverse transform.
func (r *ring) inverse(dst, src tensor, polys int, limbs []int, n2 int) error {
	return r.transform(dst, src, polys, limbs, n2, func(p plan, split int, one, head, tail func(name string, from tensor) error) error {
		if split == 0 {
			return one(p.name("inverse"), src)
		}
		if err := tail("inverse_tail", src); err != nil {
			return err
		}
		return head(fmt.Sprintf("inverse_head_%d", split), dst)
	})
}

// transform prepares the launches of one direction: of a single kernel, or of
// the head (the first levels) and tail of a long column.
func (r *ring) transform(dst, src tensor, polys int, limbs []int, n2 int,
	f func(p plan, split int, one, head, tail func(name string, from tensor) error) error) error {
	p, split := planFor(log2(r.n/n2), r.backend.shared)
	t, err := r.ordered(p)
	if err != nil {
		return err
	}
	list, err := r.list(limbs)
	if err != nil {
		return err
	}
	a := args{dst: dst.at, ds: dst.stride, limbs: list, tw: t.at, ts: t.stride, logN2: uint32(log2(n2)), i0: uint32(split)}
	one := func(name string, from tensor) error {
		a.a, a.as = from.at, from.stride
		return r.launch(name, polys*(r.n>>p.block), len(limbs), p.threads(), p.shared(), a)
	}
	head := func(name string, from tensor) error {
		a.a, a.as = from.at, from.stride
		return r.launch(name, polys*(r.n>>(8+split)), len(limbs), 256, 0, a)
	}
	return f(p, split, one, head, one)
}

// log2 of a power of two.
func log2(n int) int {
	k := 0
	for ; n > 1; n >>= 1 {
		k++
	}
	return k
}
