package cpu

import "github.com/hencedge/hencedge/cutrantt"

func (r *ring) Automorphism(dst, a *cutrantt.Batch, g uint64) error {
	if err := r.check.Galois(dst, a, g); err != nil {
		return err
	}
	d, limbs := a.Domain(), dst.Limbs()
	n2 := int(d.N2)
	if !d.NTT {
		r.eachLimb(dst.Polys(), len(limbs), 2*r.n, func(p, l int) {
			permuteCoeffs(r.limb(dst, p, l), r.limb(a, p, l), n2, int(g), r.moduli[limbs[l]].q)
		})
	} else {
		if n2 == 1 && r.vec != nil {
			t := r.turn(g)
			r.eachLimb(dst.Polys(), len(limbs), r.n, func(p, l int) { t.apply(r, r.limb(dst, p, l), r.limb(a, p, l)) })
			dst.SetDomain(d)
			return nil
		}
		buf := getScratch(r.n / n2)
		defer buf.putPublic()
		idx := newGaloisIndex(buf.words, r.n, n2, int(g))
		r.eachLimb(dst.Polys(), len(limbs), 2*r.n, func(p, l int) {
			m := r.moduli[limbs[l]]
			idx.permute(r.limb(dst, p, l), r.limb(a, p, l), m.twiddles(r.n/n2), m.q)
		})
	}
	dst.SetDomain(d)
	return nil
}

// permuteCoeffs moves coefficient k to k*g mod N. It negates the coefficient where k*g
// mod 2N is N or more, since X^N = -1. Column c goes to column g*c mod n2.
func permuteCoeffs(dst, src []uint32, n2, g int, q uint32) {
	n := len(src)
	n1, shift, logN := n/n2, log2(n2), log2(n)
	step := g * n2 & (2*n - 1)
	for c := range n2 {
		e := g * c & (2*n - 1)
		to := dst[e%n2*n1:][:n1]
		for _, x := range src[c*n1 : (c+1)*n1] {
			turn := -uint32(e >> logN) // 0 or 2^32-1
			to[(e&(n-1))>>shift] = x ^ turn&(x^neg(x, q))
			e = (e + step) & (2*n - 1)
		}
	}
}

// galoisIndex describes X -> X^g on blocks. It holds for every modulus.
//
// Let w_b = psi^(n2*(2*brv(b)+1)). The block of f(X^g) modulo X^n2 - w_b is F_b'(X^g),
// where b' is the block with w_b' = w_b^g. In it X^(g*j) = w_b^floor(g*j/n2) * X^(g*j mod n2).
type galoisIndex struct {
	n1, n2, g int
	from      []uint32 // from[b] = b'
}

// newGaloisIndex returns the index, which has n/n2 words.
func newGaloisIndex(words []uint32, n, n2, g int) *galoisIndex {
	n1 := n / n2
	k := log2(n1)
	idx := &galoisIndex{n1: n1, n2: n2, g: g, from: words}
	for b := range idx.from {
		o := 2*reverse(uint32(b), k) + 1
		idx.from[b] = reverse(o*uint32(g)&uint32(2*n1-1)>>1, k)
	}
	return idx
}

// permute needs n1 entries of the twiddle table t.
func (x *galoisIndex) permute(dst, src []uint32, t []factor, q uint32) {
	n1, k := x.n1, log2(x.n1)
	from := x.from
	for j := range x.n2 {
		col := src[j*n1 : (j+1)*n1]
		to := dst[x.g*j%x.n2*n1:][:n1]
		if j == 0 {
			for b, f := range from {
				to[b] = col[f]
			}
			continue
		}
		// The factor w_b^e is psi^(n2*s), s = (2*brv(b)+1)*e mod 2*n1, and
		// psi^(n2*s) = t[brv(s)] for s < n1, -t[brv(s-n1)] above.
		e := uint32(x.g * j / x.n2)
		for b, f := range from {
			s := (2*reverse(uint32(b), k) + 1) * e & uint32(2*n1-1)
			turn := -(s >> k)
			y := t[reverse(s&uint32(n1-1), k)].mul(col[f], uint64(q))
			to[b] = y ^ turn&(y^neg(y, q))
		}
	}
}

// turn is galoisIndex for n2 = 1, in blocks of 16 words.
//
// Let b = 16*B + l. The odd number o = 2*brv(b) + 1 is 2*brv(B) + 1 plus brv(l) times a
// 16th of its range. So o*g maps a block onto one block: block B takes its words from one
// other block, in an order that depends only on l and the upper bits of o*g.
type turn struct {
	from  []uint32 // block, 16 times, plus the number of its order
	lanes [16 * 16]uint32
}

func newTurn(n, g int) *turn {
	k := log2(n)
	t := &turn{from: make([]uint32, n/16)}
	for c := range uint32(16) {
		for l := range uint32(16) {
			t.lanes[16*c+l] = reverse((c+reverse(l, 4)*uint32(g))&15, 4)
		}
	}
	for b := range t.from {
		o := 2*reverse(uint32(b), k-4) + 1
		e := o * uint32(g) & uint32(2*n-1) >> 1
		t.from[b] = reverse(e&uint32(n/16-1), k-4)<<4 | e>>(k-4)
	}
	return t
}

// turn returns what newTurn makes, and keeps it for the next call.
func (r *ring) turn(g uint64) *turn {
	return r.turns.get(shape{keep: int(g)}, func() *turn { return newTurn(r.n, int(g)) })
}

func (t *turn) apply(r *ring, dst, src []uint32) {
	r.vec.permute(&dst[0], &src[0], &t.from[0], &t.lanes[0], len(t.from))
}
