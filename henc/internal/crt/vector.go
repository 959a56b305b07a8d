package crt

import (
	"math/big"

	"github.com/hencedge/hencedge/internal/taint"
)

//go:generate go run -C ../../../cutrantt/cpu/_asm ./arm64 -out ../../../henc/internal/crt/zvector_arm64.s -stubs ../../../henc/internal/crt/zvector_arm64.go -pkg crt

// code is one variant of vector code; t is a vectorTable's constants.
type code struct {
	name string
	// short sets out to the integers with residues x0...x3, n a multiple of lanes, and d
	// to their four digits and signs for check, in an order that these two agree on.
	short func(out *float64, d *uint64, x0, x1, x2, x3 *uint32, n int, t *uint64)
	// check ors to bad what differs between the residues x and those of d.
	check func(bad, d *uint64, x *uint32, n int, t *uint64)
}

// lanes is the widest vector: sizes are multiples of it.
const lanes = 8

// Constants of short, by index.
const (
	shortDigits = 0  // c_ji for i <= j, j = 1, 2, 3
	shortQ      = 9  // q_1, q_2, q_3
	shortNegInv = 12 // -q_j^-1 mod 2^32
	shortPlaces = 15 // q_0; q_0*q_1 and q_0*q_1*q_2 in parts of 30 bits, low part first
	shortHalf   = 21 // (whole-1)/2 in four parts of 30 bits
	shortWhole  = 25 // whole likewise
	shortMask   = 29 // 2^30-1
	shortTwo112 = 30 // the float64 numbers 2^112, 2^82 and 2^52
	shortExp30  = 33 // 30 in the place of an exponent
	shortSign   = 34 // the sign of a float64
	shortConsts = 35
)

// Constants of check, by index: the places and -whole modulo q, times 2^32; q;
// -q^-1 mod 2^32.
const (
	checkPlaces = 0
	checkQ      = 5
	checkNegInv = 6
	checkConsts = 8 // a multiple of 4: vectors are loaded whole
)

// vectorTable has the constants of the vector code. Digit j of the mixed radix is
//
//	d_j = (x_j - (d_0 + d_1*q_0 + ...)) * (q_0...q_(j-1))^-1 mod q_j
//
// and so a sum of x_j and the digits before it, each times a constant: x_j*c_jj +
// sum over i < j of d_i*c_ji. The constants hold a factor 2^32, which a Montgomery
// reduction of the sum takes away (P. Montgomery, Modular multiplication without
// trial division, 1985): factors below 2^30 and at most four terms leave the sum below
// 2^32*q_j and what the reduction gives below 2*q_j.
//
// Primes that are not there have the constants 0: their digits are 0.
type vectorTable struct {
	short [shortConsts]uint64
	check [][checkConsts]uint64 // of primes k, k+1, ...
}

func newVectorTable(t *Table) *vectorTable {
	v := &vectorTable{check: make([][checkConsts]uint64, len(t.q)-t.k)}
	s := &v.short
	at := shortDigits
	for j := 1; j < 4; j++ {
		q := t.q[min(j, t.k-1)]
		s[shortQ+j-1], s[shortNegInv+j-1] = uint64(q), negInverse32(q)
		for i := range j + 1 {
			if j < t.k {
				c := t.inv[j]
				if i < j {
					c = (uint64(q) - c) * t.place[j][i] % uint64(q)
				}
				s[at] = c << 32 % uint64(q)
			}
			at++
		}
	}
	parts := func(at, count int, x *big.Int) {
		for i := range count {
			s[at+i] = new(big.Int).Rsh(x, uint(30*i)).Uint64() & (1<<30 - 1)
		}
	}
	for at, j := shortPlaces, 1; j < 4; j++ {
		if j < t.k {
			parts(at, j, product(t.q[:j]))
		}
		at += j
	}
	whole := product(t.q[:t.k])
	parts(shortWhole, 4, whole)
	parts(shortHalf, 4, new(big.Int).Rsh(whole, 1))
	s[shortMask] = 1<<30 - 1
	for i, e := range []uint64{112, 82, 52} {
		s[shortTwo112+i] = (1023 + e) << 52
	}
	s[shortExp30], s[shortSign] = 30<<52, 1<<63
	for i := t.k; i < len(t.q); i++ {
		c, q := &v.check[i-t.k], uint64(t.q[i])
		for j, p := range t.place[i] {
			c[checkPlaces+j] = p << 32 % q
		}
		c[checkQ], c[checkNegInv] = q, negInverse32(t.q[i])
	}
	return v
}

// negInverse32 is -q^-1 mod 2^32 for odd q.
func negInverse32(q uint32) uint64 {
	x := q // right in the lowest three bits; every step doubles them
	for range 4 {
		x *= 2 - q*x
	}
	return uint64(-x)
}

// vectorBlock is genericBlock for sizes that are multiples of lanes. It reports
// whether out is right: false if one of the integers needs all primes.
func (t *Table) vectorBlock(c *code, d *digits, out []float64, x []uint32, at, size int) bool {
	n := len(out)
	var row [4]*uint32
	for j := range row {
		row[j] = &x[min(j, t.k-1)*n+at]
	}
	c.short(&out[at], &d.d[0][0], row[0], row[1], row[2], row[3], size, &t.vec.short[0])
	d.bad = 0
	for i := range t.vec.check {
		c.check(&d.bad, &d.d[0][0], &x[(t.k+i)*n+at], size, &t.vec.check[i][0])
	}
	return taint.Outcome(d.bad == 0)
}
