package cpu

import "math/bits"

// barrett reduces 64-bit sums modulo q.
type barrett struct {
	q    uint32 // odd, 2 < q < 2^30
	m    uint64 // floor(2^64/q)
	qinv uint64 // 1/q mod 2^64
}

func newBarrett(q uint32) barrett {
	inv := uint64(q) // right modulo 2^3; each step doubles the bits
	for range 5 {
		inv *= 2 - uint64(q)*inv
	}
	return barrett{q: q, m: ^uint64(0) / uint64(q), qinv: inv} // q is odd: 2^64-1 gives the same floor
}

// reduce is x mod q in [0, q), for any x. With h = floor(x*m/2^64) the
// remainder x - h*q is in [0, 2q), as x/q - x*m/2^64 < 1.
func (b *barrett) reduce(x uint64) uint32 {
	h, _ := bits.Mul64(x, b.m)
	return corr(uint32(x-h*uint64(b.q)), b.q)
}

// mul is x*y mod q in [0, q), for any x and y.
func (b *barrett) mul(x, y uint32) uint32 { return b.reduce(uint64(x) * uint64(y)) }

// pow is x^e mod q.
func (b *barrett) pow(x, e uint32) uint32 {
	r := uint32(1)
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r = b.mul(r, x)
		}
		x = b.mul(x, x)
	}
	return r
}

// inv is the inverse of x modulo the prime q.
func (b *barrett) inv(x uint32) uint32 { return b.pow(x, b.q-2) }

// corr brings x in [0, 2m) to [0, m), for m <= 2^31. It has no branch.
func corr(x, m uint32) uint32 { return min(x, x-m) }

// add is x+y mod q, both in [0, q).
func add(x, y, q uint32) uint32 { return corr(x+y, q) }

// sub is x-y mod q, both in [0, q).
func sub(x, y, q uint32) uint32 { d := x - y; return min(d, d+q) }

// neg is -x mod q, x in [0, q).
func neg(x, q uint32) uint32 { return corr(q-x, q) }

// half is x/2 mod q, x in [0, q), q odd.
func half(x, q uint32) uint32 { return (x + q&-(x&1)) >> 1 }

// factor is a constant w prepared for Plantard products ("Efficient Word Size
// Modular Arithmetic", 2021): (-w*2^64 mod q) * q^-1 mod 2^64. A product takes
// two multiplications where Shoup's takes three, and is fully reduced.
type factor uint64

// factor prepares w in [0, q).
func (b *barrett) factor(w uint32) factor {
	r := uint32(-b.m * uint64(b.q)) // 2^64 - q*floor(2^64/q) = 2^64 mod q
	return factor(uint64(neg(b.mul(w, r), b.q)) * b.qinv)
}

// neg is the factor of -w: the prepared residue becomes q minus itself.
func (f factor) neg() factor { return 1 - f }

// mul is x*w mod q in [0, q), for any x < 2^32.
//
// Let v = -w*2^64 mod q, so f = v/q mod 2^64, and T = x*f mod 2^64. Then T*q =
// x*v + k*2^64 with k = x*w mod q: k = -x*v/2^64 modulo q, and 0 <= k < q as
// x*v < 2^62 and T < 2^64. Replacing T by the next multiple of 2^32 adds at most
// 2^32*q <= 2^62 to T*q, so the quotient by 2^64 is still k.
func (f factor) mul(x uint32, q uint64) uint32 {
	return uint32((uint64(x)*uint64(f)>>32 + 1) * q >> 32)
}
