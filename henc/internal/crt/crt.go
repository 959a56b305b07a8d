// Package crt reconstructs centred integers from their residues modulo many primes
// and rounds them to float64: the step of decoding between the inverse transform and
// the embedding. Plain Go and vector code give the same bits.
package crt

import (
	"math"
	"math/big"
	"math/bits"
	"sync"

	"github.com/hencedge/hencedge/internal/taint"
)

// Table reconstructs from residues modulo the primes q. It is safe for concurrent use.
type Table struct {
	q    []uint32
	once sync.Once

	m     []uint64     // floor((2^64-1)/q_i), for mod
	k     int          // primes in the short form, min(4, len(q))
	inv   [4]uint64    // inv[j] = (q_0...q_(j-1))^-1 mod q_j
	place [][5]uint64  // place[i][j] = q_0...q_(j-1) mod q_i for j < k, place[i][4] = -q_0...q_(k-1) mod q_i
	vec   *vectorTable // constants, for plain Go too
	long  sync.Once    // makes what follows
	prod  *big.Int     // Q
	half  *big.Int     // (Q-1)/2
	co    []*big.Int   // Q/q_i
	coInv []uint64     // (Q/q_i)^-1 mod q_i
}

// block is how many integers are reconstructed at a time.
const block = 256

// New is the table of at least one distinct odd primes below 2^30. Its contents are
// made by the first call of Centred.
func New(q []uint32) *Table { return &Table{q: q} }

func (t *Table) init() {
	t.k = min(4, len(t.q))
	for _, q := range t.q {
		t.m = append(t.m, math.MaxUint64/uint64(q))
	}
	t.place = make([][5]uint64, len(t.q))
	for i, q := range t.q {
		m, p := uint64(q), uint64(1)
		for j := range t.k {
			if i == j {
				t.inv[j] = inverse(p, q)
			}
			t.place[i][j] = p
			p = p * uint64(t.q[j]) % m
		}
		t.place[i][4] = (m - p) % m
	}
	t.vec = newVectorTable(t)
}

// Centred sets out[j], j < n, to the integer of least magnitude with residues
// x[i*n+j] < q_i modulo q_i, rounded to float64, ties to even; beyond float64 it gives
// an infinity, which needs a product of the primes of more than 1024 bits.
//
// Messages are far smaller than Q, so the integer is first taken from at most
// four primes by mixed radix, x = d_0 + q_0*(d_1 + q_1*(d_2 + q_2*d_3)), and
// compared with the remaining residues. When all agree it is the answer, because
// centred integers below Q/2 are determined by their residues; otherwise the
// integer is put together from all primes. No branch and no address depends on the
// residues of integers below half the product of the first four primes.
func (t *Table) Centred(out []float64, x []uint32) { t.centred(selected(), out, x) }

// centred is Centred with the given vector code, nil for plain Go.
func (t *Table) centred(c *code, out []float64, x []uint32) {
	t.once.Do(t.init)
	n := len(out)
	d := free.Get().(*digits)
	defer func() {
		*d = digits{}
		free.Put(d)
	}()
	for at := 0; at < n; at += block {
		size := min(block, n-at)
		if c == nil || size%lanes != 0 || !t.vectorBlock(c, d, out, x, at, size) {
			t.genericBlock(d, out, x, at, size)
		}
	}
}

// digits is working memory: the four mixed radix digits of the integers of a block,
// and all ones for the negative ones. It holds secrets, so it is wiped after use.
type digits struct {
	d   [4][block]uint64
	neg [block]uint64
	bad uint64
}

// free holds *digits that are zero.
var free = sync.Pool{New: func() any { return new(digits) }}

// genericBlock is Centred for out[at:at+size], size <= block.
func (t *Table) genericBlock(w *digits, out []float64, x []uint32, at, size int) {
	d, neg := &w.d, &w.neg
	n := len(out)
	for j := t.k; j < len(d); j++ {
		clear(d[j][:])
	}
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
	var wrong [block]uint64 // not 0: the first primes alone do not give the integer
	var differences uint64
	for i := t.k; i < len(t.q); i++ {
		q, m, p, row := uint64(t.q[i]), t.m[i], &t.place[i], x[i*n+at:][:size]
		for c, v := range row {
			s := d[0][c] + d[1][c]*p[1] + d[2][c]*p[2] + d[3][c]*p[3] + neg[c]&p[4] // < 2^62
			differs := mod(s, q, m) ^ uint64(v)
			wrong[c] |= differs
			differences |= differs
		}
	}
	if taint.Outcome(differences == 0) {
		return
	}
	for c := range size {
		if wrong[c] != 0 {
			out[at+c] = t.reconstruct(x, at+c, n)
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

// short is the centred integer with the given mixed radix digits, rounded to
// float64, and all ones where it is negative, else 0. It is the arithmetic of the
// vector code: parts of 30 bits and no branch on them.
func (t *Table) short(d0, d1, d2, d3 uint64) (float64, uint64) {
	const mask = 1<<30 - 1
	s := &t.vec.short
	low := d0 + d1*s[shortPlaces] + d2*s[shortPlaces+1] + d3*s[shortPlaces+3] // < 2^62
	mid := d2*s[shortPlaces+2] + d3*s[shortPlaces+4] + low>>30
	high := d3*s[shortPlaces+5] + mid>>30
	v := [4]uint64{low & mask, mid & mask, high & mask, high >> 30}
	_, neg := less((*[4]uint64)(s[shortHalf:]), &v)
	rest, _ := less((*[4]uint64)(s[shortWhole:]), &v)
	for i := range v {
		v[i] ^= (v[i] ^ rest[i]) & neg
	}
	return round(&v, neg), neg
}

// less is a - v in parts of 30 bits, low part first, and all ones where it is
// negative, else 0.
func less(a, v *[4]uint64) (parts [4]uint64, negative uint64) {
	for i := range v {
		d := a[i] - v[i] + negative // all ones is -1, the borrow
		negative = uint64(int64(d) >> 63)
		parts[i] = d & (1<<30 - 1)
	}
	return parts, negative
}

// round is the number with the given parts of 30 bits, low part first, and the sign
// neg, rounded to the nearest float64, ties to even.
//
// Of a number of 90 bits or more the lowest part only says that it is not 0: 2^30 is
// below half of the last place. Three parts a, b and c are left. As float64 they are
// exact, and so are a*2^60 + b*2^30 = s + e (T. J. Dekker, A floating-point technique
// for extending the available precision, 1971) and e + c, because e is a multiple of
// 2^30 of at most 2^36: the last sum is the only rounding.
func round(v *[4]uint64, neg uint64) float64 {
	large := uint64(int64(-v[3]) >> 63)
	sticky := -v[0] >> 63
	part := func(high, low, two uint64) float64 {
		return math.Float64frombits(low^(low^high)&large|two) - math.Float64frombits(two)
	}
	const two112, two82, two52 = (1023 + 112) << 52, (1023 + 82) << 52, (1023 + 52) << 52
	a, b, c := part(v[3], v[2], two112), part(v[2], v[1], two82), part(v[1]|sticky, v[0], two52)
	s := a + b
	e := b - (s - a)
	r := math.Float64bits(s+(e+c)) + large&(30<<52)
	return math.Float64frombits(r | neg&(1<<63))
}

// reconstruct is the centred integer with residues x[i*n+j] mod q_i, from all
// primes: with y_i = x_i*(Q/q_i)^-1 mod q_i it is the sum of y_i*Q/q_i modulo Q.
func (t *Table) reconstruct(x []uint32, j, n int) float64 {
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

func (t *Table) initLong() {
	t.prod = product(t.q)
	t.half = new(big.Int).Rsh(t.prod, 1)
	for _, q := range t.q {
		m := new(big.Int).SetUint64(uint64(q))
		co := new(big.Int).Div(t.prod, m)
		t.co = append(t.co, co)
		t.coInv = append(t.coInv, inverse(new(big.Int).Mod(co, m).Uint64(), q))
	}
}

// inverse is a^-1 modulo the prime q, a not 0 mod q.
func inverse(a uint64, q uint32) uint64 {
	m := new(big.Int).SetUint64(uint64(q))
	return m.ModInverse(new(big.Int).SetUint64(a), m).Uint64()
}

// product multiplies the moduli.
func product(q []uint32) *big.Int {
	r := big.NewInt(1)
	for _, v := range q {
		r.Mul(r, new(big.Int).SetUint64(uint64(v)))
	}
	return r
}
