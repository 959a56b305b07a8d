package program

import (
	"bufio"
	"compress/gzip"
	"math"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/meter"
)

// temperatures returns the recording in testdata/replay, in windows.
func temperatures(t *testing.T, samples int) (windows [][]float64) {
	t.Helper()
	f, err := os.Open("testdata/replay/machine_temperature.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []float64
	for lines := bufio.NewScanner(z); lines.Scan(); {
		v, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	for ; len(all) >= samples; all = all[samples:] {
		windows = append(windows, all[:samples])
	}
	return windows
}

// TestReplay: counts of a machine's temperatures above a threshold raise the alarms that plain counts raise, in every
// window without an undecided sample. In the others the count is between what it is for either decision.
func TestReplay(t *testing.T) {
	const samples, threshold, alarm = 2048, 95, 300
	for _, c := range []struct {
		set        string
		resolution float64
		encrypted  bool
	}{{"std15-d11", 6, true}, {"deep16-d23", 0.1, false}} {
		p := mustParams(t, c.set)
		st := testStream("s", c.set, samples, [2]float64{0, 120})
		circuit, err := Compile(Source{Name: "p", Expr: "count(x > 95)", Resolution: c.resolution,
			Vars: map[string]Var{"x": {"d", st, 0}}}, p)
		if err != nil {
			t.Fatal(err)
		}
		run := func(slots []float64) []float64 {
			return simulate(t, circuit, map[Input][]float64{circuit.Inputs()[0]: slots})
		}
		if c.encrypted {
			run = encryptedRun(t, circuit)
		}
		alarms, decided := 0, 0
		for i, w := range temperatures(t, samples) {
			slots, sure, open := make([]float64, samples), 0.0, 0.0
			for k, v := range w {
				slots[k] = (v - 60) / 60
				switch {
				case math.Abs(v-threshold) < c.resolution:
					open++
				case v > threshold:
					sure++
				}
			}
			got := readOutput(run(slots), circuit.out)[0]
			t.Logf("%s, window %d: %g above %d, %g surely, %g undecided", c.set, i, got, threshold, sure, open)
			if got < sure || got > sure+open {
				t.Errorf("%s, window %d: %g, want %g, with %g undecided", c.set, i, got, sure, open)
			}
			if plain := sure >= alarm; plain == (sure+open >= alarm) {
				if decided++; plain != (got >= alarm) {
					t.Errorf("%s, window %d: alarm %t, want %t", c.set, i, got >= alarm, plain)
				}
				if plain {
					alarms++
				}
			}
		}
		if alarms == 0 || decided < 3 || alarms == decided {
			t.Errorf("%s: %d alarms in %d decided windows show nothing", c.set, alarms, decided)
		}
	}
}

// TestReplayHistogram: counts of an encrypted histogram of the same temperatures raise exactly the alarms of plain
// counts, since the threshold is an edge: no sample is undecided.
func TestReplayHistogram(t *testing.T) {
	const samples, threshold, alarm = 2048, 95, 300
	p := mustParams(t, "edge12-d1")
	st := testStream("s", p.Name(), samples, [2]float64{0, 120})
	st.Mode, st.Packing, st.LogScale = config.ModeHistogram, config.PackingHistogram, config.HistogramLogScale
	st.Channels[0].Resolution = 0.5
	circuit, err := Compile(Source{Name: "p", Expr: "count(x > 95)", Vars: map[string]Var{"x": {"d", st, 0}}}, p)
	if err != nil {
		t.Fatal(err)
	}
	grid, err := st.Channels[0].Grid()
	if err != nil {
		t.Fatal(err)
	}
	b := testBench(t, p.Name())
	ev, in := b.evaluator(t, circuit), circuit.Inputs()[0]
	alarms, windows := 0, temperatures(t, samples)
	for i, w := range windows {
		slots, want := make([]float64, p.Slots()), 0.0
		for _, x := range w {
			if x > threshold {
				want++
			}
		}
		putCounts(slots, st, grid, w)
		ct, err := b.enc.EncryptReal(slots, st.LevelAt(p.Depth()), InputScale(p, st), nil)
		if err != nil {
			t.Fatal(err)
		}
		result, out, err := circuit.Run(ev, map[Input]*henc.Ciphertext{in: ct})
		if err != nil {
			t.Fatal(err)
		}
		got := b.decrypt(t, result, out)
		if len(got) != 1 || got[0] != want || (got[0] >= alarm) != (want >= alarm) {
			t.Errorf("window %d: %v above %d, want %g", i, got, threshold, want)
		}
		if want >= alarm {
			alarms++
		}
	}
	if alarms == 0 || alarms == len(windows) {
		t.Errorf("%d alarms in %d windows show nothing", alarms, len(windows))
	}
}

// encryptedRun returns a function that encrypts a window, runs the circuit and decrypts the slots.
func encryptedRun(t *testing.T, c *Circuit) func(slots []float64) []float64 {
	t.Helper()
	b := testBench(t, c.params.Name())
	ev := b.evaluator(t, c)
	in := c.Inputs()[0]
	return func(slots []float64) []float64 {
		st := c.prog.stream(in)
		ct, err := b.enc.EncryptReal(slots, st.LevelAt(c.params.Depth()), InputScale(c.params, st), nil)
		if err != nil {
			t.Fatal(err)
		}
		results, err := c.run(Item{Routine: c, Evaluator: ev, Inputs: map[Input]*henc.Ciphertext{in: ct}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := b.dec.DecryptReal(results[0])
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// BenchmarkCount counts the samples above a threshold in a window of 4096, with a resolution of 1/1024 of the range, in
// the transform domain that an evaluator chooses. On a GPU (CUTRANTT_TEST_BACKEND=cuda) it also says what the device
// takes.
func BenchmarkCount(b *testing.B) {
	p := mustParams(b, "deep16-d23")
	st := testStream("s", p.Name(), 4096, [2]float64{0, 100})
	c, err := Compile(Source{Name: "p", Expr: "count(x > 80)", Resolution: 100.0 / 1024,
		Vars: map[string]Var{"x": {"d", st, 0}}}, p)
	if err != nil {
		b.Fatal(err)
	}
	rig := newBench(b, p, henc.WithFastestN2())
	ev := rig.evaluator(b, c)
	in := c.Inputs()[0]
	slots := make([]float64, 4096)
	for i := range slots {
		slots[i] = float64(i%7)/3.5 - 1 // 100*i/7: none is within the resolution
	}
	ct, err := rig.enc.EncryptReal(slots, p.Depth(), InputScale(p, st), nil)
	if err != nil {
		b.Fatal(err)
	}
	run := func() []*henc.Ciphertext {
		results, err := c.run(Item{Routine: c, Evaluator: ev, Inputs: map[Input]*henc.Ciphertext{in: ct}})
		if err != nil {
			b.Fatal(err)
		}
		return results
	}
	if got := rig.decrypt(b, run()[0], c.out); got[0] != 585 {
		b.Fatalf("count %g, want 585", got[0])
	}
	once := func() error {
		for _, ct := range run() {
			rig.ctx.Ring().Free(ct.Value)
		}
		return nil
	}
	before := processorTime(b)
	for b.Loop() {
		_ = once()
		if err := rig.ctx.Ring().Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((processorTime(b)-before).Seconds()/float64(b.N), "processor-s/op")
	if m, ok := rig.ctx.Ring().(meter.Meter); ok {
		took, _, err := m.TimeRun(once, once)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(took.Seconds()*1e3, "device-ms/op")
	}
}

// processorTime is what all threads of the process took so far, which does not count waiting for a processor.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
