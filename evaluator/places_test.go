package evaluator

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// placesConfig is classConfig with streams whose windows stand at places, for devices q0 to q7.
func placesConfig(t *testing.T, places int, programs ...config.Program) *config.Evaluator {
	t.Helper()
	cfg, dir := classConfig(t, programs...)
	for i := range cfg.Classes[0].Streams {
		cfg.Classes[0].Streams[i].Places = places
	}
	for i := range 8 {
		enroll(t, dir, fmt.Sprintf("q%d", i))
	}
	return cfg
}

// TestPlacesOfAClass: devices at different places, and two at one, each have results of their
// own windows, in order, read at the slot of their place. With a store and without, packed and
// not.
func TestPlacesOfAClass(t *testing.T) {
	for _, c := range []struct{ stored, packed bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("stored %t, packed %t", c.stored, c.packed), func(t *testing.T) {
			cfg := placesConfig(t, 4, forPump("mean", "mean(x)", map[string]string{"x": "count/temp"}),
				forPump("diff", "mean(x) - mean(y)", map[string]string{"x": "count/temp", "y": "count/load"}))
			if c.stored {
				cfg.Store = &config.Store{Dir: t.TempDir()}
				cfg.SetDefaults()
			}
			if c.packed {
				cfg.Results = &config.Results{Pack: 12, Within: 10 * time.Minute}
				cfg.Limits.Object = config.Size(1 << 20)
				for i := range cfg.Classes[0].Streams {
					cfg.Classes[0].Streams[i].Params = "edge13-d3"
				}
				for i := range cfg.Streams {
					cfg.Streams[i].Params = "edge13-d3"
				}
			}
			r := newRig(t, cfg)
			const rounds = 3
			want := map[string]map[[32]byte]float64{"mean": {}, "diff": {}}
			device := map[[32]byte]string{}
			for seq := range uint64(rounds) {
				for i := range 8 {
					name := fmt.Sprintf("q%d", i)
					temp, load := numbers(8, 20+float64(i), 0.5*float64(seq)), numbers(8, -1+0.1*float64(i), 0.1)
					id := r.sendWindow(r.window(name, "count", seq+1, epoch, temp, load))
					device[id], want["mean"][id], want["diff"][id] = name, average(temp), average(temp)-average(load)
				}
			}
			r.checkPlaces(want, device, 2*8*rounds, c.packed)
		})
	}
}

// checkPlaces takes results until there are n, and compares each with that of its window.
func (r *rig) checkPlaces(want map[string]map[[32]byte]float64, device map[[32]byte]string, n int, packed bool) {
	t := r.t
	t.Helper()
	last := map[string]int{} // window by program and device, counted by the ids that were seen
	slots := map[string][]int{}
	for got := 0; got < n; {
		var values []float64
		var metas = r.oneOrPack(packed, &values)
		for i, m := range metas {
			id := m.Inputs[0]
			value, ok := want[m.Program][id]
			if !ok || m.Subject != device[id] {
				t.Fatalf("%s of %s: %x", m.Program, m.Subject, id)
			}
			delete(want[m.Program], id)
			if d := math.Abs(values[i] - value); !(d <= m.Post.Bound) {
				t.Errorf("%s of %s: %g, want %g within %g", m.Program, m.Subject, values[i], value, m.Post.Bound)
			}
			last[m.Program+m.Subject]++
			if !packed {
				slots[m.Program] = append(slots[m.Program], m.Post.Slot)
			}
		}
		got += len(metas)
	}
	for program, all := range slots {
		slices.Sort(all)
		if all = slices.Compact(all); len(all) != 4 || all[3]-all[0] != 3*(r.ctx.Parameters().Slots()/4) {
			t.Errorf("%s is read at slots %v", program, all)
		}
	}
	if s := r.service.Stats(); s.Failed != 0 || s.Results != uint64(n) {
		t.Errorf("stats %+v", s)
	}
}

// TestPackAddsOnce: results that are one ciphertext enter a pack once.
func TestPackAddsOnce(t *testing.T) {
	cfg := packConfig(t, "", 8, time.Second, prog("mean", "mean(x)", inputs("d1/count/temp")))
	plan, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &pack{at: map[engine.Origin]int{}}
	for spot := range 3 {
		e := &packed{circuit: plan.Programs[0].Circuit, spot: spot, body: []byte{byte(spot)}}
		if !p.add(e) || e.body != nil {
			t.Fatalf("result %d has no room, or keeps its ciphertext", spot)
		}
	}
	if len(p.results) != 3 || len(p.bodies) != 1 || len(p.spots) != 1 {
		t.Errorf("%d results in %d ciphertexts", len(p.results), len(p.bodies))
	}
}

// TestPlacesRefused: windows at a place that the stream does not have, or at another one than
// before for a program that looks back, are refused by name.
func TestPlacesRefused(t *testing.T) {
	cfg := placesConfig(t, 4, forPump("change", "mean(x) - mean(prev(x))", map[string]string{"x": "count/temp"}))
	r := newRig(t, cfg)
	at := func(seq uint64, place uint32, change func(*reading)) {
		w := r.window("q1", "count", seq, epoch.Add(time.Duration(seq)*time.Minute), numbers(8, 20, 1),
			numbers(8, 0, 0))
		if w.meta.Place = place; change != nil {
			change(w)
		}
		r.sendWindow(w)
	}
	at(1, 4, nil)
	r.expectRefusal("place")
	at(2, 1<<15, nil)
	r.expectRefusal("place")
	at(3, 1, func(w *reading) {
		plain := findStream(cfg, "q1", "count").Stream
		plain.Places = 0
		w.meta.Layout = plain.LayoutHash()
	})
	r.expectRefusal("wrong_layout")
	at(4, 1, nil)
	at(5, 2, nil)
	r.expectRefusal("place_change")
	at(6, 2, nil)
	if obj := testrig.Receive(t, "a result", r.results); obj.Meta.Subject != "q1" {
		t.Errorf("%+v", obj.Meta)
	}
}

// oneOrPack waits for a result or a pack, and returns the headers of its results and their
// values.
func (r *rig) oneOrPack(packed bool, values *[]float64) []transport.Meta {
	r.t.Helper()
	if packed {
		_, metas, got := r.pack()
		*values = got
		return metas
	}
	obj, got := r.result()
	*values = got
	return []transport.Meta{obj.Meta}
}

// TestHeldWindows: while runs wait, the windows that have left the queue are as many as the
// estimate says, and no more.
func TestHeldWindows(t *testing.T) {
	cfg := placesConfig(t, 4, forPump("mean", "mean(x)", map[string]string{"x": "count/temp"}),
		forPump("load", "mean(x)", map[string]string{"x": "count/load"}))
	costs, err := Estimate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	held := costs.Processor
	const devices, rounds = 8, 6
	if held.Runs < 8 || held.Runs >= devices*rounds || costs.GPU.Runs != 2048 || costs.Places != 4 {
		t.Fatalf("%+v", costs)
	}
	step := make(chan struct{})
	var waiting atomic.Int32
	r := newRig(t, cfg, func(d *Deps) { d.OnResult = func(Event) { waiting.Add(1); <-step } })
	let := sync.OnceFunc(func() { close(step) })
	t.Cleanup(let) // before the service is stopped
	for seq := range uint64(rounds) {
		for i := range devices {
			r.sendWindow(r.window(fmt.Sprint("q", i), "count", seq+1, epoch, numbers(8, 20, 1), numbers(8, 0, 0.1)))
		}
	}
	p, queue := r.ctx.Parameters(), r.service.jobs
	one := int64(8 * p.N() * p.LimbsAt(p.MaxLevel()))
	queued := func() int64 { queue.mu.Lock(); defer queue.mu.Unlock(); return queue.bytes }
	testrig.Eventually(t, "every run waits, and all other windows are queued", func() bool {
		return waiting.Load() == 2*int32(held.Runs) && queued() == devices*rounds*one-held.Windows
	})
	if held.Windows != int64(held.Runs)*one {
		t.Errorf("%d bytes of windows, want %d of %d", held.Windows, held.Runs, one)
	}
	size := int64(p.CiphertextBytes(r.service.plan.Programs[0].Circuit.Level(), false))
	if held.Results != 4*size*int64(held.Runs) { // of two programs, and the copies that are sealed
		t.Errorf("%d bytes of results, want %d of %d", held.Results, 4*held.Runs, size)
	}
	let()
	for range 2 * devices * rounds {
		testrig.Receive(t, "a result", r.results)
	}
}
