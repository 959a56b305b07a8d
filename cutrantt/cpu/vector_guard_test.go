//go:build unix

package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns a copy of w that ends where the memory that may be read ends.
func guarded[T uint32 | uint64](t *testing.T, w []T) []T {
	t.Helper()
	if len(w) == 0 {
		return w
	}
	page := unix.Getpagesize()
	size := len(w) * int(unsafe.Sizeof(w[0]))
	whole := (size + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, whole+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(mem[whole:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	out := unsafe.Slice((*T)(unsafe.Pointer(&mem[whole-size])), len(w))
	copy(out, w)
	return out
}

// TestNothingBeyondTables: no transform reads behind its tables, its source or its result.
// Elsewhere such a read goes unnoticed unless the heap ends there.
func TestNothingBeyondTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for _, logN := range []int{6, 7, 10, 12, 13, 15, 16} {
		n := 1 << logN
		x, want := guarded(t, make([]uint32, n)), make([]uint32, n)
		got := guarded(t, want)
		for _, m := range lazyTestPrimes(t, max(logN, 13)) {
			if m.q < 1<<26 && logN > 14 {
				continue // few primes of large rings are small
			}
			for _, c := range variants() {
				tab := m.vectorTable(c, n)
				tab.stream, tab.pairs = guarded(t, tab.stream), guarded(t, tab.pairs)
				tab.lanes, tab.roots = guarded(t, tab.lanes), guarded(t, tab.roots)
				for i := range x {
					x[i] = rng.Uint32N(m.q)
				}
				copy(want, x)
				c.transform(got, x, m)
				c.invert(got, got, m, nil)
				if !slices.Equal(got, want) {
					t.Fatalf("%s: there and back, 2^%d, q = %d", c.name, logN, m.q)
				}
			}
		}
	}
}
