package cpu

import "math/bits"

// barrett reduces 64-bit sums modulo q.
type barrett struct {
	q uint32 // 2 < q < 2^30
	m uint64 // floor(2^64/q)
}

func newBarrett(q uint32) barrett {
	return barrett{q: q, m: ^uint64(0) / uint64(q)} // q is odd, so 2^64-1 gives the same floor
}

// reduce is x mod q in [0, q), for any x. With h = floor(x*m/2^64) the
// remainder x - h*q is in [0, 2q), as x/q - x*m/2^64 < 1.
func (b *barrett) reduce(x uint64) uint32 {
	h, _ := bits.Mul64(x, b.m)
	return corr(uint32(x-h*uint64(b.q)), b.q)
}

// mul is x*y mod q in [0, q), for x*y < 2^64.
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

// corr brings x in [0, 2m) to [0, m), for m <= 2^31.
func corr(x, m uint32) uint32 { return min(x, x-m) }

// add is x+y mod q, both in [0, q).
func add(x, y, q uint32) uint32 { return corr(x+y, q) }

// sub is x-y mod q, both in [0, q).
func sub(x, y, q uint32) uint32 { d := x - y; return min(d, d+q) }

// neg is -x mod q, x in [0, q).
func neg(x, q uint32) uint32 { return corr(q-x, q) }

// half is x/2 mod q, x in [0, q), q odd.
func half(x, q uint32) uint32 { return (x + q&-(x&1)) >> 1 }

// shoup is a constant factor with its precomputed quotient.
type shoup struct {
	w uint32 // in [0, q)
	s uint32 // floor(w*2^32/q)
}

func newShoup(w, q uint32) shoup { return shoup{w: w, s: uint32(uint64(w) << 32 / uint64(q))} }

// neg is the factor -c, for c.w != 0: w*2^32/q is never integral.
func (c shoup) neg(q uint32) shoup { return shoup{w: q - c.w, s: ^c.s} }

// mulLazy is x*c mod q in [0, 2q), for any x < 2^32 (Shoup; Harvey, section 2):
// the estimated quotient is short by at most one.
func mulLazy(x uint32, c shoup, q uint32) uint32 {
	h := uint32(uint64(x) * uint64(c.s) >> 32)
	return x*c.w - h*q
}

// mulShoup is x*c mod q in [0, q), for any x < 2^32.
func mulShoup(x uint32, c shoup, q uint32) uint32 { return corr(mulLazy(x, c, q), q) }
