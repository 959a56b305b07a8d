package console

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/hencedge/hencedge/keyholder"
)

// liveResult is a result as updates and lists tell it. Times are Unix milliseconds.
type liveResult struct {
	Program   string   `json:"program"`
	Device    string   `json:"device,omitempty"`
	Evaluator string   `json:"evaluator"`
	Unit      string   `json:"unit,omitempty"`
	Start     float64  `json:"start"`
	End       float64  `json:"end"`
	StartNS   int64    `json:"start_ns,string"` // names the result in a series
	Value     *float64 `json:"value"`           // the first one
	Values    int      `json:"values"`
	Bound     *float64 `json:"bound"`
	Samples   uint32   `json:"samples"`
	Epoch     uint32   `json:"epoch"`
	Devices   uint32   `json:"devices,omitempty"` // of a result across devices
	Object    string   `json:"object"`
}

func newLive(r *keyholder.Result) liveResult {
	l := liveResult{Program: r.Program, Device: r.Device, Evaluator: r.Evaluator, Unit: r.Unit, Start: millis(r.Start),
		End: millis(r.End), StartNS: r.Start.UnixNano(), Values: len(r.Values), Bound: finite(r.Bound),
		Samples: r.Samples, Epoch: r.Epoch, Object: fmt.Sprintf("%x", r.ID)}
	if len(r.Values) > 0 {
		l.Value = finite(r.Values[0])
	}
	if r.Fleet != nil {
		l.Devices = r.Fleet.Devices
	}
	return l
}

func millis(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

// finite returns v, or nil where JSON has no such number.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Bounds of updates.
const (
	maxPending     = 500                    // results that wait for a browser; the oldest are skipped
	batchTime      = 200 * time.Millisecond // in which results become one update
	quietTime      = 15 * time.Second       // after which a sign of life is sent
	maxStreams     = 64
	maxStreamsEach = 8 // of a session
)

// hub hands results to browsers.
type hub struct {
	mu   sync.Mutex
	subs map[*sub]struct{}
}

// sub is a browser that listens.
type sub struct {
	mu      sync.Mutex
	pending []liveResult
	skipped int
	alarms  bool          // they changed
	boards  bool          // so did what boards ask
	shown   []shown       // of the demo
	wake    chan struct{} // of one
}

// open adds a browser, or returns nil if there are too many.
func (h *hub) open() *sub {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subs) >= maxStreams {
		return nil
	}
	if h.subs == nil {
		h.subs = map[*sub]struct{}{}
	}
	s := &sub{wake: make(chan struct{}, 1)}
	h.subs[s] = struct{}{}
	return s
}

func (h *hub) close(s *sub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
}

// send hands a result to each browser.
func (h *hub) send(r liveResult) {
	h.each(func(s *sub) {
		if len(s.pending) == maxPending {
			s.pending = s.pending[1:]
			s.skipped++
		}
		s.pending = append(s.pending, r)
	})
}

// alarmsChanged tells each browser to read the alarms again.
func (h *hub) alarmsChanged() { h.each(func(s *sub) { s.alarms = true }) }

// boardsChanged tells each browser to read again what boards ask.
func (h *hub) boardsChanged() { h.each(func(s *sub) { s.boards = true }) }

func (h *hub) each(f func(*sub)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.mu.Lock()
		f(s)
		s.mu.Unlock()
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// update is what waits for a browser.
type update struct {
	results []liveResult
	skipped int
	alarms  bool
	boards  bool
	shown   []shown
}

// take returns what waits for a browser.
func (s *sub) take() update {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := update{s.pending, s.skipped, s.alarms, s.boards, s.shown}
	s.pending, s.skipped, s.alarms, s.boards, s.shown = nil, 0, false, false, nil
	return u
}

// send sends an update. It reports whether the browser still takes them.
func (u *update) send(out events) bool {
	if len(u.results) > 0 && !out.send("results", map[string]any{"results": u.results, "skipped": u.skipped}) {
		return false
	}
	if u.alarms && !out.send("alarms", struct{}{}) {
		return false
	}
	if u.boards && !out.send("boards", struct{}{}) {
		return false
	}
	return len(u.shown) == 0 || out.send("demo", map[string]any{"events": u.shown})
}

// streamsOf counts the streams of a session; it reports whether there may be one more.
func (c *Console) streamsOf(s *session, add int) bool {
	c.sessions.mu.Lock()
	defer c.sessions.mu.Unlock()
	if add > 0 && s.live >= maxStreamsEach {
		return false
	}
	s.live += add
	return true
}

// stream sends updates as server-sent events, until the browser leaves or its session ends.
// "hello" says after how many quiet milliseconds "alive" comes, so that a browser knows a dead connection; "results"
// has those of a fifth of a second, and how many were skipped; "alarms" says that they changed, "boards" that what
// boards ask has; "demo" has events of the demo; "ended" says that the session has.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	s := current(r)
	if !c.streamsOf(s, 1) {
		refuse(w, http.StatusTooManyRequests, "too many tabs are open")
		return
	}
	defer c.streamsOf(s, -1)
	from := c.live.open()
	if from == nil {
		refuse(w, http.StatusTooManyRequests, "too many tabs are open")
		return
	}
	defer c.live.close(from)
	out := events{w, http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	if !out.send("hello", map[string]int64{"quiet": c.quiet.Milliseconds()}) {
		return
	}
	quiet := time.NewTicker(c.quiet)
	defer quiet.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.ended:
			out.send("ended", struct{}{})
			return
		case <-quiet.C:
			if !c.now().Before(s.expires) || s.passkey != "" && !c.passkeys.there(s.passkey) {
				out.send("ended", struct{}{})
				return
			}
			if !out.send("alive", struct{}{}) {
				return
			}
			continue
		case <-from.wake:
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(batchTime):
		}
		if u := from.take(); !u.send(out) {
			return
		}
	}
}

// events writes server-sent events.
type events struct {
	w    http.ResponseWriter
	ctrl *http.ResponseController
}

// send writes an event. It reports whether the browser still takes them.
func (e events) send(name string, data any) bool {
	b, err := json.Marshal(data)
	if err != nil {
		return false
	}
	_ = e.ctrl.SetWriteDeadline(time.Now().Add(quietTime))
	if _, err := fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, b); err != nil {
		return false
	}
	return e.ctrl.Flush() == nil
}
