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
	a := args{dst: dst.at, ds: dst.stride, a: src.at, as: src.stride}
	if r.single(n2) {
		return r.columns("forward", polys, limbs, n2, a)
	}
	return r.split(polys, limbs, n2, func(levels int, head, tail func(name string, a args) error) error {
		if err := head(fmt.Sprintf("forward_head_%d", levels), a); err != nil {
			return err
		}
		a.a, a.as = a.dst, a.ds
		return tail("forward_tail", a)
	})
}

// inverse queues the inverse transform.
func (r *ring) inverse(dst, src tensor, polys int, limbs []int, n2 int) error {
	return r.inverseTimes(dst, src, polys, limbs, n2, 0)
}

// inverseTimes is inverse with other factors in the last level, two of each limb
// (kernels/inverse.cu), unless last is 0: only where single.
func (r *ring) inverseTimes(dst, src tensor, polys int, limbs []int, n2 int, last pointer) error {
	a := args{dst: dst.at, ds: dst.stride, a: src.at, as: src.stride, x: last}
	if r.single(n2) {
		return r.columns("inverse", polys, limbs, n2, a)
	}
	return r.split(polys, limbs, n2, func(levels int, head, tail func(name string, a args) error) error {
		if err := tail("inverse_tail", a); err != nil {
			return err
		}
		a.a, a.as = a.dst, a.ds
		return head(fmt.Sprintf("inverse_head_%d", levels), a)
	})
}

// split prepares the launches for columns too long for one kernel: of the head
// (the first levels) and of the tail. Both take dst and a from f.
func (r *ring) split(polys int, limbs []int, n2 int, f func(levels int, head, tail func(name string, a args) error) error) error {
	p, levels := planFor(log2(r.n/n2), r.backend.shared)
	t, err := r.ordered(p)
	if err != nil {
		return err
	}
	list, err := r.list(limbs)
	if err != nil {
		return err
	}
	common := func(x args) args {
		x.limbs, x.tw, x.ts, x.logN2, x.i0 = list, t.at, t.stride, uint32(log2(n2)), uint32(levels)
		return x
	}
	head := func(name string, x args) error {
		return r.launch(name, polys*(r.n>>(8+levels)), len(limbs), 256, 0, common(x))
	}
	tail := func(name string, x args) error {
		return r.launch(name, polys*(r.n>>p.block), len(limbs), p.threads(), p.shared(), common(x))
	}
	return f(levels, head, tail)
}

// single says whether one kernel transforms columns of n2, so that columns works.
func (r *ring) single(n2 int) bool {
	_, split := planFor(log2(r.n/n2), r.backend.shared)
	return split == 0
}

// columns queues kernel NAME_LOG, made with COLUMNS(LOG, NAME_LOG) of
// kernels/transform.cuh: a transform of columns of 2^LOG = N/n2 residues fused
// with what comes before and after. It sets limbs, tw, ts and logN2 of a. Ask
// single first: longer columns have no such kernel.
func (r *ring) columns(name string, polys int, limbs []int, n2 int, a args) error {
	p, a, err := r.columnArgs(name, limbs, n2, a)
	if err != nil {
		return err
	}
	return r.launch(p.name(name), polys*(r.n>>p.block), len(limbs), p.threads(), p.shared(), a)
}

// columnArgs is the plan of the columns of limbs, and a with what every kernel over
// them reads.
func (r *ring) columnArgs(name string, limbs []int, n2 int, a args) (plan, args, error) {
	p, split := planFor(log2(r.n/n2), r.backend.shared)
	if split != 0 {
		return p, a, fmt.Errorf("%s: columns of %d residues are transformed by two kernels", name, r.n/n2)
	}
	t, err := r.ordered(p)
	if err != nil {
		return p, a, err
	}
	if a.limbs, err = r.list(limbs); err != nil {
		return p, a, err
	}
	a.tw, a.ts, a.logN2 = t.at, t.stride, uint32(log2(n2))
	return p, a, nil
}

// log2 of a power of two.
func log2(n int) int {
	k := 0
	for ; n > 1; n >>= 1 {
		k++
	}
	return k
}
