package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/transport"
)

const mergePlaces = 8

// mergeRig is an engine on flaky devices that runs a program and a set of a class. Its
// windows stand at places, under keys of two holders.
type mergeRig struct {
	t         *testing.T
	e         *Engine
	devices   []*flaky
	fallbacks atomic.Int64
	one       *program.Circuit
	set       *program.Set
	holders   []mergeHolder
}

type mergeHolder struct {
	ref transport.KeyRef
	enc *henc.Encryptor
	dec *secret.Decryptor
	ctx *henc.Context
}

func newMergeRig(t *testing.T, devices int, w width) *mergeRig {
	t.Helper()
	p := parameters(t)
	r := &mergeRig{t: t}
	st := config.Stream{Name: "s", Params: p.Name(), Places: mergePlaces, Packing: config.PackingReal,
		Window:   config.Window{Samples: 6},
		Channels: []config.Channel{{Name: "c", Unit: "u", Range: [2]float64{-1, 1}}}}
	compile := func(expr string) *program.Circuit {
		c, err := program.Compile(program.Source{Name: "p", Class: "pump", Expr: expr,
			Vars: map[string]program.Var{"x": {Stream: st}}}, p)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	r.one = compile("mean(x*x)")
	var err error
	if r.set, err = program.Fuse(nil, compile("x*x"), compile("2*mean(x) + 1")); err != nil {
		t.Fatal(err)
	}
	var contexts []*henc.Context
	for range devices {
		f := &flaky{Backend: cpu.New()}
		ctx, err := henc.NewContext(p, henc.WithBackend(f), henc.WithN2(1))
		if err != nil {
			t.Fatal(err)
		}
		r.devices, contexts = append(r.devices, f), append(contexts, ctx)
	}
	raw := r.makeHolders(p)
	o := Options{Latency: time.Second, Workers: 2, Places: mergePlaces, width: func(*henc.Context) width { return w },
		Policy: config.FallbackCPU, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		OnFallback: func() { r.fallbacks.Add(1) },
		More:       func(henc.Parameters) ([]*henc.Context, error) { return contexts[1:], nil },
		ReadKeys: func(ctx *henc.Context) (all []Keys, err error) {
			for _, b := range raw {
				ev, err := ctx.UnmarshalEvaluationKeys(b)
				if err != nil {
					return nil, err
				}
				all = append(all, Keys{Context: ctx, Evaluation: ev})
			}
			return all, nil
		}}
	keys, err := o.ReadKeys(contexts[0])
	if err == nil {
		r.e, err = New(keys, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// makeHolders makes the keys of two holders and returns the evaluation keys in bytes.
func (r *mergeRig) makeHolders(p henc.Parameters) (raw [][]byte) {
	for i, n2 := range []int{1, 16} { // windows of one holder are converted
		ctx, err := henc.NewContext(p, henc.WithN2(n2))
		if err != nil {
			r.t.Fatal(err)
		}
		key, err := secret.Generate(ctx, &henc.Seed{byte(i + 1)})
		if err != nil {
			r.t.Fatal(err)
		}
		ev, err := key.EvaluationKeys(nil, false)
		if err == nil {
			ev.Galois, err = key.GaloisKeys(galoisOf(p, append(r.one.Rotations(), r.set.Rotations()...)))
		}
		if err != nil {
			r.t.Fatal(err)
		}
		b, err := ctx.MarshalEvaluationKeys(ev)
		if err != nil {
			r.t.Fatal(err)
		}
		raw = append(raw, b)
		pk, err := key.PublicKey()
		if err != nil {
			r.t.Fatal(err)
		}
		enc, err := henc.NewEncryptor(ctx, pk)
		if err != nil {
			r.t.Fatal(err)
		}
		r.holders = append(r.holders, mergeHolder{Keys{Evaluation: ev}.Ref(), enc, secret.NewDecryptor(ctx, key), ctx})
	}
	return raw
}

func galoisOf(p henc.Parameters, rotations []int) (out []uint64) {
	for _, k := range rotations {
		out = append(out, henc.GaloisElement(p, k))
	}
	return out
}

// mergeJob is a run of one routine on one window.
type mergeJob struct {
	routine reads
	holder  int
	place   int
	spoilt  bool // its window is missing
	values  []float64
	inputs  map[program.Input]*Ciphertext
	got     []Result
	err     error
}

// jobs makes n jobs of random windows at places and under keys that the caller chooses.
func (r *mergeRig) jobs(n int, choose func(i int, j *mergeJob)) []*mergeJob {
	r.t.Helper()
	p := parameters(r.t)
	all := make([]*mergeJob, n)
	for i := range all {
		j := &mergeJob{routine: r.one}
		choose(i, j)
		slots := make([]float64, p.Slots())
		for range 6 {
			j.values = append(j.values, 2*rand.Float64()-1)
		}
		copy(slots[j.place*p.Slots()/mergePlaces:], j.values)
		h := r.holders[j.holder]
		ct, err := h.enc.EncryptReal(slots, p.MaxLevel(), p.DefaultScale(), nil)
		if err != nil {
			r.t.Fatal(err)
		}
		body, err := h.ctx.MarshalCiphertext(ct)
		if err != nil {
			r.t.Fatal(err)
		}
		data, err := r.e.Receive(p.Hash(), body, Turn{})
		if err != nil {
			r.t.Fatal(err)
		}
		if j.inputs = map[program.Input]*Ciphertext{}; !j.spoilt {
			j.inputs[j.routine.Inputs()[0]] = data
		}
		all[i] = j
	}
	return all
}

// run runs all jobs at a time and checks every result: the value of its own window within
// what the program promises. It returns how many failed.
func (r *mergeRig) run(all []*mergeJob) (failed int) {
	r.t.Helper()
	var running sync.WaitGroup
	for _, j := range all {
		running.Go(func() {
			j.got, j.err = r.e.Run(j.routine, r.holders[j.holder].ref, j.inputs, j.place)
		})
	}
	running.Wait()
	for i, j := range all {
		if j.err != nil {
			failed++
			if !j.spoilt || !errors.Is(j.err, program.ErrInput) {
				r.t.Errorf("job %d: %v", i, j.err)
			}
			continue
		}
		if j.spoilt {
			r.t.Errorf("job %d without a window has a result", i)
		}
		r.check(i, j)
	}
	return failed
}

func (r *mergeRig) check(i int, j *mergeJob) {
	r.t.Helper()
	circuits := []*program.Circuit{r.one}
	if s, ok := j.routine.(*program.Set); ok {
		circuits = s.Circuits()
	}
	if len(j.got) != len(circuits) {
		r.t.Fatalf("job %d has %d results, want %d", i, len(j.got), len(circuits))
	}
	h := r.holders[j.holder]
	for k, c := range circuits {
		ct, err := h.ctx.UnmarshalCiphertext(j.got[k].Body)
		if err != nil {
			r.t.Fatal(err)
		}
		slots, err := h.dec.DecryptRealBounded(ct, c.Magnitude())
		if err != nil {
			r.t.Fatal(err)
		}
		want, err := c.Reference(map[string][]float64{"x": j.values})
		if err != nil {
			r.t.Fatal(err)
		}
		out := c.OutputAt(j.place)
		for n := range want {
			if got := out.A*slots[out.Slot+n] + out.B; !(math.Abs(got-want[n]) <= out.Bound) {
				r.t.Errorf("job %d at place %d, result %d: value %d is %g, want %g within %g", i, j.place, k, n, got,
					want[n], out.Bound)
			}
		}
	}
}

// hold makes the first device wait until so many jobs have gathered.
func (r *mergeRig) hold(jobs int) {
	(&rig{t: r.t, e: r.e, devices: r.devices, circuits: []*program.Circuit{r.one}}).hold(jobs)
}

// TestMergeJobs: windows of one key at different places are computed as one, at most one of
// each place, and every job gets its own value. The processor, which runs one item at a time,
// merges as well.
func TestMergeJobs(t *testing.T) {
	r := newMergeRig(t, 1, width{batches: 1, most: 1})
	// Behind the first job: 16 of one holder, each place twice, and 8 of the other, all at one
	// place. These are 2 and 8 items.
	all := r.jobs(25, func(i int, j *mergeJob) {
		if j.place = i % mergePlaces; i > 16 {
			j.holder, j.place = 1, 3
		}
	})
	r.hold(24)
	if n := r.run(all); n != 0 {
		t.Errorf("%d jobs failed", n)
	}
	if n := r.devices[0].products.Load(); n < 1+2+8 || n > 1+3+8 { // the first takes one of a place away
		t.Errorf("%d runs", n)
	}
	if n := r.e.Parallel(); n != (1+fewestWaiting)*mergePlaces {
		t.Errorf("%d jobs at a time, want %d", n, (1+fewestWaiting)*mergePlaces)
	}
}

// TestMergeOrigins: exactly those results are one ciphertext that say so, and nobody's bytes
// are another's memory.
func TestMergeOrigins(t *testing.T) {
	r := newMergeRig(t, 1, width{batches: 1, most: 4})
	all := r.jobs(17, func(i int, j *mergeJob) {
		j.routine, j.place = r.set, i%mergePlaces
	})
	r.hold(16)
	r.run(all)
	byOrigin := map[Origin][]byte{}
	shared := 0
	for i, j := range all {
		for _, got := range j.got {
			if known, ok := byOrigin[got.Of]; ok {
				shared++
				if !bytes.Equal(known, got.Body) {
					t.Errorf("job %d: results of one origin differ", i)
				}
			}
			byOrigin[got.Of] = bytes.Clone(got.Body)
			room := got.Room()
			if !bytes.Equal(room[transport.SealRoom:], byOrigin[got.Of]) {
				t.Errorf("job %d: the room does not end with the body", i)
			}
			clear(room[:cap(room)]) // of this result alone
		}
	}
	if shared < 2*(17-1-3) {
		t.Errorf("only %d results share a ciphertext", shared)
	}
	seen := map[string]bool{}
	for _, body := range byOrigin {
		if key := fmt.Sprintf("%x", body[len(body)-64:]); seen[key] {
			t.Error("results of two origins are equal")
		} else {
			seen[key] = true
		}
	}
}

// TestMergeFaults: of jobs that are computed as one only those fail that cannot run.
func TestMergeFaults(t *testing.T) {
	r := newMergeRig(t, 1, width{batches: 1, most: 2})
	all := r.jobs(17, func(i int, j *mergeJob) {
		j.place, j.spoilt = i%mergePlaces, i == 5 || i == 11
	})
	r.hold(14) // the first, and perhaps one that cannot run before it, are not there any more
	if n := r.run(all); n != 2 {
		t.Errorf("%d jobs failed, want 2", n)
	}
	if r.fallbacks.Load() != 0 {
		t.Error("the device was given up")
	}
}

// TestMergeFailedDevice: a device that fails in the middle of a merged run costs no job.
func TestMergeFailedDevice(t *testing.T) {
	for devices := 1; devices <= 2; devices++ {
		r := newMergeRig(t, devices, width{batches: 2, most: 2})
		for i, f := range r.devices {
			var calls atomic.Int64
			fails := func(int) error {
				if calls.Add(1) == int64(2+i) {
					f.broken.Store(true)
				}
				if f.broken.Load() {
					return cutrantt.ErrDevice
				}
				return nil
			}
			f.before.Store(&fails)
		}
		for range 3 {
			all := r.jobs(20, func(i int, j *mergeJob) {
				if j.place, j.holder = rand.IntN(mergePlaces), i%2; i%3 == 0 {
					j.routine = r.set
				}
			})
			if n := r.run(all); n != 0 {
				t.Errorf("%d devices: %d jobs failed", devices, n)
			}
		}
		if r.fallbacks.Load() == 0 {
			t.Errorf("%d devices: none was given up", devices)
		}
	}
}

// TestMergeProperty: any jobs, of any places and keys, in batches of any size, get their own
// values.
func TestMergeProperty(t *testing.T) {
	for _, most := range []int{1, 3, 16} {
		r := newMergeRig(t, 1, width{batches: 2, most: most})
		for range 3 {
			r.run(r.jobs(24, func(i int, j *mergeJob) {
				if j.place, j.holder = rand.IntN(mergePlaces), rand.IntN(2); rand.IntN(3) == 0 {
					j.routine = r.set
				}
			}))
		}
	}
}

// TestMerger: a job goes to the first item of its kind that has room at its place, and the
// oldest job always goes.
func TestMerger(t *testing.T) {
	r := newMergeRig(t, 1, width{batches: 1, most: 1})
	evs := []*henc.Evaluator{new(henc.Evaluator), new(henc.Evaluator)}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		var line []*ticket
		for range 1 + rng.IntN(40) {
			line = append(line, &ticket{item: program.Item{Routine: r.one, Evaluator: evs[rng.IntN(2)]},
				place: rng.IntN(mergePlaces)})
		}
		g := &gatherer{width: width{most: 1 + rng.IntN(4)}}
		batch, rest := g.take(line)
		if len(batch)+len(rest) != len(line) || batch[0] != line[0] {
			t.Fatalf("%d and %d of %d jobs", len(batch), len(rest), len(line))
		}
		m := merger{most: len(batch)}
		for _, j := range batch {
			m.add(j)
		}
		if len(m.items) > g.width.most {
			t.Fatalf("%d items, at most %d", len(m.items), g.width.most)
		}
		for _, jobs := range m.items {
			places := map[int]bool{}
			for _, j := range jobs {
				if places[j.place] || j.item.Evaluator != jobs[0].item.Evaluator {
					t.Fatal("jobs of one place or of two keys are added up")
				}
				places[j.place] = true
			}
		}
		for _, j := range rest { // there was no room for it
			if len(m.items) < g.width.most {
				t.Fatal("a job waits although there is room")
			}
			for _, jobs := range m.items {
				taken := jobs[0].item.Evaluator != j.item.Evaluator
				for _, other := range jobs {
					taken = taken || other.place == j.place
				}
				if !taken {
					t.Fatal("a job waits although it could be added to an item")
				}
			}
		}
	}
}

// TestMergeWaits: the processor waits for a job at every place while half of its batches or more
// run, and then for the latency at most.
func TestMergeWaits(t *testing.T) {
	r := newMergeRig(t, 1, width{batches: 1, most: 1})
	one, other := new(henc.Evaluator), new(henc.Evaluator)
	line := func(age time.Duration, ev *henc.Evaluator, places ...int) (line []*ticket) {
		for _, p := range places {
			line = append(line, &ticket{item: program.Item{Routine: r.one, Evaluator: ev}, place: p,
				since: time.Now().Add(-age)})
		}
		return line
	}
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		what    string
		running int
		line    []*ticket
		waits   bool
	}{
		{"an idle processor", 0, line(0, one, 3), false},
		{"fewer than half", 1, line(0, one, 3), false},
		{"half", 2, line(0, one, 3), true},
		{"one place twice", 3, line(0, one, 0, 0, 1, 2, 3, 4, 5, 6), true},
		{"every place", 3, line(0, one, all...), false},
		{"every place of two keys", 3, append(line(0, one, all[:4]...), line(0, other, all[4:]...)...), true},
		{"the latency is over", 3, line(2*time.Hour, one, 3), false},
	} {
		g := &gatherer{width: width{batches: 4, most: 1}, latency: time.Hour, running: c.running,
			lines: map[[32]byte][]*ticket{{}: c.line}}
		if _, wait := g.next(); wait < 0 || wait > time.Hour || (wait > 0) != c.waits {
			t.Errorf("%s: waits %v", c.what, wait)
		}
	}
}
