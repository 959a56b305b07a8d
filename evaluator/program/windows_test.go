package program

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// fewWindows is how many windows TestManyWindows and TestManyPlaces draw unless
// HENCEDGE_TEST_ROUNDS says more.
const fewWindows = 400

func manyRounds() int {
	if n, err := strconv.Atoi(os.Getenv("HENCEDGE_TEST_ROUNDS")); err == nil {
		return n
	}
	return fewWindows
}

// drawn draws a channel of a window, of n values from -1 to 1.
func drawn(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	kind, sign, at := rng.IntN(8), float64(2*rng.IntN(2)-1), 2*rng.Float64()-1
	for i := range v {
		switch kind {
		case 0: // anything
			v[i] = 2*rng.Float64() - 1
		case 1: // extremes in any order
			v[i] = float64(2*rng.IntN(2) - 1)
		case 2: // constant at an end of the range
			v[i] = sign
		case 3: // constant
			v[i] = at
		case 4: // nearly constant
			v[i] = max(-1, min(1, at+0.001*rng.NormFloat64()))
		case 5: // from one end to the other
			v[i] = sign * (2*float64(i)/float64(max(n-1, 1)) - 1)
		case 6: // an oscillation
			v[i] = math.Sin(at*math.Pi*float64(i) + sign)
		case 7: // extremes in turn
			v[i] = sign * float64(1-2*(i%2))
		}
	}
	if rng.IntN(4) == 0 { // with an outlier
		v[rng.IntN(n)] = -sign
	}
	return v
}

// manyCase is a set of programs over windows of one length, and what it computes with.
type manyCase struct {
	stream config.Stream
	vars   map[string]Var
	exprs  []string
	set    *Set
	ev     *henc.Evaluator
}

func manyCases(t *testing.T, b *bench, lengths []int) (all []*manyCase) {
	t.Helper()
	for _, samples := range lengths {
		st := testStream("one", b.ctx.Parameters().Name(), samples, [2]float64{-40, 125}, [2]float64{0, 20})
		vars := map[string]Var{"x": {"a", st, 0}, "y": {"a", st, 1}}
		for _, exprs := range [][]string{{"mean(x)", "var(x)", "cov(x, y)"},
			{"std(y)", "rms(y)", "mean(x*y)", "x - y"}} {
			c := &manyCase{stream: st, vars: vars, exprs: exprs}
			var err error
			if c.set, err = Fuse(nil, c.compile(t, b, samples)...); err != nil {
				t.Fatal(err)
			}
			c.ev = b.evaluator(t, c.set)
			all = append(all, c)
		}
	}
	return all
}

// compile compiles the programs for windows with so many samples.
func (c *manyCase) compile(t *testing.T, b *bench, present int) (all []*Circuit) {
	t.Helper()
	src := Source{Name: "p", Vars: c.vars}
	if present < c.stream.Window.Samples {
		src.Present = map[Input]int{{"a", "one", 0}: present}
	}
	for _, expr := range c.exprs {
		src.Expr = expr
		one, err := Compile(src, b.ctx.Parameters())
		if err != nil {
			t.Errorf("%s of %d of %d samples: %v", expr, present, c.stream.Window.Samples, err)
			continue
		}
		all = append(all, one)
	}
	return all
}

// play encrypts one window, full or in part, runs all programs on it and returns the largest
// error in relation to what is promised for the value, that of roots left out.
func (c *manyCase) play(t *testing.T, b *bench, rng *rand.Rand) (worst float64) {
	t.Helper()
	n := c.stream.Window.Samples
	partial := rng.IntN(4) == 0
	if partial {
		n = 1 + rng.IntN(n-1)
	}
	slots, plain := make([]float64, c.stream.Slots()), map[string][]float64{}
	for ch, name := range []string{"x", "y"} {
		u := drawn(rng, n)
		mid, half := c.stream.Channels[ch].Affine()
		natural := make([]float64, n)
		for i, v := range u {
			slots[ch*c.stream.Stride()+i] = v
			natural[i] = mid + half*v
		}
		plain[VarKey(name, 0)] = natural
	}
	p := b.ctx.Parameters()
	ct, err := b.enc.EncryptReal(slots, c.stream.LevelAt(p.Depth()), InputScale(p, c.stream), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer b.ctx.Ring().Free(ct.Value)
	inputs := map[Input]*henc.Ciphertext{{"a", "one", 0}: ct}
	circuits, results := c.set.Circuits(), []*henc.Ciphertext(nil)
	if partial { // the service runs these one by one
		circuits = c.compile(t, b, n)
		for _, one := range circuits {
			var r *henc.Ciphertext
			if r, _, err = one.Run(b.evaluator(t, one), inputs); err != nil {
				break
			}
			results = append(results, r)
		}
	} else {
		results, err = c.set.Run(c.ev, inputs)
	}
	if err != nil {
		t.Errorf("%q of %d samples: %v", c.exprs, n, err)
		return 0
	}
	for i, one := range circuits {
		want, err := one.Reference(plain)
		if err != nil {
			t.Error(err)
			return worst
		}
		out := one.Output()
		got := b.decrypt(t, results[i], out)
		b.ctx.Ring().Free(results[i].Value)
		for j := range want {
			d, bound := math.Abs(got[j]-want[j]), out.BoundAt(got[j])
			if !out.Sqrt { // all of a root near 0 may be error
				worst = max(worst, d/bound)
			}
			if !(d <= bound) {
				t.Errorf("%s of %d of %d samples: value %d is %g, want %g within %g", one.prog.Expr, n,
					c.stream.Window.Samples, j, got[j], want[j], bound)
			}
		}
	}
	return worst
}

// TestManyWindows: whatever windows hold, full or not, every result of fused programs is
// within the error that its program promises. Most windows are those of a small ring with
// the moduli of edge13-d3: the promise follows from degree, moduli and scales alike.
func TestManyWindows(t *testing.T) {
	windows := manyRounds()
	full, small := mustParams(t, "edge13-d3"), smallRing(t)
	for _, c := range []struct {
		params  henc.Parameters
		windows int
		lengths []int
	}{{small, windows - windows/50, []int{2, 16, 60, 256}}, {full, windows / 50, []int{16, 256, 1024}}} {
		t.Run(c.params.Name(), func(t *testing.T) { manyWindows(t, newBench(t, c.params), c.windows, c.lengths) })
	}
}

func manyWindows(t *testing.T, b *bench, windows int, lengths []int) {
	cases := manyCases(t, b, lengths)
	var next atomic.Int64
	var workers sync.WaitGroup
	var mu sync.Mutex
	worst := 0.0
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= windows || t.Failed() {
					return
				}
				w := cases[i%len(cases)].play(t, b, rand.New(rand.NewPCG(21, uint64(i))))
				mu.Lock()
				worst = max(worst, w)
				if i%10_000 == 9_999 {
					t.Logf("%d windows so far, the largest error is %.2g of what is promised", i+1, worst)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d windows; the largest error is %.2g of what is promised", windows, worst)
	if worst == 0 {
		t.Error("no result has an error: nothing was computed")
	}
}
