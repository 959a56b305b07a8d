package cuda

import (
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
	"github.com/hencedge/hencedge/kernels"
)

// TestLayout compares the Go structures with those that the kernels were compiled
// from: sizes, and names and offsets of all members.
func TestLayout(t *testing.T) {
	compared := map[string]bool{"Mod": true} // by its words, below
	for _, v := range []any{
		args{}, tableArgs{}, passTableArgs{}, splitArgs{}, inverseArgs{}, upArgs{}, relayoutArgs{}, elementArgs{},
		constantArgs{}, automorphismArgs{}, digitArgs{}, basisArgs{}, extendArgs{}, sampleArgs{},
		setArgs{}, productArgs{},
		embedArgs{}, smallArgs{}, expandArgs{}, encryptArgs{}, innerArgs{}, divideArgs{}, collectArgs{}, packedArgs{},
		sumArgs{}, combineArgs{},
		job{}, packedLimb{}, tensorItem{}, innerItem{}, divideItem{}, collectItem{}, packedItem{},
	} {
		typ := reflect.TypeOf(v)
		name := strings.ToUpper(typ.Name()[:1]) + typ.Name()[1:]
		compared[name] = true
		compareLayout(t, name, typ)
	}
	for name, v := range map[string]any{
		"TensorMany": itemArgs[args, tensorItem]{}, "InnerMany": itemArgs[innerArgs, innerItem]{},
		"DivideMany": itemArgs[divideArgs, divideItem]{}, "CollectMany": itemArgs[collectArgs, collectItem]{},
		"PackedMany": itemArgs[packedArgs, packedItem]{},
	} {
		compared[name] = true
		compareLayout(t, name, reflect.TypeOf(v))
	}
	for name := range kernels.Layouts {
		if !compared[name] {
			t.Errorf("no structure of this package is compared with %s", name)
		}
	}

	mod := kernels.Layouts["Mod"]
	if mod.Size != 4*modWords {
		t.Errorf("a modulus has %d bytes, the kernels have %d", 4*modWords, mod.Size)
	}
	// q-1 is -1: the last constant, 1/90, times 90 is 1.
	c5 := mod.Members[len(mod.Members)-1]
	m := cutrantt.Modulus{Q: 1073707009, Psi: 110668061}
	if w := modulusWords(m); c5.Name != "c5" || len(w) != modWords || mulMod(w[c5.Offset/4+2], 90, m.Q) != 1 {
		t.Errorf("constants of the modulus: %v", w)
	}
}

// compareLayout compares the fields of typ, but the structure that it extends, with the
// layout of that name.
func compareLayout(t *testing.T, name string, typ reflect.Type) {
	t.Helper()
	want, ok := kernels.Layouts[name]
	if !ok {
		t.Errorf("%s: the kernels have no such structure", name)
		return
	}
	got := kernels.Layout{Size: int(typ.Size())}
	for f := range typ.NumField() {
		field := typ.Field(f)
		if field.Name == "args" || field.Name == "own" {
			if field.Offset != 0 {
				t.Errorf("%s: %s does not come first", name, field.Name)
			}
			continue
		}
		got.Members = append(got.Members, kernels.Member{Name: field.Name, Offset: int(field.Offset)})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, the kernels have %+v", name, got, want)
	}
	if got.Size > 8*argumentWords {
		t.Errorf("%s: %d bytes in room for %d", name, got.Size, 8*argumentWords)
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
				names = []string{"forward_tail", "inverse_tail", "forward_head_" + string(rune('0'+split)),
					"inverse_head_" + string(rune('0'+split))}
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
	want := []string{"down", "collect", "square_4", "square_8", "onekey_4", numbered("sums", sumsColumns)}
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		want = append(want, numbered("tensor", n2), numbered("inner", n2))
	}
	for log := leastDown; log <= longDown; log++ {
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
