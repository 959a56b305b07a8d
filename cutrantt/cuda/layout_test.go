package cuda

import (
	"testing"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/kernels"
)

// TestLayout compares the Go structures with those that the kernels were
// compiled from.
func TestLayout(t *testing.T) {
	var a args
	var items manyArgs
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		{"size of args", unsafe.Sizeof(a), kernels.ArgsSize},
		{"offset of key", unsafe.Offsetof(a.key), kernels.KeyOffset},
		{"size of a job", unsafe.Sizeof(job{}), kernels.JobSize},
		{"stride of a job", unsafe.Offsetof(job{}.ds), kernels.StrideOffset},
		{"size of many", unsafe.Sizeof(items), kernels.ManySize},
		{"offset of one", unsafe.Offsetof(items.one), kernels.OneOffset},
		{"size of a modulus", 4 * modWords, kernels.ModSize},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, the kernels have %d", c.what, c.got, c.want)
		}
	}
	// q-1 is -1: the last constant, 1/90, times 90 is 1.
	m := cutrantt.Modulus{Q: 1073707009, Psi: 110668061}
	if w := modulusWords(m); len(w) != modWords || mulMod(w[kernels.C5Offset/4+2], 90, m.Q) != 1 {
		t.Errorf("constants of the modulus: %v", w)
	}
}

// TestPlans: the modules have a kernel for every plan, whatever the device.
func TestPlans(t *testing.T) {
	have := make(map[string]bool)
	for _, m := range kernels.Modules {
		for _, e := range m.Entries {
			have[e] = true
		}
	}
	for log := 6; log <= cutrantt.MaxLogN; log++ {
		for _, limit := range []int{48 << 10, 99 << 10, 163 << 10, 227 << 10} {
			p, split := planFor(log, limit)
			names := []string{p.name("forward"), p.name("inverse")}
			if split > 0 {
				names = []string{"forward_tail", "inverse_tail", "forward_head_" + string(rune('0'+split)), "inverse_head_" + string(rune('0'+split))}
			}
			for _, n := range names {
				if !have[n] {
					t.Errorf("2^%d residues, %d bytes of shared memory: no kernel %s", log, limit, n)
				}
			}
			if p.shared() > limit {
				t.Errorf("2^%d residues need %d bytes of shared memory of %d", log, p.shared(), limit)
			}
		}
	}
}

// TestVariants: the module has a kernel for every method, n2 and count of results.
func TestVariants(t *testing.T) {
	have := make(map[string]bool)
	for _, m := range kernels.Modules {
		for _, e := range m.Entries {
			have[e] = true
		}
	}
	for _, m := range cutrantt.Methods() {
		for _, n2 := range []int{1, 2, 4, 8, 16} {
			for _, results := range []int{1, 2, 3, 4} {
				if v := variantFor(m, n2, results); m.Supports(n2) && (!have[v.name] || results%v.results != 0) {
					t.Errorf("%v, n2 = %d, %d results: %v", m, n2, results, v)
				}
			}
		}
	}
}

func TestSizeClasses(t *testing.T) {
	for n := 1; n < 1<<20; n += 1 + n/7 {
		if c := class(n); c < n || c > max(512, n+n/4+1) || class(c) != c {
			t.Fatalf("class of %d bytes is %d, of that %d", n, c, class(c))
		}
	}
}
