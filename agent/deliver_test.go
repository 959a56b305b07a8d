package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// withSpool gives a configuration a spool.
func withSpool(t testing.TB, cfg *config.Agent, dir string) *config.Agent {
	t.Helper()
	cfg.Spool = &config.Spool{Dir: dir}
	cfg.SetDefaults()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// numbered is a replay of n samples whose channel a carries the number.
func numbered(t *testing.T, n int) config.Stream {
	var text strings.Builder
	text.WriteString("t,a,b.c\n")
	for i := range n {
		fmt.Fprintf(&text, "%d,%d,0\n", 1000+i, i%50)
	}
	return inputtest.ReplayStream(t, "x.csv", text.String(),
		func(r *config.Replay) { r.TimeFormat, r.Speed = "unix", "500x" })
}

// A replay goes on after the last window that is safe: across a stop while the
// broker is away, across the delivery of everything, and at the end of the file.
func TestReplayContinues(t *testing.T) {
	cfg := withSpool(t, testConfig(t), filepath.Join(t.TempDir(), "spool"))
	cfg.Streams[0] = numbered(t, 200)
	client := &fakeClient{}
	away := func(topic string) error {
		if strings.Contains(topic, "/up/") {
			return errors.New("broker is away")
		}
		return nil
	}
	run := func(fail func(string) error, windows int) *Agent {
		t.Helper()
		client.fail = fail
		deps, _ := testDeps(t, client)
		deps.Clock = role.SystemClock()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		deps.Observer = func(Observation) {
			if seen++; seen == windows {
				cancel()
			}
		}
		cfg.StopTimeout = config.DefaultStopTimeout
		a, err := New(cfg, deps)
		if err != nil {
			t.Fatal(err)
		}
		cfg.StopTimeout = 300 * time.Millisecond // below what a file may say
		if err := a.Run(ctx); err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := run(away, 3); a.Stats().Spool.Objects < 3 || a.Stats().Sent != 0 {
		t.Fatalf("%+v", a.Stats().Spool)
	}
	if a := run(away, 2); a.Stats().Spool.Recovered < 3 {
		t.Fatalf("%+v", a.Stats().Spool)
	}
	run(nil, -1)
	if a := run(nil, -1); a.Stats().Streams["r"].Samples != 0 {
		t.Errorf("%d samples were read beyond the end", a.Stats().Streams["r"].Samples)
	}
	readings, _ := opened(t, keysFor(t), "board1", client.messages)
	next := int64(1000)
	for _, o := range readings {
		if o.Meta.Start != next*1e9 {
			t.Fatalf("a window starts at %d, want %d", o.Meta.Start/1e9, next)
		}
		next += int64(o.Meta.Samples)
	}
	if next != 1200 {
		t.Errorf("%d of 200 samples arrived", next-1000)
	}
	// Another file under the stream's name starts from its beginning.
	cfg.Streams[0] = numbered(t, 8)
	if a := run(nil, -1); a.Stats().Streams["r"].Samples != 8 {
		t.Errorf("%d samples of another file", a.Stats().Streams["r"].Samples)
	}
}

// A start after a while without samples says for how long there are none.
func TestGap(t *testing.T) {
	cfg := withSpool(t, testConfig(t), filepath.Join(t.TempDir(), "spool"))
	client := &fakeClient{}
	clock := testrig.NewClock()
	for i, away := range []time.Duration{0, time.Hour, -3 * time.Hour, 0} {
		clock.Step(away)
		deps, _ := testDeps(t, client)
		var out strings.Builder
		deps.Clock, deps.Logger = clock, textLogger(&out)
		a, err := New(cfg, deps)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		gap := time.Duration(a.Stats().Streams["system"].GapNanos)
		told := strings.Contains(out.String(), "no samples were taken")
		if want := max(away, 0); gap < want || gap > want+2*time.Second || told != (want > 0) {
			t.Errorf("start %d, away for %v: gap %v, told %v", i, away, gap, told)
		}
	}
}

// simClock is a simulated clock: sleepers are woken in the order of their times,
// and time passes only when everybody sleeps or a step is taken.
type simClock struct {
	mu   sync.Mutex
	now  time.Duration
	wall time.Time
	wait []*sleeper
}

type sleeper struct {
	at   time.Duration
	wake chan struct{}
}

func (c *simClock) Now() time.Time      { c.mu.Lock(); defer c.mu.Unlock(); return c.wall.Add(c.now) }
func (c *simClock) Mono() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *simClock) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	c.mu.Lock()
	s := &sleeper{c.now + d, make(chan struct{})}
	c.wait = append(c.wait, s)
	c.mu.Unlock()
	select {
	case <-s.wake:
		return ctx.Err()
	case <-ctx.Done():
		c.mu.Lock()
		c.wait = slices.DeleteFunc(c.wait, func(x *sleeper) bool { return x == s })
		c.mu.Unlock()
		return ctx.Err()
	}
}

// step lets time pass to the next sleeper's moment, at most to limit, and
// reports whether it got anywhere.
func (c *simClock) step(limit time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wait) == 0 {
		return false
	}
	next := limit
	for _, s := range c.wait {
		next = min(next, s.at)
	}
	c.now = max(c.now, next)
	c.wait = slices.DeleteFunc(c.wait, func(s *sleeper) bool {
		if s.at <= c.now {
			close(s.wake)
			return true
		}
		return false
	})
	return true
}

func (c *simClock) sleepers() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.wait) }

// outageClient is a broker that is away until it is back, and then reads the
// headers of what comes.
type outageClient struct {
	mu       sync.Mutex
	back     chan struct{}
	metas    []transport.Meta
	receiver *transport.Receiver
}

func newOutageClient() *outageClient {
	c := &outageClient{back: make(chan struct{})}
	c.receiver = transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		sealed := s.Sealed
		m, err := transport.PeekMeta(sealed)
		if err == nil {
			c.mu.Lock()
			c.metas = append(c.metas, *m)
			c.mu.Unlock()
		}
		return err
	})
	return c
}

// inOrder checks that the windows came in order. It returns how many came, and with how
// many samples.
func (c *outageClient) inOrder(t *testing.T) (windows, samples uint64) {
	t.Helper()
	for i, m := range c.metas {
		if i > 0 && m.Sequence != c.metas[i-1].Sequence+1 && m.BootEpoch == c.metas[i-1].BootEpoch {
			t.Fatalf("window %d has sequence %d after %d", i, m.Sequence, c.metas[i-1].Sequence)
		}
		samples += uint64(m.Samples)
	}
	return uint64(len(c.metas)), samples
}

func (c *outageClient) Publish(ctx context.Context, topic string, payload []byte, _ bool) error {
	if !strings.Contains(topic, "/up/") {
		return nil
	}
	select {
	case <-c.back:
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.receiver.Feed(topic, payload)
}
func (*outageClient) Subscribe(context.Context, string, func(transport.Delivery)) error { return nil }
func (c *outageClient) Connected() bool {
	select {
	case <-c.back:
		return true
	default:
		return false
	}
}
func (*outageClient) Close(context.Context) error { return nil }

// TestOutage samples 32 channels at 10 Hz on a simulated clock while the broker
// is away, for HENCEDGE_OUTAGE_HOURS (a few minutes without it), then lets it
// come back: every window must arrive, in order, and neither the time away nor
// the way back may take memory that grows with it.
func TestOutage(t *testing.T) {
	length := 10 * time.Minute
	if h, err := strconv.Atoi(os.Getenv("HENCEDGE_OUTAGE_HOURS")); err == nil {
		length = time.Duration(h) * time.Hour
	}
	cfg := outageConfig(t)
	clock := &simClock{wall: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	client := newOutageClient()
	deps, _ := testDeps(t, client)
	deps.Clock = clock
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	early, away := passOutage(a, clock, length)
	made := a.Stats().Streams["system"].Windows
	waiting := a.Stats().Spool
	close(client.back)
	cancel() // sampling ends; the backlog goes out
	back := time.Now()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	a, most := drainOutage(t, a, cfg, deps)
	took := time.Since(back)
	got, seen := client.inOrder(t)
	if want := uint64(length / (100 * time.Millisecond)); seen < want-1 || got < made {
		t.Errorf("%d samples in %d windows arrived, %d samples were due and %d windows made", seen, got, want, made)
	}
	if st := a.Stats().Spool; st.Dropped+st.Expired+st.Damaged > 0 {
		t.Errorf("%+v", st)
	}
	// The index takes about 200 bytes for each window that waits, and this test a
	// header for each that arrived.
	if bound := early + 4<<20 + 300*uint64(waiting.Objects); away > bound {
		t.Errorf("the heap grew from %d to %d KiB while the broker was away", early>>10, away>>10)
	}
	if bound := early + 4<<20 + 1200*got; max(away, most) > bound {
		t.Errorf("the heap grew from %d to %d KiB on the way back", early>>10, max(away, most)>>10)
	}
	t.Logf("%v away: %d windows, %.1f MB on disk, replayed in %v; heap %d KiB after a sixteenth, at most %d KiB "+
		"later and %d KiB on the way back", length, waiting.Objects,
		float64(waiting.Bytes)/1e6, took.Round(time.Millisecond), early>>10, away>>10, max(away, most)>>10)
}

// outageSamples is how many samples a window of the outage has.
const outageSamples = 64

// outageConfig describes an agent with 32 channels at 10 Hz and a large spool.
func outageConfig(t *testing.T) *config.Agent {
	t.Helper()
	cfg := testConfig(t)
	s := &cfg.Streams[0]
	s.Interval, s.Window.Samples, s.Channels = 100*time.Millisecond, outageSamples, nil
	for i := range 32 {
		s.Channels = append(s.Channels,
			config.Channel{Name: fmt.Sprint("c", i), Unit: "1", Range: [2]float64{0, 64},
				Source: &config.Source{Type: config.SourceLoad}})
	}
	withSpool(t, cfg, filepath.Join(t.TempDir(), "spool"))
	cfg.Spool.Bytes = 16 * config.GiB
	return cfg
}

// passOutage lets time pass up to length. It returns the heap after a sixteenth of it, and
// the largest later.
func passOutage(a *Agent, clock *simClock, length time.Duration) (early, most uint64) {
	part := length / 16
	next := part
	for clock.Mono() < length {
		// Time passes when the sampler sleeps and the encrypter has nothing to do.
		st := a.Stats().Streams["system"]
		if clock.sleepers() == 0 || st.Samples/outageSamples > st.Windows+2 ||
			st.Windows > uint64(a.Stats().Spool.Objects)+2 {
			time.Sleep(50 * time.Microsecond)
			continue
		}
		clock.step(length)
		if clock.Mono() < next {
			continue
		}
		next += part
		if h := heapAlloc(); early == 0 {
			early = h
		} else {
			most = max(most, h)
		}
	}
	return early, most
}

// drainOutage starts the agent again until its spool is empty: a stop may leave some
// windows for the next start. It returns the last agent and the largest heap.
func drainOutage(t *testing.T, a *Agent, cfg *config.Agent, deps Deps) (last *Agent, most uint64) {
	t.Helper()
	for i := 0; a.Stats().Spool.Objects > 0 && i < 100; i++ {
		var err error
		if a, err = New(cfg, deps); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = a.Run(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, heapAlloc())
	}
	return a, most
}

// heapAlloc returns the bytes of the heap that are in use.
func heapAlloc() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Plan's bytes and flushes of the spool are those that a spool counts, and a cap
// or hours that are too tight are refused.
func TestPlanOfSpool(t *testing.T) {
	cfg := withSpool(t, testConfig(t), filepath.Join(t.TempDir(), "spool"))
	cfg.Spool.Mirror = filepath.Join(t.TempDir(), "mirror")
	deps, _ := testDeps(t, &fakeClient{})
	p, err := plan.Predict(cfg, deps.options(), 0)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := a.Stats().Spool
	if got, want := float64(st.Written), p.SpoolBytesPerDay/p.Streams[0].WindowsPerDay; got != want ||
		float64(st.Syncs) != p.SpoolSyncsPerDay/p.Streams[0].WindowsPerDay {
		t.Errorf("a window writes %v bytes with %d flushes, predicted %v with %v", got, st.Syncs, want,
			p.SpoolSyncsPerDay/p.Streams[0].WindowsPerDay)
	}
	if want := cfg.Spool.Age.Seconds(); p.QueueSeconds > want || p.QueueSeconds <= 0 || p.Open != 1 || p.Cap != 0 {
		t.Errorf("%+v", p)
	}
	cfg.Delivery.Bandwidth = config.Size(2 * p.BytesPerDay / 86400)
	if p, err := plan.Predict(cfg, deps.options(), 0); err != nil || len(p.Refusals) != 0 || p.Cap < 0.49 ||
		p.Cap > 0.51 {
		t.Errorf("half of the cap: %+v, %v", p, err)
	}
	cfg.Delivery.Hours = []config.Hours{{From: "00:00", To: "06:00", Zone: "UTC"}}
	if p, err := plan.Predict(cfg, deps.options(), 0); err != nil || len(p.Refusals) != 1 ||
		!strings.Contains(p.Refusals[0], "delivery.bandwidth") || p.Open != 0.25 {
		t.Errorf("in a quarter of the day: %+v, %v", p, err)
	}
}

// A bit that flips in the only copy of a window loses that window and no other:
// it is counted, set aside, and leaves a hole in the sequence numbers.
func TestFlippedOnlyCopy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	cfg := withSpool(t, testConfig(t), dir)
	cfg.Streams[0] = numbered(t, 40)
	client := &fakeClient{fail: func(topic string) error {
		if strings.Contains(topic, "/up/") {
			return errors.New("broker is away")
		}
		return nil
	}}
	deps, k := testDeps(t, client)
	deps.Clock = role.SystemClock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	deps.Observer = func(Observation) {
		if seen++; seen == 10 {
			cancel()
		}
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	cfg.StopTimeout = 100 * time.Millisecond
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "0000000000000004.obj")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	client.fail, deps.Observer, cfg.StopTimeout = nil, nil, config.DefaultStopTimeout
	if a, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	readings, _ := opened(t, k, "board1", client.messages)
	var got []uint64
	for _, o := range readings {
		got = append(got, o.Meta.Sequence)
	}
	if want := []uint64{0, 1, 2, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("windows %v arrived, want %v", got, want)
	}
	if st := a.Stats().Spool; st.Damaged != 1 || st.Objects != 0 {
		t.Errorf("%+v", st)
	}
	if aside, _ := filepath.Glob(filepath.Join(dir, "damaged", "*")); len(aside) != 1 {
		t.Errorf("set aside: %q", aside)
	}
}
