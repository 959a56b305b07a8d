package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// close enough for a fresh edge12-d1 encryption of a channel with this half
// range: 2^-9 of it is 100 standard deviations.
const fresh = 0x1p-9

func sameValues(t *testing.T, s config.Stream, got, want [][]float64) {
	t.Helper()
	for k, ch := range s.Channels {
		_, half := ch.Affine()
		if len(got[k]) != len(want[k]) {
			t.Fatalf("%s: %d samples, want %d", ch.Name, len(got[k]), len(want[k]))
		}
		for i := range want[k] {
			if math.Abs(got[k][i]-want[k][i]) > half*fresh {
				t.Errorf("%s[%d]: decrypted %v, encrypted %v", ch.Name, i, got[k][i], want[k][i])
			}
		}
	}
}

func TestOnce(t *testing.T) {
	cfg := testConfig(t)
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	var seen []Observation
	deps.Observer = func(o Observation) { seen = append(seen, o) }
	deps.Version = "1.2.3"
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	readings, status := opened(t, k, "board1", client.messages)
	if len(readings) != 1 || len(seen) != 1 || len(status) != 2 {
		t.Fatalf("%d readings, %d observations, %d status messages", len(readings), len(seen), len(status))
	}
	m, o := readings[0].Meta, seen[0]
	s := cfg.Streams[0]
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(100 * time.Millisecond)
	if m.Samples != 4 || m.Level != 1 || m.Layout != s.LayoutHash() || m.KeyID != k.public.KeyID || m.KeyEpoch != 7 ||
		m.Start != start.UnixNano() || m.End != start.Add(300*time.Millisecond).UnixNano() ||
		m.BootEpoch != a.state.Boot() || m.Sequence != 0 {
		t.Errorf("header %+v", m)
	}
	if o.Object != readings[0].ID || o.Meta.Sequence != m.Sequence || o.Body != len(readings[0].Body) || o.Chunks < 1 {
		t.Errorf("observation %+v", o)
	}
	want := [][]float64{{47.843, 47.843, 47.843, 47.843}, {25.274934723, 25.274934723, 25.274934723, 25.274934723},
		{0.52, 0.52, 0.52, 0.52}}
	sameValues(t, s, o.Values, want)
	sameValues(t, s, decrypted(t, k, s, readings[0]), want)

	for i, online := range []bool{true, false} {
		st, err := transport.UnmarshalStatus(status[i].Body)
		if err != nil || st.Online != online || st.Version != "1.2.3" || st.KeyID != k.public.KeyID ||
			st.KeyEpoch != 7 || len(st.Streams) != 1 {
			t.Errorf("status %d: %+v, %v", i, st, err)
			continue
		}
		// The description is the layout that windows name.
		if d, ok := daemon.DescribedStream(st.Streams[0]); !ok || d.LayoutHash() != s.LayoutHash() {
			t.Errorf("status %d describes %+v", i, st.Streams[0])
		}
	}
	for _, m := range client.messages {
		if m.Retain != strings.Contains(m.Topic, "/st/") {
			t.Errorf("%s: retained %v", m.Topic, m.Retain)
		}
	}
	if err := a.Once(t.Context()); !errors.Is(err, ErrUsed) {
		t.Errorf("second run: %v", err)
	}
	st := a.Stats()
	if st.Sent != 1 || st.Streams["system"].Windows != 1 || st.Streams["system"].Samples != 4 ||
		st.SentBytes != uint64(o.Sealed) {
		t.Errorf("%+v", st)
	}
}

func TestSymmetric(t *testing.T) {
	cfg := testConfig(t)
	cfg.Keys = config.AgentKeys{Mode: config.KeyModeSymmetric, SecretKey: "secret.key"}
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	deps.PublicKey, deps.SecretKey = nil, k.secret
	var out strings.Builder
	deps.Logger = textLogger(&out)
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	readings, _ := opened(t, k, "board1", client.messages)
	if len(readings) != 1 || readings[0].Meta.KeyID != k.public.KeyID {
		t.Fatalf("got %d readings", len(readings))
	}
	params := k.ctx.Parameters()
	if n, most := len(readings[0].Body), params.CiphertextBytes(params.MaxLevel(), true); n > most {
		t.Errorf("%d bytes, a seeded ciphertext has at most %d", n, most)
	}
	sameValues(t, cfg.Streams[0], decrypted(t, k, cfg.Streams[0], readings[0]), [][]float64{
		{47.843, 47.843, 47.843, 47.843}, {25.274934723, 25.274934723, 25.274934723, 25.274934723},
		{0.52, 0.52, 0.52, 0.52}})
	if !strings.Contains(out.String(), "whoever takes it can decrypt everything") {
		t.Errorf("no warning in %s", out.String())
	}
}

func TestRunReplay(t *testing.T) {
	var text strings.Builder
	text.WriteString("t,a,b.c\n")
	for i := range 10 {
		fmt.Fprintf(&text, "%d,%d,%g\n", 1000+i, i-5, float64(i)/10)
	}
	cfg := testConfig(t)
	cfg.Streams[0] = inputtest.ReplayStream(t, "x.csv", text.String(), func(r *config.Replay) { r.TimeFormat = "unix" })
	cfg.Queue = config.Queue{Objects: 1}
	cfg.SetDefaults() // a file waits for a full queue
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	cfg.StopTimeout = 0 // only a stop is bounded, not the end of a file
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	readings, _ := opened(t, k, "board1", client.messages)
	if len(readings) != 3 {
		t.Fatalf("%d readings", len(readings))
	}
	for i, o := range readings {
		n := min(4, 10-4*i)
		if o.Meta.Sequence != uint64(i) || int(o.Meta.Samples) != n || o.Meta.Start != int64(1000+4*i)*1e9 ||
			o.Meta.End != int64(1000+4*i+n-1)*1e9 {
			t.Errorf("reading %d: %+v", i, o.Meta)
		}
		want := make([][]float64, 2)
		for j := range n {
			want[0] = append(want[0], float64(4*i+j-5))
			want[1] = append(want[1], 2*float64(4*i+j)/10+1)
		}
		sameValues(t, cfg.Streams[0], decrypted(t, k, cfg.Streams[0], o), want)
	}
	if st := a.Stats().Streams["r"]; st.Partial != 1 || st.Windows != 3 {
		t.Errorf("%+v", st)
	}
}

func TestRunReportsABadFile(t *testing.T) {
	cfg := testConfig(t)
	cfg.Streams[0] = inputtest.ReplayStream(t, "x.csv", "t,a,b.c\n1,1,1\n2,1,1\n3,oops,1\n",
		func(r *config.Replay) { r.TimeFormat = "unix" })
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	if err := plan.Check(cfg, deps.options()); err == nil || !strings.Contains(err.Error(), ":4: ") ||
		!strings.Contains(err.Error(), "streams[0].replay: ") {
		t.Errorf("the check says %v", err)
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	err = a.Run(t.Context())
	if !errors.Is(err, source.ErrReplay) || !strings.Contains(err.Error(), ":4: ") ||
		!strings.Contains(err.Error(), "stream r") {
		t.Errorf("got %v", err)
	}
	if readings, _ := opened(t, k, "board1", client.messages); len(readings) != 1 || readings[0].Meta.Samples != 2 {
		t.Errorf("the good samples before the error did not arrive: %d readings", len(readings))
	}
}

// A stop delivers what was sampled, including the window that was cut short.
func TestGracefulStop(t *testing.T) {
	cfg := testConfig(t)
	cfg.Queue.Full = config.QueueBlock
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var observed atomic.Int32
	deps.Observer = func(Observation) {
		if observed.Add(1) == 3 {
			cancel()
		}
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	readings, status := opened(t, k, "board1", client.messages)
	if len(readings) < 3 || len(readings) != int(observed.Load()) || len(status) != 2 {
		t.Fatalf("%d readings of %d windows, %d status messages", len(readings), observed.Load(), len(status))
	}
	samples := 0
	for i, o := range readings {
		if o.Meta.Sequence != uint64(i) {
			t.Errorf("reading %d has sequence %d", i, o.Meta.Sequence)
		}
		samples += int(o.Meta.Samples)
	}
	if st := a.Stats(); int(st.Streams["system"].Samples) != samples || st.Spool.Objects != 0 {
		t.Errorf("%d samples arrived, %+v", samples, st)
	}
}

func TestUndelivered(t *testing.T) {
	cfg := testConfig(t)
	cfg.Queue.Objects = 2
	client := &fakeClient{fail: func(topic string) error {
		if strings.Contains(topic, "/up/") {
			return errors.New("broker is away")
		}
		return nil
	}}
	deps, _ := testDeps(t, client)
	deps.Clock = role.SystemClock() // retries wait
	cfg.Streams[0].Interval = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var observed atomic.Int32
	deps.Observer = func(Observation) {
		if observed.Add(1) == 4 {
			cancel()
		}
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	cfg.StopTimeout = 10 * time.Millisecond // below what a file may say
	if err := a.Run(ctx); !errors.Is(err, ErrUndelivered) {
		t.Errorf("got %v", err)
	}
	if st := a.Stats(); st.Spool.Objects != 2 || st.Spool.Dropped < 2 || st.Retries < 1 || st.Sent != 0 {
		t.Errorf("%+v", st)
	}
}

// A failed send is tried again until it works; an object that can never be sent
// is dropped; a client that is closed ends the run.
func TestSendErrors(t *testing.T) {
	run := func(fail func(n int32) error) (*Agent, *fakeClient, error) {
		var n atomic.Int32
		client := &fakeClient{fail: func(topic string) error {
			if !strings.Contains(topic, "/up/") {
				return nil
			}
			return fail(n.Add(1))
		}}
		deps, _ := testDeps(t, client)
		a, err := New(testConfig(t), deps)
		if err != nil {
			t.Fatal(err)
		}
		return a, client, a.Once(t.Context())
	}
	a, _, err := run(func(n int32) error {
		if n < 3 {
			return errors.New("away")
		}
		return nil
	})
	if st := a.Stats(); err != nil || st.Sent != 1 || st.Retries != 2 {
		t.Errorf("retry: %v, %+v", err, st)
	}
	a, _, err = run(func(int32) error { return transport.ErrTooLarge })
	if st := a.Stats(); err != nil || st.Sent != 0 || st.Refused != 1 {
		t.Errorf("refused: %v, %+v", err, st)
	}
	_, _, err = run(func(int32) error { return transport.ErrClosed })
	if !errors.Is(err, transport.ErrClosed) || !errors.Is(err, ErrUndelivered) {
		t.Errorf("closed: %v", err)
	}
}

// Two runs of one device never share a (boot epoch, sequence), and the second
// boot epoch is higher.
func TestRestart(t *testing.T) {
	cfg := testConfig(t)
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	for range 2 {
		a, err := New(cfg, deps)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(cfg, deps); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("a second agent with the same state: %v", err)
		}
		if err := a.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	readings, _ := opened(t, k, "board1", client.messages)
	if len(readings) != 2 {
		t.Fatalf("%d readings", len(readings))
	}
	first, second := readings[0].Meta, readings[1].Meta
	if second.BootEpoch != first.BootEpoch+1 || second.Sequence != first.Sequence+1 {
		t.Errorf("(%d, %d) then (%d, %d)", first.BootEpoch, first.Sequence, second.BootEpoch, second.Sequence)
	}
	if string(readings[0].Body) == string(readings[1].Body) {
		t.Error("two encryptions of the same window are equal")
	}
}

func TestWarnings(t *testing.T) {
	cfg := testConfig(t)
	cfg.SigningKey = filepath.Join(t.TempDir(), "signing.key") // one that is not there is warned of
	if err := os.WriteFile(cfg.SigningKey, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w := plan.Warnings(cfg); len(w) != 0 {
		t.Errorf("got %q", w)
	}
	cfg.Keys.Mode = config.KeyModeSymmetric
	cfg.Broker.URL, cfg.Broker.Insecure = "tcp://broker.example.org", true
	cfg.Streams[0].Replay = &config.Replay{Speed: "fast"}
	w := strings.Join(plan.Warnings(cfg), "\n")
	for _, want := range []string{"symmetric mode", "no TLS to broker.example.org", "queue.full to block"} {
		if !strings.Contains(w, want) {
			t.Errorf("no %q in %q", want, w)
		}
	}
}

func TestFailedBirth(t *testing.T) {
	boom := errors.New("boom")
	deps, _ := testDeps(t, &fakeClient{fail: func(string) error { return boom }})
	a, err := New(testConfig(t), deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

func TestMetrics(t *testing.T) {
	deps, _ := testDeps(t, &fakeClient{})
	cfg := testConfig(t)
	cfg.Metrics.Listen = "127.0.0.1:0"
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(a); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`hencedge_agent_windows_total{stream="system"} 1`,
		`hencedge_agent_samples_total{stream="system"} 4`, "hencedge_agent_sent_total 1",
		"hencedge_agent_queue_objects 0"} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no line %q in\n%s", want, w.Body)
		}
	}
	cfg = testConfig(t)
	cfg.Metrics.Listen = "203.0.113.1:1"
	if a, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "metrics") {
		t.Errorf("an address of another machine: %v", err)
	}
}
