package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/backoff"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/outlet"
	"github.com/hencedge/hencedge/keyholder/store"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker/mosquitto"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 5, time.UTC)

func result(program string, n int) *keyholder.Result {
	start := noon.Add(time.Duration(n) * time.Minute)
	return &keyholder.Result{Program: program, Evaluator: "cloud", Unit: "K", Sequence: uint64(n), Start: start,
		End: start.Add(time.Minute), Samples: 60, Values: []float64{float64(n)}, Bound: 1e-3,
		ID: [32]byte{1, byte(n), byte(n >> 8)}, Inputs: [][32]byte{{9, byte(n), byte(n >> 8)}}}
}

// bench is a store with sinks, which can be ended and started again.
type bench struct {
	h     config.History
	store *store.Store
	sinks *Sinks
	stop  func()
	ended chan struct{}
	made  int
}

func newBench(t *testing.T, sinks ...config.Sink) *bench {
	t.Helper()
	k := config.KeyHolder{History: &config.History{File: filepath.Join(t.TempDir(), "db"), Sinks: sinks}}
	b := &bench{h: k.Kept()}
	b.start(t)
	t.Cleanup(func() { b.end() })
	return b
}

func (b *bench) start(t *testing.T) {
	t.Helper()
	var err error
	if b.store, err = store.Open(t.Context(), store.Options{History: b.h, Logger: testrig.Quiet()}); err != nil {
		t.Fatal(err)
	}
	b.sinks, err = Open(Options{Store: b.store, Sinks: b.h.Sinks, Logger: testrig.Quiet(), RetryMin: time.Millisecond,
		RetryMax: 50 * time.Millisecond, Now: func() time.Time { return later(time.Now(), noon.Add(48*time.Hour)) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop, b.ended = stop, make(chan struct{})
	go func() {
		defer close(b.ended)
		b.sinks.Run(ctx)
	}()
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

func (b *bench) end() {
	if b.stop == nil {
		return
	}
	b.stop()
	<-b.ended
	b.sinks.Close()
	_ = b.store.Close()
	b.stop = nil
}

// grow stores n results of two programs.
func (b *bench) grow(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := b.store.Add(t.Context(), result([]string{"mean", "var"}[b.made%2], b.made)); err != nil {
			t.Fatal(err)
		}
		b.made++
	}
}

// database is an HTTP server that keeps the lines that are written to it.
type database struct {
	mu     sync.Mutex
	status int // of answers
	asked  int
	lines  []string
	header http.Header
}

func (d *database) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	d.header = r.Header
	if d.status >= 300 || err != nil || r.URL.RawQuery != "precision=ns" {
		w.WriteHeader(d.status)
		return
	}
	d.lines = append(d.lines, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
	w.WriteHeader(d.status)
}

func (d *database) set(status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = status
}

// complete reports whether the database has each of the results once in order, as it keeps one
// point for each series and time.
func (d *database) complete(made int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var points []string
	for _, line := range d.lines {
		if !slices.Contains(points, line) {
			points = append(points, line)
		}
	}
	want := make([]string, 0, made)
	for n := range made {
		want = append(want, fmt.Sprintf("%s,evaluator=cloud,unit=K value=%d,bound=0.001,samples=60i %d",
			[]string{"mean", "var"}[n%2], n, noon.Add(time.Duration(n)*time.Minute).UnixNano()))
	}
	return slices.Equal(points, want)
}

// Nothing is lost while InfluxDB is away, fails, refuses, or this process ends; a sink that was
// there before goes on where it was.
func TestInflux(t *testing.T) {
	d := &database{status: http.StatusNoContent}
	server := httptest.NewUnstartedServer(d)
	address := testrig.FreeAddress(t)
	cfg := config.Sink{Name: "influx", Influx: &config.HTTP{URL: "http://" + address + "/write?precision=ns"}}
	b := newBench(t, cfg)
	b.grow(t, 10) // the server is not there yet
	failures := func() float64 { return counted(t, b.sinks)["failures"] }
	testrig.Eventually(t, "a failure", func() bool { return failures() > 0 })
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()
	testrig.Eventually(t, "the first results", func() bool { return d.complete(b.made) })
	for _, status := range []int{503, 400, 429, 302, 500} {
		d.set(status)
		before := failures()
		b.grow(t, 3)
		testrig.Eventually(t, "another failure", func() bool { return failures() > before })
		if status == 400 {
			b.end() // and what was refused waits for the next process
			b.grow0(t, 250)
			b.start(t)
		}
		d.set(http.StatusNoContent)
		testrig.Eventually(t, fmt.Sprint("results after ", status), func() bool { return d.complete(b.made) })
	}
	testrig.Eventually(t, "all results counted", func() bool { return counted(t, b.sinks)["results"] >= 9 })
	if kind := d.header.Get("Content-Type"); kind != "text/plain; charset=utf-8" {
		t.Error(kind)
	}
}

// grow0 stores n results while no sink runs.
func (b *bench) grow0(t *testing.T, n int) {
	t.Helper()
	var err error
	if b.store, err = store.Open(t.Context(), store.Options{History: b.h, Logger: testrig.Quiet()}); err != nil {
		t.Fatal(err)
	}
	b.grow(t, n)
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// counted returns what the metrics of the only sink say, by the last words of their names.
func counted(t *testing.T, s *Sinks) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(s); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		name := strings.TrimSuffix(strings.TrimPrefix(f.GetName(), prefix+"_"), "_total")
		out[name] = f.GetMetric()[0].GetCounter().GetValue()
	}
	return out
}

// A real broker gets every result of the programs that it is to have, in order, although it is
// killed meanwhile.
func TestMQTT(t *testing.T) {
	server := mosquitto.Start(t, nil, "allow_anonymous true\n")
	b := newBench(t, config.Sink{Name: "house", Programs: []string{"var"},
		MQTT: &config.AlertMQTT{MQTT: config.MQTT{URL: server.URL, ClientID: "results"}, Topic: "results"}})
	var mu sync.Mutex
	var got []uint64
	o := paho.NewClientOptions().AddBroker(server.URL).SetClientID("reader").SetConnectRetry(true).
		SetConnectRetryInterval(10 * time.Millisecond).SetMaxReconnectInterval(10 * time.Millisecond)
	subscribed := make(chan struct{}, 100)
	o.OnConnect = func(c paho.Client) {
		if token := c.Subscribe("results/#", 1, func(_ paho.Client, m paho.Message) {
			var r struct {
				Program  string
				Sequence uint64
				Values   []float64
			}
			err := json.Unmarshal(m.Payload(), &r)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || m.Topic() != "results/"+r.Program || r.Values[0] != float64(r.Sequence) {
				t.Errorf("%s: %s, %v", m.Topic(), m.Payload(), err)
			}
			if len(got) == 0 || got[len(got)-1] < r.Sequence { // else it comes again
				got = append(got, r.Sequence)
			}
		}); token.Wait() && token.Error() == nil {
			subscribed <- struct{}{}
		}
	}
	reader := paho.NewClient(o)
	if token := reader.Connect(); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	t.Cleanup(func() { reader.Disconnect(0) })
	testrig.Receive(t, "a subscription", subscribed)
	complete := func() bool {
		mu.Lock()
		defer mu.Unlock()
		var want []uint64
		for n := 1; n < b.made; n += 2 {
			want = append(want, uint64(n))
		}
		return slices.Equal(got, want)
	}
	for range 3 {
		b.grow(t, 20)
		testrig.Eventually(t, "results", complete)
		server.Kill()
		b.end() // a publisher that is connected again before its reader is would tell nobody
		b.grow0(t, 20)
		server.Start(t)
		testrig.Receive(t, "a subscription", subscribed)
		b.start(t)
		testrig.Eventually(t, "results that waited", complete)
	}
}

// Retention by age leaves what a sink waits for. A new sink begins with the next result.
func TestWaiting(t *testing.T) {
	away := config.Sink{Name: "away", Influx: &config.HTTP{URL: "http://" + testrig.FreeAddress(t) + "/"}}
	b := newBench(t, away)
	b.end()
	b.h.Keep = time.Hour
	left := func() (n int) {
		t.Helper()
		if err := b.store.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.store.Rows(t.Context(), store.Query{}, func(store.Row) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	b.start(t)
	for n := range 5 {
		r := result("mean", n)
		r.Start, r.End = time.Now().Add(-3*time.Hour), time.Now().Add(-2*time.Hour)
		if err := b.store.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if n := left(); n != 5 {
		t.Errorf("%d results are left", n)
	}
	b.end()
	b.h.Sinks[0].Name = "another"
	b.start(t)
	if id, err := b.store.Sent(t.Context(), "another"); err != nil || id != 5 {
		t.Error(id, err)
	}
	if n := left(); n != 1 { // of the newest object
		t.Errorf("%d results are left", n)
	}
}

// Lines have no characters with a meaning of their own, and no numbers that InfluxDB refuses.
func TestLine(t *testing.T) {
	row := func(edit func(*keyholder.Result)) store.Row {
		r := result("mean", 0)
		edit(r)
		return store.Row{ID: 1, Result: r}
	}
	for want, edit := range map[string]func(*keyholder.Result){
		"mean,evaluator=cloud,unit=K value=0,bound=0.001,samples=60i 1795435200000000005\n": func(*keyholder.Result) {},
		`a\,b\ c,device=x\=y,evaluator=cloud,unit=m/s\ \,` + " value=1.5,value_2=1e+300,bound=0.001,samples=7i " +
			"1795435200000000005\n": func(r *keyholder.Result) {
			r.Program, r.Device, r.Unit, r.Values = "a,b c", "x=y", "m/s\n,\\", []float64{1.5, math.NaN(), 1e300}
			r.Fleet = &transport.Fleet{Samples: 7}
		},
		"": func(r *keyholder.Result) { r.Values = []float64{math.Inf(1), math.NaN()} },
	} {
		if got := string(appendLine(nil, row(edit))); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// The wait after a failure is at least what a receiver asks for, but not more than the longest.
func TestPause(t *testing.T) {
	waits := backoff.Waits{First: time.Second, Most: time.Minute}
	for _, c := range []struct {
		err         error
		least, most time.Duration
	}{
		{errors.New("away"), time.Second / 2, time.Second},
		{fmt.Errorf("later: %w", &outlet.StatusError{After: 20 * time.Second}), 20 * time.Second, 20 * time.Second},
		{&outlet.StatusError{}, 2 * time.Second, 4 * time.Second},
		{&outlet.StatusError{After: time.Hour}, time.Minute, time.Minute},
	} {
		if d := pause(c.err, &waits); d < c.least || d > c.most {
			t.Errorf("%v: %v, want %v to %v", c.err, d, c.least, c.most)
		}
	}
}
