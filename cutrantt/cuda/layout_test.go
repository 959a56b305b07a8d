package cuda

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
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

// TestFused: the modules have the kernels that the fused operations name.
func TestFused(t *testing.T) {
	have := make(map[string]bool)
	for _, m := range kernels.Modules {
		for _, e := range m.Entries {
			have[e] = true
		}
	}
	want := []string{"down", "collect", "square_4", "square_8", "onekey_4"}
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		want = append(want, numbered("tensor", n2), numbered("inner", n2))
	}
	for log := leastDown; log <= mostDown; log++ {
		want = append(want, plans[log].name("down"))
	}
	for log := leastUp; log <= mostUp; log++ {
		want = append(want, plans[log].name("up"), plans[log].name("divide"))
	}
	for chunks := 1; chunks <= (mostConverted+8)/8; chunks++ {
		want = append(want, numbered("extend", chunks))
	}
	for _, n := range want {
		if !have[n] {
			t.Errorf("no kernel %s", n)
		}
	}
}

// TestConversionWords recomputes a conversion from its constants on the
// processor, byte products and all, as kernels/extend.cu does: the result is the
// integer that Ring.Extend defines, modulo each output.
func TestConversionWords(t *testing.T) {
	const logN, limbs, outputs = 10, 9, 11
	ms := benchModuli(t, logN, limbs+outputs)
	c, err := check.NewRing(logN, ms, cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &ring{check: c}
	p := part{from: upTo(limbs), to: upTo(limbs + outputs)[limbs:], place: sequence(outputs)}
	k := conversion{chunks: 2, groups: groups(outputs)}
	k.stride = 4 + 8*k.chunks*(4+2) + k.groups*groupWords(k.chunks)
	w := r.conversionWords(p, k)
	if len(w) != k.stride || w[0] != limbs || w[2] != 2 {
		t.Fatalf("%d words, want %d; head %v", len(w), k.stride, w[:4])
	}
	rng := rand.New(rand.NewPCG(1, 2))
	S := big.NewInt(1)
	for _, m := range ms[:limbs] {
		S.Mul(S, big.NewInt(int64(m.Q)))
	}
	scale, round := w[4:], w[4+8*k.chunks*4:]
	for range 20 {
		// The digits y and v as the kernel computes them, and the integer they mean.
		y, v, x := make([]uint32, 8*k.chunks), uint64(1)<<55, new(big.Int)
		for i, m := range ms[:limbs] {
			y[i] = mulMod(rng.Uint32N(m.Q), scale[4*i], m.Q)
			v += uint64(y[i]) * (uint64(round[2*i]) | uint64(round[2*i+1])<<32)
			x.Add(x, new(big.Int).Mul(big.NewInt(int64(y[i])), new(big.Int).Div(S, big.NewInt(int64(m.Q)))))
		}
		y[limbs] = uint32(v >> 56)
		x.Sub(x, new(big.Int).Mul(S, big.NewInt(int64(y[limbs]))))
		for j, l := range p.to {
			g := w[4+8*k.chunks*6+j/8*groupWords(k.chunks):]
			q := -g[4*(j%8)]
			if q != ms[l].Q || -g[32+2*(j%8)] != 2*q || g[32+2*(j%8)+1] != uint32(j) {
				t.Fatalf("output %d: constants %v and %v", j, g[4*(j%8):][:4], g[32+2*(j%8):][:2])
			}
			var s [4]uint64 // the four accumulators of a thread
			for i := range y {
				for d := range s {
					chunk, lane, half := i/8, 4*(j%8)+i%4, i%8/4
					a := g[48+4*(32*(2*chunk+d/2)+lane)+2*half+d%2]
					for b := range 4 {
						s[d] += uint64(a>>(8*b)&0xff) * uint64(y[i]>>(8*b)&0xff)
					}
				}
			}
			got := uint32((s[0] + s[1]<<8 + s[2]<<16 + s[3]<<24) % uint64(q))
			want := new(big.Int).Mod(x, big.NewInt(int64(q))).Uint64()
			if uint64(got) != want {
				t.Fatalf("output %d: %d, want %d", j, got, want)
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
