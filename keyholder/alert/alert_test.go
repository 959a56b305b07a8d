package alert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// configured returns the alerts of a key holder's file; text is what stands below "alerts:".
func configured(t testing.TB, text string) *config.Alerts {
	t.Helper()
	const head = `
name: home
broker: {url: "tls://h"}
key_set: keys
state: holder.state
evaluators: [{name: cloud, public_key: "ed25519:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="}]
alerts:
`
	k, err := config.ParseKeyHolder("keyholder.yaml", []byte(head+text))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Check(); err != nil {
		t.Fatalf("a configuration that was read fails its own check: %v", err)
	}
	return k.Alerts
}

// ruled returns alerts with one receiver, "ops", and the rules, each in braces.
func ruled(t testing.TB, rules ...string) *config.Alerts {
	t.Helper()
	return configured(t, "  receivers: [{name: ops, command: [/bin/true]}]\n  rules:\n    - {"+
		strings.Join(rules, "}\n    - {")+"}\n")
}

// inbox is a receiver of a test.
type inbox struct {
	mu   sync.Mutex
	got  []Event
	fail func(e *Event) error // nil: takes everything
}

func (i *inbox) send(_ context.Context, e *Event) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fail != nil {
		if err := i.fail(e); err != nil {
			return err
		}
	}
	i.got = append(i.got, *e)
	return nil
}

func (i *inbox) close() {}

func (i *inbox) events() []Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.got)
}

// told returns what came, as "firing hot/board1 80 x3".
func (i *inbox) told() (out []string) {
	for _, e := range i.events() {
		text := e.State + " " + e.Alert
		if e.Device != "" {
			text += "/" + e.Device
		}
		if e.Value != nil {
			text += fmt.Sprintf(" %g", *e.Value)
		}
		if e.Windows > 0 {
			text += fmt.Sprintf(" x%d", e.Windows)
		}
		out = append(out, text)
	}
	return out
}

// bench is alarms in a test.
type bench struct {
	*Alarms
	file  string // the key holder's state
	cfg   *config.Alerts
	ops   *inbox
	clock time.Time
	log   *testrig.Log
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func newBench(t testing.TB, cfg *config.Alerts) *bench {
	t.Helper()
	b := &bench{file: filepath.Join(testenv.QuickDir(t), "holder.state"), cfg: cfg, ops: &inbox{}, clock: noon,
		log: new(testrig.Log)}
	b.reopen(t)
	t.Cleanup(func() { b.Close() })
	return b
}

// reopen opens the state that lies there.
func (b *bench) reopen(t testing.TB) {
	t.Helper()
	senders := map[string]sender{}
	for _, r := range b.cfg.Receivers {
		senders[r.Name] = b.ops
	}
	var err error
	b.Alarms, err = open(Options{Config: b.cfg, Holder: "home", State: b.file, Logger: b.log.Logger(),
		Now: func() time.Time { return b.clock }, RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond}, senders)
	if err != nil {
		t.Fatal(err)
	}
}

// window is a result of the program "mean": minute n after noon.
func window(device string, n int, bound float64, values ...float64) *Result {
	start := noon.Add(time.Duration(n) * time.Minute)
	return &Result{Program: "mean", Device: device, Evaluator: "cloud", Unit: "degC", Start: start,
		End: start.Add(time.Minute), Values: values, Bound: bound}
}

func (b *bench) take(t testing.TB, results ...*Result) {
	t.Helper()
	for _, r := range results {
		if err := b.Observe(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// deliver runs the alarms until all that waits was taken.
func (b *bench) deliver(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithCancel(testrig.Context(t))
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	n := b.Drain(ctx)
	stop()
	if err := <-done; err != nil || n != 0 {
		t.Fatalf("%d events wait: %v", n, err)
	}
}

func TestRules(t *testing.T) {
	w := window
	for name, c := range map[string]struct {
		rule    string
		windows []*Result
		want    []string
	}{
		"at once": {"name: hot, program: mean, when: value > 80",
			[]*Result{w("", 0, 0, 79), w("", 1, 0, 81), w("", 2, 0, 99), w("", 3, 0, 80), w("", 4, 0, 80)},
			[]string{"firing hot 81 x1", "resolved hot 80 x1"}},
		"three in a row": {"name: hot, program: mean, when: value > 80, for: 3",
			[]*Result{w("", 0, 0, 81), w("", 1, 0, 82), w("", 2, 0, 79), w("", 3, 0, 83), w("", 4, 0, 84), w("", 5, 0,
				85)},
			[]string{"firing hot 85 x3"}},
		"hysteresis": {"name: hot, program: mean, when: value > 80, clear: value < 75, clear_for: 2",
			[]*Result{w("", 0, 0, 81), w("", 1, 0, 76), w("", 2, 0, 74), w("", 3, 0, 75), w("", 4, 0, 74), w("", 5, 0,
				73),
				w("", 6, 0, 80)},
			[]string{"firing hot 81 x1", "resolved hot 73 x2"}},
		"two devices": {"name: hot, program: mean, when: value > 80, for: 2",
			[]*Result{w("a", 0, 0, 81), w("b", 0, 0, 82), w("a", 1, 0, 79), w("b", 1, 0, 83), w("a", 2, 0, 84),
				w("b", 2, 0, 1)},
			[]string{"firing hot/b 83 x2", "resolved hot/b 1 x1"}},
		"one of several devices": {"name: hot, program: mean, when: value > 80, devices: [b]",
			[]*Result{w("a", 0, 0, 81), w("b", 0, 0, 82)}, []string{"firing hot/b 82 x1"}},
		"a class": {"name: hot, program: mean, when: value > 80, per: class",
			[]*Result{w("a", 0, 0, 81), w("b", 0, 0, 82), w("a", 1, 0, 2), w("b", 1, 0, 3), w("a", 2, 0, 90)},
			[]string{"firing hot 81 x1", "resolved hot 3 x1", "firing hot 90 x1"}},
		"missing windows are not counted": {"name: hot, program: mean, when: value > 80, for: 2",
			[]*Result{w("", 0, 0, 81), w("", 50, 0, 82)}, []string{"firing hot 82 x2"}},
		"a pause begins anew": {"name: hot, program: mean, when: value > 80, for: 2, gap: 5m",
			[]*Result{w("", 0, 0, 81), w("", 7, 0, 82), w("", 12, 0, 83)}, []string{"firing hot 83 x2"}},
		"late windows do not count": {"name: hot, program: mean, when: value > 80, for: 2",
			[]*Result{w("", 5, 0, 81), w("", 4, 0, 82), w("", 5, 0, 81), w("", 6, 0, 7), w("", 3, 0, 83), w("", 2, 0,
				83)},
			nil},
		"any of several values": {"name: hot, program: mean, when: value > 80",
			[]*Result{w("", 0, 0, 1, 2), w("", 1, 0, 1, 81, 90), w("", 2, 0, 85, 1), w("", 3, 0, 1, 2)},
			[]string{"firing hot 81 x1", "resolved hot 1 x1"}},
		"all of several values end it": {"name: hot, program: mean, when: value > 80, clear: value < 70",
			[]*Result{w("", 0, 0, 1, 81), w("", 1, 0, 1, 75), w("", 2, 0, 1, 69)},
			[]string{"firing hot 81 x1", "resolved hot 1 x1"}},
		"one value": {"name: hot, program: mean, when: 'value[1] <= -1.5e1'",
			[]*Result{w("", 0, 0, -99, 0), w("", 1, 0, 0, -15), w("", 2, 0, -99, -14), w("", 3, 0, -99)},
			[]string{"firing hot -15 x1", "resolved hot -14 x1"}},
		"undecided windows are left out": {"name: hot, program: mean, when: value > 80, for: 3",
			[]*Result{w("", 0, 0.5, 81), w("", 1, 0.5, 80.4), w("", 2, 0.5, 81), w("", 3, 0.5, 79.6), w("", 4, 0.5, 82),
				w("", 5, 0.5, 79.9)},
			[]string{"firing hot 82 x3"}},
		"undecided raises": {"name: hot, program: mean, when: value > 80, for: 2, undecided: raise",
			[]*Result{w("", 0, 0.5, 79.4), w("", 1, 0.5, 79.6), w("", 2, 0.5, 80.4), w("", 3, 0.5, 79.8),
				w("", 4, 0.5, 79.4)},
			[]string{"firing hot 80.4 x2", "resolved hot 79.4 x1"}},
		"undecided clears": {"name: hot, program: mean, when: value > 80, undecided: clear",
			[]*Result{w("", 0, 0.5, 80.4), w("", 1, 0.5, 80.6), w("", 2, 0.5, 80.4)},
			[]string{"firing hot 80.6 x1", "resolved hot 80.4 x1"}},
		"no numbers": {"name: hot, program: mean, when: value > 80, undecided: raise",
			[]*Result{w("", 0, math.Inf(1), 81), w("", 1, 0, 1), w("", 2, 0, math.NaN()), w("", 3, 0, 1),
				w("", 4, math.NaN(), 81)},
			[]string{"firing hot 81 x1", "resolved hot 1 x1", "firing hot x1", "resolved hot 1 x1",
				"firing hot 81 x1"}},
		"another program": {"name: hot, program: other, when: value > 80", []*Result{w("", 0, 0, 81)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, ruled(t, c.rule))
			b.take(t, c.windows...)
			b.deliver(t)
			if got := b.ops.told(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// At the threshold a condition is decided only if the whole interval is on one side.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		op           string
		value, bound float64
		want         verdict
	}{
		{">", 80, 0, no}, {">=", 80, 0, yes}, {"<", 80, 0, no}, {"<=", 80, 0, yes},
		{">", 81, 1, undecided}, {">=", 81, 1, yes}, {">", 79, 1, no}, {">=", 79, 1, undecided},
		{"<", 79, 1, undecided}, {"<=", 79, 1, yes}, {"<", 81, 1, no}, {"<=", 81, 1, undecided},
		{">", 80.5, 1, undecided}, {"<", 80.5, 1, undecided},
	} {
		cond := config.Condition{Index: -1, Op: c.op, Threshold: 80}
		if got := compare(&cond, c.value, c.bound); got != c.want {
			t.Errorf("%g +/- %g %s 80: %d, want %d", c.value, c.bound, c.op, got, c.want)
		}
	}
}

func TestEvents(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: '  value   > 80', for: 2, severity: critical"))
	b.take(t, window("a", 0, 0.25, 81), window("a", 1, 0.25, 82))
	b.clock = noon.Add(time.Hour)
	b.take(t, window("a", 2, 0.25, 7))
	b.deliver(t)
	got := b.ops.events()
	if len(got) != 2 {
		t.Fatalf("got %+v", got)
	}
	f, r := got[0], got[1]
	if f.Severity != "critical" || f.Holder != "home" || f.Program != "mean" || f.Device != "a" ||
		f.Evaluator != "cloud" ||
		f.Rule != "value > 80" || f.Bound != 0.25 || f.Unit != "degC" || !f.Start.Equal(noon) ||
		!f.End.Equal(noon.Add(2*time.Minute)) || !f.Raised.Equal(noon) || !f.At.Equal(noon) || f.Number != 1 {
		t.Errorf("got %+v", f)
	}
	if r.Incident != f.Incident || r.ID == f.ID || len(r.ID) != 32 || r.Number != 2 || !r.Raised.Equal(noon) ||
		!r.At.Equal(noon.Add(time.Hour)) {
		t.Errorf("got %+v", r)
	}
	// Whoever computes the same again, without the state, gets the same ids.
	again := newBench(t, b.cfg)
	again.clock = noon.Add(24 * time.Hour)
	again.take(t, window("a", 0, 0.25, 81), window("a", 1, 0.25, 82), window("a", 2, 0.25, 7))
	again.deliver(t)
	if g := again.ops.events(); len(g) != 2 || g[0].ID != f.ID || g[1].ID != r.ID {
		t.Errorf("got %+v", g)
	}
}

func TestAge(t *testing.T) {
	b := newBench(t, ruled(t, "name: gone, program: mean, when: age > 10m, devices: [a, b]",
		"name: silent, program: mean, when: age > 1h, per: class"))
	look := func(after time.Duration) {
		t.Helper()
		b.clock = noon.Add(after)
		if err := b.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.take(t, window("a", 0, 0, 1), window("c", 0, 0, 1))
	look(10 * time.Minute)
	look(11 * time.Minute) // a is one minute younger
	look(12 * time.Minute)
	look(5 * time.Minute) // a clock that is set back
	b.clock = noon.Add(12 * time.Minute)
	b.take(t, window("b", 0, 0, 1)) // too old to end it
	b.take(t, window("b", 3, 0, 1)) // new enough
	b.take(t, window("a", 11, 0, 1))
	look(2 * time.Hour)
	b.take(t, window("c", 119, 0, 1), window("a", 119, 0, 1))
	b.deliver(t)
	want := []string{"firing gone/b", "firing gone/a", "resolved gone/b", "resolved gone/a"}
	got := b.ops.told()
	if len(got) < 8 || !slices.Equal(got[:4], want) {
		t.Fatalf("got %q", got)
	}
	rest := slices.Sorted(slices.Values(got[4:]))
	if !slices.Equal(rest, []string{"firing gone/a", "firing gone/b", "firing silent", "resolved gone/a"}) {
		t.Errorf("got %q", rest)
	}
}

func TestSilences(t *testing.T) {
	b := newBench(t, configured(t, `
  receivers: [{name: ops, command: [/bin/true]}]
  rules:
    - {name: hot, program: mean, when: value > 80}
    - {name: cold, program: mean, when: value < 0}
  silences:
    - {rule: cold, from: "2026-11-23T12:00:00Z", to: "2026-11-23T13:00:00Z"}
`))
	edit := func(f func([]Silence) []Silence) {
		t.Helper()
		if err := EditSilences(b.file, b.clock, f); err != nil {
			t.Fatal(err)
		}
	}
	b.take(t, window("a", 0, 0, 81)) // told before the silence
	edit(func(l []Silence) []Silence {
		return append(l, Silence{Rule: "hot", From: noon, To: noon.Add(2 * time.Hour)})
	})
	b.take(t, window("a", 1, 0, 70), window("b", 1, 0, 82), window("c", 1, 0, 83), window("c", 2, 0, 70),
		window("d", 1, 0, -5))
	b.deliver(t)
	// The end of what was told is told; nothing else is.
	want := []string{"firing hot/a 81 x1", "resolved hot/a 70 x1"}
	if got := b.ops.told(); !slices.Equal(got, want) {
		t.Fatalf("got %q", got)
	}
	r, err := ReadReport(b.cfg, b.file, b.clock)
	if err != nil || len(r.Silences) != 1 || r.Alerts[1].Device != "b" || r.Alerts[1].Silenced == nil ||
		!r.Alerts[1].Silenced.Equal(noon.Add(2*time.Hour)) {
		t.Fatalf("got %+v, %v", r, err)
	}
	// At its end, what fires still is told, over a restart too.
	b.Close()
	b.reopen(t)
	b.clock = noon.Add(time.Hour)
	if err := b.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	edit(func([]Silence) []Silence { return nil })
	if err := b.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.deliver(t)
	want = append(want, "firing cold/d -5 x1", "firing hot/b 82 x1")
	if got := b.ops.told(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// A file that cannot be read silences nothing new, and is told.
	if err := os.WriteFile(b.file+SilenceSuffix, []byte("[{]"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.take(t, window("c", 3, 0, 99))
	b.deliver(t)
	if got := b.ops.told(); got[len(got)-1] != "firing hot/c 99 x1" ||
		!strings.Contains(b.log.String(), "cannot read the silences") {
		t.Errorf("got %q and %s", got, b.log)
	}
}

// What the configuration does not know any more ends, and says so.
func TestOtherConfiguration(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80",
		"name: warm, program: mean, when: value > 50",
		"name: fleet, program: mean, when: value > 50, per: class"))
	b.take(t, window("a", 0, 0, 81))
	b.deliver(t)
	b.Close()
	b.ops.got = nil
	b.cfg = ruled(t, "name: warm, program: mean, when: value > 50, devices: [b]",
		"name: fleet, program: mean, when: value > 50")
	b.reopen(t)
	b.take(t, window("a", 1, 0, 82))
	b.deliver(t)
	got := slices.Sorted(slices.Values(b.ops.told()))
	if !slices.Equal(got, []string{"firing fleet/a 82 x1", "resolved fleet", "resolved hot/a", "resolved warm/a"}) {
		t.Errorf("got %q", got)
	}
	for _, e := range b.ops.events() {
		if e.State == StateResolved && (e.Reason == "" || e.Value != nil) {
			t.Errorf("got %+v", e)
		}
	}
	// A receiver that is gone holds up nothing.
	b.ops.fail = func(*Event) error { return errors.New("away") }
	b.take(t, window("a", 2, 0, 1))
	b.Close()
	b.cfg = configured(t, "  receivers: [{name: other, command: [/bin/true]}]\n  rules: [{name: fleet, program: mean, "+
		"when: value > 50}]\n")
	b.reopen(t)
	if len(b.queue) != 0 || !strings.Contains(b.log.String(), "are dropped whose receiver") {
		t.Errorf("%d events wait: %s", len(b.queue), b.log)
	}
}

func TestOneProcess(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80"))
	_, err := open(Options{Config: b.cfg, State: b.file}, map[string]sender{"ops": b.ops})
	if !errors.Is(err, durable.ErrLocked) {
		t.Errorf("got %v", err)
	}
}

// The oldest events give way when too many wait; that is counted.
func TestFullQueue(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80"))
	b.most = 4
	for n := range 10 {
		b.take(t, window("", n, 0, float64(100*(n%2))))
	}
	if len(b.queue) != 4 || b.queue[0].Event.Number != 6 || b.counts.dropped != 5 {
		t.Errorf("%d events from %d on, %d dropped", len(b.queue), b.queue[0].Event.Number, b.counts.dropped)
	}
	b.Close()
	b.reopen(t)
	b.deliver(t)
	if got := b.ops.events(); len(got) != 4 || got[3].Number != 9 {
		t.Errorf("got %+v", got)
	}
}

// The journal is rewritten when it is long; the state stays.
func TestCompaction(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80, for: 10000"))
	b.ops.fail = func(*Event) error { return errors.New("away") }
	n := compactFrom/recordSize + 10
	for i := range n {
		b.take(t, window(fmt.Sprintf("d%d", i%50), i, 0, 81))
	}
	if size := b.journal.Size(); size > compactFrom/2 {
		t.Errorf("the journal has %d bytes", size)
	}
	b.Close()
	b.reopen(t)
	sum := 0
	for _, s := range b.state.series {
		sum += s.Count
	}
	if len(b.state.series) != 50 || sum != n {
		t.Errorf("%d series with %d windows, want 50 with %d", len(b.state.series), sum, n)
	}
}

// A crash can leave part of a record, which does not count; anything else is damage.
func TestDamage(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80, for: 3"))
	b.take(t, window("", 0, 0, 81), window("", 1, 0, 81), window("", 2, 0, 81))
	b.Close()
	path := b.file + StateSuffix
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) != 3*recordSize {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	for _, cut := range []int{1, recordSize / 2, recordSize - 1} {
		if err := os.WriteFile(path, whole[:2*recordSize+cut], 0o600); err != nil {
			t.Fatal(err)
		}
		b.reopen(t)
		if s := b.state.series[subject{"hot", ""}]; s == nil || s.Count != 2 || len(b.queue) != 0 {
			t.Errorf("cut at %d: got %+v", cut, s)
		}
		b.take(t, window("", 2, 0, 81)) // it comes again
		if len(b.queue) != 1 {
			t.Errorf("cut at %d: %d events", cut, len(b.queue))
		}
		b.Close()
	}
	whole[recordSize/2] ^= 1
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = open(Options{Config: b.cfg, State: b.file}, map[string]sender{"ops": b.ops})
	if !errors.Is(err, durable.ErrDamaged) || !strings.Contains(err.Error(), "restore the newest copy") {
		t.Errorf("got %v", err)
	}
	if _, err := ReadReport(b.cfg, b.file, noon); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.reopen(t)
}

func TestReport(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80, for: 3, clear_for: 2",
		"name: fleet, program: mean, when: value > 90, per: class", "name: none, program: other, when: value > 1"))
	b.ops.fail = func(*Event) error { return errors.New("away") }
	b.take(t, window("a", 0, 0, 81), window("a", 1, 0, 81), window("b", 0, 2, 81), window("c", 0, 0, 1))
	for n := range 3 {
		b.take(t, window("d", n, 0, 99))
	}
	b.take(t, window("d", 3, 2, 81), window("d", 2, 2, 81))
	r, err := ReadReport(b.cfg, b.file, noon) // while it is in use
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Alerts {
		got = append(got, fmt.Sprintf("%s/%s %s %v %d/%d late %d %v of %d", s.Alert, s.Device, s.State, s.Undecided,
			s.Windows,
			s.For, s.Late, s.Devices, s.Followed))
	}
	want := []string{"hot/a pending false 2/3 late 0 [] of 0", "hot/b undecided true 0/3 late 0 [] of 0",
		"hot/c ok false 0/3 late 0 [] of 0", "hot/d firing true 0/2 late 1 [] of 0",
		"fleet/ ok false 0/1 late 1 [] of 4", "none/ ok false 0/1 late 0 [] of 0"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if s := r.Alerts[3]; s.Raised == nil || !s.Raised.Equal(noon) || s.Incident == "" ||
		!s.Newest.Equal(noon.Add(4*time.Minute)) {
		t.Errorf("got %+v", s)
	}
	if r.Waiting["ops"] != 3 { // hot/d, and fleet began and ended
		t.Errorf("got %v", r.Waiting)
	}
	if _, err := ReadReport(b.cfg, filepath.Join(t.TempDir(), "new"), noon); err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80, severity: critical"))
	b.ops.fail = func(*Event) error { return errors.New("away") }
	b.take(t, window("a", 0, 0, 81), window("b", 0, 2, 81), window("a", 0, 0, 81), window("c", 0, 0, 99))
	b.clock = noon.Add(time.Minute)
	got := gathered(t, b.Alarms)
	for name, want := range map[string]float64{"_events_waiting{ops}": 2, "_waiting_seconds{ops}": 60,
		"_windows_late_total{hot}": 1, "_windows_undecided_total{hot}": 1, "s_firing{hot,critical}": 2,
		"s_silenced{hot}": 0, "_events_total{hot,firing}": 2, "_events_total{hot,resolved}": 0,
		"_deliveries_total{ops}": 0, "_events_dropped_total{}": 0} {
		if v, ok := got[prefix+name]; !ok || v != want {
			t.Errorf("%s is %g, %v, want %g", name, v, ok, want)
		}
	}
	b.ops.fail = nil
	b.deliver(t)
	if v := gathered(t, b.Alarms)[prefix+"_deliveries_total{ops}"]; v != 2 {
		t.Errorf("%g deliveries", v)
	}
}

// gathered returns metrics as "name{labels}"; their names follow Prometheus' rules.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// A record of the journal is read as it was written, or refused.
func FuzzEntry(f *testing.F) {
	v := 1.5
	whole, err := appendEntry(nil, &entry{Series: []series{{Rule: "hot", Device: "a", Start: 1, End: 2, Count: 3}},
		Alarms: []alarm{{subject: subject{"hot", "a"}, Firing: true, Last: &Event{ID: "x", Value: &v}}},
		Queued: []queued{{N: 7, Event: Event{ID: "x"}, To: []string{"ops"}}}, Taken: []taken{{7, "ops"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:len(whole)-4])
	f.Add([]byte{0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, '{'})
	f.Fuzz(func(t *testing.T, payload []byte) {
		e, err := readEntry(payload)
		if err != nil {
			return
		}
		s := newState()
		s.apply(e)
		again := newState()
		b := appendAll(nil, s)
		for ; len(b) > 0; b = b[recordSize:] {
			if !again.take(b[:recordSize-4]) {
				t.Fatalf("%q is not read again", payload)
			}
		}
		if len(payload) <= recordSize/2 && (len(again.series) != len(s.series) || len(again.alarms) != len(s.alarms) ||
			len(again.queue) != len(s.queue)) {
			t.Fatalf("%q changes: %+v, %+v", payload, s, again)
		}
	})
}
