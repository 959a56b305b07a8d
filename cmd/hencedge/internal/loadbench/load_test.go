package loadbench

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/benchmark"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker/mosquitto"
)

func testOptions(t *testing.T) Options {
	t.Helper()
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Params:   p,
		Devices:  2,
		Samples:  4,
		Channels: 2,
		Windows:  2,
		Workers:  2,
		Length:   100 * time.Millisecond,
		Memory:   minMemory,
		Context:  func(p henc.Parameters) (*henc.Context, error) { return henc.NewContext(p, henc.WithFastestN2()) },
		More:     func(henc.Parameters) ([]*henc.Context, error) { return nil, nil },
		Logger:   slog.New(slog.DiscardHandler),
		Remark:   func(string) {},
	}
}

// running is a service with its load.
func running(t *testing.T) *house {
	t.Helper()
	return runningWith(t, testOptions(t))
}

func runningWith(t *testing.T, o Options) *house {
	t.Helper()
	b, err := newBed(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(b.dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", b.dir, err)
		}
	})
	h, err := b.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil && !errors.Is(err, h.checker.err) {
			t.Error(err)
		}
	})
	return h
}

func shortLoad(rounds int) load {
	return load{rounds: rounds, limit: time.Hour, fill: time.Hour, one: 1}
}

// TestSegment: every window that is fed gives its results, all of them are decrypted, and
// the next segment goes on with the numbers.
func TestSegment(t *testing.T) {
	h := running(t)
	for range 2 {
		s, err := h.run(t.Context(), shortLoad(5))
		if err != nil {
			t.Fatal(err)
		}
		if s.fed != 10 || s.checked.results != 10 || s.end.results-s.start.results != 10 || len(s.delays) != 10 {
			t.Errorf("%d windows, %d results, %d checked, %d delays", s.fed, s.end.results-s.start.results,
				s.checked.results, len(s.delays))
		}
		if s.bytesIn <= 0 || s.end.bytesOut <= s.start.bytesOut || s.end.stages["compute"].count < 10 {
			t.Errorf("%+v", s)
		}
		for name := range s.end.stages {
			if !slices.Contains(benchmark.StageNames(), name) {
				t.Errorf("no record has the stage %s", name)
			}
		}
		if s.checked.worst <= 0 || s.checked.worst > 1 {
			t.Errorf("largest error %g of its bound", s.checked.worst)
		}
	}
	if h.fed != 10 {
		t.Errorf("%d windows of each device, want 10", h.fed)
	}
}

// TestPackedSegment: results that share ciphertexts are counted and decrypted like others,
// also those of a pack that does not fill.
func TestPackedSegment(t *testing.T) {
	o := testOptions(t)
	var err error
	if o.Params, err = henc.Named("edge13-d3"); err != nil {
		t.Fatal(err)
	}
	o.Pack, o.Within = 7, 20*time.Millisecond
	h := runningWith(t, o)
	s, err := h.run(t.Context(), shortLoad(5))
	if err != nil {
		t.Fatal(err)
	}
	if results := s.end.results - s.start.results; s.fed != 10 || results != 30 || s.checked.results != 30 ||
		len(s.delays) != 30 {
		t.Errorf("%d windows, %d results, %d checked, %d delays", s.fed, results, s.checked.results, len(s.delays))
	}
	objects := s.end.stages["seal"].count // which ends before anybody has the result
	if s.checked.worst <= 0 || s.checked.worst > 1 || objects < 5 || objects >= 30 || s.end.stages["pack"].count != 30 {
		t.Errorf("largest error %g of its bound, %d objects, %+v", s.checked.worst, objects, s.end.stages)
	}
	h.devices[1].bodies[0].values[0][0]++
	if _, err := h.run(t.Context(), shortLoad(2)); err == nil || !strings.Contains(err.Error(), "within the promised") {
		t.Errorf("a wrong result in a pack: %v", err)
	}
}

// TestWrongResult: a value that is not what the window holds ends the run.
func TestWrongResult(t *testing.T) {
	h := running(t)
	for _, w := range h.devices[1].bodies {
		w.values[0][0]++
	}
	if _, err := h.run(t.Context(), shortLoad(1)); err == nil ||
		!strings.Contains(err.Error(), "within the promised") {
		t.Errorf("a wrong result: %v", err)
	}
}

// TestLostAndRefused: a result that does not come ends the run, and so does a window that
// the service refuses.
func TestLostAndRefused(t *testing.T) {
	h := running(t)
	if _, err := h.run(t.Context(), shortLoad(1)); err != nil {
		t.Fatal(err)
	}
	h.patience = 10 * time.Millisecond
	h.fed++ // one window more of each device than were fed
	if err := h.drain(t.Context()); err == nil || !strings.Contains(err.Error(), "2 of 4 results are lost") {
		t.Errorf("lost results: %v", err)
	}
	h.fed = 0 // numbers that were used
	h.patience = patience
	if _, err := h.run(t.Context(), shortLoad(1)); err == nil || !strings.Contains(err.Error(), "replayed") {
		t.Errorf("a refused window: %v", err)
	}
}

// TestHeaders: a result is taken once, and only as its program promises it.
func TestHeaders(t *testing.T) {
	h := running(t)
	c := h.checker
	if _, err := h.run(t.Context(), shortLoad(1)); err != nil {
		t.Fatal(err)
	}
	list, err := h.seal(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	tracked := c.programs["mean.dev-00001"]
	circuit := tracked.planned.Circuit
	out := circuit.Output()
	c.sent(&list[0])
	c.sent(&list[1])
	topic := transport.ResultTopic(h.cfg.Broker.TopicPrefix, "mean.dev-00001")
	honest := func() *transport.Meta {
		return &transport.Meta{Kind: transport.KindResult, Device: evaluatorName, Program: "mean.dev-00001",
			KeyID: h.meta.KeyID, KeyEpoch: h.meta.KeyEpoch, Sequence: 100, Params: circuit.Parameters().Hash(),
			Layout: circuit.Hash(), Level: circuit.Level(), Scale: circuit.Scale(), Samples: 4,
			Inputs: [][32]byte{list[0].id},
			Post: &transport.Post{A: out.A, B: out.B, Sqrt: out.Sqrt, Slot: out.Slot, Count: out.Count,
				Bound: out.Bound}}
	}
	take := func(m *transport.Meta) error {
		if err := c.header(tracked, topic, m, false); err != nil {
			return err
		}
		_, _, err := c.count(tracked, m, time.Now())
		return err
	}
	for name, change := range map[string]func(m *transport.Meta){
		"kind":    func(m *transport.Meta) { m.Kind = transport.KindReading },
		"signer":  func(m *transport.Meta) { m.Device = "other" },
		"key":     func(m *transport.Meta) { m.KeyEpoch++ },
		"params":  func(m *transport.Meta) { m.Params[0]++ },
		"program": func(m *transport.Meta) { m.Layout[0]++ },
		"level":   func(m *transport.Meta) { m.Level++ },
		"scale":   func(m *transport.Meta) { m.Scale *= 2 },
		"bound":   func(m *transport.Meta) { m.Post.Bound *= 2 },
		"post":    func(m *transport.Meta) { m.Post = nil },
		"samples": func(m *transport.Meta) { m.Samples = 3 },
		"inputs":  func(m *transport.Meta) { m.Inputs = append(m.Inputs, list[1].id) },
		"unknown": func(m *transport.Meta) { m.Inputs[0][0]++ },
		"device":  func(m *transport.Meta) { m.Inputs[0] = list[1].id },
	} {
		m := honest()
		if change(m); take(m) == nil {
			t.Errorf("a result with another %s was taken", name)
		}
	}
	if err := take(honest()); err != nil {
		t.Fatal(err)
	}
	again := honest()
	if again.Sequence++; !errors.Is(take(again), errTwice) {
		t.Error("a second result of a window was taken")
	}
	if err := h.extra(2); err == nil {
		t.Error("3 results of 2 windows were taken")
	}
}

// TestChunks: a result in pieces is put together; in process nothing comes twice.
func TestChunks(t *testing.T) {
	c := running(t).checker
	sealed := make([]byte, 3000)
	pieces, err := transport.Split(sealed, transport.MinChunkSize)
	if err != nil || len(pieces) < 3 {
		t.Fatal(len(pieces), err)
	}
	for i := len(pieces) - 1; i >= 0; i-- {
		got, err := c.join(&pieces[i], 10)
		if err != nil || (got != nil) != (i == 0) || i == 0 && string(got) != string(sealed) {
			t.Fatalf("piece %d: %d bytes, %v", i, len(got), err)
		}
	}
	if _, err := c.join(&pieces[0], 10); err == nil {
		t.Error("a piece of a result that is complete was taken")
	}
	if _, bytes := c.counts(); bytes != int64(10*(len(pieces)+1)) {
		t.Errorf("%d bytes", bytes)
	}
}

// TestExpected: programs that look back have no result of the first windows, and those of
// several devices one for all.
func TestExpected(t *testing.T) {
	o := testOptions(t)
	o.Programs = filepath.Join(t.TempDir(), "programs.yaml")
	if err := os.WriteFile(o.Programs, []byte(`programs:
  - {name: each, expr: mean(x), inputs: {x: device/load/x}}
  - {name: back, expr: mean(x) - mean(prev(prev(x))), inputs: {x: dev-00001/load/x}}
  - {name: both, expr: mean(x) - mean(prev(z)), inputs: {x: dev-00001/load/x, z: dev-00002/load/y}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := newBed(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	c := newChecker(b, new(outside))
	for fed, want := range map[int64]int64{0: 0, 1: 2, 2: 4 + 1, 10: 20 + 8 + 9} {
		if got := c.expected(fed); got != want {
			t.Errorf("%d results of %d windows each, want %d", got, fed, want)
		}
	}
}

// TestUnderWay: devices do not get further ahead of the results than brokers have room for.
func TestUnderWay(t *testing.T) {
	o := testOptions(t)
	o.Broker = "somewhere"
	for programs, want := range map[string]struct {
		fed     int64 // windows that may be fed before the first result
		results int64 // that let the next one go
	}{
		"{name: each, expr: mean(x), inputs: {x: device/load/x}}": {underWay / 3, 1},
		"{name: back, expr: mean(x) - mean(prev(x)), inputs: {x: device/load/x}}": {
			underWay/3 + 2, 1}, // each device's first window has no result
		// A round of windows has three results.
		"{name: each, expr: x, inputs: {x: device/load/x}}\n  - {name: one, expr: x, inputs: {x: dev-00001/load/x}}": {
			underWay / 3, 3},
	} {
		o.Programs = filepath.Join(t.TempDir(), "programs.yaml")
		if err := os.WriteFile(o.Programs, []byte("programs:\n  - "+programs+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := newBed(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		c := newChecker(b, new(outside))
		w := &overBroker{house: &house{bed: b, checker: c}}
		next := func(ctx context.Context, i int64) error {
			return w.await(ctx, &prepared{device: int(i % 2), n: i / 2, chunks: make([][]byte, 3)})
		}
		for i := range want.fed {
			if err := next(t.Context(), i); err != nil {
				t.Fatal(err)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := next(ended, want.fed); err == nil {
			t.Errorf("%s: a window is fed beyond %d", programs, want.fed)
		}
		w.started.Add(-1)
		waits := make(chan error)
		go func() { waits <- next(t.Context(), want.fed) }()
		c.add(int(want.results))
		if err := <-waits; err != nil {
			t.Error(err)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestThroughBrokers: the same load through the embedded broker and through a real one.
func TestThroughBrokers(t *testing.T) {
	for name, url := range map[string]func() string{
		Embedded:    func() string { return Embedded },
		"mosquitto": func() string { return mosquitto.Start(t, nil, "allow_anonymous true\n").URL },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			o.Broker, o.Devices = url(), 10 // devices share connections
			h := runningWith(t, o)
			for range 2 {
				s, err := h.run(t.Context(), shortLoad(10))
				if err != nil {
					t.Fatal(err)
				}
				if s.fed != 100 || s.checked.results != 100 {
					t.Errorf("%d windows, %d results checked, want 100", s.fed, s.checked.results)
				}
			}
		})
	}
}

// TestRate: windows are offered at the rate that was asked for, and latency counts from
// when they were due.
func TestRate(t *testing.T) {
	o := testOptions(t)
	o.Rate, o.Length = 100, 300*time.Millisecond
	var got []benchmark.LoadRecord
	if err := Run(context.Background(), o, func(r benchmark.LoadRecord) error {
		got = append(got, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Method != benchmark.LoadRate || got[0].Rate != 100 || got[0].Results == 0 ||
		got[0].Latency.P50 <= 0 || got[0].Latency.P99 < got[0].Latency.P50 {
		t.Errorf("%+v", got)
	}
}

// TestUneven: an interval in which queues grow, or with few of the results, does not count.
func TestUneven(t *testing.T) {
	at := func(windows, results int64) snapshot {
		return snapshot{results: results, stages: map[string]stage{firstStage: {1, uint64(windows)}}}
	}
	for _, c := range []struct {
		from, to snapshot
		want     bool
	}{
		{at(20, 30), at(90, 240), false},
		{at(20, 30), at(100, 240), true},
		{at(20, 60), at(50, 150), true},
	} {
		s := &segment{fed: 100, start: at(0, 0), from: c.from, to: c.to, end: at(100, 300)}
		if s.uneven() != c.want {
			t.Errorf("from %v to %v: uneven %v", c.from, c.to, !c.want)
		}
	}
}

// TestRounds: feeders stay near each other, and end with the same round.
func TestRounds(t *testing.T) {
	r := newRounds(2, 100)
	for i := range ahead {
		if !r.begin(0, i) {
			t.Fatalf("round %d was not begun", i)
		}
	}
	begun := make(chan bool)
	go func() { begun <- r.begin(0, ahead) }()
	select {
	case <-begun:
		t.Fatal("a feeder was too far ahead")
	case <-time.After(20 * time.Millisecond):
	}
	r.begin(1, 0)
	r.begin(1, 1)
	if !<-begun {
		t.Error("a feeder that waited does not go on")
	}
	r.stop()
	if r.begin(0, ahead+1) {
		t.Error("a round began after the end")
	}
	for i := 2; i <= ahead; i++ {
		if !r.begin(1, i) {
			t.Errorf("round %d, which the other feeder began, was not", i)
		}
	}
	if r.begin(1, ahead+1) || r.started != ahead+1 {
		t.Errorf("%d rounds began, want %d", r.started, ahead+1)
	}
	r = newRounds(2, 100)
	go func() {
		for i := 0; r.begin(0, i); i++ {
		}
		begun <- false
	}()
	r.end()
	<-begun
}

// TestCompactSegment: compact windows of two devices come back as results within their promise. It
// makes keys of boot15 and bootstraps.
func TestCompactSegment(t *testing.T) {
	if os.Getenv("HENCEDGE_TEST_DEEP") == "" {
		testenv.Missing(t, "deep", "HENCEDGE_TEST_DEEP is not set")
	}
	o := testOptions(t)
	o.Compact, o.Samples, o.Channels = 12, 64, 1
	var err error
	if o.Params, err = henc.Named("boot15"); err != nil {
		t.Fatal(err)
	}
	h := runningWith(t, o)
	s, err := h.run(t.Context(), shortLoad(2))
	if err != nil {
		t.Fatal(err)
	}
	if results := s.end.results - s.start.results; s.fed != 4 || results != 8 || s.checked.results != 8 ||
		s.checked.worst <= 0 || s.checked.worst > 1 {
		t.Errorf("%d windows, %d results, %d checked, largest error %g of its bound", s.fed, results,
			s.checked.results, s.checked.worst)
	}
}

// TestCompactOptions: what has no compact form is refused before keys are made.
func TestCompactOptions(t *testing.T) {
	boot15, err := henc.Named("boot15")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Compact = 13 }, "--compact 13: use 12 or 16"},
		{func(o *Options) { o.Compact, o.Seeded = 12, true }, "leave out --seeded"},
		{func(o *Options) { o.Compact, o.Places = 12, 2 }, "leave out --seeded and --places"},
		{func(o *Options) { o.Compact = 12 }, "--compact 12 --params edge12-d1"},
		{func(o *Options) { o.Compact, o.Params = 16, boot15 }, "--compact 16 --params boot15"},
		{func(o *Options) { o.Compact, o.Params, o.Samples = 12, boot15, 4096 }, "use fewer --samples"},
	} {
		o := testOptions(t)
		c.change(&o)
		err := o.check()
		if err == nil {
			var b *bed
			if b, err = newBed(t.Context(), o); b != nil {
				_ = b.close()
			}
		}
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
