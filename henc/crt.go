package henc

import (
	"math"
	"math/big"
	"math/bits"
	"sync"
)

// crtTable reconstructs centred integers from residues modulo the primes q. Its
// tables are made on first use.
type crtTable struct {
	q    []uint32
	once sync.Once

	m     []uint64    // floor((2^64-1)/q_i), for mod
	k     int         // primes in the short form, min(4, len(q))
	inv   [4]uint64   // inv[j] = (q_0...q_(j-1))^-1 mod q_j
	place [][5]uint64 // place[i][j] = q_0...q_(j-1) mod q_i for j < k, place[i][4] = -q_0...q_(k-1) mod q_i
	whole [2]uint64   // q_0...q_(k-1) < 2^120, low word first
	long  sync.Once   // makes what follows
	prod  *big.Int    // Q
	half  *big.Int    // (Q-1)/2
	co    []*big.Int  // Q/q_i
	coInv []uint64    // (Q/q_i)^-1 mod q_i
}

const crtBlock = 256

func (t *crtTable) init() {
	t.k = min(4, len(t.q))
	for _, q := range t.q {
		t.m = append(t.m, math.MaxUint64/uint64(q))
	}
	t.place = make([][5]uint64, len(t.q))
	for i, q := range t.q {
		m, p := uint64(q), uint64(1)
		for j := range t.k {
			if i == j {
				t.inv[j] = inverseMod(p, q)
			}
			t.place[i][j] = p
			p = p * uint64(t.q[j]) % m
		}
		t.place[i][4] = (m - p) % m
	}
	w := product(t.q[:t.k])
	t.whole[0] = new(big.Int).And(w, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	t.whole[1] = new(big.Int).Rsh(w, 64).Uint64()
}

// centred sets out[j], j < n, to the centred integer with residues
// x[i*n+j] mod q_i, rounded to float64; beyond float64 it gives an infinity.
//
// Messages are far smaller than Q, so the integer is first taken from at most
// four primes by mixed radix, x = d_0 + q_0*(d_1 + q_1*(d_2 + q_2*d_3)), and
// compared with the remaining residues. When all agree it is the answer, because
// centred integers below Q/2 are determined by their residues; otherwise the
// integer is put together from all primes.
func (t *crtTable) centred(out []float64, x []uint32) {
	t.once.Do(t.init)
	var d [4][crtBlock]uint64
	var neg [crtBlock]uint64 // 1: the integer is the mixed radix value less whole
	n := len(out)
	for at := 0; at < n; at += crtBlock {
		size := min(crtBlock, n-at)
		for j := range t.k {
			q, m, row := uint64(t.q[j]), t.m[j], x[j*n+at:][:size]
			if j == 0 {
				for c, v := range row {
					d[0][c] = uint64(v)
				}
				continue
			}
			p, inv := &t.place[j], t.inv[j]
			for c, v := range row {
				s := d[0][c] // the digits below, mod q
				if j > 1 {
					s += d[1][c] * p[1]
				}
				if j > 2 {
					s += d[2][c] * p[2] // < 2^62
				}
				d[j][c] = mod((uint64(v)+q-mod(s, q, m))*inv, q, m)
			}
		}
		for c := range size {
			out[at+c], neg[c] = t.short(d[0][c], d[1][c], d[2][c], d[3][c])
		}
		for i := t.k; i < len(t.q); i++ {
			q, m, p, row := uint64(t.q[i]), t.m[i], &t.place[i], x[i*n+at:][:size]
			for c, v := range row {
				s := d[0][c] + d[1][c]*p[1] + d[2][c]*p[2] + d[3][c]*p[3] + neg[c]*p[4] // < 2^62
				if mod(s, q, m) != uint64(v) {
					neg[c] = notShort
				}
			}
		}
		for c := range size {
			if neg[c] == notShort {
				out[at+c] = t.reconstruct(x, at+c, n)
			}
		}
	}
}

// mod is x mod q for any x, with m = floor((2^64-1)/q): the estimate of the quotient
// is at most one too small.
func mod(x, q, m uint64) uint64 {
	h, _ := bits.Mul64(x, m)
	r := x - h*q
	return min(r, r-q)
}

// notShort marks an integer that the first primes alone do not give.
const notShort = 2

// short is the centred integer with the given mixed radix digits, rounded to
// float64, and 1 where it is negative.
func (t *crtTable) short(d0, d1, d2, d3 uint64) (float64, uint64) {
	hi, lo := uint64(0), d3
	for j, d := range [3]uint64{d2, d1, d0} {
		if 2-j >= len(t.q) {
			continue // the digits above are zero
		}
		q := uint64(t.q[2-j])
		h, l := bits.Mul64(lo, q)
		var carry uint64
		lo, carry = bits.Add64(l, d, 0)
		hi = hi*q + h + carry // below 2^56: the value is below 2^120
	}
	halfHi, halfLo := t.whole[1]>>1, t.whole[1]<<63|t.whole[0]>>1
	if hi < halfHi || hi == halfHi && lo <= halfLo {
		return float128(hi, lo), 0
	}
	lo, borrow := bits.Sub64(t.whole[0], lo, 0)
	hi, _ = bits.Sub64(t.whole[1], hi, borrow)
	return -float128(hi, lo), 1
}

// float128 is hi*2^64 + lo rounded to the nearest float64, ties to even.
func float128(hi, lo uint64) float64 {
	if hi == 0 {
		return float64(lo)
	}
	s := bits.LeadingZeros64(hi)
	top := hi<<s | lo>>1>>(63-s)
	if lo<<s != 0 {
		top |= 1 // sticky: below the rounding position, which is bit 10
	}
	return math.Ldexp(float64(top), 64-s)
}

// reconstruct is the centred integer with residues x[i*n+j] mod q_i, from all
// primes: with y_i = x_i*(Q/q_i)^-1 mod q_i it is the sum of y_i*Q/q_i modulo Q.
func (t *crtTable) reconstruct(x []uint32, j, n int) float64 {
	t.long.Do(t.initLong)
	sum, term, y := new(big.Int), new(big.Int), new(big.Int)
	for i, q := range t.q {
		y.SetUint64(uint64(x[i*n+j]) * t.coInv[i] % uint64(q))
		sum.Add(sum, term.Mul(t.co[i], y))
	}
	sum.Mod(sum, t.prod)
	if sum.Cmp(t.half) > 0 {
		sum.Sub(sum, t.prod)
	}
	f, _ := new(big.Float).SetInt(sum).Float64()
	return f
}

func (t *crtTable) initLong() {
	t.prod = product(t.q)
	t.half = new(big.Int).Rsh(t.prod, 1)
	for _, q := range t.q {
		m := new(big.Int).SetUint64(uint64(q))
		co := new(big.Int).Div(t.prod, m)
		t.co = append(t.co, co)
		t.coInv = append(t.coInv, inverseMod(new(big.Int).Mod(co, m).Uint64(), q))
	}
}

// inverseMod is a^-1 modulo the prime q, a not 0 mod q.
func inverseMod(a uint64, q uint32) uint64 {
	return uint64(powMod(uint32(a%uint64(q)), uint64(q)-2, q))
}
