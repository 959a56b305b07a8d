package traces

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// collector is a server that answers as it is told.
type collector struct {
	url string

	mu      sync.Mutex
	answers []int // statuses; then 200
	body    string
	spans   []wireSpan
	asked   int
	header  http.Header
}

func newCollector(t *testing.T, answers ...int) *collector {
	t.Helper()
	c := &collector{answers: answers, body: "{}"}
	s := httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(s.Close)
	c.url = s.URL + "/v1/traces"
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	var in wireRequest
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&in)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	c.header = r.Header
	status := http.StatusOK
	if len(c.answers) > 0 {
		status, c.answers = c.answers[0], c.answers[1:]
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		status = http.StatusBadRequest
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(c.body))
	if status == http.StatusOK {
		c.spans = append(c.spans, in.ResourceSpans[0].ScopeSpans[0].Spans...)
	}
}

func (c *collector) got() []wireSpan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func open(t *testing.T, url string, edit func(*config.Traces)) *Tracer {
	t.Helper()
	cfg := &config.Traces{HTTP: config.HTTP{URL: url}, Sample: 1}
	if edit != nil {
		edit(cfg)
	}
	tr, err := New(cfg, Options{Role: "agent", Name: "pump17", Version: "v1", Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

func span(n byte) Span {
	return Span{Name: "read", Window: [32]byte{n, 15: n, 16: 1}, Start: time.Unix(1, 0), End: time.Unix(2, 0)}
}

// counts returns the metrics of a Tracer by name and reason.
func counts(t *testing.T, tr *Tracer) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(tr)
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "hencedge_agent_trace_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue()
		}
	}
	return out
}

// TestVector: the bytes of a request are those of the format's JSON form, as its documents have it.
func TestVector(t *testing.T) {
	var id, other [32]byte
	for i := range id {
		id[i], other[i] = byte(i), byte(255-i)
	}
	m := &transport.Meta{Device: "pump17", Stream: "motor", Sequence: 7}
	s := Reading(m, id, 100)
	s.Name, s.ID, s.Start, s.End = "read", Window(id), time.Unix(1, 5), time.Unix(2, 0)
	r, ok := Result(&transport.Meta{Device: "cloud", Subject: "pump17", Program: "mean", Sequence: 3,
		Inputs: [][32]byte{id, other}}, [32]byte{1}, 0)
	if !ok {
		t.Fatal("a result with inputs has no trace")
	}
	r.Name, r.ID, r.Start, r.End = "compute", SpanID{9}, time.Unix(3, 0), time.Unix(4, 0)
	got, err := request([]wireAttribute{text("service.name", "x")}, []Span{s, r})
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "request.json"))
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if err := json.Compact(&plain, want); err != nil || plain.String() != string(got) {
		t.Errorf("%v:\n%s\nwant\n%s", err, got, plain.String())
	}
	if _, ok := Result(&transport.Meta{}, id, 0); ok {
		t.Error("a result without inputs has a trace")
	}
}

// TestChosen: a share takes about that part of all windows, a larger one takes them too, and what
// is off takes nothing.
func TestChosen(t *testing.T) {
	few, most := 0, 0
	for n := range 10_000 {
		id := transport.ObjectID([]byte{byte(n), byte(n >> 8)})
		small, large := chosen(id, 0.1), chosen(id, 0.9)
		if small && !large || !chosen(id, 1) {
			t.Fatalf("%x: in 0.1: %v, in 0.9: %v", id, small, large)
		}
		if small {
			few++
		}
		if large {
			most++
		}
	}
	if few < 800 || few > 1200 || most < 8800 || most > 9200 {
		t.Errorf("a tenth has %d of 10000, nine tenths %d", few, most)
	}
	var off *Tracer
	off.Add(span(1))
	off.Close()
	if off.Wants([32]byte{}) {
		t.Error("a Tracer that is off wants a window")
	}
	if tr, err := New(nil, Options{}); tr != nil || err != nil {
		t.Errorf("without a configuration: %v, %v", tr, err)
	}
}

// TestSums: the spans of a sum are exported whatever the share, with links to windows that are. A sum
// that names no windows has a trace too.
func TestSums(t *testing.T) {
	c := newCollector(t)
	tr := open(t, c.url, func(cfg *config.Traces) { cfg.Sample = 0.5 })
	m := &transport.Meta{Program: "all",
		Fleet: &transport.Fleet{Devices: 1000, Windows: 1000, Digest: [32]byte{1, 15: 2}}}
	s, ok := Result(m, [32]byte{9}, 10)
	if !ok || !tr.Takes(&s) || s.Parent != Collected(m.Fleet.Digest, "all") ||
		s.Parent == Collected(m.Fleet.Digest, "any") {
		t.Fatalf("%v: %+v", ok, s)
	}
	s.Name, s.ID, s.Parent = "collect", s.Parent, SpanID{}
	want := 0
	for n := range 1000 {
		id := transport.ObjectID([]byte{byte(n), byte(n >> 8)})
		s.Links = append(s.Links, id)
		if n < 200 && tr.Wants(id) {
			want++
		}
	}
	tr.Add(s)
	s.Links = s.Links[:200]
	tr.Add(s)
	tr.Close()
	got := c.got()
	if len(got) != 2 || got[0].TraceID != "01000000000000000000000000000002" || got[0].Parent != "" ||
		len(got[0].Links) != maxLinks || len(got[1].Links) != want || want < 60 || want > 120 {
		t.Errorf("%d spans, want %d links in the second: %+v", len(got), want, got)
	}
}

// TestFlush: a stop sends what waits, with the credentials of the configuration, and later spans
// are counted.
func TestFlush(t *testing.T) {
	c := newCollector(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	tr := open(t, c.url, func(cfg *config.Traces) { cfg.Token = config.Secret("file:" + token) })
	for n := range byte(3) {
		tr.Add(span(n))
	}
	tr.Close()
	tr.Add(span(9))
	if got := c.got(); len(got) != 3 || got[0].SpanID == got[1].SpanID || got[0].Parent != "0100000000000000" {
		t.Errorf("the collector has %+v", got)
	}
	if got := c.header.Get("Authorization"); got != "Bearer sesame" {
		t.Errorf("authorization %q", got)
	}
	if got := counts(t, tr); got["spans_total"] != 3 || got["spans_dropped_total stop"] != 1 {
		t.Errorf("counts %v", got)
	}
}

// TestAway: while the collector is away spans wait, and those beyond the queue are counted. What
// waits at the stop is counted too. Nothing blocks.
func TestAway(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	tr := open(t, gone.URL, nil)
	const many = 2*maxWaiting + maxBatch
	for range many {
		tr.Add(span(1))
	}
	tr.Close()
	got := counts(t, tr)
	if got["spans_total"] != 0 || got["spans_dropped_total queue"] < maxWaiting-maxBatch ||
		got["spans_dropped_total queue"]+got["spans_dropped_total stop"] != many {
		t.Errorf("counts %v", got)
	}
}

// TestAnswers: a batch comes again after an error that passes, is dropped after one that stays, and
// of one that is taken in part the rest is counted.
func TestAnswers(t *testing.T) {
	again := newCollector(t, http.StatusServiceUnavailable, http.StatusTooManyRequests)
	tr := open(t, again.url, nil)
	tr.Add(span(1))
	testrig.Eventually(t, "the span", func() bool { return len(again.got()) == 1 })
	tr.Close()
	if got := counts(t, tr); got["spans_total"] != 1 || again.asked != 3 {
		t.Errorf("%v after %d requests", got, again.asked)
	}
	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError, http.StatusFound} {
		never := newCollector(t, status)
		tr = open(t, never.url, nil)
		tr.Add(span(1))
		testrig.Eventually(t, "a refusal", func() bool { return counts(t, tr)["spans_dropped_total refused"] == 1 })
		tr.Add(span(2)) // which must not wait behind the other
		tr.Close()
		if got := counts(t, tr); got["spans_total"] != 1 || never.asked != 2 {
			t.Errorf("status %d: %v after %d requests", status, got, never.asked)
		}
	}
	for _, text := range []string{`"1"`, `1`} {
		part := newCollector(t)
		part.body = `{"partialSuccess":{"rejectedSpans":` + text + `,"errorMessage":"no"}}`
		tr = open(t, part.url, nil)
		tr.Add(span(1))
		tr.Add(span(2))
		tr.Close()
		if got := counts(t, tr); got["spans_total"] != 1 || got["spans_dropped_total refused"] != 1 {
			t.Errorf("%v of two, of which one was rejected", got)
		}
	}
}

// TestAfter: a collector says when it wants to be asked again.
func TestAfter(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	tr := open(t, s.URL, nil)
	if got, err := tr.post([]byte("{}"), 1); got != (answer{after: 17 * time.Second}) || err == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestHanging: a collector that takes requests and does not answer does not hold a stop up.
func TestHanging(t *testing.T) {
	asked, end := make(chan struct{}, 8), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-end }))
	t.Cleanup(func() { close(end); s.Close() })
	tr := open(t, s.URL, nil)
	tr.Add(span(1))
	testrig.Receive(t, "a request", asked)
	tr.Close()
	if got := counts(t, tr); got["spans_dropped_total stop"] != 1 {
		t.Errorf("counts %v", got)
	}
}

func TestMissingFiles(t *testing.T) {
	cfg := &config.Traces{HTTP: config.HTTP{URL: "https://localhost", CA: "none.pem"}, Sample: 1}
	if _, err := New(cfg, Options{Role: "agent"}); err == nil || !strings.Contains(err.Error(), "traces: ") {
		t.Errorf("a missing authority: %v", err)
	}
}
