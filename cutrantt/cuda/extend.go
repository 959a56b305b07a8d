package cuda

import "slices"

// conversion is the constants of one or more changes of basis that run in one
// launch of kernels/extend.cu, where their layout is described.
type conversion struct {
	at             pointer
	words          int // of all of them
	stride         int // words of each
	chunks, groups int // of 8 source limbs and of 8 outputs, the most of any
	count          int
	// inverses are the Shoup factors of S^-1 modulo each output of the first.
	inverses pointer
}

// part is one change of basis. The source has the moduli from, its first limb at
// position first of the source batch. Output j has modulus to[j] and lies at
// limb place[j] of the destination; source limb i is also copied to limb
// copies[i] unless that is negative (nil: no copies).
type part struct {
	from         []int
	first        int
	to, place    []int
	copies       []int
	withInverses bool
}

// most is the most source limbs of a conversion; v is the 32nd.
const mostConverted = 31

// converts reports whether the tensor cores do a conversion of so many limbs.
func (r *ring) converts(limbs int) bool { return r.backend.tensor && limbs <= mostConverted }

// conversion puts the constants of the parts on the device, once for each key.
func (r *ring) conversion(key []byte, parts func() []part) (conversion, error) {
	if c, ok := r.conversions[string(key)]; ok {
		return c, nil
	}
	ps := parts()
	c := conversion{count: len(ps)}
	for _, p := range ps {
		c.chunks = max(c.chunks, (len(p.from)+8)/8)
		c.groups = max(c.groups, groups(len(p.to)))
	}
	c.stride = 4 + 8*c.chunks*(4+2) + c.groups*groupWords(c.chunks)
	var w, inverses []uint32
	for _, p := range ps {
		w = append(w, r.conversionWords(p, c)...)
		if p.withInverses {
			for _, l := range p.to {
				q := r.check.Moduli()[l].Q
				inv := invMod(r.product(p.from, q, -1), q)
				inverses = append(inverses, inv, quotient(inv, q))
			}
		}
	}
	at, err := r.constant(append(w, inverses...))
	if err != nil {
		return c, err
	}
	c.at, c.words, c.inverses = at, len(w)+len(inverses), at+pointer(4*len(w))
	r.conversions[string(key)] = c
	return c, nil
}

// product is the product of the moduli of limbs modulo q, without the one at skip.
func (r *ring) product(limbs []int, q uint32, skip int) uint32 {
	p := uint32(1)
	for i, l := range limbs {
		if i != skip {
			p = mulMod(p, r.check.Moduli()[l].Q%q, q)
		}
	}
	return p
}

func (r *ring) conversionWords(p part, c conversion) []uint32 {
	moduli := r.check.Moduli()
	const none = ^uint32(0)
	w := make([]uint32, 0, c.stride)
	w = append(w, uint32(len(p.from)), uint32(p.first), uint32(groups(len(p.to))), 0)
	for i := range 8 * c.chunks {
		if i >= len(p.from) {
			w = append(w, 0, 0, 0, none)
			continue
		}
		q, to := moduli[p.from[i]].Q, none
		if p.copies != nil && p.copies[i] >= 0 {
			to = uint32(p.copies[i])
		}
		scale := invMod(r.product(p.from, q, i), q)
		w = append(w, scale, quotient(scale, q), q, to)
	}
	for i := range 8 * c.chunks {
		var round uint64
		if i < len(p.from) {
			round = (1 << 56) / uint64(moduli[p.from[i]].Q)
		}
		w = append(w, uint32(round), uint32(round>>32))
	}
	for first := 0; first < len(p.to); first += basisGroup {
		w = r.groupConstants(w, p, first, c.chunks)
	}
	return append(w, make([]uint32, c.stride-len(w))...)
}

// groupWords is the length of the constants of a group of 8 outputs.
func groupWords(chunks int) int { return 8*(4+2) + chunks*2*32*4 }

// groupConstants appends the constants of the outputs of p from first on.
func (r *ring) groupConstants(w []uint32, p part, first, chunks int) []uint32 {
	const none = ^uint32(0)
	var q [basisGroup]uint32 // 0 beyond the outputs
	for j := range q {
		if first+j < len(p.to) {
			q[j] = r.check.Moduli()[p.to[first+j]].Q
		}
	}
	for _, q := range q {
		if q == 0 {
			w = append(w, 0, 0, 0, 0)
			continue
		}
		weight := uint32(1<<16) % q
		w = append(w, -q, weight, quotient(weight, q), quotient(1, q))
	}
	for j, q := range q {
		place := none
		if q != 0 {
			place = uint32(p.place[first+j])
		}
		w = append(w, -(2 * q), place)
	}
	// matrix[j][i] are the factors of limb i, of v, and zeros.
	var matrix [basisGroup][]uint32
	for j, q := range q {
		matrix[j] = make([]uint32, 8*chunks)
		if q == 0 {
			continue
		}
		for i := range p.from {
			matrix[j][i] = r.product(p.from, q, i)
		}
		matrix[j][len(p.from)] = (q - r.product(p.from, q, -1)) % q
	}
	for chunk := range chunks {
		for tile := range 2 {
			for lane := range 32 {
				j, i := lane/4, 8*chunk+lane%4
				for _, limb := range []int{i, i + 4} {
					w = append(w, bytesRow(matrix[j][limb], 2*tile, q[j]), bytesRow(matrix[j][limb], 2*tile+1, q[j]))
				}
			}
		}
	}
	return w
}

// bytesRow is byte d of f*2^(8b) mod q, for b = 0, ..., 3 in the bytes of a word.
func bytesRow(f uint32, d int, q uint32) uint32 {
	var w uint32
	for b := range 4 {
		if f == 0 {
			break
		}
		w |= (mulMod(f, uint32(1<<(8*b)), q) >> (8 * d) & 0xff) << (8 * b)
	}
	return w
}

// convertBasis queues all parts of c for polys polynomials.
func (r *ring) convertBasis(dst, src tensor, polys int, c conversion) error {
	blocks := polys * (r.n >> 8)
	group := 4 * groupWords(c.chunks)
	least := (c.groups*group + mostGroups - 1) / mostGroups // of shared memory
	shares := max(min(fillBlocks/(blocks*c.count), c.groups), least, 1)
	shared := (c.groups + shares - 1) / shares * group
	return launch(r, numbered("extend", c.chunks), blocks, c.count*shares, 256, shared, extendArgs{
		args: between(dst, src), conversions: c.at, words: uint32(c.stride), shares: uint32(shares),
	})
}

// limbsKey appends lists of limbs to a key.
func limbsKey(key []byte, lists ...[]int) []byte {
	for _, list := range lists {
		key = append(key, byte(len(list)), byte(len(list)>>8))
		for _, l := range list {
			key = append(key, byte(l), byte(l>>8))
		}
	}
	return key
}

// extension is the conversion of Extend: outputs that are also in from are
// copied.
func (r *ring) extension(from, to []int) (conversion, error) {
	return r.conversion(limbsKey([]byte{'e'}, from, to), func() []part {
		p := part{from: from, copies: make([]int, len(from))}
		for i := range p.copies {
			p.copies[i] = slices.Index(to, from[i])
		}
		for j, l := range to {
			if !slices.Contains(from, l) {
				p.to, p.place = append(p.to, l), append(p.place, j)
			}
		}
		return []part{p}
	})
}

// division is the conversion of DivRound, with the inverses of the divisor.
func (r *ring) division(drop, keep []int) (conversion, error) {
	return r.conversion(limbsKey([]byte{'d'}, drop, keep), func() []part {
		return []part{{from: drop, to: keep, place: sequence(len(keep)), withInverses: true}}
	})
}

// sequence is 0, 1, ..., n-1.
func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}
