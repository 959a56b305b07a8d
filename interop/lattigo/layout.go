package lattigo

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/tuneinsight/lattigo/v6/ring"

	"github.com/hencedge/hencedge/cutrantt"
)

// ErrLayout: the lengths, the domain or the root of unity of a limb do not fit.
var ErrLayout = errors.New("lattigo: limb layout does not fit")

// Layout converts single limbs between the transposed transform domain ntt/n2
// and Lattigo's complete, bit-reversed transform of the same prime.
//
// Both run the same Longa-Naehrig levels; ours stop when blocks of n2
// coefficients are left and keep them transposed: coefficient c of block b
// (the polynomial modulo X^n2 - w_b) lies at c*n1 + b, n1 = N/n2. Lattigo's
// position is b*n2 + c before and the value's bit-reversed index after the
// last log2(n2) levels. The conversion is therefore a transposition followed
// by those levels, with Lattigo's own table of roots. It uses no arithmetic of
// hencedge, so that it can check it.
//
// A Layout is immutable and safe for concurrent use.
type Layout struct {
	sub  *ring.SubRing
	n2   int
	inv  uint64 // n2^-1 mod q in Montgomery form
	logN int
}

// NewLayout is the layout of limbs modulo the prime of sub with n2 in
// {1, 2, 4, 8, 16} columns. psi is our pinned 2N-th root of unity; it must be
// the one in Lattigo's table, or the two transforms differ: ErrLayout.
func NewLayout(sub *ring.SubRing, n2 int, psi uint32) (*Layout, error) {
	if !cutrantt.NTT(n2).Valid() || sub.N < 2*n2 || sub.Modulus >= cutrantt.MaxQ {
		return nil, fmt.Errorf("%w: n2 = %d, N = %d, q = %d", ErrLayout, n2, sub.N, sub.Modulus)
	}
	if got := RootOf(sub); got != uint64(psi) {
		return nil, fmt.Errorf("%w: root of unity modulo %d is %d here and %d in Lattigo", ErrLayout,
			sub.Modulus, psi, got)
	}
	q := sub.Modulus
	inv := ring.ModExp(uint64(n2), q-2, q)
	return &Layout{
		sub:  sub,
		n2:   n2,
		inv:  ring.MForm(inv, q, sub.BRedConstant),
		logN: bits.Len(uint(sub.N)) - 1,
	}, nil
}

// RootOf is the primitive 2N-th root of unity psi = g^((q-1)/2N) that Lattigo's
// transform of sub uses, in [0, q); g is the smallest primitive root >= 3.
func RootOf(sub *ring.SubRing) uint64 {
	// RootsForward[brv(j)] = psi^j in Montgomery form, and brv(1) = N/2.
	return ring.IMForm(sub.RootsForward[sub.N/2], sub.Modulus, sub.MRedConstant)
}

// ToLattigo writes the limb src (domain ntt/n2, order col*n1+row, residues in
// [0, q)) to dst in Lattigo's order. Both have length N.
func (l *Layout) ToLattigo(dst []uint64, src []uint32) error {
	n, n1 := l.sub.N, l.sub.N/l.n2
	if len(dst) != n || len(src) != n {
		return fmt.Errorf("%w: %d and %d residues, want %d", ErrLayout, len(dst), len(src), n)
	}
	q := l.sub.Modulus
	for c := range l.n2 {
		for b, v := range src[c*n1 : (c+1)*n1] {
			if uint64(v) >= q {
				return fmt.Errorf("%w: residue %d at row %d, column %d is not below %d", cutrantt.ErrRange, v, b, c, q)
			}
			dst[b*l.n2+c] = uint64(v)
		}
	}
	// Level with m groups of 2t coefficients: X^2t - w^2 = (X^t - w)(X^t + w)
	// with w = RootsForward[m+i]. Values stay in [0, q).
	for m, t := n1, l.n2/2; t >= 1; m, t = 2*m, t/2 {
		for i := range m {
			w := l.sub.RootsForward[m+i]
			for j := 2 * t * i; j < 2*t*i+t; j++ {
				v := ring.MRed(dst[j+t], w, q, l.sub.MRedConstant)
				dst[j], dst[j+t] = ring.CRed(dst[j]+v, q), ring.CRed(dst[j]+q-v, q)
			}
		}
	}
	return nil
}

// FromLattigo is the inverse of ToLattigo: src in Lattigo's order (residues in
// [0, q)) to dst in ntt/n2. src is not modified.
func (l *Layout) FromLattigo(dst []uint32, src []uint64) error {
	n, n1 := l.sub.N, l.sub.N/l.n2
	if len(dst) != n || len(src) != n {
		return fmt.Errorf("%w: %d and %d residues, want %d", ErrLayout, len(dst), len(src), n)
	}
	q := l.sub.Modulus
	block := make([]uint64, l.n2)
	for b := range n1 {
		copy(block, src[b*l.n2:])
		for c, v := range block {
			if v >= q {
				return fmt.Errorf("%w: residue %d at position %d is not below %d", cutrantt.ErrRange, v, b*l.n2+c, q)
			}
		}
		// The levels of ToLattigo backwards, inside one block; each leaves a
		// factor of 2, n2 in all. In the whole limb group i of the block is
		// group b*(n2/2t)+i of the n1*(n2/2t) at this level.
		for t := 1; t < l.n2; t *= 2 {
			groups := l.n2 / (2 * t)
			for i := range groups {
				w := l.sub.RootsBackward[n1*groups+b*groups+i]
				for j := 2 * t * i; j < 2*t*i+t; j++ {
					u, v := block[j], block[j+t]
					block[j], block[j+t] = ring.CRed(u+v, q), ring.MRed(u+q-v, w, q, l.sub.MRedConstant)
				}
			}
		}
		for c, v := range block {
			dst[c*n1+b] = uint32(ring.MRed(v, l.inv, q, l.sub.MRedConstant))
		}
	}
	return nil
}
