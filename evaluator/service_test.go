package evaluator

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
)

var epoch = time.Unix(1_700_000_000, 0)

func prog(name, expr string, inputs map[string]string) config.Program {
	return config.Program{Name: name, Expr: expr, Inputs: inputs}
}

func TestResults(t *testing.T) {
	r := newRig(t, testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"})))
	for seq := range uint64(3) {
		temp := numbers(8, 20+float64(seq), 1.5)
		id := r.sendWindow(r.window("d1", "count", seq+1, epoch.Add(time.Duration(seq)*time.Minute), temp,
			numbers(8, 0, 0.1)))
		obj := r.expect("mean", average(temp))
		m := obj.Meta
		if len(m.Inputs) != 1 || m.Inputs[0] != id {
			t.Errorf("inputs %x, want %x", m.Inputs, id)
		}
		if m.Device != "cloud" || m.Sequence != seq+1 || m.Samples != 8 ||
			m.Start != epoch.Add(time.Duration(seq)*time.Minute).UnixNano() {
			t.Errorf("header %+v", m)
		}
		if m.Layout != r.service.plan.Programs[0].Circuit.Hash() {
			t.Error("the result does not name its program")
		}
		e := r.event
		if e.Program != "mean" || e.ID != obj.ID || e.Bytes == 0 || e.Evaluate <= 0 {
			t.Errorf("event %+v", e)
		}
	}
	if s := r.service.Stats(); s.Accepted != 3 || s.Results != 3 || s.Failed != 0 {
		t.Errorf("stats %+v", s)
	}
}

// A service that has ended holds no keys, although it is asked for its state and its
// counts: after a reload another one needs the room.
func TestEndedServiceHoldsNoKeys(t *testing.T) {
	h := testHolder(t)
	raw, err := h.ctx.MarshalEvaluationKeys(h.keys)
	if err != nil {
		t.Fatal(err)
	}
	var held weak.Pointer[henc.EvaluationKeys]
	started := make(chan struct{})
	r := newRig(t, testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"})), func(d *Deps) {
		keys, err := h.ctx.UnmarshalEvaluationKeys(raw)
		if err != nil {
			t.Fatal(err)
		}
		held = weak.Make(keys)
		d.Keys = []engine.Keys{{Context: h.ctx, Evaluation: keys}}
		d.OnStart = func() { close(started) }
	})
	<-started
	temp := numbers(8, 20, 1.5)
	r.sendWindow(r.window("d1", "count", 1, epoch, temp, numbers(8, 0, 0.1)))
	r.expect("mean", average(temp))
	if runtime.GC(); held.Value() == nil {
		t.Error("a service that runs holds no keys")
	}
	r.stop()
	if runtime.GC(); held.Value() != nil {
		t.Error("the keys are held")
	}
	if st := r.service.State(); st.Accepted != 1 || len(st.Keys) != 1 {
		t.Errorf("%+v", st)
	}
}

func TestPrograms(t *testing.T) {
	in := map[string]string{"x": "d1/count/temp", "y": "d1/count/load"}
	cfg := testConfig(t, prog("product", "x*y", in))
	cfg.Programs[0].Topic = "other/place"
	r := newRig(t, cfg)
	x, y := numbers(8, 1, 0.5), numbers(8, -2, 0.25)
	want := make([]float64, len(x))
	for i := range x {
		want[i] = x[i] * y[i]
	}
	r.sendWindow(r.window("d1", "count", 1, epoch, x, y))
	r.expect("product", want...)
}

func TestLookBack(t *testing.T) {
	r := newRig(t, testConfig(t, prog("change", "mean(x) - mean(prev(x))", map[string]string{"x": "d1/count/temp"})))
	temps := [][]float64{numbers(8, 20, 1), numbers(8, 40, 2), numbers(8, 10, 3)}
	send := func(i int) {
		r.sendWindow(r.window("d1", "count", uint64(i+1), epoch, temps[i], numbers(8, 0, 0)))
	}
	send(0)
	send(2) // out of order: neither has its neighbour yet
	send(1) // completes both
	want := map[uint64]float64{}
	for range 2 {
		_, v := r.result()
		want[uint64(len(want))] = v[0]
	}
	sums := average(temps[1]) - average(temps[0]) + average(temps[2]) - average(temps[1])
	if got := want[0] + want[1]; got < sums-0.1 || got > sums+0.1 {
		t.Errorf("changes %v, want a sum of %g", want, sums)
	}
}

func TestJoinDevices(t *testing.T) {
	r := newRig(t, testConfig(t, prog("difference", "mean(x) - mean(y)",
		map[string]string{"x": "d1/time/temp", "y": "d2/time/temp"})))
	a, b := numbers(8, 30, 2), numbers(6, 20, 1) // a window of 6 of 8 samples
	r.sendWindow(r.window("d1", "time", 1, epoch, a, numbers(8, 0, 0)))
	// other interval
	r.sendWindow(r.window("d2", "time", 900, epoch.Add(time.Second), numbers(8, 90, 1), numbers(8, 0, 0)))
	r.sendWindow(r.window("d2", "time", 901, epoch, b, numbers(6, 0, 0)))
	obj := r.expect("difference", average(a)-average(b))
	if len(obj.Meta.Inputs) != 2 || obj.Meta.Samples != 6 {
		t.Errorf("header %+v", obj.Meta)
	}
}
