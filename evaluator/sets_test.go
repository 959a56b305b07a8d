package evaluator

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// setPrograms are three programs over one window, and one over another.
func setPrograms() []config.Program {
	both := map[string]string{"x": "d1/count/temp", "y": "d1/count/load"}
	return []config.Program{prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"}),
		prog("load", "mean(y)", map[string]string{"y": "d1/count/load"}),
		prog("other", "mean(x)", map[string]string{"x": "d2/time/temp"}), prog("product", "x*y", both)}
}

// TestSetResults: programs over the same windows run together, and each has results with
// numbers and windows of its own, with a store and without.
func TestSetResults(t *testing.T) {
	for name, cfg := range map[string]*config.Evaluator{"direct": testConfig(t, setPrograms()...),
		"stored": storeConfig(t, filepath.Join(t.TempDir(), "store"), setPrograms()...)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, cfg)
			ps := r.service.programs
			if ps[0].set == nil || ps[0].set != ps[1].set || ps[0].set != ps[3].set || ps[2].set != nil {
				t.Fatal("the programs over one window are not in one set")
			}
			for seq := range uint64(3) {
				temp, load := numbers(8, 20+float64(seq), 1.5), numbers(8, -1, 0.1)
				products := make([]float64, len(temp))
				for i := range temp {
					products[i] = temp[i] * load[i]
				}
				want := map[string][]float64{"mean": {average(temp)}, "load": {average(load)}, "product": products}
				id := r.sendWindow(r.window("d1", "count", seq+1, epoch, temp, load))
				for range 3 {
					obj, got := r.result()
					m := obj.Meta
					if m.Sequence != seq+1 || !slices.Equal(m.Inputs, [][32]byte{id}) {
						t.Errorf("%s: number %d of %x, want %d of %x", m.Program, m.Sequence, m.Inputs, seq+1, id)
					}
					for i, v := range want[m.Program] {
						if d := math.Abs(got[i] - v); !(d <= m.Post.Bound) {
							t.Errorf("%s[%d] = %g, want %g within %g", m.Program, i, got[i], v, m.Post.Bound)
						}
					}
					delete(want, m.Program)
				}
				if len(want) != 0 {
					t.Errorf("no results of %v", want)
				}
			}
			if s := r.service.Stats(); s.Results != 9 || s.Failed != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// TestGather: jobs go together if every program of their set has one over full windows.
func TestGather(t *testing.T) {
	r := newRig(t, testConfig(t, setPrograms()...))
	ps := r.service.programs
	in := program.Input{Device: "d1", Stream: "count"}
	jobs := func(samples uint32, which ...int) (out []*job) {
		for _, i := range which {
			w := &window{stream: streamID{"d1", "count"}, meta: transport.Meta{Samples: samples}}
			out = append(out, &job{prog: ps[i], inputs: map[program.Input]*window{in: w}})
		}
		return out
	}
	full := gather(jobs(8, 0, 1, 3))
	if len(full) != 1 || len(full[0].all()) != 3 || full[0].shared == nil || full[0].with[1].shared != full[0].shared {
		t.Errorf("%d jobs, the first with %d", len(full), len(full[0].all()))
	}
	for name, some := range map[string][]*job{"partial window": jobs(7, 0, 1, 3), "a result was made": jobs(8, 1, 3)} {
		n := len(some)
		if got := gather(some); len(got) != n || got[0].shared != nil || len(got[0].all()) != 1 {
			t.Errorf("%s: %d jobs, the first with %d", name, len(got), len(got[0].all()))
		}
	}
}

// TestSetFails: if a set cannot run, its programs run one by one.
func TestSetFails(t *testing.T) {
	r := newRig(t, testConfig(t, setPrograms()...))
	p := r.service.pipeline
	failing := newSharedRun(p.programs[0].set)
	if _, err := failing.result(0, func(*program.Set) ([]engine.Result, error) {
		return nil, errors.New("no luck")
	}); err == nil {
		t.Fatal("a run that fails has a result")
	}
	read := r.window("d1", "count", 1, epoch, numbers(8, 1, 1), numbers(8, 0, 0))
	data, err := p.engine.Receive(r.ctx.Parameters().Hash(), read.body, engine.Turn{})
	if err != nil {
		t.Fatal(err)
	}
	in := program.Input{Device: "d1", Stream: "count"}
	j := &job{prog: p.programs[0], shared: failing, inputs: map[program.Input]*window{in: {data: data}}}
	key := transport.KeyRef{ID: r.keys.KeyID, Epoch: r.keys.Epoch}
	got, err := p.compute(j, p.programs[0].planned.Circuit, key, 0)
	if err != nil {
		t.Fatal(err)
	}
	j.shared = nil
	alone, err := p.compute(j, p.programs[0].planned.Circuit, key, 0)
	if err != nil || !slices.Equal(got.Body, alone.Body) {
		t.Errorf("another result than alone: %v", err)
	}
}

// TestFusionsForDevices: the programs of many devices are planned once.
func TestFusionsForDevices(t *testing.T) {
	var programs []config.Program
	for _, d := range []string{"d1", "d2"} {
		programs = append(programs, prog(d+"-mean", "mean(x)", map[string]string{"x": d + "/count/temp"}),
			prog(d+"-load", "mean(y)", map[string]string{"y": d + "/count/load"}))
	}
	plan, err := Check(testConfig(t, programs...))
	if err != nil {
		t.Fatal(err)
	}
	groups := plan.together()
	if len(groups) != 2 || len(groups[0]) != 2 || len(groups[1]) != 2 {
		t.Fatalf("groups %v", groups)
	}
	var made fusions
	for i, d := range []string{"d1", "d2"} {
		set, err := made.fuse(groups[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		if ins := set.Inputs(); len(ins) != 1 || ins[0].Device != d || set.Circuits()[1].Name() != d+"-load" {
			t.Errorf("%s: the set reads %v", d, ins)
		}
		fresh, err := program.Fuse(nil, set.Circuits()...)
		if err != nil || fresh.Form() != set.Form() {
			t.Errorf("%s: another set than planned by itself: %v", d, err)
		}
	}
	if len(made) != 1 {
		t.Errorf("%d sets were planned", len(made))
	}
}

// TestCommonRotations: a set uses only rotations that all keys can do.
func TestCommonRotations(t *testing.T) {
	h := testHolder(t)
	some := *h.keys
	some.Galois = map[uint64]*henc.SwitchingKey{}
	for _, k := range []int{1, 4} {
		g := henc.GaloisElement(h.ctx.Parameters(), k)
		some.Galois[g] = h.keys.Galois[g]
	}
	keys := []engine.Keys{{Context: h.ctx, Evaluation: h.keys}, {Context: h.ctx, Evaluation: &some}}
	if got := commonRotations(h.ctx.Parameters(), keys[:1]); !slices.Equal(got, []int{1, 2, 4, 8}) {
		t.Errorf("rotations %v", got)
	}
	if got := commonRotations(h.ctx.Parameters(), keys); !slices.Equal(got, []int{1, 4}) {
		t.Errorf("rotations %v", got)
	}
}

// TestEstimate: a batch takes what its windows take in the set or program that needs most.
func TestEstimate(t *testing.T) {
	cfg := testConfig(t, setPrograms()...)
	r := newRig(t, cfg)
	var most int64
	for i := range r.service.plan.Programs {
		most = max(most, r.service.plan.Programs[i].Circuit.Peak())
	}
	for _, p := range r.service.programs {
		if p.set != nil {
			most = max(most, p.set.Peak())
		}
	}
	for _, batch := range []int{1, 256} {
		cfg.Batch = batch
		c, err := Estimate(cfg)
		if err != nil || c.Batch != int64(batch)*most || len(c.Of) == 0 || len(c.Sets) != 1 {
			t.Errorf("a batch of %d: %+v, %v; want %d bytes", batch, c, err, int64(batch)*most)
		}
	}
}

// TestSetOrder: all jobs of a set's programs leave the queue in the order in which they
// came, whatever their programs: with a store, one may wait for an earlier one of the set.
func TestSetOrder(t *testing.T) {
	r := newRig(t, testConfig(t, setPrograms()...))
	ps := r.service.programs
	in := program.Input{Device: "d1", Stream: "count"}
	next := func(p *runnable, samples uint32) *job {
		w := &window{stream: streamID{"d1", "count"}, meta: transport.Meta{Samples: samples}}
		return &job{prog: p, inputs: map[program.Input]*window{in: w}}
	}
	q := newJobQueue(1 << 30)
	together := gather([]*job{next(ps[0], 8), next(ps[1], 8), next(ps[3], 8)})
	want := []*job{together[0], next(ps[1], 7), next(ps[3], 7), next(ps[0], 7)}
	for _, j := range want {
		if !q.push(t.Context(), j) {
			t.Fatal("no room")
		}
	}
	for i, j := range want {
		if got, _ := q.pop(); got != j {
			t.Errorf("job %d is another one", i)
		}
	}
}
