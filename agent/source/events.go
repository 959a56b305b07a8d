package source

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
)

// waitingEvents is how many messages may wait for a stream; further ones are
// lost and counted.
const waitingEvents = 4096

// events makes rows of messages. Rows with a time of their own are put in order
// within the lateness.
type events struct {
	unrepeatable
	cfg     config.Events
	clock   role.Clock
	sources []config.Source
	texts   []input.Text
	rows    chan Row
	begin   func()
	every   time.Duration // of windows that end by the time of arrival; else 0
	end     time.Time     // of the window of the newest row; zero: it has ended
	asleep  bool          // until then
	ended   chan struct{} // capacity 1: sleep is over
	stop    bool          // what is left is given, and no more
	left    int

	order    *reorder // nil: rows keep the order in which they come
	ready    []Row
	blocked  func() error // why no message can come
	mu       sync.Mutex
	heard    time.Time // when a message came, or was seen to be able to come, last; zero before next; real time
	counters *Counters
}

// OpenEvents finds the input of the stream's messages.
func OpenEvents(m sensor.Machine, s config.Stream, counters *Counters) (Source, error) {
	e := &events{unrepeatable: unrepeatable{s.Interval}, cfg: *s.Events, clock: m.Clock,
		rows: make(chan Row, waitingEvents), counters: counters,
		ended: make(chan struct{}, 1)}
	if s.Events.Time == "" {
		e.every = s.Window.Every
	}
	if s.Lateness > 0 {
		e.order = &reorder{lateness: s.Lateness, now: e.clock.Mono}
	}
	for _, ch := range s.Channels {
		t, err := input.NewText(*ch.Source)
		if err != nil {
			return nil, err
		}
		e.sources, e.texts = append(e.sources, *ch.Source), append(e.texts, t)
	}
	in, err := m.Inputs.Messenger(s.Events.From)
	if err != nil {
		return nil, err
	}
	e.begin, err = in.Messages(s.Topic(), e.take)
	e.blocked = in.Trouble
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Periodic returns false: messages come when they come.
func (e *events) Periodic() bool { return false }

// Trouble says why no message can come, and since when. It is nil when one can.
func (e *events) Trouble() (since time.Time, why error) {
	why = e.blocked()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.heard.IsZero():
		return e.heard, nil // nobody waits for one yet
	case why == nil:
		e.heard = time.Now()
	}
	return e.heard, why
}

// take makes a row of a message. It never blocks.
func (e *events) take(text string) {
	e.mu.Lock()
	e.heard = time.Now()
	e.mu.Unlock()
	r, err := e.row(text)
	if err != nil {
		e.counters.skipped.Add(1)
		return
	}
	select {
	case e.rows <- r:
	default:
		e.counters.skipped.Add(1)
	}
}

// row reads time and values of a message. Only the time must be there.
func (e *events) row(text string) (Row, error) {
	at, invalid := e.clock.Now(), input.ValidJSON(text)
	if e.cfg.Time != "" {
		v := gjson.Result{}
		if invalid == nil {
			v = gjson.Get(text, e.cfg.Time)
		}
		stamp := v.Str
		if v.Type == gjson.Number {
			stamp = v.Raw
		}
		var err error
		if at, err = parseTime(strings.TrimSpace(stamp), e.cfg.TimeFormat); err != nil {
			return Row{}, fmt.Errorf("%w: %w", sensor.ErrReading, err)
		}
	}
	out := newRow(at, len(e.texts))
	for i, t := range e.texts {
		if invalid != nil {
			out.miss(i, invalid)
			continue
		}
		v, err := t.InJSON(text)
		if err != nil {
			out.miss(i, err)
			continue
		}
		out.set(i, e.sources[i], v)
	}
	return out, nil
}

// Close does nothing: the input belongs to the machine.
func (e *events) Close() error { return nil }

// Next waits for a row. When ctx ends, what has come until then is given first.
func (e *events) Next(ctx context.Context) (Row, error) {
	e.begin()
	e.mu.Lock()
	if e.heard.IsZero() {
		e.heard = time.Now()
	}
	e.mu.Unlock()
	for len(e.ready) == 0 {
		if ctx.Err() != nil && !e.stop {
			e.stop, e.left = true, len(e.rows)
		}
		if e.stop && e.left == 0 {
			if e.order != nil {
				e.ready = e.order.drain()
			}
			if len(e.ready) == 0 {
				return Row{}, ctx.Err()
			}
			break
		}
		select {
		case r := <-e.rows:
			e.accept(ctx, r)
			continue
		default:
		}
		select {
		case r := <-e.rows:
			e.accept(ctx, r)
		case <-e.ended:
			e.asleep = false
			if now := e.clock.Now(); now.Before(e.end) && !now.Before(e.end.Add(-e.every)) {
				e.sleep(ctx)
			} else {
				e.end = time.Time{}
				return Row{At: now, tick: true}, nil
			}
		case <-ctx.Done():
		}
	}
	out := e.ready[0]
	e.ready = e.ready[1:]
	return out, nil
}

// accept takes a row that has come, and makes next tell when its window has ended,
// whether or not another message comes.
func (e *events) accept(ctx context.Context, r Row) {
	e.left--
	e.sort(r)
	if e.every > 0 {
		e.end = time.Unix(0, (bucketOf(r.At, e.every)+1)*int64(e.every))
		if !e.asleep {
			e.sleep(ctx)
		}
	}
}

// longestSleep bounds how long it goes unseen that the clock was set, or that the
// machine slept, while a window waits for its end.
const longestSleep = time.Minute

func (e *events) sleep(ctx context.Context) {
	e.asleep = true
	left := min(e.end.Sub(e.clock.Now()), longestSleep)
	go func() {
		if e.clock.Sleep(ctx, left) == nil {
			e.ended <- struct{}{}
		}
	}()
}

// sort takes a row that has come.
func (e *events) sort(r Row) {
	if e.order == nil {
		e.ready = []Row{r}
		return
	}
	var late int
	e.ready, late = e.order.add(r)
	e.counters.late.Add(uint64(late))
}
