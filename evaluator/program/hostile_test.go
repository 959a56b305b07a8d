package program

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// spoiled is what a hostile device adds to a window: values in slots of its choice.
type spoiled map[int]float64

// hostileWindow encrypts a window of the value u in every sample of x at a place, and what is
// added to it.
func (b *bench) hostileWindow(t *testing.T, c *Circuit, place int, u float64, add spoiled) map[Input]*henc.Ciphertext {
	t.Helper()
	p, in := b.ctx.Parameters(), c.Inputs()[0]
	st := c.prog.Vars["x"].Stream
	slots := make([]float64, p.Slots())
	for i := range st.Window.Samples {
		slots[st.Place(place, p.Slots())+i] = u
	}
	for at, v := range add {
		slots[at] += v
	}
	ct, err := b.enc.EncryptReal(slots, st.LevelAt(p.MaxLevel()), InputScale(p, st), nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[Input]*henc.Ciphertext{in: ct}
}

// off returns how far the value of a device, whose samples all are u, is from the truth, in
// promised errors.
func off(c *Circuit, slots []float64, out Output, u float64) float64 {
	mid, half := c.prog.Vars["x"].Stream.Channels[0].Affine()
	return math.Abs(readOutput(slots, out)[0]-(mid+half*u)) / out.Bound
}

// TestHostileAtPlaces: what docs/security.md says a device can do to those whose windows its
// own is added to, and what it cannot.
func TestHostileAtPlaces(t *testing.T) {
	p := smallRing(t)
	b := newBench(t, p)
	c := circuitsOf(placedFor(t, p, 8, false, "mean(x)")[0])[0]
	st, own := c.prog.Vars["x"].Stream, p.Slots()/8
	all := func(v float64) spoiled {
		add := spoiled{}
		for i := range p.Slots() {
			add[i] = v * rand.New(rand.NewPCG(1, uint64(i))).NormFloat64()
		}
		return add
	}
	for name, h := range map[string]struct {
		place   int // where the samples of the device of place 1 stand
		add     spoiled
		victims [3]bool // places 0, 1 (its own) and 2: whether their values are wrong
	}{
		"honest":                      {1, nil, [3]bool{}},
		"out of range in its slots":   {1, spoiled{own: 3 * float64(st.Window.Samples)}, [3]bool{false, true, false}},
		"a value at another's place":  {1, spoiled{0: 0.01 * float64(st.Window.Samples)}, [3]bool{true, false, false}},
		"its samples at another's":    {2, nil, [3]bool{false, true, true}},
		"noise":                       {1, all(1), [3]bool{true, true, true}},
		"too large for the modulus":   {1, spoiled{own: 0x1p100}, [3]bool{true, true, true}},
		"too large, in unused slots":  {1, spoiled{own + st.Stride(): 0x1p100}, [3]bool{true, true, true}},
		"in slots of nobody, a place": {1, spoiled{5 * own: 1}, [3]bool{}},
	} {
		us := [3]float64{0.5, -0.25, 0.125}
		it := Item{Routine: c, Evaluator: b.evaluator(t, c), Inputs: b.hostileWindow(t, c, 0, us[0], nil),
			Added: []map[Input]*henc.Ciphertext{b.hostileWindow(t, c, h.place, us[1], h.add),
				b.hostileWindow(t, c, 2, us[2], nil)}}
		results, err := c.run(it)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		slots, err := b.dec.DecryptRealBounded(results[0], c.Magnitude())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for place, wrong := range h.victims {
			if d := off(c, slots, c.OutputAt(place), us[place]); (d > 1) != wrong {
				t.Errorf("%s: the value at place %d is off by %.3g promised errors", name, place, d)
			}
		}
	}
}

// TestHostileInPack: a window beyond its range spoils the results that its own shares a pack
// with, whatever they are of, and no result that goes out alone.
func TestHostileInPack(t *testing.T) {
	p := smallRing(t)
	b := newBench(t, p)
	for name, h := range map[string]struct {
		add     spoiled
		spoiled bool
	}{"honest": {nil, false}, "out of range": {spoiled{0: 1000}, false}, "too large": {spoiled{100: 0x1p100}, true}} {
		c := circuitsOf(placedFor(t, p, 0, true, "mean(x)")[0])[0]
		ev := b.evaluator(t, c)
		var made []*henc.Ciphertext
		for i, add := range []spoiled{nil, h.add} {
			results, err := c.run(Item{Routine: c, Evaluator: ev,
				Inputs: b.hostileWindow(t, c, 0, 0.5-0.125*float64(i), add)})
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, results[0])
		}
		pack, at, err := Pack(ev, made, []Spots{c.Spots(), c.Spots()})
		if err != nil {
			t.Fatal(err)
		}
		slots, err := b.dec.DecryptRealBounded(pack, PackMagnitude(p))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out := c.Output()
		out.Slot = at[0]
		if d := off(c, slots, out, 0.5); (d > 1) != h.spoiled {
			t.Errorf("%s: the other result is off by %.3g promised errors", name, d)
		}
	}
}
