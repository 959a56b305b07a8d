package evaluator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// packConfig packs results of programs with levels enough.
func packConfig(t *testing.T, dir string, pack int, within time.Duration,
	programs ...config.Program) *config.Evaluator {
	t.Helper()
	cfg := testConfig(t, programs...)
	if dir != "" {
		cfg = storeConfig(t, dir, programs...)
	}
	cfg.Results = &config.Results{Pack: pack, Within: within}
	for i := range cfg.Streams {
		cfg.Streams[i].Params = "edge13-d3"
	}
	cfg.Limits.Object = config.Size(1 << 20)
	return cfg
}

// pack waits for a pack, and returns its header and its results with their values.
func (r *rig) pack() (*transport.Meta, []transport.Meta, []float64) {
	r.t.Helper()
	obj := testrig.Receive(r.t, "a pack", r.results)
	results, ciphertext, err := obj.Meta.Results(obj.Body)
	if err != nil || obj.Meta.Packed == 0 {
		r.t.Fatalf("%s is no pack: %v", obj.Meta.Program, err)
	}
	ct, err := r.ctx.UnmarshalCiphertext(ciphertext)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := obj.Meta.CheckBody(r.ctx.Parameters().Hash(), ct.Level, ct.Scale); err != nil {
		r.t.Error(err)
	}
	slots, err := r.dec.DecryptRealBounded(ct, program.PackMagnitude(r.ctx.Parameters()))
	if err != nil {
		r.t.Fatal(err)
	}
	values := make([]float64, len(results))
	for i := range results {
		values[i] = results[i].Post.A*slots[results[i].Post.Slot] + results[i].Post.B
	}
	for i := range results {
		r.eventOf(obj.ID, &results[i])
	}
	return &obj.Meta, results, values
}

// eventOf waits for the event of a result in a pack. Packs that are handed over one after the other tell of their
// results at the same time.
func (r *rig) eventOf(pack [32]byte, m *transport.Meta) {
	r.t.Helper()
	is := func(e Event) bool { return e.ID == pack && e.Program == m.Program && e.Meta.Sequence == m.Sequence }
	at := slices.IndexFunc(r.early, is)
	if at >= 0 {
		r.early = slices.Delete(r.early, at, at+1)
		return
	}
	for {
		e := testrig.Receive(r.t, fmt.Sprintf("the event of %s %d in a pack", m.Program, m.Sequence), r.events)
		if is(e) {
			return
		}
		r.early = append(r.early, e)
	}
}

// waiting returns how many results are in the open packs.
func (r *rig) waiting() (n int) {
	k := r.service.packs
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.open {
		n += len(p.results)
	}
	return n
}

// TestPacks: single values of several programs go out together, each with its own number,
// windows and promise, in the order of its program. Others go out alone. With a store and
// without.
func TestPacks(t *testing.T) {
	programs := append(setPrograms(), config.Program{Name: "elsewhere", Expr: "mean(x)", Topic: "other/place",
		Inputs: map[string]string{"x": "d1/count/temp"}})
	for name, dir := range map[string]string{"direct": "", "stored": filepath.Join(t.TempDir(), "store")} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, packConfig(t, dir, 4, 10*time.Minute, programs...))
			want := map[string][]float64{}
			var ids [][32]byte
			alone, packs := map[string]int{}, 0
			for seq := range uint64(4) {
				temp, load := numbers(8, 20+float64(seq), 1.5), numbers(8, -1+0.1*float64(seq), 0.1)
				want["mean"], want["load"] = append(want["mean"], average(temp)), append(want["load"], average(load))
				ids = append(ids, r.sendWindow(r.window("d1", "count", seq+1, epoch, temp, load)))
				for range 2 { // those that go out alone
					obj := testrig.Receive(t, "a result alone", r.results)
					if obj.Meta.Packed > 0 {
						packs++
						r.checkPack(t, obj, want, ids)
						obj = testrig.Receive(t, "a result alone", r.results)
					}
					alone[obj.Meta.Program]++
				}
			}
			for ; packs < 2; packs++ {
				r.checkPack(t, testrig.Receive(t, "a pack", r.results), want, ids)
			}
			if alone["product"] != 4 || alone["elsewhere"] != 4 {
				t.Errorf("alone went %v", alone)
			}
			testrig.Eventually(t, "16 results, 2 packs", func() bool { // are counted after they are sent
				s := r.service.Stats()
				return s.Results >= 16 && s.Packs >= 2
			})
			s := r.service.Stats()
			if s.Results != 16 || s.Packs != 2 || s.Failed != 0 || s.Programs["mean"].Results != 4 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// checkPack compares four results of mean and load with what they have to be.
func (r *rig) checkPack(t *testing.T, obj *transport.Object, want map[string][]float64, ids [][32]byte) {
	t.Helper()
	results, ciphertext, err := obj.Meta.Results(obj.Body)
	if err != nil || len(results) != 4 {
		t.Fatalf("%s with %d results: %v", obj.Meta.Program, len(results), err)
	}
	ct, err := r.ctx.UnmarshalCiphertext(ciphertext)
	if err != nil {
		t.Fatal(err)
	}
	slots, err := r.dec.DecryptReal(ct)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]uint64{}
	for _, m := range results {
		n := m.Sequence
		if n <= last[m.Program] || n > uint64(len(ids)) || !slices.Equal(m.Inputs, [][32]byte{ids[n-1]}) {
			t.Errorf("%s: number %d of %x after %d", m.Program, n, m.Inputs, last[m.Program])
			continue
		}
		last[m.Program] = n
		v := m.Post.A*slots[m.Post.Slot] + m.Post.B
		if d := math.Abs(v - want[m.Program][n-1]); !(d <= m.Post.Bound) {
			t.Errorf("%s %d = %g, want %g within %g", m.Program, n, v, want[m.Program][n-1], m.Post.Bound)
		}
	}
}

// TestPackLeaves: a lone result leaves when it has waited for within, and a stop
// publishes what waits.
func TestPackLeaves(t *testing.T) {
	mean := prog("mean", "mean(x)", inputs("d1/count/temp"))
	temp, load := numbers(8, 20, 1), numbers(8, 0, 0.1)
	for name, within := range map[string]time.Duration{"after within": 20 * time.Millisecond,
		"at a stop": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, packConfig(t, "", 256, within, mean))
			id := r.sendWindow(r.window("d1", "count", 1, epoch, temp, load))
			if within > time.Minute {
				testrig.Eventually(t, "the result waits in a pack", func() bool { return r.waiting() == 1 })
				r.stop()
			}
			m, results, values := r.pack()
			if m.Packed != 1 || results[0].Inputs[0] != id ||
				math.Abs(values[0]-average(temp)) > results[0].Post.Bound {
				t.Errorf("%+v, %v", results, values)
			}
		})
	}
}

// TestPackOfPartialWindows: a window that is not full goes into a pack too.
func TestPackOfPartialWindows(t *testing.T) {
	r := newRig(t, packConfig(t, "", 2, 10*time.Minute, prog("mean", "mean(x)", inputs("d1/time/temp"))))
	full, short := numbers(8, 20, 1), numbers(5, 60, 2)
	r.sendWindow(r.window("d1", "time", 1, epoch, full, numbers(8, 0, 0.1)))
	testrig.Eventually(t, "the first result waits in a pack", func() bool { return r.waiting() == 1 })
	r.sendWindow(r.window("d1", "time", 2, epoch.Add(time.Second), short, numbers(5, 0, 0.1)))
	_, results, values := r.pack()
	if len(results) != 2 || len(results[0].Present) != 0 || !slices.Equal(results[1].Present, []uint32{5}) {
		t.Fatalf("%+v", results)
	}
	for i, want := range []float64{average(full), average(short)} {
		if math.Abs(values[i]-want) > results[i].Post.Bound {
			t.Errorf("%d: %g, want %g within %g", i, values[i], want, results[i].Post.Bound)
		}
	}
}

// TestPackSurvives: with a store, windows stay until the pack of their results is in the
// store too. What a process takes along that ends within a pack is made once more, once.
func TestPackSurvives(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "state")
	programs := []config.Program{prog("mean", "mean(x)", inputs("d1/count/temp")),
		prog("load", "mean(x)", inputs("d1/count/load"))}
	r := newRigAt(t, packConfig(t, dir, 256, 10*time.Minute, programs...), state)
	temp, load := numbers(8, 20, 1), numbers(8, 0, 0.1)
	id := r.sendWindow(r.window("d1", "count", 1, epoch, temp, load))
	testrig.Eventually(t, "two results in a pack", func() bool { return r.waiting() == 2 })
	store := r.service.custody.(*stored).store
	if st := store.Stats(); st.Windows != 1 || st.Results != 0 || store.Results.Made("mean", [][32]byte{id}) {
		t.Errorf("while the pack is open: %+v", st)
	}
	k := r.service.packs // as when the stop timeout is over before the pack is sealed
	dead, kill := context.WithCancel(context.Background())
	kill()
	k.drain(dead)
	if st := store.Stats(); st.Windows != 1 || st.Results != 0 {
		t.Errorf("after a pack that was not sealed: %+v", st)
	}
	r.stop()

	r = newRigAt(t, packConfig(t, dir, 2, 10*time.Minute, programs...), state)
	_, results, values := r.pack()
	for i, m := range results {
		want := map[string]float64{"mean": average(temp), "load": average(load)}[m.Program]
		if !slices.Equal(m.Inputs, [][32]byte{id}) || math.Abs(values[i]-want) > m.Post.Bound {
			t.Errorf("%s = %g, want %g: %+v", m.Program, values[i], want, m)
		}
	}
	store = r.service.custody.(*stored).store
	testrig.Eventually(t, "the window is worked off", func() bool { return store.Stats().Windows == 0 })
	if !store.Results.Made("mean", [][32]byte{id}) && !store.Windows.Known(id) {
		t.Error("nothing remembers the result or its window")
	}
	r.stop()

	r = newRigAt(t, packConfig(t, dir, 2, 20*time.Millisecond, programs...), state)
	second := r.sendWindow(r.window("d1", "count", 2, epoch, temp, load))
	_, results, _ = r.pack()
	if len(results) == 0 || !slices.Equal(results[0].Inputs, [][32]byte{second}) {
		t.Errorf("after all was delivered: %+v", results)
	}
}

// TestPackFails: an error of a pack fails each of its results, and no other pack.
func TestPackFails(t *testing.T) {
	r := newRig(t, packConfig(t, "", 2, 10*time.Minute, prog("mean", "mean(x)", inputs("d1/count/temp"))))
	temp, load := numbers(8, 20, 1), numbers(8, 0, 0.1)
	r.sendWindow(r.window("d1", "count", 1, epoch, temp, load))
	testrig.Eventually(t, "the result waits in a pack", func() bool { return r.waiting() == 1 })
	k := r.service.packs
	k.mu.Lock()
	for _, p := range k.open {
		p.bodies[0] = p.bodies[0][1:]
	}
	k.mu.Unlock()
	r.sendWindow(r.window("d1", "count", 2, epoch, temp, load))
	for range 2 {
		testrig.Receive(t, "a failure", r.refused)
	}
	for seq := range uint64(2) {
		r.sendWindow(r.window("d1", "count", 3+seq, epoch, temp, load))
	}
	if _, results, _ := r.pack(); len(results) != 2 || results[1].Sequence != 2 {
		t.Errorf("%+v", results)
	}
	testrig.Eventually(t, "a pack", func() bool { return r.service.Stats().Packs > 0 })
	if s := r.service.Stats(); s.Failed != 2 || s.Results != 2 || s.Packs != 1 {
		t.Errorf("stats %+v", s)
	}
}

// TestPackPlan: what cannot be packed goes out alone, and the check says why.
func TestPackPlan(t *testing.T) {
	cfg := packConfig(t, "", 256, time.Second, setPrograms()...)
	packs, alone, err := ExplainPacks(cfg)
	if err != nil || len(packs) != 1 || !strings.Contains(packs[0], "3 programs under edge13-d3") ||
		!strings.Contains(packs[0], "up to 256 in 121 KiB") || len(alone) != 1 ||
		!strings.Contains(alone[0], "product go out one by one: `x*y` gives 8 values") {
		t.Errorf("%q, %q, %v", packs, alone, err)
	}
	plan, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if needs := plan.Needs(); len(needs) != 1 || !slices.Contains(needs[0].Rotations, program.PackRotation) {
		t.Errorf("needs %+v", needs)
	}
	for i := range cfg.Streams {
		cfg.Streams[i].Params = "edge12-d1"
	}
	packs, alone, err = ExplainPacks(cfg)
	if err != nil || len(packs) != 0 || len(alone) != 3 || !strings.Contains(strings.Join(alone, "\n"),
		"cannot be packed: no level is left") {
		t.Errorf("%q, %q, %v", packs, alone, err)
	}
	cfg.Results = nil
	if packs, alone, err := ExplainPacks(cfg); packs != nil || alone != nil || err != nil {
		t.Errorf("%q, %q, %v", packs, alone, err)
	}
	cfg.Results, cfg.Programs[0].Expr = &config.Results{Pack: 2}, "mean("
	if _, _, err := ExplainPacks(cfg); !errors.Is(err, ErrConfig) {
		t.Errorf("a program that is none: %v", err)
	}
}
