package prng

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"testing"
)

// TestSparseDefinition compares with a library's sort of the same numbers.
func TestSparseDefinition(t *testing.T) {
	seed := sequence()
	for _, n := range []int{1, 2, 64, 1 << 10, 1 << 13} {
		weight := min(n, 32)
		keys := make([]uint64, n)
		for j := range keys {
			lo, hi := word(seed, 7, 0, 0, 2*j), word(seed, 7, 0, 0, 2*j+1)
			if keys[j] = (uint64(hi)<<32 | uint64(lo)) / 4 * 4; j < weight {
				keys[j] += 1 + uint64(lo%2)
			}
		}
		slices.Sort(keys)
		want := make([]int32, n)
		for j, k := range keys {
			want[j] = []int32{0, 1, -1}[k%4]
		}
		got := make([]int32, n)
		Sparse(got, weight, seed, 7)
		if !slices.Equal(got, want) {
			t.Errorf("n = %d differs from the sorted numbers", n)
		}
	}
}

// TestSparseDistribution: the weight is exact, signs and places are even.
func TestSparseDistribution(t *testing.T) {
	const n, weight, runs = 64, 16, 4000
	counts, plus := make([]float64, n), 0.0
	v := make([]int32, n)
	for run := range runs {
		var seed [32]byte
		binary.LittleEndian.PutUint64(seed[:], uint64(run))
		Sparse(v, weight, &seed, 1)
		have := 0
		for j, x := range v {
			if x != 0 {
				have++
				counts[j]++
			}
			if x == 1 {
				plus++
			}
		}
		if have != weight {
			t.Fatalf("weight %d, want %d", have, weight)
		}
	}
	expect := float64(runs) * weight / n
	for j, c := range counts {
		if math.Abs(c-expect) > 6*math.Sqrt(expect*(1-float64(weight)/n)) {
			t.Errorf("place %d was taken %g times, expected %g", j, c, expect)
		}
	}
	if all := float64(runs * weight); math.Abs(plus-all/2) > 6*math.Sqrt(all/4) {
		t.Errorf("%g of %g are 1", plus, all)
	}
}

// TestSparseFrozen freezes the sampler: keys follow from it.
func TestSparseFrozen(t *testing.T) {
	v := make([]int32, 1<<12)
	Sparse(v, 32, sequence(), 0x48560011)
	h := sha256.New()
	for _, x := range v {
		h.Write([]byte{byte(x)})
	}
	const want = "2ce7279df35a4152deacffc109e8dc6a1094c34e0d072fce6376c50b750648c8"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("%s", got)
	}
}

func TestSparseRefuses(t *testing.T) {
	for _, c := range [][2]int{{3, 1}, {8, 9}, {8, -1}} {
		v := slices.Repeat([]int32{5}, c[0])
		Sparse(v, c[1], sequence(), 1)
		if slices.ContainsFunc(v, func(x int32) bool { return x != 0 }) {
			t.Errorf("%d of %d: %v", c[1], c[0], v)
		}
	}
	Sparse(nil, 0, sequence(), 1)
}
