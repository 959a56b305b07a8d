package program

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// packedPrograms are programs of one value each, in slots of several channels.
var packedPrograms = []string{"mean(x)", "var(x)", "cov(x, y)", "mean(y)", "std(y)", "rms(z)", "mean(s)*mean(x)",
	"dot(s, [1, -0.5, 0.25, 0, 2]) + mean(t)", "-3*mean(w)"}

func packedFor(t testing.TB, params, expr string) *Circuit {
	t.Helper()
	c, err := Compile(Source{Name: "p", Expr: expr, Vars: testVars(params, 20), Packed: true}, mustParams(t, params))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return c
}

// made is a result for a pack and the value that it stands for.
type packable struct {
	ct   *henc.Ciphertext
	c    *Circuit
	want float64
}

// packables runs programs alone and fused on random and extreme windows.
func (b *bench) packables(t *testing.T, circuits []*Circuit, runs int, seed uint64) (out []packable) {
	t.Helper()
	fused, err := Fuse(nil, circuits...)
	if err != nil {
		t.Fatal(err)
	}
	ev := b.evaluator(t, fused)
	for i := range runs {
		cts, plain := b.sampleSet(t, fused, rand.New(rand.NewPCG(seed, uint64(i))))
		results, err := fused.Run(ev, cts)
		if err != nil {
			t.Fatal(err)
		}
		for k, c := range circuits {
			if i == 0 { // alone too
				alone, err := c.run(Item{Routine: c, Evaluator: b.evaluator(t, c), Inputs: cts})
				if err != nil {
					t.Fatal(err)
				}
				results = append(results, alone[0])
			}
			want, err := c.Reference(plain)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, packable{results[k], c, want[0]})
			if i == 0 {
				out = append(out, packable{results[len(results)-1], c, want[0]})
			}
		}
	}
	return out
}

// TestPackKeepsPromises fills packs with results of several programs, alone and fused, of
// random and extreme windows. Every value must keep the promise of its program, and slots
// without a value must hold nothing.
func TestPackKeepsPromises(t *testing.T) {
	for _, params := range []string{"edge13-d3", "edge13-d2p"} {
		b := testBench(t, params)
		var circuits []*Circuit
		for _, expr := range packedPrograms {
			c, err := Compile(Source{Name: "p", Expr: expr, Vars: testVars(params, 20), Packed: true},
				b.ctx.Parameters())
			if errors.Is(err, ErrDepth) && params != "edge13-d3" {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", expr, err)
			}
			if c.Level() != 0 || c.Scale() != PackScale(c.params) || c.Magnitude() > PackMagnitude(c.params) {
				t.Errorf("%s: level %d, scale %g, magnitude %g", expr, c.Level(), c.Scale(), c.Magnitude())
			}
			circuits = append(circuits, c)
		}
		if len(circuits) < 4 {
			t.Fatalf("%s: only %d programs can be packed", params, len(circuits))
		}
		made := b.packables(t, circuits, 6, 21)
		ev := b.evaluator(t, circuits[0])
		rng := rand.New(rand.NewPCG(22, 22))
		for _, n := range []int{1, 2, 7, MaxPack} {
			b.checkPack(t, ev, made, n, rng)
		}
	}
}

// checkPack packs n results in random order, some of them several times.
func (b *bench) checkPack(t *testing.T, ev *henc.Evaluator, made []packable, n int, rng *rand.Rand) {
	t.Helper()
	var some []packable
	var cts []*henc.Ciphertext
	var slots []Spots
	for range n {
		one := made[rng.IntN(len(made))]
		some, cts, slots = append(some, one), append(cts, one.ct), append(slots, one.c.Spots())
	}
	var places Places // the order may be one for which there are too many rotations
	for i, s := range slots {
		if _, ok := places.Add(s, b.ctx.Parameters().Slots()); !ok {
			some, cts, slots = some[:i], cts[:i], slots[:i]
			break
		}
	}
	pack, at, err := Pack(ev, cts, slots)
	if err != nil {
		t.Fatal(err)
	}
	defer b.ctx.Ring().Free(pack.Value)
	b.checkPacked(t, pack, at, some)
}

// checkPacked decrypts a pack and compares it with its promises.
func (b *bench) checkPacked(t *testing.T, pack *henc.Ciphertext, at []int, some []packable) {
	t.Helper()
	n := len(some)
	values, err := b.dec.DecryptRealBounded(pack, PackMagnitude(b.ctx.Parameters()))
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i, one := range some {
		out := one.c.Output()
		out.Slot = at[i]
		got := readOutput(values, out)[0]
		d := math.Abs(got - one.want)
		if !(d <= out.BoundAt(one.want)) && !(d <= out.Bound) {
			t.Errorf("%d together: %s: slot %d gives %g, want %g within %g", n, one.c.prog.Expr, at[i], got,
				one.want, out.Bound)
		}
		worst = max(worst, d/out.Bound)
	}
	for s, v := range values {
		if !slices.Contains(at, s) && math.Abs(v) > 0x1p-20 {
			t.Fatalf("%d together: slot %d without a value holds %g", n, s, v)
		}
	}
	t.Logf("%s: %d together: worst error %.3f of its bound", b.ctx.Parameters().Name(), n, worst)
}

// TestPackInGroups fills packs of one program in groups, with a last group of every kind, and
// one after another where there is no key for groups.
func TestPackInGroups(t *testing.T) {
	b := testBench(t, "edge13-d3")
	for _, samples := range []int{20, 4} { // sums over 4 samples have no key for groups
		c, err := Compile(Source{Name: "p", Expr: "mean(x)", Vars: testVars("edge13-d3", samples), Packed: true},
			b.ctx.Parameters())
		if err != nil {
			t.Fatal(err)
		}
		made := b.packables(t, []*Circuit{c}, 6, 25)
		ev := b.evaluator(t, c)
		for _, n := range []int{groupRotation + 1, 2 * groupRotation, 75, MaxPack} {
			var some []packable
			var cts []*henc.Ciphertext
			for i := range n {
				one := made[i%len(made)]
				some, cts = append(some, one), append(cts, one.ct)
			}
			slots := slices.Repeat([]Spots{c.Spots()}, n)
			if grouped, err := packGroups(ev, cts); (err == nil) != (samples == 20) {
				t.Fatalf("windows of %d samples, in groups: %v", samples, err)
			} else if err == nil {
				b.checkPacked(t, grouped, groupPlaces(slots, b.ctx.Parameters().Slots()), some)
				b.ctx.Ring().Free(grouped.Value)
			}
			pack, at, err := Pack(ev, cts, slots)
			if err != nil {
				t.Fatal(err)
			}
			b.checkPacked(t, pack, at, some)
			b.ctx.Ring().Free(pack.Value)
		}
	}
	if at := groupPlaces([]Spots{{5, 1}, {5, 1}, {6, 1}, {5, 1}}, 1024); at != nil {
		t.Errorf("values that meet have the slots %v", at)
	}
}

// TestPackedPlain runs packed plans, alone and fused, on plain numbers.
func TestPackedPlain(t *testing.T) {
	var circuits []*Circuit
	for i, expr := range packedPrograms {
		c := packedFor(t, "edge13-d3", expr)
		checkPlain(t, c, rand.New(rand.NewPCG(23, uint64(i))))
		circuits = append(circuits, c)
	}
	s, err := Fuse(nil, circuits...)
	if err != nil {
		t.Fatal(err)
	}
	together, _ := s.switches()
	if alone, _ := s.alone(); together >= alone {
		t.Errorf("%d key switches together, %d alone", together, alone)
	}
	for i := range 5 {
		checkPlainSet(t, s, rand.New(rand.NewPCG(24, uint64(i))))
	}
}

// TestPackedPromiseIsTight: packing costs little of what programs promise alone, and
// changes neither their hash nor the range of their values.
func TestPackedPromiseIsTight(t *testing.T) {
	for _, expr := range packedPrograms {
		c, packed := mustCompile(t, "edge13-d3", expr), packedFor(t, "edge13-d3", expr)
		if packed.Output().Bound > 1.05*c.Output().Bound {
			t.Errorf("%s: promises %.3g packed, %.3g alone", expr, packed.Output().Bound, c.Output().Bound)
		}
		if !slices.Contains(packed.Rotations(), PackRotation) || !packed.Packed() || c.Packed() {
			t.Errorf("%s: rotations %v, packed %t", expr, packed.Rotations(), packed.Packed())
		}
		same := packed.prog
		same.Packed, same.Name, same.Vars = false, c.prog.Name, c.prog.Vars
		again, err := Compile(same, c.params)
		if err != nil {
			t.Fatal(err)
		}
		if again.Hash() != packed.Hash() || again.Hash() != c.Hash() {
			t.Errorf("%s: packing changes the hash", expr)
		}
		if packed.Form() == c.Form() {
			t.Errorf("%s: packing changes no step", expr)
		}
	}
}

// TestPackedCost: the reference programs share their sums also for packs, at most one level
// higher than alone.
func TestPackedCost(t *testing.T) {
	var limbs [2]int
	for i := range limbs {
		var all []*Circuit
		for _, expr := range []string{"mean(x)", "var(x)", "cov(x, y)"} {
			c, err := Compile(Source{Name: "p", Expr: expr, Vars: testVars("edge13-d3", 256), Packed: i == 1},
				mustParams(t, "edge13-d3"))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		s, err := Fuse(nil, all...)
		if err != nil {
			t.Fatal(err)
		}
		if _, limbs[i] = s.switches(); i == 1 && 10*limbs[1] > 16*limbs[0] {
			t.Errorf("%d digits times limbs packed, %d alone", limbs[1], limbs[0])
		}
	}
}

// TestInPackCountsAll: the bound of a packed value counts the rounding and the key
// switches of a full pack, and what the coarsest mask leaves.
func TestInPackCountsAll(t *testing.T) {
	p := &planner{ch: newChain(mustParams(t, "edge13-d3"))}
	scale := PackScale(p.ch.params)
	p.steps = []step{{scale: scale, mag: 1}}
	got := p.inPack(0)
	want := math.Sqrt(MaxPack*(math.Pow(p.ch.noise.Rescale(scale), 2)+math.Pow(p.ch.noise.KeySwitch(0, scale), 2)) +
		math.Pow(2*MaxPack*p.ch.noise.Encode(leastMask), 2))
	if math.Abs(got.own.sd-want) > 1e-9*want || got.own.tail == 0 {
		t.Errorf("deviation %g, tail %g, want %g", got.own.sd, got.own.tail, want)
	}
}

func TestPackedRefuses(t *testing.T) {
	for _, c := range []struct {
		params, expr string
		want         error
	}{
		{"edge13-d3", "x - y", ErrType},
		{"edge13-d3", "mean(x)*mean(y)*mean(z)*mean(w)*mean(s)", ErrDepth},
		{"edge12-d1", "mean(x)", ErrDepth},
		{"edge12-add", "dot(s, [1, 0, 0, 0, 0])", ErrDepth},
	} {
		_, err := Compile(Source{Name: "p", Expr: c.expr, Vars: testVars(c.params, 20), Packed: true},
			mustParams(t, c.params))
		wantHint(t, err)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %s: %v", c.params, c.expr, err)
		}
	}
	b := testBench(t, "edge13-d3")
	c := packedFor(t, "edge13-d3", "mean(x)")
	made := b.packables(t, []*Circuit{c}, 1, 25)
	ev := b.evaluator(t, c)
	other := made[0].ct.WithScale(made[0].ct.Scale * 2)
	many := make([]*henc.Ciphertext, MaxPack+1)
	for i := range many {
		many[i] = made[0].ct
	}
	for i, bad := range []struct {
		cts   []*henc.Ciphertext
		slots []Spots
	}{{nil, nil}, {many[:2], make([]Spots, 1)}, {[]*henc.Ciphertext{other}, make([]Spots, 1)},
		{many[:1], []Spots{{-1, 1}}}, {many, make([]Spots, len(many))}} {
		if _, _, err := Pack(ev, bad.cts, bad.slots); !errors.Is(err, ErrParams) {
			t.Errorf("pack %d: %v", i, err)
		}
	}
	if _, _, err := Pack(henc.NewEvaluator(b.ctx, &henc.EvaluationKeys{}), many[:2], make([]Spots, 2)); !errors.Is(err,
		henc.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

// TestPlaces: every value has a slot of its own, and a pack ends at its bounds.
func TestPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 26))
	for i := range 20 {
		var p Places
		var values []int // by slot, as rotations move them
		ring := 2048 << (i % 2)
		values = make([]int, ring)
		n := 0
		for {
			slot := 20 * rng.IntN(4)
			places := 1
			if ring > 2048 {
				places, slot = 1<<rng.IntN(4), slot+512*rng.IntN(8)
			}
			rotate, ok := p.Add(Spots{slot, places}, ring)
			if !ok {
				break
			}
			for range rotate {
				values = append(values[PackRotation:], values[:PackRotation]...)
			}
			n++
			for s := slot; s < slot+ring; s += ring / places {
				if values[s%ring] != 0 {
					t.Fatalf("value %d meets value %d", n, values[s%ring])
				}
				values[s%ring] = n
			}
		}
		if n < MaxPack/4 || n > MaxPack || p.rotations >= MaxPack {
			t.Errorf("%d values, %d rotations", n, p.rotations)
		}
		for k, s := range p.Slots() {
			if values[s] != k+1 {
				t.Fatalf("value %d is said to be in slot %d, which holds %d", k+1, s, values[s])
			}
		}
	}
	var p Places
	for i := range MaxPack {
		if _, ok := p.Add(Spots{}, 2048); !ok {
			t.Fatalf("only %d values of one slot", i)
		}
	}
}
