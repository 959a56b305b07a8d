package benchmark

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
)

func TestSummarise(t *testing.T) {
	var s []time.Duration
	for i := 100; i >= 1; i-- {
		s = append(s, time.Duration(i)*time.Microsecond)
	}
	got := summarise(s)
	if got.iters != 100 || got.fastest != time.Microsecond || got.p95 != 95*time.Microsecond ||
		got.median != 50500*time.Nanosecond {
		t.Errorf("got %+v", got)
	}
	one := summarise([]time.Duration{7})
	if one.median != 7 || one.p95 != 7 || one.fastest != 7 {
		t.Errorf("one sample: %+v", one)
	}
}

func TestMeasureWarmsUpAndRotates(t *testing.T) {
	var calls []int
	s, err := measure(context.Background(), 0, 3, func(i int) error { calls = append(calls, i); return nil })
	if err != nil || s.iters != 3 || !slices.Equal(calls, []int{0, 1, 2, 0, 1}) {
		t.Fatalf("%v %v %v", s, calls, err)
	}
	// With time to spare every set is used before the clock starts.
	calls = nil
	s, err = measure(context.Background(), time.Hour, 5, func(i int) error { calls = append(calls, i); return nil })
	if err != nil || s.iters != maxIters || len(calls) != s.iters+5 ||
		!slices.Equal(calls[:7], []int{0, 1, 2, 3, 4, 0, 1}) {
		t.Fatalf("%v, %d calls, %v", s, len(calls), err)
	}
	bad := errors.New("bad")
	if _, err := measure(context.Background(), 0, 1, func(int) error { return bad }); !errors.Is(err, bad) {
		t.Fatalf("error lost: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := measure(ctx, time.Hour, 1, func(int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatalf("not cancelled: %v", err)
	}
}

func TestLastLevelCache(t *testing.T) {
	root := t.TempDir()
	if got := lastLevelCache(root); got != defaultCache {
		t.Errorf("empty: %d", got)
	}
	for name, size := range map[string]string{"index0": "32K\n", "index3": "48M\n", "index2": "junk", "index4": "-1K"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, "size"), []byte(size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := lastLevelCache(root); got != 48<<20 {
		t.Errorf("got %d", got)
	}
}

func TestSetCount(t *testing.T) {
	for _, c := range []struct {
		footprint, cache, limit int64
		want                    int
	}{{1 << 20, 32 << 20, 1 << 30, 65}, {1 << 30, 32 << 20, 1 << 20, 1}, {1 << 20, 32 << 20, 4 << 20, 4},
		{0, 1, 1, 1}} {
		if got := setCount(c.footprint, c.cache, c.limit); got != c.want {
			t.Errorf("setCount(%d, %d, %d) = %d, want %d", c.footprint, c.cache, c.limit, got, c.want)
		}
	}
}

// 12289 = 1 + 12*1024: psi = 7^(12288/64) has order 64, so N = 32.
var small = cutrantt.Modulus{Q: 12289, Psi: powmod(11, 12288/64, 12289)}

// evaluate transforms one limb by the definition of the layout.
func evaluate(m cutrantt.Modulus, n2 int, x []uint32) []uint32 {
	n1 := len(x) / n2
	out := make([]uint32, len(x))
	for b := range n1 {
		w := blockRoot(m, n1, n2, b)
		for j := range n2 {
			for r := range n1 {
				out[j*n1+b] = uint32(
					(uint64(out[j*n1+b]) + uint64(x[j*n1+r])*uint64(powmod(w, uint64(r), m.Q))) % uint64(m.Q))
			}
		}
	}
	return out
}

// natural is the coefficient vector of a limb stored in n2 columns.
func natural(x []uint32, n2 int) []uint32 {
	n1 := len(x) / n2
	f := make([]uint32, len(x))
	for j := range n2 {
		for r := range n1 {
			f[r*n2+j] = x[j*n1+r]
		}
	}
	return f
}

func TestChecksAgreeWithNegacyclicProduct(t *testing.T) {
	const n = 32
	if powmod(small.Psi, n, small.Q) != small.Q-1 {
		t.Fatal("psi is not a primitive 64th root")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		a, b := make([]uint32, n), make([]uint32, n)
		for i := range n {
			a[i], b[i] = rng.Uint32N(small.Q), rng.Uint32N(small.Q)
		}
		fa, fb := natural(a, n2), natural(b, n2)
		prod := make([]int64, n)
		for i := range n {
			for j := range n {
				v := int64(mulmod(fa[i], fb[j], small.Q))
				if i+j < n {
					prod[i+j] += v
				} else {
					prod[i+j-n] -= v
				}
			}
		}
		c := make([]uint32, n)
		for j := range n2 {
			for r := range n / n2 {
				v := prod[r*n2+j] % int64(small.Q)
				c[j*(n/n2)+r] = uint32((v + int64(small.Q)) % int64(small.Q))
			}
		}
		ta, tb, tc := evaluate(small, n2, a), evaluate(small, n2, b), evaluate(small, n2, c)
		if err := checkHadamard(small, n2, ta, tb, tc); err != nil {
			t.Errorf("n2=%d: %v", n2, err)
		}
		if err := checkTransform("ntt", small, n2, a, ta, rng); err != nil {
			t.Errorf("n2=%d: %v", n2, err)
		}
		// One wrong residue must be found.
		tc[5] = (tc[5] + 1) % small.Q
		if checkHadamard(small, n2, ta, tb, tc) == nil {
			t.Errorf("n2=%d: a wrong product passed", n2)
		}
		a[3] = (a[3] + 1) % small.Q
		if checkTransform("ntt", small, n2, a, ta, rng) == nil {
			t.Errorf("n2=%d: a wrong transform passed", n2)
		}
	}
}

func TestCheckSlots(t *testing.T) {
	want := []complex128{1, 2i}
	if err := checkSlots("x", []complex128{1.001, 2i, 9}, want, 0.01); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]complex128{{1}, {1, 2.1i}, {complex(math.NaN(), 0), 2i}} {
		if checkSlots("x", bad, want, 0.01) == nil {
			t.Errorf("%v passed", bad)
		}
	}
}
