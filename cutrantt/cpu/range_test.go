package cpu

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// edgePrimes are the primes at the ends of the supported range and in it.
var edgePrimes = []uint32{3, 5, 2053, 12289, 67084289, 536903681, 1073692673, 1073741789 /* the largest below 2^30 */}

// edges32 are operands that reach the bounds stated in the comments.
func edges32(q uint32, rng *rand.Rand) []uint32 {
	e := []uint32{0, 1, 2, q / 2, q/2 + 1, q - 1, q, q + 1, 2*q - 1, 2 * q, 3*q - 1, 4*q - 1, 1 << 31,
		math.MaxUint32 - 1, math.MaxUint32}
	for range 50 {
		e = append(e, rng.Uint32())
	}
	return e
}

func TestFactorRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, q := range edgePrimes {
		b := newBarrett(q)
		if uint64(q)*b.qinv != 1 {
			t.Fatalf("q = %d: inverse modulo 2^64 is wrong", q)
		}
		for _, w := range edges32(q, rng) {
			if w >= q {
				w %= q
			}
			f := b.factor(w)
			for _, x := range edges32(q, rng) {
				want := uint32(uint64(x) * uint64(w) % uint64(q))
				if got := f.mul(x, uint64(q)); got != want {
					t.Fatalf("%d*%d mod %d = %d, want %d", x, w, q, got, want)
				}
				if got := f.neg().mul(x, uint64(q)); got != (q-want)%q {
					t.Fatalf("-%d*%d mod %d = %d, want %d", x, w, q, got, (q-want)%q)
				}
			}
		}
	}
}

func TestBarrettRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, q := range edgePrimes {
		b := newBarrett(q)
		xs := []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, 1 << 63, 16 * uint64(q-1) * uint64(q-1)}
		top := math.MaxUint64 - math.MaxUint64%uint64(q) // the largest multiple of q
		xs = append(xs, top, top-1, uint64(q), uint64(q)-1, uint64(q)+1)
		for range 200 {
			xs = append(xs, rng.Uint64(), rng.Uint64()>>rng.IntN(64))
		}
		for _, x := range xs {
			if got, want := b.reduce(x), uint32(x%uint64(q)); got != want {
				t.Fatalf("%d mod %d = %d, want %d", x, q, got, want)
			}
		}
		for _, x := range []int64{0, 1, -1, math.MaxInt64, -math.MaxInt64, int64(q), -int64(q)} {
			want := x % int64(q)
			if want < 0 {
				want += int64(q)
			}
			if got := b.reduceInt64(x); int64(got) != want {
				t.Fatalf("%d mod %d = %d, want %d", x, q, got, want)
			}
		}
	}
}

func TestCorrections(t *testing.T) {
	for _, q := range edgePrimes {
		for _, x := range []uint32{0, 1, q / 2, q - 2, q - 1} {
			for _, y := range []uint32{0, 1, q / 2, q - 2, q - 1} {
				if add(x, y, q) != (x+y)%q || sub(x, y, q) != (x+q-y)%q || neg(x, q) != (q-x)%q {
					t.Fatalf("q = %d: %d and %d", q, x, y)
				}
			}
			if h := half(x, q); h >= q || uint64(2*h)%uint64(q) != uint64(x) {
				t.Fatalf("half of %d modulo %d is %d", x, q, h)
			}
		}
		if corr(4*q-1, 2*q) != 2*q-1 || corr(2*q-1, 2*q) != 2*q-1 || corr(2*q, 2*q) != 0 {
			t.Fatalf("q = %d: correction by 2q", q)
		}
	}
}

// TestPassRanges drives the passes of the transforms with the largest values
// that their comments allow, and checks both the result modulo q and its range.
func TestPassRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	const q = 1073741789
	b := newBarrett(q)
	for range 2000 {
		w := [3]uint32{rng.Uint32N(q), rng.Uint32N(q), rng.Uint32N(q)}
		f := [3]factor{b.factor(w[0]), b.factor(w[1]), b.factor(w[2])}
		var in [4]uint32
		for i := range in {
			in[i] = [...]uint32{4*q - 1, 4*q - 1, 3 * q, 0, rng.Uint32N(4 * q)}[rng.IntN(5)]
		}
		x := in
		forward4(x[0:1], x[1:2], x[2:3], x[3:4], f[0], f[1], f[2], q)
		mul := func(x uint64, w uint32) uint64 { return x % q * uint64(w) % q }
		s, d := uint64(in[0])%q+mul(uint64(in[2]), w[0]), uint64(in[0])%q+q-mul(uint64(in[2]), w[0])
		u, v := uint64(in[1])%q+mul(uint64(in[3]), w[0]), uint64(in[1])%q+q-mul(uint64(in[3]), w[0])
		for i, want := range [4]uint64{s + mul(u, w[1]), s + q - mul(u, w[1]), d + mul(v, w[2]), d + q - mul(v, w[2])} {
			if uint64(x[i])%q != want%q || uint64(x[i]) >= 4*q {
				t.Fatalf("forward4 of %v: output %d is %d, want %d modulo q", in, i, x[i], want%q)
			}
		}
		for i := range in {
			in[i] = [...]uint32{q - 1, q - 1, 0, rng.Uint32N(q)}[rng.IntN(4)]
		}
		x = in
		inverse4(x[0:1], x[1:2], x[2:3], x[3:4], f[0], f[1], f[2], q)
		s, d = uint64(in[0])+uint64(in[1]), mul(q+uint64(in[1])-uint64(in[0]), w[1])
		u, v = uint64(in[2])+uint64(in[3]), mul(q+uint64(in[3])-uint64(in[2]), w[2])
		for i, want := range [4]uint64{s + u, d + v, mul(2*q+u-s, w[0]), mul(q+v-d, w[0])} {
			if uint64(x[i]) != want%q {
				t.Fatalf("inverse4 of %v: output %d is %d, want %d", in, i, x[i], want%q)
			}
		}
	}
}

// TestExtendRange sums more digits than one lazy run holds, all the largest.
func TestExtendRange(t *testing.T) {
	const q, terms = 1073741789, 255
	p := &modulus{barrett: newBarrett(q)}
	s := &target{p: p, hats: make([]uint64, terms+1)}
	for i := range s.hats {
		s.hats[i] = q - 1
	}
	y, v := rows{make([]uint32, terms*chunk), chunk}, make([]uint32, chunk)
	for i := range y.words {
		y.words[i] = q - 1
	}
	for c := range v {
		v[c] = terms - 1
	}
	run := func(r *ring, want uint32) { // (-1)*(-1)*255 + 254*(-1) = 1
		dst := make([]uint32, chunk)
		r.extend(s, dst, y, v, 0, chunk)
		for c, x := range dst {
			if x != want {
				t.Fatalf("coefficient %d is %d, want %d", c, x, want)
			}
		}
	}
	run(&ring{}, 1)
	for _, c := range variants() { // divides by 2^32
		run(&ring{vec: c}, p.inv(p.montgomery(1)))
	}
}

// TestLazyRange: 16 of the largest products of one block.
func TestLazyRange(t *testing.T) {
	const q = 1073741789
	m := &modulus{barrett: newBarrett(q)}
	m.toom = func() *toomConstants { return newToomConstants(&m.barrett) }
	var w [lanes]factor
	for l := range w {
		w[l] = m.factor(q - 1) // X^n2 = -1
	}
	for key, k := range kernels {
		if key.n2 == 1 {
			continue
		}
		tile, z := make([]uint32, lanes*key.n2), make([]uint32, lanes*key.n2)
		for i := range tile {
			tile[i] = q - 1
		}
		a, b := make([]uint32, lanes*k.aWords), make([]uint32, lanes*k.bWords)
		k.prepA(a, tile, m)
		k.prepB(b, tile, &w, m)
		k.mul(z, a, b, m)
		for i, x := range z { // t+1 products of -1 by -1, n2-t-1 of them negated
			want := uint32((2*(i%key.n2+1) - key.n2 + q) % q)
			if x != want {
				t.Fatalf("%v, n2 = %d: output %d is %d, want %d", key.method, key.n2, i, x, want)
			}
		}
	}
}

func TestReverse(t *testing.T) {
	for k := 1; k <= 17; k++ {
		for _, x := range []uint32{0, 1, 2, 5, 1<<k - 1, 1 << (k - 1)} {
			x &= 1<<k - 1
			if r := reverse(x, k); bits.OnesCount32(r) != bits.OnesCount32(x) || reverse(r, k) != x ||
				x&1 == 1 && r>>(k-1) != 1 {
				t.Errorf("reverse of %d bits of %d is %d", k, x, r)
			}
		}
	}
}

// TestTwiddles checks what the comment of twiddles promises, and that a table
// that grew begins with the smaller one.
func TestTwiddles(t *testing.T) {
	const logN, n = 10, 1 << 10
	ms := testModuli(t, logN, 1)
	m := &modulus{barrett: newBarrett(ms[0].Q), psi: ms[0].Psi, logN: logN}
	small := append([]factor(nil), m.twiddles(64)...)
	all := m.twiddles(n)
	for k, f := range all {
		want := m.factor(m.pow(m.psi, reverse(uint32(k), logN)))
		if f != want || k < len(small) && small[k] != f {
			t.Fatalf("twiddle %d is not psi^brv(%d)", k, k)
		}
	}
	for k := 1; k < n; k *= 2 {
		for i := range k {
			if x := all[k+i].mul(all[2*k-1-i].mul(1, uint64(m.q)), uint64(m.q)); x != m.q-1 {
				t.Fatalf("the inverse of twiddle %d is not minus twiddle %d", k+i, 2*k-1-i)
			}
		}
	}
}
