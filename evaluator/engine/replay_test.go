package engine

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testenv"
)

// TestReplaysOnGPU: a job that comes alone gives the same bytes before its routine is recorded and after that, for
// every window, key and routine, with other jobs at the same time, with more routines than are kept, and when a replay
// fails.
func TestReplaysOnGPU(t *testing.T) {
	if list, err := cuda.Devices(); err != nil || len(list) == 0 {
		testenv.Missing(t, "cuda", "no GPU: ", err)
	}
	t.Setenv(cuda.TuningVariable, "off")
	d := cudatest.WithGraphs(t)
	d.Real()
	d.Use()
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(parameters(t), henc.WithBackend(b), henc.WithN2(1))
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, []*henc.Context{ctx}, Options{Batch: 6, Latency: time.Second, Workers: 2})
	dev := r.e.lanes[ctx.Parameters().Hash()].devices[0]
	p := &dev.gather.replays
	run := func(c reads, window int) {
		t.Helper()
		want := r.want[window][1:]
		if c != reads(r.set) {
			want = r.want[window][:1]
		}
		ct, err := r.e.Receive(ctx.Parameters().Hash(), r.bodies[window], Turn{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.e.Run(c, r.refs[window/kinds], map[program.Input]*Ciphertext{c.Inputs()[0]: ct}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, want, func(x Result, b []byte) bool { return bytes.Equal(x.Body, b) }) {
			t.Fatalf("window %d: a wrong result", window)
		}
	}
	for i := range recordAfter + 2 { // windows of either kind under the first key
		run(r.set, i%kinds)
	}
	if len(p.made) != 1 || p.made[0].recorded == nil {
		t.Fatalf("after %d jobs alone: %+v", recordAfter+2, p.made)
	}
	first := p.made[0]
	r.mixed = true
	r.all(6, nil)
	soon := func(c reads, window int) { // as after some jobs
		p.alone[replayOf{c, dev.keys[r.refs[window/kinds]]}] = recordAfter - 1
		run(c, window)
		run(c, window)
	}
	soon(r.set, kinds) // under the other key
	if len(p.made) < 2 || p.made[len(p.made)-1].evaluator == first.evaluator {
		t.Errorf("another key: %d recordings", len(p.made))
	}
	for _, c := range r.circuits {
		soon(c, 1)
	}
	if len(p.made) != mostReplays || slices.Contains(p.made, first) {
		t.Errorf("%d recordings, %d are kept", len(p.made), mostReplays)
	}
	// A result that somebody has, while the next job comes.
	last := p.made[mostReplays-1]
	ct, err := r.e.Receive(ctx.Parameters().Hash(), r.bodies[0], Turn{})
	if err != nil {
		t.Fatal(err)
	}
	on, err := ct.on(dev, true)
	if err != nil {
		t.Fatal(err)
	}
	c := r.circuits[len(r.circuits)-1]
	inputs := map[program.Input]*henc.Ciphertext{c.Inputs()[0]: on}
	held, err := last.recorded.Run(inputs)
	if held == nil || err != nil {
		t.Fatalf("%v, %v", held, err)
	}
	if other, err := last.recorded.Run(inputs); other != nil || err != nil {
		t.Errorf("a second run while the results of the first are held: %v, %v", other, err)
	}
	run(c, 1)
	body, err := ctx.MarshalCiphertext(held.Result(0, 0))
	if err != nil || !bytes.Equal(body, r.want[0][0]) {
		t.Errorf("the results changed while they were held: %v", err)
	}
	held.Free()
	if r.fallbacks.Load() != 0 {
		t.Error("the GPU was given up")
	}
	d.Set("fail cuGraphLaunch 719 0 1")
	run(c, 1)
	if r.fallbacks.Load() == 0 {
		t.Error("nothing was replayed")
	}
}
