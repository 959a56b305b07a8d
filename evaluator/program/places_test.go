package program

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// placedPrograms are programs for a class: what multiplies by plain values, moves channels,
// copies a value to all samples, gives windows, and looks back.
var placedPrograms = [][]string{
	{"mean(x)", "var(x)", "cov(x, y)"},
	{"dot(x, y)", "dot(x, [1, -0.5, 0.25, 0, 2])", "x + 0.1*y"},
	{"x", "x - mean(x)", "std(y)"},
	{"mean(x - prev(x))", "rms(x)", "cov(x, z)"},
	{"mean((x - mean(x))^2 * y)", "mean(y)"},
}

// smallRing has the moduli of edge13-d3 and 512 slots.
func smallRing(t *testing.T) henc.Parameters {
	t.Helper()
	l := mustParams(t, "edge13-d3").Literal()
	l.Name, l.LogN, l.PsiQ, l.PsiP, l.Insecure = "small10", 10, nil, nil, true
	p, err := henc.NewParameters(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// placedFor compiles programs of a class whose windows of 5 samples stand at places, and fuses
// those with the same windows.
func placedFor(t *testing.T, p henc.Parameters, places int, packed bool, exprs ...string) []Routine {
	t.Helper()
	sets := map[string][]*Circuit{}
	var out []Routine
	for _, expr := range exprs {
		src := Source{Name: "p", Class: "pump", Expr: expr, Vars: placedVars(p.Name(), 5, places), Packed: packed}
		c, err := Compile(src, p)
		if errors.Is(err, ErrType) || errors.Is(err, ErrDepth) && packed {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		out = append(out, c)
		var ins []string
		for _, in := range c.Inputs() {
			ins = append(ins, in.String())
		}
		key := strings.Join(ins, " ")
		sets[key] = append(sets[key], c)
	}
	for _, all := range sets {
		set, err := Fuse(nil, all...)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, set)
	}
	return out
}

func circuitsOf(r Routine) []*Circuit {
	if s, ok := r.(*Set); ok {
		return s.Circuits()
	}
	return []*Circuit{r.(*Circuit)}
}

// TestAddedWindows: programs run on the sum of the windows of some devices give each device
// its value, within what is promised, at the place of the device. A lone window at any place
// gives the same.
func TestAddedWindows(t *testing.T) {
	p := smallRing(t)
	b := newBench(t, p)
	for i, exprs := range placedPrograms {
		for _, places := range []int{2, 8, 16} {
			for _, r := range placedFor(t, p, places, false, exprs...) {
				if r.Places() != places {
					t.Fatalf("%q: %d windows can be added up, want %d", exprs, r.Places(), places)
				}
				for _, n := range []int{1, 2, places} {
					b.checkAdded(t, r, rand.New(rand.NewPCG(31, uint64(64*i+n)+uint64(places)<<32)), n)
				}
			}
		}
	}
}

// checkAdded adds windows of n devices at places of their own and checks every value.
func (b *bench) checkAdded(t *testing.T, r Routine, rng *rand.Rand, n int) {
	t.Helper()
	it := Item{Routine: r, Evaluator: b.evaluator(t, r.base())}
	circuits := circuitsOf(r)
	at := rng.Perm(r.Places())[:n]
	var plains []map[string][]float64
	for k, place := range at {
		cts, plain := b.sampleAt(t, circuits[0], r.base().Inputs(), place, rng)
		plains = append(plains, plain)
		if k == 0 {
			it.Inputs = cts
		} else {
			it.Added = append(it.Added, cts)
		}
	}
	results, err := r.base().run(it)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range circuits {
		if results[i].Level != c.Level() || !near(results[i].Scale, c.Scale()) {
			t.Errorf("%s: level %d and scale %g, alone %d and %g", c.prog.Expr, results[i].Level, results[i].Scale,
				c.Level(), c.Scale())
		}
		for k, place := range at {
			want, err := c.Reference(plains[k])
			if err != nil {
				t.Fatal(err)
			}
			out := c.OutputAt(place)
			if !c.Reads(out.Slot) || places(c) > 1 && c.Reads(out.Slot+1) {
				t.Errorf("%s: slot %d of place %d is not where values stand", c.prog.Expr, out.Slot, place)
			}
			for j, v := range b.decrypt(t, results[i], out) {
				if d := math.Abs(v - want[j]); !(d <= out.BoundAt(v)) {
					t.Errorf("%s of %d windows, place %d of %d: value %d is %g, want %g within %g", c.prog.Expr, n,
						place, r.Places(), j, v, want[j], out.BoundAt(v))
				}
			}
		}
		b.ctx.Ring().Free(results[i].Value)
	}
}

func places(c *Circuit) int { return c.places }

// TestForeignWindows: windows in the domains that they were sent in give, alone and added up with
// others, bit for bit what they give in that of the context.
func TestForeignWindows(t *testing.T) {
	p := smallRing(t)
	b := newBench(t, p)
	rng := rand.New(rand.NewPCG(32, 32))
	domains := []cutrantt.Domain{cutrantt.NTT(1), b.ctx.Domain(), cutrantt.NTT(4), cutrantt.Coeffs(16)}
	sent := func(windows map[Input]*henc.Ciphertext) map[Input]*henc.Ciphertext {
		out := map[Input]*henc.Ciphertext{}
		for in, ct := range windows {
			to, err := b.ctx.Ring().NewBatch(2, ct.Value.Limbs(), domains[rng.IntN(len(domains))])
			if err == nil {
				err = b.ctx.Ring().Convert(to, ct.Value)
			}
			if err != nil {
				t.Fatal(err)
			}
			out[in] = &henc.Ciphertext{Value: to, Level: ct.Level, Scale: ct.Scale}
		}
		return out
	}
	for _, exprs := range placedPrograms {
		for _, r := range placedFor(t, p, 8, false, exprs...) {
			ev, c := b.evaluator(t, r.base()), circuitsOf(r)[0]
			var own, foreign []Item
			for _, n := range []int{1, 8, 3} {
				x, y := Item{Routine: r, Evaluator: ev}, Item{Routine: r, Evaluator: ev}
				for k := range n {
					cts, _ := b.sampleAt(t, c, r.base().Inputs(), k, rng)
					if k == 0 {
						x.Inputs, y.Inputs = cts, sent(cts)
						continue
					}
					x.Added, y.Added = append(x.Added, cts), append(y.Added, sent(cts))
				}
				own, foreign = append(own, x), append(foreign, y)
			}
			for _, items := range [][2][]Item{{own[:1], foreign[:1]}, {own[1:2], foreign[1:2]}, {own, foreign}} {
				b.sameResults(t, r, items[0], items[1])
			}
		}
	}
}

// sameResults runs items and others, and compares the results bit for bit.
func (b *bench) sameResults(t *testing.T, r Routine, items, others []Item) {
	t.Helper()
	want, err := RunBatch(items)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Free()
	got, err := RunBatch(others)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Free()
	for i := range items {
		for k := range want.Results() {
			if !bytes.Equal(b.marshal(t, got.Result(i, k)), b.marshal(t, want.Result(i, k))) {
				t.Errorf("%s: result %d of item %d of %d differs", r.base().name, k, i, len(items))
			}
		}
	}
}

// TestPackPlaces fills packs with results of which each has the values of several devices, and
// with some that have none at most places.
func TestPackPlaces(t *testing.T) {
	p := smallRing(t)
	b := newBench(t, p)
	rng := rand.New(rand.NewPCG(9, 9))
	type value struct {
		c          *Circuit
		result, at int
		want       float64
	}
	for _, n := range []int{3, 40} { // one by one, and in groups
		var cts []*henc.Ciphertext
		var spots []Spots
		var values []value
		for _, r := range placedFor(t, p, 8, true, "mean(x)", "var(y)", "cov(x, y)") {
			ev := b.evaluator(t, r.base())
			for range (n + 5) / 6 {
				it := Item{Routine: r, Evaluator: ev}
				at := rng.Perm(8)[:1+rng.IntN(8)]
				for k, place := range at {
					one, plain := b.sampleAt(t, circuitsOf(r)[0], r.base().Inputs(), place, rng)
					if k == 0 {
						it.Inputs = one
					} else {
						it.Added = append(it.Added, one)
					}
					for i, c := range circuitsOf(r) {
						want, err := c.Reference(plain)
						if err != nil {
							t.Fatal(err)
						}
						values = append(values, value{c: c, result: len(cts) + i, at: place, want: want[0]})
					}
				}
				made, err := r.base().run(it)
				if err != nil {
					t.Fatal(err)
				}
				for i, c := range circuitsOf(r) {
					cts, spots = append(cts, made[i]), append(spots, c.Spots())
				}
			}
		}
		pack, at, err := Pack(b.evaluator(t, values[0].c), cts, spots)
		if err != nil {
			t.Fatal(err)
		}
		slots, err := b.dec.DecryptRealBounded(pack, PackMagnitude(p))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			out := v.c.Output()
			out.Slot = at[v.result]
			out = out.At(v.at, 8, p.Slots())
			got := readOutput(slots, out)[0]
			if d := math.Abs(got - v.want); !(d <= out.Bound) {
				t.Errorf("%d results: %s at place %d: %g, want %g within %g", len(cts), v.c.prog.Expr, v.at, got,
					v.want, out.Bound)
			}
		}
		b.ctx.Ring().Free(pack.Value)
	}
}

// TestAddedInBatches: items with different numbers of windows run together, with the results
// that each has alone, bit for bit. The windows stay as they are.
func TestAddedInBatches(t *testing.T) {
	p := smallRing(t)
	b := newBench(t, p)
	r := placedFor(t, p, 8, false, "mean(x)", "cov(x, y)")[2]
	rng := rand.New(rand.NewPCG(5, 5))
	ev := b.evaluator(t, r.base())
	var items []Item
	for _, n := range []int{3, 1, 8, 2, 1} {
		it := Item{Routine: r, Evaluator: ev}
		for k := range n {
			cts, _ := b.sampleAt(t, circuitsOf(r)[0], r.base().Inputs(), k, rng)
			if k == 0 {
				it.Inputs = cts
			} else {
				it.Added = append(it.Added, cts)
			}
		}
		items = append(items, it)
	}
	in := r.base().Inputs()[0]
	before := string(b.marshal(t, items[2].Inputs[in])) + string(b.marshal(t, items[2].Added[6][in]))
	batch, err := RunBatch(items)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Free()
	for i, it := range items {
		alone, err := r.base().run(it)
		if err != nil {
			t.Fatal(err)
		}
		for k, ct := range alone {
			if string(b.marshal(t, ct)) != string(b.marshal(t, batch.Result(i, k))) {
				t.Errorf("item %d, result %d: the batch gives another ciphertext", i, k)
			}
		}
	}
	if before != string(b.marshal(t, items[2].Inputs[in]))+string(b.marshal(t, items[2].Added[6][in])) {
		t.Error("a window changed")
	}
}

// TestAddedKeepsNoSeed: the sum of windows is no window, also where a program gives it back.
func TestAddedKeepsNoSeed(t *testing.T) {
	p := smallRing(t)
	b := newBench(t, p)
	r := placedFor(t, p, 8, false, "x")[0]
	it := Item{Routine: r, Evaluator: b.evaluator(t, r.base())}
	rng := rand.New(rand.NewPCG(6, 6))
	it.Inputs, _ = b.sampleAt(t, circuitsOf(r)[0], r.base().Inputs(), 0, rng)
	more, _ := b.sampleAt(t, circuitsOf(r)[0], r.base().Inputs(), 1, rng)
	for _, ct := range it.Inputs {
		ct.Seed = new([32]byte)
	}
	for _, added := range []int{0, 1} {
		if it.Added = nil; added > 0 {
			it.Added = append(it.Added, more)
		}
		batch, err := RunBatch([]Item{it})
		if err != nil {
			t.Fatal(err)
		}
		if kept := batch.Result(0, 0).Seed != nil; kept != (added == 0) {
			t.Errorf("with %d windows added the seed stays: %t", added, kept)
		}
		batch.Free()
	}
}

func TestPlacesRefuse(t *testing.T) {
	p := smallRing(t)
	vars := func(change func(map[string]Var)) map[string]Var {
		v := placedVars(p.Name(), 5, 8)
		change(v)
		return v
	}
	set := func(name string, f func(v *Var)) func(map[string]Var) {
		return func(vars map[string]Var) {
			v := vars[name]
			f(&v)
			vars[name] = v
		}
	}
	for want, src := range map[string]Source{
		"have 8 and 4 places": {Class: "pump", Vars: vars(set("z", func(v *Var) { v.Stream.Places = 4 }))},
		"want a power of two": {Class: "pump", Vars: placedVars(p.Name(), 5, 3)},
		"has 1 places":        {Class: "pump", Vars: placedVars(p.Name(), 5, 1)},
		"each of 8 places has": {Class: "pump",
			Vars: vars(set("z", func(v *Var) { v.Stream.Window.Samples = 32 }))},
		"stand at different places": {Vars: vars(func(vars map[string]Var) {
			for name, v := range vars {
				v.Device = "a"
				if name == "z" {
					v.Device = "b"
				}
				vars[name] = v
			}
		})},
	} {
		src.Name, src.Expr = "p", "mean(x) + mean(z)"
		_, err := Compile(src, p)
		wantHint(t, err)
		if !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	b := newBench(t, p)
	for name, src := range map[string]Source{
		"no class":       {Vars: vars(func(vars map[string]Var) { atDevice(vars, "a") })},
		"no places":      {Class: "pump", Vars: placedVars(p.Name(), 5, 0)},
		"across devices": {Class: "pump", Expr: "fleet.mean(x)", Vars: placedVars(p.Name(), 5, 8)},
	} {
		src.Name = "p"
		if src.Expr == "" {
			src.Expr = "mean(x)"
		}
		c, err := Compile(src, p)
		if err != nil {
			t.Fatal(err)
		}
		r := Routine(c)
		if parts := c.Parts(); parts != nil {
			r = parts
		}
		cts, _ := b.sampleInputs(t, c, r.base().Inputs(), rand.New(rand.NewPCG(1, 1)))
		it := Item{Routine: r, Evaluator: b.evaluator(t, r.base()), Inputs: cts,
			Added: []map[Input]*henc.Ciphertext{cts}}
		if _, err := RunBatch([]Item{it}); !errors.Is(err, ErrParams) || r.Places() != 1 {
			t.Errorf("%s: windows are added up: %v", name, err)
		}
	}
	c := circuitsOf(placedFor(t, p, 2, false, "mean(x)")[0])[0]
	cts, _ := b.sampleInputs(t, c, c.Inputs(), rand.New(rand.NewPCG(1, 1)))
	it := Item{Routine: c, Evaluator: b.evaluator(t, c), Inputs: cts,
		Added: []map[Input]*henc.Ciphertext{cts, cts}}
	if _, err := RunBatch([]Item{it}); !errors.Is(err, ErrParams) {
		t.Errorf("three windows at two places: %v", err)
	}
	it.Added = []map[Input]*henc.Ciphertext{{}}
	if _, err := RunBatch([]Item{it}); !errors.Is(err, ErrInput) {
		t.Errorf("a window is missing: %v", err)
	}
}

func atDevice(vars map[string]Var, device string) {
	for name, v := range vars {
		v.Device = device
		vars[name] = v
	}
}

// TestPlacesPromise: what a program promises covers the noise of all windows that may be
// added up, and is not much more.
func TestPlacesPromise(t *testing.T) {
	p := smallRing(t)
	for _, expr := range []string{"mean(x)", "x"} {
		alone := circuitsOf(placedFor(t, p, 0, false, expr)[0])[0]
		for _, places := range []int{2, 16} {
			together := circuitsOf(placedFor(t, p, places, false, expr)[0])[0]
			ratio := together.out.Bound / alone.out.Bound
			if most := math.Sqrt(float64(places)); ratio <= 1 || ratio > 1.05*most {
				t.Errorf("%s at %d places promises %g times the error, want up to %g times", expr, places, ratio, most)
			}
		}
	}
}
