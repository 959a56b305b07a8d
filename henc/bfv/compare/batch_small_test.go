package compare

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc/bfv"
)

// rows are the operations on plain slots modulo t, by the definitions.
type rows struct {
	w Window
	t uint64
}

func (r rows) each(a, b []uint64, f func(x, y uint64) uint64) []uint64 {
	out := make([]uint64, len(a))
	for i := range a {
		out[i] = f(a[i], b[i]) % r.t
	}
	return out
}

func (r rows) Add(a, b []uint64) ([]uint64, error) {
	return r.each(a, b, func(x, y uint64) uint64 { return x + y }), nil
}

func (r rows) Sub(a, b []uint64) ([]uint64, error) {
	return r.each(a, b, func(x, y uint64) uint64 { return x + r.t - y }), nil
}

func (r rows) MulBatch(a, b [][]uint64) ([][]uint64, error) {
	var out [][]uint64
	for i := range a {
		out = append(out, r.each(a[i], b[i], func(x, y uint64) uint64 { return x * y }))
	}
	return out, nil
}

func (r rows) Back(a []uint64, k int) ([]uint64, error) {
	out, half := make([]uint64, len(a)), len(a)/2
	for i := range a {
		out[i/half*half+(i%half+k)%half] = a[i]
	}
	return out, nil
}

func (r rows) AddFirst(a []uint64) ([]uint64, error) { return r.Add(a, r.w.constant(1)) }
func (r rows) Complement(a []uint64) ([]uint64, error) {
	return r.Sub(r.w.constant(-1), a)
}

// window lays numbers up to top out over 2*half slots.
func window(t *testing.T, top, lanes int) Window {
	t.Helper()
	w := Window{top: top, digits: 1, lanes: lanes}
	for w.digits*digitBits < w.Bits() {
		w.digits *= 2
	}
	return w
}

// compareAll compares pairs, with the code that works on ciphertexts.
func compareAll(t *testing.T, w Window, a, b []int) {
	t.Helper()
	for from := 0; from < len(a); from += w.Numbers() {
		to := min(from+w.Numbers(), len(a))
		x, err := w.fill(a[from:to])
		if err != nil {
			t.Fatal(err)
		}
		y, err := w.fill(b[from:to])
		if err != nil {
			t.Fatal(err)
		}
		out, err := less[[]uint64](w, rows{w, 65537}, x, y)
		if err != nil {
			t.Fatal(err)
		}
		for i := range to - from {
			want := uint64(0)
			if a[from+i] < b[from+i] {
				want = 1
			}
			if got := out[w.Slot(i)]; got != want {
				t.Fatalf("%d < %d up to %d: %d", a[from+i], b[from+i], w.top, got)
			}
		}
	}
}

// TestEveryPair compares all pairs of numbers of 1, 2, 3 and 4 digits, in full windows and in one that is not.
func TestEveryPair(t *testing.T) {
	for _, top := range []int{1, 2, 3, 4, 9, 15, 16, 60, 255} {
		var a, b []int
		for x := range top + 1 {
			for y := range top + 1 {
				a, b = append(a, x), append(b, y)
			}
		}
		compareAll(t, window(t, top, 16), a, b)
		compareAll(t, window(t, top, 1), a[:min(100, len(a))], b[:min(100, len(b))])
	}
}

// TestLargeNumbers compares numbers of up to 16 bits that differ in one digit, or by 1, and random ones.
func TestLargeNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, top := range []int{256, 1000, 4095, 4096, 40000, 1<<16 - 1} {
		a, b := []int{0, 0, top, top, top - 1, top, top / 2}, []int{0, top, 0, top, top, top - 1, top / 2}
		for bit := 1; bit <= top; bit *= 2 {
			x := rng.IntN(top + 1)
			a, b = append(a, x, min(x, x^bit), bit-1, bit), append(b, min(x^bit, top), x, bit, bit-1)
		}
		for range 2000 {
			x := rng.IntN(top + 1)
			a, b = append(a, x, x, x), append(b, rng.IntN(top+1), x, min(x+1, top))
		}
		compareAll(t, window(t, top, 8), a, b)
	}
}

// counter counts the operations of less, and their depth as numbers.
type counter struct{ products, switches int }

func (c *counter) Add(a, b int) (int, error)      { return max(a, b), nil }
func (c *counter) Sub(a, b int) (int, error)      { return max(a, b), nil }
func (c *counter) AddFirst(a int) (int, error)    { return a, nil }
func (c *counter) Complement(a int) (int, error)  { return a, nil }
func (c *counter) Back(a int, _ int) (int, error) { c.switches++; return a, nil }
func (c *counter) MulBatch(a, b []int) ([]int, error) {
	c.products += len(a)
	out := make([]int, len(a))
	for i := range a {
		out[i] = max(a[i], b[i]) + 1
	}
	return out, nil
}

// TestCost: what Cost says is what is computed, and there is noise to spare under the named parameters.
func TestCost(t *testing.T) {
	for _, name := range []string{"bfv13", "bfv14"} {
		p, err := bfv.Named(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			top  int
			cost Cost
			room int // for numbers under bfv13
		}{
			{1, Cost{1, 1, 3}, 2048}, {3, Cost{1, 1, 3}, 2048}, {4, Cost{2, 3, 7}, 1024}, {15, Cost{2, 3, 7}, 1024},
			{255, Cost{3, 5, 9}, 512}, {256, Cost{4, 7, 11}, 256}, {1<<16 - 1, Cost{4, 7, 11}, 256},
		} {
			w, err := NewWindow(p, c.top)
			if err != nil {
				t.Fatal(err)
			}
			count := &counter{}
			depth, err := less[int](w, count, 0, 0)
			if err != nil || w.Cost() != c.cost || (Cost{depth, count.products, count.switches}) != c.cost {
				t.Errorf("%s, up to %d: %+v, counted %d and %+v, want %+v; %v", name, c.top, w.Cost(), depth, *count,
					c.cost, err)
			}
			if w.Numbers() != c.room*p.N()/8192 || w.Budget(p) < 15 || w.Top() != c.top {
				t.Errorf("%s, up to %d: %d numbers, %.1f bits of noise to spare", name, c.top, w.Numbers(), w.Budget(p))
			}
			seen := map[int]bool{}
			for i := range w.Numbers() {
				s := w.Slot(i)
				if s < 0 || s >= p.N() || seen[s] {
					t.Fatalf("%s, up to %d: number %d in slot %d", name, c.top, i, s)
				}
				seen[s] = true
			}
			t.Logf("%s, up to %d: %.1f bits of noise to spare", name, c.top, w.Budget(p))
		}
	}
}

// TestWindowRefused covers numbers and windows that do not fit.
func TestWindowRefused(t *testing.T) {
	p, err := bfv.Named("bfv13", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range []int{-1, 0, 1 << 16} {
		if _, err := NewWindow(p, top); !errors.Is(err, ErrWindow) {
			t.Errorf("top %d: %v", top, err)
		}
	}
	if _, err := NewWindow(bfv.Parameters{}, 5); !errors.Is(err, ErrWindow) {
		t.Errorf("no parameters: %v", err)
	}
	w, err := NewWindow(p, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, numbers := range [][]int{nil, {-1}, {1001}, {5, 5000, 5}, slices.Repeat([]int{1}, w.Numbers()+1)} {
		if _, err := w.fill(numbers); !errors.Is(err, ErrWindow) {
			t.Errorf("%d numbers: %v", len(numbers), err)
		}
	}
}
