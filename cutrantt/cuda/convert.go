package cuda

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

func (r *ring) Convert(dst, src *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	return r.exec(func() error { return r.convert(dst, src) }, dst, src)
}

// convert queues the steps from src's domain to dst's. Transforms may be in
// place, changes of the number of columns may not.
func (r *ring) convert(dst, src *cutrantt.Batch) error {
	polys, limbs := dst.Polys(), dst.Limbs()
	from, to := src.Domain(), dst.Domain()
	target, cur := r.tensor(dst), r.tensor(src)
	shared := dst.Mem() == src.Mem() // cur and target overlap
	move := func(f func(d tensor) error) error {
		if !shared {
			err := f(target)
			cur, shared = target, true
			return err
		}
		tmp, release, err := r.scratch(polys, len(limbs))
		if err != nil {
			return err
		}
		defer release() // later steps read it before the stream reuses it
		if err := f(tmp); err != nil {
			return err
		}
		cur = target
		return r.element("element_copy", target, tmp, tensor{}, polys, limbs, 0)
	}
	n2, want := int(from.N2), int(to.N2)
	if from.NTT && to.NTT && n2 != want {
		return move(func(d tensor) error { return r.levels(d, cur, polys, limbs, n2, want) })
	}
	if from.NTT && !to.NTT {
		if err := r.inverse(target, cur, polys, limbs, n2); err != nil {
			return err
		}
		cur, shared = target, true
	}
	if n2 != want {
		err := move(func(d tensor) error {
			return r.simple("relayout", d, cur, polys, limbs, want, 8, args{i0: uint32(log2(n2))})
		})
		if err != nil {
			return err
		}
	}
	if to.NTT && !from.NTT {
		return r.forward(target, cur, polys, limbs, want)
	}
	if cur != target {
		return r.element("element_copy", target, cur, tensor{}, polys, limbs, 0)
	}
	return nil
}

// levels finishes (n2 > want) or undoes levels of the transform across columns.
func (r *ring) levels(dst, src tensor, polys int, limbs []int, n2, want int) error {
	t, err := r.twiddles(r.n / min(n2, want))
	if err != nil {
		return err
	}
	k, name := log2(n2)-log2(want), "finish"
	if k < 0 {
		k, name = -k, "undo"
	}
	// The kernels count columns of the side that has fewer.
	threads := min(256, r.n>>k)
	return r.grid(name+fmt.Sprintf("_%d", k), dst, src, polys, limbs, min(n2, want), threads, log2(threads)+k, args{tw: t.at, ts: t.stride})
}

// simple queues a kernel of 256 threads whose blocks cover 2^per residues.
func (r *ring) simple(name string, dst, src tensor, polys int, limbs []int, n2, per int, a args) error {
	return r.grid(name, dst, src, polys, limbs, n2, 256, per, a)
}

// grid queues a kernel whose blocks of threads cover 2^per residues of a limb.
func (r *ring) grid(name string, dst, src tensor, polys int, limbs []int, n2, threads, per int, a args) error {
	list, err := r.list(limbs)
	if err != nil {
		return err
	}
	a.dst, a.ds, a.a, a.as, a.limbs, a.logN2 = dst.at, dst.stride, src.at, src.stride, list, uint32(log2(n2))
	return r.launch(name, polys*(r.n>>per), len(limbs), threads, 0, a)
}

func (r *ring) Automorphism(dst, a *cutrantt.Batch, g uint64) error {
	if err := r.check.Galois(dst, a, g); err != nil {
		return err
	}
	d := a.Domain()
	n2 := int(d.N2)
	err := r.exec(func() error {
		x := args{i0: uint32(g)}
		if !d.NTT {
			return r.simple("automorphism_coeffs", r.tensor(dst), r.tensor(a), dst.Polys(), dst.Limbs(), n2, 8, x)
		}
		t, err := r.twiddles(r.n / n2)
		if err != nil {
			return err
		}
		x.tw, x.ts = t.at, t.stride
		return r.simple("automorphism_blocks", r.tensor(dst), r.tensor(a), dst.Polys(), dst.Limbs(), n2, 8, x)
	}, dst, a)
	if err == nil {
		dst.SetDomain(d)
	}
	return err
}
