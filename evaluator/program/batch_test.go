package program

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// holders are key holders of one context, each with the keys that a routine needs.
type holders struct {
	evs  []*henc.Evaluator
	encs []*henc.Encryptor
}

func makeHolders(t testing.TB, b *bench, n int, all ...Routine) (h holders) {
	t.Helper()
	var rotations []int
	for _, r := range all {
		rotations = append(rotations, r.base().Rotations()...)
	}
	for range n {
		seed, err := henc.NewSeed()
		if err != nil {
			t.Fatal(err)
		}
		key, err := secret.Generate(b.ctx, seed)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := key.EvaluationKeys(rotations, false)
		if err != nil {
			t.Fatal(err)
		}
		pk, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		enc, err := henc.NewEncryptor(b.ctx, pk)
		if err != nil {
			t.Fatal(err)
		}
		h.evs, h.encs = append(h.evs, henc.NewEvaluator(b.ctx, keys)), append(h.encs, enc)
	}
	return h
}

// windows encrypts random values for every input of a routine under one holder's key, up to
// two levels above those that the program was compiled for.
func (h holders) windows(t testing.TB, r *routine, holder int, rng *rand.Rand) map[Input]*henc.Ciphertext {
	t.Helper()
	out := map[Input]*henc.Ciphertext{}
	for i := range r.steps {
		s := &r.steps[i]
		if s.op != stepInput {
			continue
		}
		slots := make([]float64, r.params.Slots())
		for j := range slots {
			slots[j] = 2*rng.Float64() - 1
		}
		level := min(s.level+rng.IntN(3), r.params.MaxLevel())
		ct, err := h.encs[holder].EncryptReal(slots, level, s.scale, nil)
		if err != nil {
			t.Fatal(err)
		}
		out[s.in] = ct
	}
	return out
}

// sameAsAlone runs items together and compares every result with that of the item alone.
func sameAsAlone(t *testing.T, b *bench, what string, items []Item) {
	t.Helper()
	got, err := RunBatch(items)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer got.Free()
	for i, it := range items {
		want, err := it.Routine.base().run(it)
		if err != nil {
			t.Fatalf("%s: item %d alone: %v", what, i, err)
		}
		for k, ct := range want {
			if !bytes.Equal(b.marshal(t, got.Result(i, k)), b.marshal(t, ct)) {
				t.Errorf("%s: result %d of item %d differs from what it gives alone", what, k, i)
			}
			b.ctx.Ring().Free(ct.Value)
		}
	}
}

// TestBatchEqualsSingle: what programs of devices under different keys give together is
// what each gives alone, bit for bit: for the sample programs, for drawn ones, and for
// programs that are fused. All kinds of steps are among them.
func TestBatchEqualsSingle(t *testing.T) {
	seen := map[stepOp]bool{}
	for _, set := range []string{"edge12-d1", "edge13-d3"} {
		b := testBench(t, set)
		vars, others := testVars(set, 20), testVars(set, 20)
		for name, v := range others {
			v.Device += "2"
			others[name] = v
		}
		exprs := append([]string(nil), samplePrograms...)
		for i := range 12 {
			exprs = append(exprs, rapid.Custom(func(rt *rapid.T) string { return genExpr{rt}.program() }).Example(i))
		}
		for i, expr := range exprs {
			one, err := compile(Source{Name: "one", Expr: expr, Vars: vars}, b.ctx.Parameters())
			if err != nil || one.Explain().KeySwitch > 40 {
				continue
			}
			two, err := compile(Source{Name: "two", Expr: expr, Vars: others}, b.ctx.Parameters())
			if err != nil {
				t.Fatal(err)
			}
			if one.Form() != two.Form() {
				t.Errorf("%s: the forms for two devices differ", expr)
				continue
			}
			for j := range one.steps {
				seen[one.steps[j].op] = true
			}
			h := makeHolders(t, b, 2, one)
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			var items []Item
			for n, c := range []*Circuit{one, two, one, two} {
				holder := n / 2 // both devices under both keys
				items = append(items, Item{Routine: c, Evaluator: h.evs[holder],
					Inputs: h.windows(t, &c.routine, holder, rng)})
			}
			sameAsAlone(t, b, set+": "+expr, items)
		}
		if set == "edge13-d3" {
			s := fuseFor(t, set, "mean(x)", "var(x)", "cov(x, y)", "mean(x)", "x", "x", "x - y", "2*x")
			h := makeHolders(t, b, 3, s)
			var items []Item
			for n := range 3 {
				windows := h.windows(t, &s.routine, n, rand.New(rand.NewPCG(4, uint64(n))))
				items = append(items, Item{Routine: s, Evaluator: h.evs[n], Inputs: windows})
			}
			sameAsAlone(t, b, "a set", items)
		}
	}
	for op := range stepNames {
		never := stepOp(op) == stepMul || stepOp(op) == stepGather || // is followed by a rescaling; is not run
			stepOp(op) == stepBootstrap || stepOp(op) == stepNote // see TestDeepPrograms; is not in plans
		if !seen[stepOp(op)] && !never {
			t.Errorf("no program has a step %q", stepNames[op])
		}
	}
}

// TestForms: what may not run together has different forms.
func TestForms(t *testing.T) {
	const set = "edge13-d3"
	forms := map[[32]byte]string{}
	for _, expr := range []string{"mean(x)", "var(x)", "dot(s, [1, 2, 3, 4, 5])", "dot(s, [1, 2, 3, 4, 6])", "2*x",
		"x*y", "x + y", "x - w"} {
		c := mustCompile(t, set, expr)
		if other, known := forms[c.Form()]; known {
			t.Errorf("%s and %s have one form", expr, other)
		}
		forms[c.Form()] = expr
	}
	if fuseFor(t, set, "mean(x)").Form() != mustCompile(t, set, "mean(x)").Form() {
		t.Error("a set of one program has another form than the program")
	}
	if fuseFor(t, set, "mean(x)", "x").Form() == fuseFor(t, set, "x", "mean(x)").Form() {
		t.Error("the order of results does not count")
	}
}

// TestBatchRefuses: items that do not fit each other, and items that cannot run.
func TestBatchRefuses(t *testing.T) {
	b := testBench(t, "edge13-d3")
	mean, vari := mustCompile(t, "edge13-d3", "mean(x)"), mustCompile(t, "edge13-d3", "var(x)")
	h := makeHolders(t, b, 1, mean, vari)
	good := Item{Routine: mean, Evaluator: h.evs[0],
		Inputs: h.windows(t, &mean.routine, 0, rand.New(rand.NewPCG(5, 5)))}
	other := Item{Routine: vari, Evaluator: h.evs[0],
		Inputs: h.windows(t, &vari.routine, 0, rand.New(rand.NewPCG(5, 6)))}
	keyless, windowless := good, good
	keyless.Evaluator, windowless.Inputs = henc.NewEvaluator(b.ctx, nil), nil
	foreign, err := henc.NewContext(mustParams(t, "edge13-d3"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := good
	elsewhere.Evaluator = henc.NewEvaluator(foreign, nil)
	for what, c := range map[string]struct {
		items []Item
		want  error
	}{
		"nothing":         {nil, ErrParams},
		"another program": {[]Item{good, other}, ErrParams},
		"no key":          {[]Item{good, keyless}, henc.ErrNoKey},
		"no window":       {[]Item{good, windowless}, ErrInput},
		"another context": {[]Item{good, elsewhere}, ErrParams},
		"no evaluator":    {[]Item{good, {Routine: mean}}, ErrParams},
	} {
		if _, err := RunBatch(c.items); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if mean.Peak() < 4*int64(mean.params.N()) || vari.Peak() < mean.Peak() {
		t.Errorf("peak memory of %d and %d bytes", mean.Peak(), vari.Peak())
	}
}

// BenchmarkRunBatch is the time of one item of a batch under one key, or four.
func BenchmarkRunBatch(b *testing.B) {
	const set = "edge13-d3"
	bed := testBench(b, set)
	s := fuseFor(b, set, "mean(x)", "var(x)", "cov(x, y)")
	h := makeHolders(b, bed, 4, s)
	for _, keys := range []int{1, 4} {
		for _, n := range []int{1, 4, 16, 64} {
			var items []Item
			for i := range n {
				k := i * keys / max(n, keys)
				windows := h.windows(b, &s.routine, k, rand.New(rand.NewPCG(6, uint64(i))))
				items = append(items, Item{Routine: s, Evaluator: h.evs[k], Inputs: windows})
			}
			b.Run(fmt.Sprintf("keys=%d/items=%d", keys, n), func(b *testing.B) {
				for b.Loop() {
					r, err := RunBatch(items)
					if err != nil {
						b.Fatal(err)
					}
					r.Free()
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/item")
			})
		}
	}
}
