package program

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// placedCase is a set of programs for a class whose windows stand at places, and what it
// computes with.
type placedCase struct {
	manyCase
	places int
	packed bool

	mu    sync.Mutex
	parts map[int][]*Circuit // for windows with so many samples
}

func placedCases(t *testing.T, b *bench, shapes [][2]int) (all []*placedCase) {
	t.Helper()
	for _, shape := range shapes {
		st := testStream("one", b.ctx.Parameters().Name(), shape[1], [2]float64{-40, 125}, [2]float64{0, 20})
		st.Places = shape[0]
		for _, c := range []struct {
			packed bool
			exprs  []string
		}{
			{false, []string{"mean(x)", "var(x)", "cov(x, y)"}},
			{true, []string{"mean(x)", "var(x)", "cov(x, y)"}},
			{false, []string{"std(y)", "x - mean(x)", "mean(x*y)", "x - y"}},
			{true, []string{"rms(y)", "mean(x - 0.5*y)", "std(x)"}},
		} {
			p := &placedCase{places: st.Places, packed: c.packed, parts: map[int][]*Circuit{}}
			p.manyCase = manyCase{stream: st, exprs: c.exprs, vars: map[string]Var{"x": {"", st, 0}, "y": {"", st, 1}}}
			var err error
			if p.set, err = Fuse(nil, p.compile(t, b, shape[1])...); err != nil {
				t.Fatal(err)
			}
			p.ev = b.evaluator(t, p.set)
			all = append(all, p)
		}
	}
	return all
}

// compile compiles the programs for windows with so many samples.
func (c *placedCase) compile(t *testing.T, b *bench, present int) (all []*Circuit) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if all = c.parts[present]; all != nil {
		return all
	}
	src := Source{Name: "p", Class: "pump", Vars: c.vars, Packed: c.packed}
	if present < c.stream.Window.Samples {
		src.Present = map[Input]int{{"", "one", 0}: present}
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
	c.parts[present] = all
	return all
}

// window encrypts the window of a device at a place.
func (c *placedCase) window(b *bench, place, samples int, rng *rand.Rand) (*henc.Ciphertext, map[string][]float64,
	error) {
	p := b.ctx.Parameters()
	first := c.stream.Place(place, p.Slots())
	slots, plain := make([]float64, first+c.stream.Slots()), map[string][]float64{}
	for ch, name := range []string{"x", "y"} {
		mid, half := c.stream.Channels[ch].Affine()
		natural := make([]float64, samples)
		for i, v := range drawn(rng, samples) {
			slots[first+ch*c.stream.Stride()+i] = v
			natural[i] = mid + half*v
		}
		plain[VarKey(name, 0)] = natural
	}
	ct, err := b.enc.EncryptReal(slots, c.stream.LevelAt(p.Depth()), InputScale(p, c.stream), nil)
	return ct, plain, err
}

// placedValues are those of one device in a result.
type placedValues struct {
	c      *Circuit
	result int
	place  int
	want   []float64
}

// added is what play makes of windows: results, and the values in them.
type added struct {
	cts     []*henc.Ciphertext
	spots   []Spots
	values  []placedValues
	windows int
	room    Places // of the pack
}

// play adds up windows of some devices and runs all programs on the sum, for a pack several
// times. It checks every value of every device, and returns the number of windows and the
// largest error in relation to what is promised, that of roots left out.
func (c *placedCase) play(t *testing.T, b *bench, rng *rand.Rand) (windows int, worst float64) {
	t.Helper()
	a := &added{}
	defer func() {
		for _, ct := range a.cts {
			b.ctx.Ring().Free(ct.Value)
		}
	}()
	runs := 1
	if c.packed {
		runs = 1 + rng.IntN(min(24, b.ctx.Parameters().Slots()/(c.places*len(c.exprs))))
	}
	for range runs {
		if more, err := c.add(t, b, a, rng); err != nil {
			t.Errorf("%q at %d places: %v", c.exprs, c.places, err)
			return a.windows, 0
		} else if !more {
			break
		}
	}
	slots, at, err := c.read(b, a)
	if err != nil {
		t.Errorf("%q at %d places: %v", c.exprs, c.places, err)
		return a.windows, 0
	}
	for _, v := range a.values {
		out := v.c.Output()
		if c.packed {
			out.Slot = at[v.result]
		}
		out = out.At(v.place, c.places, b.ctx.Parameters().Slots())
		for j, got := range readOutput(slots[v.result], out) {
			d, bound := math.Abs(got-v.want[j]), out.BoundAt(got)
			if !out.Sqrt { // all of a root near 0 may be error
				worst = max(worst, d/bound)
			}
			if !(d <= bound) {
				t.Errorf("%s (%d samples at place %d of %d, packed %t): value %d is %g, want %g within %g",
					v.c.prog.Expr, c.stream.Window.Samples, v.place, c.places, c.packed, j, got, v.want[j], bound)
			}
		}
	}
	return a.windows, worst
}

// add adds up windows of some devices, all full or all with as few samples, and runs all
// programs on the sum. It reports false if their results do not fit the pack any more.
func (c *placedCase) add(t *testing.T, b *bench, a *added, rng *rand.Rand) (more bool, err error) {
	samples := c.stream.Window.Samples
	circuits := c.set.Circuits()
	partial := rng.IntN(4) == 0
	if partial { // the service runs these one by one
		samples = 1 + rng.IntN(samples-1)
		circuits = c.compile(t, b, samples)
	}
	var spots []Spots
	for _, one := range circuits {
		if _, ok := a.room.Add(one.Spots(), b.ctx.Parameters().Slots()); c.packed && !ok {
			return false, nil
		}
		spots = append(spots, one.Spots())
	}
	it := Item{Routine: c.set, Evaluator: c.ev}
	for k, place := range rng.Perm(c.places)[:1+rng.IntN(c.places)] {
		ct, plain, err := c.window(b, place, samples, rng)
		if err != nil {
			return false, err
		}
		defer b.ctx.Ring().Free(ct.Value)
		a.windows++
		if inputs := map[Input]*henc.Ciphertext{{"", "one", 0}: ct}; k == 0 {
			it.Inputs = inputs
		} else {
			it.Added = append(it.Added, inputs)
		}
		for i, one := range circuits {
			want, err := one.Reference(plain)
			if err != nil {
				return false, err
			}
			a.values = append(a.values, placedValues{one, len(a.cts) + i, place, want})
		}
	}
	routines := []Routine{c.set}
	if partial {
		routines = nil
		for _, one := range circuits {
			routines = append(routines, one)
		}
	}
	for _, r := range routines {
		it.Routine, it.Evaluator = r, b.evaluator(t, r.base())
		made, err := r.base().run(it)
		if err != nil {
			return false, err
		}
		a.cts = append(a.cts, made...)
	}
	a.spots = append(a.spots, spots...)
	return true, nil
}

// read decrypts the results, or the pack of all of them. It returns the slots of each and,
// for a pack, where its values start.
func (c *placedCase) read(b *bench, a *added) (slots [][]float64, at []int, err error) {
	slots = make([][]float64, len(a.cts))
	if !c.packed {
		for i, ct := range a.cts {
			if slots[i], err = b.dec.DecryptReal(ct); err != nil {
				return nil, nil, err
			}
		}
		return slots, nil, nil
	}
	pack, at, err := Pack(c.ev, a.cts, a.spots)
	if err != nil {
		return nil, nil, err
	}
	defer b.ctx.Ring().Free(pack.Value)
	all, err := b.dec.DecryptRealBounded(pack, PackMagnitude(b.ctx.Parameters()))
	for i := range slots {
		slots[i] = all
	}
	return slots, at, err
}

// TestManyPlaces is TestManyWindows for windows of several devices that are added up, packed
// and not.
func TestManyPlaces(t *testing.T) {
	windows := manyRounds()
	full, small := mustParams(t, "edge13-d3"), smallRing(t)
	for _, c := range []struct {
		params  henc.Parameters
		windows int
		shapes  [][2]int // places, samples
	}{{small, windows - windows/50, [][2]int{{2, 100}, {4, 60}, {8, 32}, {16, 16}, {64, 3}}},
		{full, windows / 50, [][2]int{{8, 256}, {64, 16}}}} {
		t.Run(c.params.Name(), func(t *testing.T) { manyPlaces(t, newBench(t, c.params), c.windows, c.shapes) })
	}
}

func manyPlaces(t *testing.T, b *bench, windows int, shapes [][2]int) {
	cases := placedCases(t, b, shapes)
	var turn, done atomic.Int64
	var workers sync.WaitGroup
	var mu sync.Mutex
	worst := 0.0
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for int(done.Load()) < windows && !t.Failed() {
				i := int(turn.Add(1)) - 1
				n, w := cases[i%len(cases)].play(t, b, rand.New(rand.NewPCG(23, uint64(i))))
				all := done.Add(int64(n))
				mu.Lock()
				worst = max(worst, w)
				if all/10_000 > (all-int64(n))/10_000 {
					t.Logf("%d windows so far, the largest error is %.2g of what is promised", all, worst)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d windows in %d sums or packs; the largest error is %.2g of what is promised", done.Load(), turn.Load(),
		worst)
	if worst == 0 {
		t.Error("no result has an error: nothing was computed")
	}
}
