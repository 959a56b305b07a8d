package crt

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/henc/internal/simd"
)

func TestCRTExact(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	all := primes(66)
	for _, limbs := range []int{1, 2, 3, 4, 5, 6, 12, 33, 66} {
		q := all[:limbs]
		prod := product(q)
		half := new(big.Int).Rsh(prod, 1)
		var values []*big.Int
		addValue := func(v *big.Int) {
			if v.CmpAbs(half) <= 0 {
				values = append(values, v, new(big.Int).Neg(v))
			}
		}
		for i := range limbs + 1 { // around the edges of every short form
			p := product(q[:i])
			h := new(big.Int).Rsh(p, 1)
			for d := int64(-2); d <= 2; d++ {
				addValue(new(big.Int).Add(p, big.NewInt(d)))
				addValue(new(big.Int).Add(h, big.NewInt(d)))
			}
		}
		for _, p := range q { // small but modulo one prime
			co := new(big.Int).Div(prod, big.NewInt(int64(p)))
			addValue(co.Add(co, big.NewInt(5)))
		}
		for b := range uint(prod.BitLen()) { // every magnitude, around powers of two
			x := new(big.Int).Lsh(big.NewInt(1), b)
			addValue(x)
			addValue(new(big.Int).Sub(x, big.NewInt(1)))
			y := new(big.Int)
			for range int(b)/64 + 1 {
				y.Lsh(y, 64).Or(y, new(big.Int).SetUint64(r.Uint64()))
			}
			addValue(y.Mod(y, x).Add(y, x))
			if b > 54 { // ties of the rounding to float64 and their neighbours
				tie := new(big.Int).Add(x, new(big.Int).Lsh(big.NewInt(1), b-53))
				addValue(tie)
				addValue(new(big.Int).Add(tie, big.NewInt(1)))
				addValue(new(big.Int).Sub(tie, big.NewInt(1)))
			}
		}
		for len(values)%lanes != 0 {
			values = append(values, new(big.Int))
		}
		n := len(values)
		x := make([]uint32, limbs*n)
		for i, m := range q {
			for j, v := range values {
				x[i*n+j] = uint32(new(big.Int).Mod(v, big.NewInt(int64(m))).Uint64())
			}
		}
		for _, name := range simd.Have() {
			out := make([]float64, n)
			New(q).centred(codes[name], out, x)
			for j, v := range values {
				if want, _ := new(big.Float).SetInt(v).Float64(); out[j] != want {
					t.Fatalf("%s, %d limbs: %v gives %g, want %g", name, limbs, v, out[j], want)
				}
			}
		}
	}
}

// primes are the largest count primes below 2^30 that are 1 mod 2^17.
func primes(count int) (q []uint32) {
	for p := int64(1<<30 - 1<<17 + 1); len(q) < count; p -= 1 << 17 {
		if big.NewInt(p).ProbablyPrime(0) {
			q = append(q, uint32(p))
		}
	}
	return q
}

// TestVariantsAgree: vector code gives the bits of plain Go for messages of every
// size, in short and awkward lengths, and among them values that need all primes.
func TestVariantsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	all := append([]uint32{3, 65537, 1<<30 - 35}, primes(6)...)
	for _, name := range simd.Have() {
		for limbs := 1; limbs <= len(all); limbs++ {
			for _, n := range []int{1, 7, 8, 24, block - 8, block, block + 8, 2*block + 12} {
				q := all[len(all)-limbs:]
				if limbs%2 == 1 {
					q = all[:limbs]
				}
				x := make([]uint32, limbs*n)
				for j := range n {
					v, bits := r.Int64(), r.IntN(63)
					v >>= bits
					for i, m := range q {
						x[i*n+j] = uint32(((v % int64(m)) + int64(m)) % int64(m))
						if j == n-2 {
							x[i*n+j] = r.Uint32N(m)
						}
					}
				}
				got, want := make([]float64, n), make([]float64, n)
				New(q).centred(codes[name], got, x)
				New(q).centred(nil, want, x)
				for j := range want {
					if math.Float64bits(got[j]) != math.Float64bits(want[j]) {
						t.Fatalf("%s, %d limbs, %d of %d: %v, want %v", name, limbs, j, n, got[j], want[j])
					}
				}
			}
		}
	}
}

// TestVectorCodeIsUsed: the vector code itself, not the fall-back to plain Go, gives
// the integers below half the product of four primes, and says so of others.
func TestVectorCodeIsUsed(t *testing.T) {
	for _, name := range simd.Have() {
		c := codes[name]
		if c == nil {
			continue
		}
		q := primes(6)
		x, out := make([]uint32, len(q)*lanes), make([]float64, lanes)
		for i, m := range q {
			for j := range lanes {
				x[i*lanes+j] = m - uint32(j) - 1
			}
		}
		table := New(q)
		table.once.Do(table.init)
		if !table.vectorBlock(c, new(digits), out, x, 0, lanes) || out[3] != -4 {
			t.Fatalf("%s: small integers are not short: %v", name, out)
		}
		for i := range q[4:] {
			for j := range lanes {
				at := &x[(4+i)*lanes+j]
				*at--
				if table.vectorBlock(c, new(digits), out, x, 0, lanes) {
					t.Fatalf("%s: residue %d of integer %d was not compared", name, 4+i, j)
				}
				*at++
			}
		}
	}
}

func BenchmarkCentred(b *testing.B) {
	for _, limbs := range []int{5, 10} {
		for _, name := range simd.Have() {
			q, n := primes(limbs), 1<<13
			x, out := make([]uint32, limbs*n), make([]float64, n)
			b.Run(fmt.Sprintf("%s/%d", name, limbs), func(b *testing.B) {
				table := New(q)
				for b.Loop() {
					table.centred(codes[name], out, x)
				}
			})
		}
	}
}

func TestRound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 20000 {
		var v [4]uint64
		x := new(big.Int)
		for j := r.IntN(5) - 1; j >= 0; j-- {
			switch v[j] = r.Uint64() >> (34 + r.IntN(30)); i % 5 {
			case 0:
				v[j] = 0
			case 1:
				v[j] = 1 << (i % 30)
			case 2:
				v[j] = 1<<30 - 1
			}
			x.Add(x, new(big.Int).Lsh(new(big.Int).SetUint64(v[j]), uint(30*j)))
		}
		want, _ := new(big.Float).SetInt(x).Float64()
		if got := round(&v, 0); got != want {
			t.Fatalf("%v: %g, want %g", x, got, want)
		}
		if got := round(&v, ^uint64(0)); got != -want {
			t.Fatalf("-%v: %g, want %g", x, got, -want)
		}
	}
}
