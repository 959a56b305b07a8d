package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// lazyTestPrimes are one prime 1 mod 2^14 of every class of lazy code, at both ends,
// and the first beyond.
func lazyTestPrimes(t *testing.T, logN int) (ms []*modulus) {
	t.Helper()
	for _, top := range []uint32{minLazyQ, 1 << 24, 1 << 25, 1 << 26, 1 << 27, 3 << 26, maxLazyQ, 1 << 29} {
		ms = append(ms, primeBelow(t, logN, top))
	}
	return append(ms, primeAbove(t, logN, minLazyQ), primeAbove(t, logN, 1<<26))
}

func primeBelow(t *testing.T, logN int, top uint32) *modulus {
	step := uint32(2) << logN
	return primeFrom(t, logN, (top-2)/step*step+1, -step)
}

func primeAbove(t *testing.T, logN int, bottom uint32) *modulus {
	step := uint32(2) << logN
	return primeFrom(t, logN, bottom/step*step+step+1, step)
}

// primeFrom is the first prime of q, q+step, ..., all 1 mod 2N.
func primeFrom(t *testing.T, logN int, q, step uint32) *modulus {
	t.Helper()
	for range 1000 {
		b := newBarrett(q)
		for g := uint32(2); g < 40; g++ {
			psi := b.pow(g, (q-1)>>(logN+1))
			if b.pow(psi, 1<<logN) == q-1 && isPrime(q) {
				return &modulus{barrett: b, psi: psi, logN: logN}
			}
		}
		q += step
	}
	t.Fatalf("no prime for degree 2^%d", logN)
	return nil
}

func isPrime(q uint32) bool {
	for d := uint32(3); d*d <= q; d += 2 {
		if q%d == 0 {
			return false
		}
	}
	return q%2 == 1
}

// TestVectorTransforms compares whole transforms of vector code with plain Go, for
// primes of every class and extreme inputs.
func TestVectorTransforms(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	fills := map[string]func(q uint32) uint32{
		"random":  func(q uint32) uint32 { return rng.Uint32N(q) },
		"largest": func(q uint32) uint32 { return q - 1 },
		"ends":    func(q uint32) uint32 { return (q - 1) * rng.Uint32N(2) },
	}
	for logN := 6; logN <= 16; logN++ {
		n := 1 << logN
		want, got, x := make([]uint32, n), make([]uint32, n), make([]uint32, n)
		for _, m := range lazyTestPrimes(t, max(logN, 13)) {
			if logN > 14 && m.q < 1<<26 {
				continue // few primes of large rings are small
			}
			for _, c := range variants() {
				for name, fill := range fills {
					for i := range x {
						x[i] = fill(m.q)
					}
					copy(want, x)
					forward(want, m.twiddles(n), m.q)
					if c.transform(got, x, m); !slices.Equal(got, want) {
						t.Fatalf("%s: forward of %s, 2^%d, q = %d", c.name, name, logN, m.q)
					}
					copy(want, x)
					inverse(want, m.twiddles(n), m.inverseScale(n), m.q)
					if c.invert(got, x, m, nil); !slices.Equal(got, want) {
						t.Fatalf("%s: inverse of %s, 2^%d, q = %d", c.name, name, logN, m.q)
					}
					if c.lazy == nil || c.lazy.forwardOnly && m.q >= maxLazyQ {
						continue // takes less than 4q, or than 2q
					}
					for i := range x {
						x[i] = fill(m.q) + m.q*(rng.Uint32N(2)+2*rng.Uint32N(2))
						want[i] = x[i] % m.q
					}
					forward(want, m.twiddles(n), m.q)
					if c.transform(got, x, m); !slices.Equal(got, want) {
						t.Fatalf("%s: forward of %s below 4q, 2^%d, q = %d", c.name, name, logN, m.q)
					}
				}
			}
		}
	}
}

// TestTableBytes: what it says is what the tables take.
func TestTableBytes(t *testing.T) {
	for _, logN := range []int{10, 13, 15, 16} {
		m, n := primeBelow(t, logN, 1<<30), 1<<logN
		have := 8 * len(m.twiddles(n))
		if c := selected().vec; c != nil {
			tab := m.vectorTable(c, n)
			have = 8 * (len(tab.pairs) + len(tab.stream))
		}
		if want := TableBytes(n); have != want {
			t.Errorf("tables for 2^%d take %d bytes, not %d", logN, have, want)
		}
	}
}

// TestLazyPair: a twiddle's halves are as its comment says, and its products with
// |x| < 2^31 are in (-q/4, 5q/4).
func TestLazyPair(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for _, m := range lazyTestPrimes(t, 13) {
		q := int64(m.q)
		ws := []uint32{0, 1, 2, m.q/2 - 1, m.q / 2, m.q/2 + 1, m.q - 2, m.q - 1}
		for range 200 {
			ws = append(ws, rng.Uint32N(m.q))
		}
		for _, w := range ws {
			p := m.lazyPair(w)
			v, quotient := int64(int32(p>>32)), int64(int32(p))
			if (v-int64(w))%q != 0 || 2*v > q || 2*v < -q {
				t.Fatalf("q = %d: %d stands as %d", q, w, v)
			}
			if e := 2 * (v<<32 - quotient*q); e > q || e < -q {
				t.Fatalf("q = %d: the quotient of %d is %d, not rounded", q, v, quotient)
			}
			for _, x := range []int64{0, 1, -1, 1<<31 - 1, -1 << 31, int64(int32(rng.Uint32())),
				int64(int32(rng.Uint32()))} {
				if z := x*v - x*quotient>>32*q; 4*z <= -q || 4*z >= 5*q {
					t.Fatalf("q = %d: %d times %d is %d", q, x, v, z)
				}
			}
		}
	}
}

// TestLazyReductions follows the bounds of every transform: within the limit
// everywhere, and without reductions for primes below 2^26.
func TestLazyReductions(t *testing.T) {
	for _, m := range lazyTestPrimes(t, 13) {
		p := m.lazyPrime(&vectorCode{lazy: &lazyCode{}})
		if wide := m.q <= minLazyQ || m.q >= maxLazyQ; wide != (p == nil) {
			t.Fatalf("q = %d: lazy %t", m.q, p != nil)
		} else if wide {
			continue
		}
		if q := uint64(m.q); uint64(p.limit)*q > 1<<33 || uint64(p.words[2]) != uint64(p.limit/4)*q ||
			uint64(p.words[1])>>16 != 1<<38/q {
			t.Fatalf("q = %d: limit %d, words %d", m.q, p.limit, p.words)
		}
		for logN := 6; logN <= 17; logN++ {
			for most := 2; most <= 3; most++ {
				ks, n := levelPlan(logN-5, most)
				plan, at, bound := append(slices.Clone(ks[:n]), 5), p.reductions(ks[:n]), 16
				for i, k := range plan {
					if m.q < 1<<26 && at[i] {
						t.Errorf("q = %d, 2^%d: pass %d reduces", m.q, logN, i)
					}
					if at[i] {
						bound = 5
					}
					if bound += 5 * k; bound > p.limit {
						t.Errorf("q = %d, 2^%d: a bound of %d quarters after pass %d, limit %d", m.q, logN,
							bound, i, p.limit)
					}
				}
			}
		}
	}
}

// lazyColumn is a column at the bounds: within (lo, hi) quarters of q, mostly at the ends.
func lazyColumn(rng *rand.Rand, n int, q uint32, lo, hi int) (x []uint32, residues []uint32) {
	least, most := int64(lo)*int64(q)/4+1, int64(hi)*int64(q)/4-1
	for range n {
		v := [...]int64{least, most, least + rng.Int64N(most-least)}[rng.IntN(3)]
		r := v % int64(q)
		if r < 0 {
			r += int64(q)
		}
		x, residues = append(x, uint32(v)), append(residues, uint32(r))
	}
	return x, residues
}

// checkColumn compares x with residues modulo q and with the bounds.
func checkColumn(t *testing.T, what string, x, residues []uint32, q uint32, lo, hi int) {
	t.Helper()
	for i, v := range x {
		s := int64(int32(v))
		if (s-int64(residues[i]))%int64(q) != 0 {
			t.Fatalf("%s, q = %d: word %d is %d, want %d modulo q", what, q, i, s, residues[i])
		}
		if 4*s <= int64(lo)*int64(q) || 4*s >= int64(hi)*int64(q) {
			t.Fatalf("%s, q = %d: word %d is %d, not in (%d, %d) quarters of q", what, q, i, s, lo, hi)
		}
	}
}

// TestLazyPasses drives every pass with the largest values that its comment allows.
func TestLazyPasses(t *testing.T) {
	const n = 1 << 10
	rng := rand.New(rand.NewPCG(11, 11))
	for _, m := range lazyTestPrimes(t, 13) {
		w := m.powers(n)
		for _, c := range variants() {
			tab := m.vectorTable(c, n)
			p, l := tab.lazy, c.lazy
			if p == nil {
				continue
			}
			for k := 1; k <= c.merged; k++ {
				for reduced, from := range [2]int{p.limit - 5*k, p.limit} {
					what := fmt.Sprintf("%s: forward%d, reduced %d", c.name, k, reduced)
					x, want := lazyColumn(rng, n, m.q, -from, from)
					l.forward[reduced][k](&x[0], &x[0], n>>k, 1, 1, &tab.pairs[0], &p.words[0])
					levelsOf(want, w, 0, k, m)
					to := [2]int{from + 5*k, 5 + 5*k}[reduced]
					checkColumn(t, what, x, want, m.q, -to, to)
				}
				if l.forwardOnly {
					continue
				}
				hi := [2]int{20, 10}[p.class]
				what := fmt.Sprintf("%s: inverse%d", c.name, k)
				x, want := lazyColumn(rng, n, m.q, -hi/5, hi)
				y := slices.Clone(x)
				l.inverse[p.class][k](&x[0], &x[0], n>>k, 1, 1, &tab.pairs[0], &p.words[0])
				undoLevelsOf(want, w, 0, k, m)
				checkColumn(t, what, x, want, m.q, -hi/5, hi)
				l.inverseEnd[p.class][k](&y[0], &y[0], n>>k, 1, 1, &tab.pairs[0], &p.words[0], &tab.scale[0])
				for i := range want {
					if want[i] = m.mul(want[i], m.inv(n)); y[i] != want[i] {
						t.Fatalf("%s with scaling, q = %d: word %d is %d, want %d", what, m.q, i, y[i], want[i])
					}
				}
			}
			for reduced, from := range [2]int{p.limit - 25, p.limit} {
				for form, blocks := range [2]int{2, n / vectorBlock} {
					x, want := lazyColumn(rng, n, m.q, -from, from)
					l.forwardLast[reduced][form](&x[0], blocks, &tab.stream[0], &p.words[0])
					levelsOf(want, w, 5, 10, m)
					if !slices.Equal(x[:32*blocks], want[:32*blocks]) {
						t.Fatalf("%s: forwardLast %d of %d blocks, q = %d", c.name, reduced, blocks, m.q)
					}
				}
			}
			if l.forwardOnly {
				continue
			}
			for form, blocks := range [2]int{2, n / vectorBlock} {
				hi := [2]int{20, 10}[p.class]
				x, want := lazyColumn(rng, n, m.q, 0, 4)
				l.inverseFirst[p.class][form](&x[0], &x[0], blocks, &tab.stream[n-32], &p.words[0])
				undoLevelsOf(want, w, 5, 10, m)
				checkColumn(t, c.name+": inverseFirst", x[:32*blocks], want, m.q, -hi/5, hi)
			}
		}
	}
}

// levelsOf runs levels from to to-1 of the forward transform, in [0, q).
func levelsOf(x, w []uint32, from, to int, m *modulus) {
	for l := from; l < to; l++ {
		d := len(x) >> (l + 1)
		for i := range x {
			if i&d == 0 {
				v := m.mul(x[i+d], w[1<<l+i/(2*d)])
				x[i], x[i+d] = add(x[i], v, m.q), sub(x[i], v, m.q)
			}
		}
	}
}

// undoLevelsOf undoes levelsOf but for the factor 1/2 of each level.
func undoLevelsOf(x, w []uint32, from, to int, m *modulus) {
	for l := to - 1; l >= from; l-- {
		d := len(x) >> (l + 1)
		for i := range x {
			if i&d == 0 {
				x[i], x[i+d] = add(x[i], x[i+d], m.q), m.mul(sub(x[i], x[i+d], m.q), m.inv(w[1<<l+i/(2*d)]))
			}
		}
	}
}
