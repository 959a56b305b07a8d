package cuda

import (
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
			return simple(r, "relayout", d, cur, polys, limbs, want, 8, relayoutArgs{logColumns: uint32(log2(n2))})
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
	return grid(
		r, numbered(name, k), dst, src, polys, limbs, min(n2, want), threads, log2(threads)+k,
		args{tw: t.at, ts: t.stride},
	)
}

// simple queues a kernel of 256 threads whose blocks cover 2^per residues.
func simple[A kernelArgs](r *ring, name string, dst, src tensor, polys int, limbs []int, n2, per int, a A) error {
	return grid(r, name, dst, src, polys, limbs, n2, 256, per, a)
}

// grid queues a kernel whose blocks of threads cover 2^per residues of a limb.
func grid[A kernelArgs](
	r *ring, name string, dst, src tensor, polys int, limbs []int, n2, threads, per int, a A,
) error {
	list, err := r.list(limbs)
	if err != nil {
		return err
	}
	p := head(&a)
	*p = args{
		dst: dst.at, ds: dst.stride, a: src.at, as: src.stride, tw: p.tw, ts: p.ts, limbs: list,
		logN2: uint32(log2(n2)),
	}
	return launch(r, name, polys*(r.n>>per), len(limbs), threads, 0, a)
}

func (r *ring) Automorphism(dst, a *cutrantt.Batch, g uint64) error {
	if err := r.check.Galois(dst, a, g); err != nil {
		return err
	}
	d := a.Domain()
	n2 := int(d.N2)
	err := r.exec(func() error {
		if !d.NTT {
			return simple(
				r, "automorphism_coeffs", r.tensor(dst), r.tensor(a), dst.Polys(), dst.Limbs(), n2, 8,
				automorphismArgs{galois: uint32(g)},
			)
		}
		return r.turn(r.tensor(dst), r.tensor(a), dst.Polys(), dst.Limbs(), n2, g)
	}, dst, a)
	if err == nil {
		dst.SetDomain(d)
	}
	return err
}
