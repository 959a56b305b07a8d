package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// vectorN is a length that every function of vectorCode takes.
const vectorN = 256

// column is vectorN values below bound, many of them at its ends.
func column(rng *rand.Rand, bound uint64) []uint32 {
	x := make([]uint32, vectorN)
	for i := range x {
		x[i] = uint32([...]uint64{bound - 1, 0, bound / 2, rng.Uint64N(bound), rng.Uint64N(bound)}[rng.IntN(5)])
	}
	return x
}

// eachVector runs f for every variant and every prime at the edges; mod is any
// integer of 64 bits modulo q.
func eachVector(t *testing.T, f func(t *testing.T, c *vectorCode, m *modulus, rng *rand.Rand,
	mod func(x int64) uint32)) {
	for _, c := range variants() {
		for i, q := range edgePrimes {
			m := &modulus{barrett: newBarrett(q)}
			mod := func(x int64) uint32 { return uint32((x%int64(q) + int64(q)) % int64(q)) }
			t.Run(c.name, func(t *testing.T) {
				for round := range uint64(20) {
					f(t, c, m, rand.New(rand.NewPCG(uint64(i), round)), mod)
				}
			})
		}
	}
}

// expect compares got with f of each position, modulo q and below q.
func expect(t *testing.T, what string, q uint32, got []uint32, f func(i int) uint32) {
	t.Helper()
	for i, x := range got {
		if want := f(i); x != want {
			t.Fatalf("%s, q = %d: word %d is %d, want %d", what, q, i, x, want)
		}
	}
}

func TestVectorElements(t *testing.T) {
	eachVector(t, func(t *testing.T, c *vectorCode, m *modulus, rng *rand.Rand, mod func(x int64) uint32) {
		q, n := m.q, vectorN
		x, y, z := column(rng, uint64(q)), column(rng, uint64(q)), column(rng, uint64(q))
		dst := make([]uint32, n)
		c.add(&dst[0], &x[0], &y[0], n, q)
		expect(t, "add", q, dst, func(i int) uint32 { return mod(int64(x[i]) + int64(y[i])) })
		c.sub(&dst[0], &x[0], &y[0], n, q)
		expect(t, "sub", q, dst, func(i int) uint32 { return mod(int64(x[i]) - int64(y[i])) })
		for _, w := range []uint32{0, 1, q - 1, rng.Uint32N(q)} {
			pair, wide := m.shoup(w), column(rng, 2*uint64(q))
			c.scale(&dst[0], &wide[0], n, &pair, q)
			expect(t, "scale", q, dst, func(i int) uint32 { return mod(int64(wide[i]) * int64(w)) })
			c.subScale(&dst[0], &x[0], &y[0], n, &pair, q)
			expect(t, "subScale", q, dst, func(i int) uint32 { return mod((int64(x[i]) - int64(y[i])) * int64(w)) })
			if c.subScaleAdd != nil {
				c.subScaleAdd(&dst[0], &x[0], &y[0], &z[0], n, &pair, q)
				expect(t, "subScaleAdd", q, dst, func(i int) uint32 {
					return mod((int64(x[i])-int64(y[i]))*int64(w) + int64(z[i]))
				})
			}
		}
		mu, s := m.vector()
		c.mul(&dst[0], &x[0], &y[0], n, mu, s, q)
		expect(t, "mul", q, dst, func(i int) uint32 { return mod(int64(x[i]) * int64(y[i])) })
		copy(dst, z)
		c.mulAdd(&dst[0], &x[0], &y[0], n, mu, s, q)
		expect(t, "mulAdd", q, dst, func(i int) uint32 { return mod(int64(z[i]) + int64(x[i])*int64(y[i])) })
		copy(dst, z)
		c.mulSub(&dst[0], &x[0], &y[0], n, mu, s, q)
		expect(t, "mulSub", q, dst, func(i int) uint32 { return mod(int64(z[i]) - int64(x[i])*int64(y[i])) })
		if c.tensor == nil {
			return
		}
		a, b := slices.Concat(x, y), slices.Concat(z, column(rng, uint64(q)))
		out := make([]uint32, 3*n)
		mu, s = m.sums()
		c.tensor(&out[0], &a[0], &b[0], n, n, n, n, mu, s, q)
		expect(t, "tensor", q, out, func(i int) uint32 {
			a0, a1, b0, b1 := int64(a[i%n]), int64(a[n+i%n]), int64(b[i%n]), int64(b[n+i%n])
			return mod([3]int64{a0 * b0, a0*b1 + a1*b0, a1 * b1}[i/n])
		})
	})
}

// TestVectorSums: sums of products around the numbers of terms at which they are
// folded, with one result and with two.
func TestVectorSums(t *testing.T) {
	eachVector(t, func(t *testing.T, c *vectorCode, m *modulus, rng *rand.Rand, mod func(x int64) uint32) {
		q, n := m.q, vectorN
		terms := []int{1, 2, 6, 7, 8, 9, 13, 14, 15, 16, 21, 22, 40}[rng.IntN(13)]
		for results := 1; results <= 2; results++ {
			var x, y, raw []uint32
			for range terms {
				x = append(x, column(rng, uint64(q))...)
			}
			polys := terms * results
			y = make([]uint32, polys*n)
			for p := range polys {
				col := column(rng, uint64(q))
				raw = append(raw, col...)
				for at := 0; at < n; at += c.piece {
					copy(y[at*polys+p*c.piece:][:c.piece], col[at:])
				}
			}
			dst := make([]uint32, results*n)
			c.inner[results-1](&dst[0], &x[0], &y[0], n, n, c.piece, polys*c.piece, terms, n, uint32(m.qinv), q)
			expect(t, "inner", q, dst, func(at int) uint32 {
				k, i, sum := at/n, at%n, int64(0)
				for term := range terms {
					sum += int64(m.mul(x[term*n+i], raw[(term*results+k)*n+i]))
				}
				return m.mul(mod(sum), m.inv(m.montgomery(1)))
			})
			if results == 1 && terms == 1 {
				z := column(rng, uint64(q))
				dst := slices.Clone(z)
				c.operandAdd(&dst[0], &x[0], &y[0], c.piece, n, uint32(m.qinv), q)
				expect(t, "operandAdd", q, dst, func(i int) uint32 {
					return add(z[i], m.mul(m.mul(x[i], raw[i]), m.inv(m.montgomery(1))), q)
				})
			}
		}
	})
}

// TestVectorDigits compares with plain Go, for primes that the vector code takes.
func TestVectorDigits(t *testing.T) {
	var mods []*modulus
	for _, q := range edgePrimes {
		if q > minVectorQ {
			mods = append(mods, &modulus{barrett: newBarrett(q)})
		}
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for _, c := range variants() {
		vec, plain := &ring{vec: c}, &ring{}
		s := vec.newBasis(mods)
		generic := *s
		generic.words = nil
		for range 20 {
			x := rows{nil, vectorN + 32}
			for _, m := range mods {
				x.words = append(x.words, column(rng, uint64(m.q))...)
				x.words = append(x.words, make([]uint32, 32)...)
			}
			got, want := rows{make([]uint32, len(x.words)), x.stride}, rows{make([]uint32, len(x.words)), x.stride}
			v, w := make([]uint32, vectorN), make([]uint32, vectorN)
			vec.digits(s, got, x, v, 0, vectorN)
			plain.digits(&generic, want, x, w, 0, vectorN)
			if !slices.Equal(got.words, want.words) || !slices.Equal(v, w) {
				t.Fatalf("%s: digits differ", c.name)
			}
		}
	}
}

func TestVectorIntegers(t *testing.T) {
	eachVector(t, func(t *testing.T, c *vectorCode, m *modulus, rng *rand.Rand, mod func(x int64) uint32) {
		q, n := m.q, vectorN
		dst, small := make([]uint32, n), make([]int32, n)
		for i, x := range column(rng, 2*uint64(q)-1) {
			small[i] = int32(int64(x) - int64(q) + 1)
		}
		c.liftSmall(&dst[0], &small[0], n, q)
		expect(t, "liftSmall", q, dst, func(i int) uint32 { return mod(int64(small[i])) })

		r, all, e := &ring{n: n, vec: c}, make([]float64, n), make([]int32, n)
		for i := range all {
			k := rng.IntN(61)
			all[i] = float64([...]int64{1 << k, -1 << k, rng.Int64N(1<<61) - 1<<60, 0}[rng.IntN(4)])
			e[i] = rng.Int32N(43) - 21
		}
		s := r.newWide(all, e)
		defer s.put()
		value := func(i int) int64 { return int64(all[i]) + int64(e[i]) }
		for i := range n {
			if got := int64(s.high[i])<<32 | int64(s.low[i]); got != value(i) {
				t.Fatalf("split: integer %d is %d, want %d", i, got, value(i))
			}
		}
		s.lift(r, dst, m)
		for i, x := range dst {
			if uint64(x) >= 4*uint64(q) || x%q != mod(value(i)) {
				t.Fatalf("liftWide, q = %d: %d is %d", q, value(i), x)
			}
		}
		s.residues(r, dst, m)
		expect(t, "residues", q, dst, func(i int) uint32 { return mod(value(i)) })
	})
}

// permuteBlocks is what vectorCode.permute computes.
func permuteBlocks(dst, src, from, lanes *uint32, n int) {
	to, x := unsafe.Slice(dst, 16*n), unsafe.Slice(src, 16*n)
	orders := unsafe.Slice(lanes, 16*16)
	for b, f := range unsafe.Slice(from, n) {
		block, order := (*[16]uint32)(x[f&^15:]), (*[16]uint32)(orders[16*(f&15):])
		for l, i := range order {
			to[16*b+l] = block[i&15]
		}
	}
}

func TestVectorPermute(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	src, got, want := column(rng, 1<<32), make([]uint32, vectorN), make([]uint32, vectorN)
	from, lanes := make([]uint32, vectorN/16), make([]uint32, 256)
	for i := range from {
		from[i] = rng.Uint32N(vectorN)
	}
	for i := range lanes {
		lanes[i] = rng.Uint32N(16)
	}
	permuteBlocks(&want[0], &src[0], &from[0], &lanes[0], len(from))
	for _, c := range variants() {
		c.permute(&got[0], &src[0], &from[0], &lanes[0], len(from))
		if !slices.Equal(got, want) {
			t.Errorf("%s: a permutation differs", c.name)
		}
	}
}
