package cuda

import (
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
)

// basis is the constants of one change of basis on the device: those of the
// digits, then, at targets, those of each limb of the destination, and after
// them at inverses the factors of S^-1 (kernels/basis.cu).
type basis struct {
	at, targets, inverses pointer
	words                 int
}

// basis computes the constants from the moduli of limbs from, with product S,
// to those of limbs to. Limbs of to that are in from are copied if copied is
// set, and have no inverse.
func (r *ring) basis(from, to []int, copied bool) (basis, error) {
	key := make([]byte, 0, 2*(len(from)+len(to))+3)
	for _, l := range from {
		key = append(key, byte(l), byte(l>>8))
	}
	key = append(key, 0xff, 0xff, 0)
	if copied {
		key[len(key)-1] = 1
	}
	for _, l := range to {
		key = append(key, byte(l), byte(l>>8))
	}
	if b, ok := r.bases[string(key)]; ok {
		return b, nil
	}
	w := r.basisWords(from, to, copied)
	at, err := r.constant(w)
	if err != nil {
		return basis{}, err
	}
	targets := at + pointer(4*(2*(len(from)+len(from)%2)+4*len(from)))
	b := basis{at, targets, targets + pointer(4*groups(len(to))*basisGroup*(6+len(from))), len(w)}
	r.bases[string(key)] = b
	return b, nil
}

// groups is how many groups n limbs make.
func groups(n int) int { return (n + basisGroup - 1) / basisGroup }

func (r *ring) basisWords(from, to []int, copied bool) []uint32 {
	moduli := r.check.Moduli()
	// product is the product of the moduli of from, without the one at skip.
	product := func(q uint32, skip int) uint32 {
		p := uint32(1)
		for i, l := range from {
			if i != skip {
				p = mulMod(p, moduli[l].Q%q, q)
			}
		}
		return p
	}
	var w, inverses []uint32
	for _, l := range from {
		round := uint64(1<<56) / uint64(moduli[l].Q)
		w = append(w, uint32(round), uint32(round>>32))
	}
	if len(from)%2 != 0 {
		w = append(w, 0, 0) // what follows is read 16 bytes at a time
	}
	for i, l := range from {
		q := moduli[l].Q
		scale := invMod(product(q, i), q)
		w = append(w, scale, quotient(scale, q), q, 0)
	}
	for first := 0; first < len(to); first += basisGroup {
		group := make([]uint32, basisGroup*(6+len(from)))
		for j, l := range to[first:min(first+basisGroup, len(to))] {
			q := moduli[l].Q
			s := product(q, -1)
			group[j], group[basisGroup+j] = (q-s)%q, ^uint32(0)
			if i := slices.Index(from, l); copied && i >= 0 {
				group[basisGroup+j] = uint32(i)
			}
			copy(group[basisGroup*2+4*j:], modulusWords(moduli[l])[:4])
			for i := range from {
				group[basisGroup*(6+i)+j] = product(q, i)
			}
			inv := invMod(s, q)
			inverses = append(inverses, inv, quotient(inv, q))
		}
		w = append(w, group...)
	}
	return append(w, inverses...)
}

// digits queues y and v of polys polynomials: len(from)+1 limbs each.
func (r *ring) digits(dst, src tensor, polys int, from []int, b basis) error {
	return launch(
		r, "basis_digits", polys*(r.n>>8), 1, 256, 0,
		digitArgs{args: between(dst, src), constants: b.at, sources: uint32(len(from))},
	)
}

// extend queues the limbs to of the integers whose digits are in y.
func (r *ring) extend(dst, y, src tensor, polys, digits int, to []int, b basis) error {
	return launch(r, "basis_extend", polys*(r.n>>8), groups(len(to)), 256, 0, basisArgs{
		args: between(dst, y), b: src.at, bs: src.stride,
		constants: b.targets, sources: uint32(digits), outputs: uint32(len(to)),
	})
}

func (r *ring) Extend(dst, src *cutrantt.Batch) error {
	if err := r.check.Extend(dst, src); err != nil {
		return err
	}
	return r.exec(func() error {
		polys, from, to := src.Polys(), src.Limbs(), dst.Limbs()
		if r.converts(len(from)) {
			c, err := r.extension(from, to)
			if err != nil {
				return err
			}
			return r.convertBasis(r.tensor(dst), r.tensor(src), polys, c)
		}
		b, err := r.basis(from, to, true)
		if err != nil {
			return err
		}
		y, release, err := r.scratch(polys, len(from)+1)
		if err != nil {
			return err
		}
		defer release()
		if err := r.digits(y, r.tensor(src), polys, from, b); err != nil {
			return err
		}
		return r.extend(r.tensor(dst), y, r.tensor(src), polys, len(from), to, b)
	}, dst, src)
}

func (r *ring) DivRound(dst, src *cutrantt.Batch) error {
	if err := r.check.DivRound(dst, src); err != nil {
		return err
	}
	err := r.exec(func() error { return r.divRound(dst, src) }, dst, src)
	if err == nil {
		dst.SetDomain(src.Domain())
	}
	return err
}

func (r *ring) divRound(dst, src *cutrantt.Batch) error {
	polys, keep, d := src.Polys(), dst.Limbs(), src.Domain()
	drop, x := src.Limbs()[len(keep):], r.tensor(src)
	rest := x.limb(len(keep), r.n)
	if d.NTT {
		item := divideItem{dst: r.tensor(dst), numbers: divideNumbers{galois: 1}, from: x}
		return r.divide([]divideItem{item}, []tensor{rest}, polys, drop, keep, int(d.N2))
	}
	e, release, err := r.scratch(polys, len(keep))
	if err != nil {
		return err
	}
	defer release()
	inverses, err := r.remainder(e, rest, polys, drop, keep)
	if err != nil {
		return err
	}
	return r.element("element_subscale", r.tensor(dst), x, e, polys, keep, inverses)
}

// remainder queues the limbs keep of the integers given by the limbs drop, and
// returns the factors that divide by the product of drop.
func (r *ring) remainder(dst, src tensor, polys int, drop, keep []int) (pointer, error) {
	if r.converts(len(drop)) {
		c, err := r.division(drop, keep)
		if err != nil {
			return 0, err
		}
		return c.inverses, r.convertBasis(dst, src, polys, c)
	}
	b, err := r.basis(drop, keep, false)
	if err != nil {
		return 0, err
	}
	y, release, err := r.scratch(polys, len(drop)+1)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := r.digits(y, src, polys, drop, b); err != nil {
		return 0, err
	}
	return b.inverses, r.extend(dst, y, tensor{}, polys, len(drop), keep, b)
}
