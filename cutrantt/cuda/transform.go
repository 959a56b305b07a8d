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
	a := between(dst, src)
	if r.single(n2) {
		return columns(r, "forward", polys, limbs, n2, a)
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
	a := between(dst, src)
	if r.single(n2) {
		return columns(r, "inverse", polys, limbs, n2, inverseArgs{args: a, last: last})
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
func (r *ring) split(
	polys int, limbs []int, n2 int, f func(levels int, head, tail func(name string, a args) error) error,
) error {
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
		x.limbs, x.tw, x.ts, x.logN2 = list, t.at, t.stride, uint32(log2(n2))
		return x
	}
	head := func(name string, x args) error {
		return launch(r, name, polys*(r.n>>(8+levels)), len(limbs), 256, 0, common(x))
	}
	tail := func(name string, x args) error {
		return launch(r, name, polys*(r.n>>p.block), len(limbs), p.threads(), p.shared(),
			splitArgs{args: common(x), levels: uint32(levels)})
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
func columns[A kernelArgs](r *ring, name string, polys int, limbs []int, n2 int, a A) error {
	p, err := r.columnArgs(head(&a), name, limbs, n2)
	if err != nil {
		return err
	}
	return launch(r, p.name(name), polys*(r.n>>p.block), len(limbs), p.threads(), p.shared(), a)
}

// itemColumns is columns for kernels over items.
func itemColumns[A kernelArgs, I item](r *ring, name string, polys int, limbs []int, n2 int, a A, items []I) error {
	p, err := r.columnArgs(head(&a), name, limbs, n2)
	if err != nil {
		return err
	}
	return launchItems(r, p.name(name), polys*(r.n>>p.block), len(limbs), p.threads(), p.shared(), a, items)
}

// columnArgs returns the plan of the columns of limbs, and sets in a what every kernel
// over them reads.
func (r *ring) columnArgs(a *args, name string, limbs []int, n2 int) (plan, error) {
	p, split := planFor(log2(r.n/n2), r.backend.shared)
	if split != 0 {
		return p, fmt.Errorf("%s: columns of %d residues are transformed by two kernels", name, r.n/n2)
	}
	t, err := r.ordered(p)
	if err != nil {
		return p, err
	}
	if a.limbs, err = r.list(limbs); err != nil {
		return p, err
	}
	a.tw, a.ts, a.logN2 = t.at, t.stride, uint32(log2(n2))
	return p, nil
}

// between is the arguments of a kernel from src to dst.
func between(dst, src tensor) args {
	return args{dst: dst.at, ds: dst.stride, a: src.at, as: src.stride}
}

// log2 of a power of two.
func log2(n int) int {
	k := 0
	for ; n > 1; n >>= 1 {
		k++
	}
	return k
}
