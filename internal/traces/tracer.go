package traces

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/backoff"
	"github.com/hencedge/hencedge/internal/daemon"
)

// Bounds of a Tracer.
const (
	maxWaiting = 2048             // spans that wait, beside a batch under way; more are dropped
	maxBatch   = 256              // spans in a request
	gather     = time.Second      // how long the first span of a batch waits for others
	asking     = 10 * time.Second // for an answer
	flushing   = 2 * time.Second  // for what is left, at a stop
	firstRetry = time.Second
	lastRetry  = time.Minute
	maxAnswer  = 64 << 10 // bytes of an answer
)

// A Tracer sends spans to a collector. A nil Tracer is off: it takes spans and does nothing. It is
// safe for concurrent use.
type Tracer struct {
	cfg      *config.Traces
	client   *http.Client
	log      *slog.Logger
	resource []wireAttribute

	mu      sync.RWMutex // against a span after Close
	closed  bool
	waiting chan Span
	over    chan struct{} // closed when all is sent or dropped
	until   context.Context
	stop    func()

	sent     atomic.Uint64
	overflow atomic.Uint64 // dropped: the queue was full
	refused  atomic.Uint64 // dropped: the collector does not take them
	lost     atomic.Uint64 // dropped: they were not sent before the stop

	descSent, descDropped *prometheus.Desc
}

// Options say who traces.
type Options struct {
	Role    string // agent, evaluator or keyholder
	Name    string // of the device, the evaluator or the key holder
	Version string
	Logger  *slog.Logger
}

// New starts a Tracer, which Close ends. It returns nil without a configuration. It fails if a
// certificate or a key that the configuration names cannot be read; that the collector is away is
// no error.
func New(cfg *config.Traces, o Options) (*Tracer, error) {
	if cfg == nil {
		return nil, nil
	}
	client, err := daemon.WebClient(&cfg.HTTP, time.Minute)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	t := &Tracer{cfg: cfg, client: client, log: o.Logger, waiting: make(chan Span, maxWaiting),
		over:     make(chan struct{}),
		resource: []wireAttribute{text("service.name", "hencedge-"+o.Role), text("service.instance.id", o.Name)},
		descSent: prometheus.NewDesc("hencedge_"+o.Role+"_trace_spans_total", "Spans that a collector has taken.", nil,
			nil),
		descDropped: prometheus.NewDesc("hencedge_"+o.Role+"_trace_spans_dropped_total",
			"Spans that no collector gets, by reason.", []string{"reason"}, nil)}
	if t.log == nil {
		t.log = slog.Default()
	}
	if o.Version != "" {
		t.resource = append(t.resource, text("service.version", o.Version))
	}
	t.until, t.stop = context.WithCancel(context.Background())
	go t.run()
	return t, nil
}

// Wants reports whether spans of a window are exported: whether it is worth making them.
func (t *Tracer) Wants(window [32]byte) bool { return t != nil && chosen(window, t.cfg.Sample) }

// Takes reports whether a span is exported.
func (t *Tracer) Takes(s *Span) bool { return t != nil && (s.Fleet || chosen(s.Window, t.cfg.Sample)) }

// Add takes a span, if its window is one of those that are exported. It never waits: without room
// it drops the span and counts it.
func (t *Tracer) Add(s Span) {
	if !t.Takes(&s) {
		return
	}
	if s.Fleet {
		s.Links = t.exported(s.Links)
	}
	if s.ID == (SpanID{}) {
		_, _ = rand.Read(s.ID[:]) // never fails
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		t.lost.Add(1)
		return
	}
	select {
	case t.waiting <- s:
	default:
		t.overflow.Add(1)
	}
}

// exported returns the first of the windows that are exported, as many as a span may have links.
func (t *Tracer) exported(windows [][32]byte) (out [][32]byte) {
	for _, w := range windows {
		if len(out) < maxLinks && chosen(w, t.cfg.Sample) {
			out = append(out, w)
		}
	}
	return out
}

// Close sends what waits, for at most two seconds, and ends the Tracer.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.waiting)
	}
	t.mu.Unlock()
	late := time.AfterFunc(flushing, t.stop)
	defer late.Stop()
	<-t.over
	t.stop()
	t.client.CloseIdleConnections()
}

// run sends batches until there are no more.
func (t *Tracer) run() {
	defer close(t.over)
	waits := backoff.Waits{First: firstRetry, Most: lastRetry}
	for {
		batch, more := t.batch()
		if len(batch) > 0 {
			t.deliver(batch, &waits)
		}
		if !more {
			return
		}
	}
}

// batch waits for a span, and then for others. It returns false once the Tracer is closed and no
// span is left.
func (t *Tracer) batch() (batch []Span, more bool) {
	s, more := <-t.waiting
	if !more {
		return nil, false
	}
	batch = append(batch, s)
	full := time.NewTimer(gather)
	defer full.Stop()
	for len(batch) < maxBatch {
		select {
		case s, more = <-t.waiting:
			if !more {
				return batch, false
			}
			batch = append(batch, s)
		case <-full.C:
			return batch, true
		}
	}
	return batch, true
}

// deliver sends a batch until the collector has answered. Once the Tracer is closed it tries once.
func (t *Tracer) deliver(batch []Span, waits *backoff.Waits) {
	n := uint64(len(batch))
	body, err := request(t.resource, batch)
	if err != nil { // no text or number can be the cause
		t.refused.Add(n)
		t.log.Error("spans cannot be encoded", "error", err)
		return
	}
	for {
		got, err := t.post(body, n)
		if err == nil {
			if waits.Failures() > 0 {
				t.log.Info("the collector takes spans again")
			}
			waits.Good()
			t.sent.Add(got.took)
			t.refused.Add(n - got.took)
			return
		}
		if waits.Failures() == 0 {
			t.log.Warn("the collector does not take spans; later failures are counted but not logged", "error", err)
		}
		pause := max(waits.Next(), min(got.after, lastRetry))
		if got.final {
			t.refused.Add(n)
			return
		}
		if !t.pause(pause) {
			t.lost.Add(n)
			return
		}
	}
}

// pause waits. It returns false if the Tracer was closed before or meanwhile.
func (t *Tracer) pause(d time.Duration) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	look := time.NewTicker(min(d, 100*time.Millisecond))
	defer look.Stop()
	for {
		t.mu.RLock()
		closed := t.closed
		t.mu.RUnlock()
		if closed {
			return false
		}
		select {
		case <-end.C:
			return true
		case <-look.C:
		case <-t.until.Done():
			return false
		}
	}
}

// answer is what became of a request.
type answer struct {
	took  uint64        // spans that the collector took
	final bool          // it will never take them
	after time.Duration // that it asks to wait; 0: it does not say
}

// post sends a request with n spans.
func (t *Tracer) post(body []byte, n uint64) (got answer, err error) {
	ctx, stop := context.WithTimeout(t.until, asking)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return answer{final: true}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := daemon.WebAsk(t.client, req, &t.cfg.HTTP)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	err = fmt.Errorf("%s answers %s", req.URL.Host, resp.Status)
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return answer{took: n - min(rejected(raw), n)}, nil
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable,
		code == http.StatusGatewayTimeout: // by the rules of the format; others come again for ever
		return answer{after: daemon.RetryAfter(resp, time.Now())}, err
	}
	return answer{final: true}, err
}

// rejected reads how many spans a collector did not take, although it took others.
func rejected(answer []byte) uint64 {
	var a struct {
		PartialSuccess struct {
			Rejected json.RawMessage `json:"rejectedSpans"` // text by the rules of the format; some send a number
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return 0
	}
	n, err := strconv.ParseUint(string(bytes.Trim(a.PartialSuccess.Rejected, `"`)), 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// Describe makes a Tracer a prometheus.Collector.
func (t *Tracer) Describe(ch chan<- *prometheus.Desc) {
	if t != nil {
		ch <- t.descSent
		ch <- t.descDropped
	}
}

// Collect gives the counts as they are now.
func (t *Tracer) Collect(ch chan<- prometheus.Metric) {
	if t == nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(t.descSent, prometheus.CounterValue, float64(t.sent.Load()))
	for reason, n := range map[string]*atomic.Uint64{"queue": &t.overflow, "refused": &t.refused, "stop": &t.lost} {
		ch <- prometheus.MustNewConstMetric(t.descDropped, prometheus.CounterValue, float64(n.Load()), reason)
	}
}
