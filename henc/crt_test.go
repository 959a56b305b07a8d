package henc

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestCRTExact(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	all := mustNamed(t, "bench-paper16-insecure").Q()
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
		n := len(values)
		x := make([]uint32, limbs*n)
		for i, m := range q {
			for j, v := range values {
				x[i*n+j] = uint32(new(big.Int).Mod(v, big.NewInt(int64(m))).Uint64())
			}
		}
		out := make([]float64, n)
		(&crtTable{q: q}).centred(out, x)
		for j, v := range values {
			if want, _ := new(big.Float).SetInt(v).Float64(); out[j] != want {
				t.Fatalf("%d limbs: %v gives %g, want %g", limbs, v, out[j], want)
			}
		}
	}
}

func TestFloat128(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 20000 {
		hi, lo := r.Uint64()>>(r.IntN(64)), r.Uint64()
		if i%3 == 0 {
			lo = 1 << (i % 64)
		}
		if i%7 == 0 {
			lo = 0
		}
		x := new(big.Int).SetUint64(hi)
		x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(lo))
		if want, _ := new(big.Float).SetInt(x).Float64(); float128(hi, lo) != want {
			t.Fatalf("%d*2^64+%d: %g, want %g", hi, lo, float128(hi, lo), want)
		}
	}
	if float128(math.MaxUint64, math.MaxUint64) != 0x1p128 {
		t.Error("the largest value")
	}
}
