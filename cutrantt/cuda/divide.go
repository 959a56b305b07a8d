package cuda

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
)

// Columns of 2^leastDown to 2^mostDown residues have kernels in kernels/down.cu. That for 2^longDown makes no images,
// and is there in the machine code for sm_90 only: for all architectures it would be 90 kB of the images.
const (
	leastDown = 9
	mostDown  = 13
	longDown  = 14
)

// divide queues the end of a division by dropped limbs in the transform domain
// for items of polys polynomials. rest has the dropped limbs drop: of each item,
// or, if it is one tensor, of all items next to each other.
func (r *ring) divide(items []divideItem, rest []tensor, polys int, drop, keep []int, n2 int) error {
	all := len(items) * polys
	f, err := r.fewLimbs(limbsKey([]byte{'d'}, drop, keep), drop, n2, func() []part {
		return []part{{from: drop, to: keep, withInverses: true}}
	})
	if err != nil {
		return err
	}
	coeffs, release, err := r.scratch(all, len(drop))
	if err != nil {
		return err
	}
	defer release()
	if len(rest) == 1 {
		err = r.inverseTimes(coeffs, rest[0], all, drop, n2, f.last)
	} else {
		err = r.inverseOf(coeffs, rest, polys, drop, n2, f.last)
	}
	if err != nil {
		return err
	}
	turned := slices.ContainsFunc(items, func(it divideItem) bool { return it.numbers.galois > 1 })
	log := log2(r.n / n2)
	single := r.single(n2) && leastDown <= log && (log <= mostDown || log == longDown && !turned && r.backend.early)
	var plain table
	if turned {
		if plain, err = r.twiddles(r.n / n2); err != nil {
			return err
		}
	}
	if f.at != 0 {
		a := divideArgs{
			args:   args{a: coeffs.at, as: coeffs.stride},
			digits: f.at, inverses: f.inverses, roots: plain.at, rs: plain.stride,
			polys: uint32(polys), group: divideBlocks,
		}
		return itemColumns(r, "divide", all, keep, n2, a, items)
	}
	e, release, err := r.scratch(all, len(keep))
	if err != nil {
		return err
	}
	defer release()
	inverses, err := r.remainder(e, coeffs, all, drop, keep)
	if err != nil {
		return err
	}
	a := divideArgs{
		args:     args{a: e.at, as: e.stride},
		inverses: inverses, roots: plain.at, rs: plain.stride, polys: uint32(polys),
	}
	if single {
		return itemColumns(r, "down", all, keep, n2, a, items)
	}
	if err := r.forward(e, e, all, keep, n2); err != nil {
		return err
	}
	if a.limbs, err = r.list(keep); err != nil {
		return err
	}
	a.logN2 = uint32(log2(n2))
	return launchItems(r, "down", all*(r.n>>10), len(keep), 256, 0, a, items)
}

// turn queues the automorphism X -> X^g in the transform domain.
func (r *ring) turn(dst, src tensor, polys int, limbs []int, n2 int, g uint64) error {
	t, err := r.twiddles(r.n / n2)
	if err != nil {
		return err
	}
	a := automorphismArgs{args: args{tw: t.at, ts: t.stride}, galois: uint32(g)}
	return simple(r, "automorphism_blocks", dst, src, polys, limbs, n2, 8, a)
}

func (r *ring) DivRounds(dst, src []*cutrantt.Batch) error {
	if len(dst) == 0 {
		return nil
	}
	for i := range dst {
		if err := r.check.DivRound(dst[i], src[i]); err != nil {
			return err
		}
	}
	d, polys, keep := src[0].Domain(), src[0].Polys(), dst[0].Limbs()
	drop := src[0].Limbs()[len(keep):]
	if !d.NTT {
		return fmt.Errorf("%w: fused division in %v", cutrantt.ErrNotSupported, d)
	}
	perItem := 4 * r.n * polys * len(src[0].Limbs())
	err := r.exec(func() error {
		most := max(min(r.backend.scratch/perItem, mostItems), 1)
		for lo := 0; lo < len(dst); lo += most {
			var items []divideItem
			var rest []tensor
			for i := lo; i < min(lo+most, len(dst)); i++ {
				x := r.tensor(src[i])
				items = append(items, divideItem{dst: r.tensor(dst[i]), numbers: divideNumbers{galois: 1}, from: x})
				rest = append(rest, x.limb(len(keep), r.n))
			}
			if err := r.divide(items, rest, polys, drop, keep, int(d.N2)); err != nil {
				return err
			}
		}
		return nil
	}, slices.Concat(dst, src)...)
	if err != nil {
		return err
	}
	for _, x := range dst {
		x.SetDomain(d)
	}
	return nil
}
