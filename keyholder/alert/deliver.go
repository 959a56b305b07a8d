package alert

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/internal/backoff"
	"github.com/hencedge/hencedge/keyholder/outlet"
)

// sender tells one receiver of events.
type sender interface {
	// send returns nil when the receiver has taken the event. Its error wraps outlet.ErrRefused
	// if the receiver is there and does not want this event. It is sent again all the same: a
	// configuration can be corrected.
	send(ctx context.Context, e *Event) error
	close()
}

// A refresher has to be told of alarms again while they fire.
type refresher interface {
	refresh(ctx context.Context, firing []Event) error
}

// Times of delivery.
const (
	sendTimeout  = 30 * time.Second
	refreshEvery = time.Minute
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
)

// lane takes events to one receiver. The events of one alarm go in order: the next one waits
// until the one before was taken. Events of other alarms do not wait for one that is refused.
type lane struct {
	a    *Alarms
	name string
	to   sender

	away   backoff.Waits // while the receiver is not there
	until  time.Time     // the end of that wait
	held   map[subject]*hold
	fresh  time.Time // of the last refresh
	report string    // the last failure that was logged
}

// hold is the wait of one alarm whose event was refused.
type hold struct {
	waits backoff.Waits
	until time.Time
}

func newLane(a *Alarms, name string, to sender) *lane {
	l := &lane{a: a, name: name, to: to, held: map[subject]*hold{}}
	l.away = l.waits()
	return l
}

func (l *lane) waits() backoff.Waits {
	w := backoff.Waits{First: l.a.o.RetryMin, Most: l.a.o.RetryMax}
	if w.First <= 0 {
		w.First = firstRetry
	}
	if w.Most <= 0 {
		w.Most = longestRetry
	}
	return w
}

// Run tells receivers of events, and raises alarms that follow from the time alone, until
// ctx ends. Its error says that the state cannot be written.
func (a *Alarms) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var lanes sync.WaitGroup
	defer lanes.Wait()
	defer stop()
	for _, l := range a.lanes {
		lanes.Go(func() { l.run(ctx) })
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Drain waits until no event waits for a receiver, or ctx ends; it then returns how many do.
func (a *Alarms) Drain(ctx context.Context) int {
	for {
		a.mu.Lock()
		n, changed := len(a.queue), a.changed
		a.mu.Unlock()
		if n == 0 {
			return 0
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return n
		}
	}
}

func (l *lane) run(ctx context.Context) {
	for ctx.Err() == nil {
		l.a.mu.Lock()
		changed := l.a.changed
		l.a.mu.Unlock()
		q, wait := l.next(time.Now())
		switch {
		case q != nil:
			l.deliver(ctx, q)
			continue
		case l.refresh(ctx):
			continue
		}
		if _, ok := l.to.(refresher); ok {
			wait = min(wait, max(refreshEvery-time.Since(l.fresh), time.Second))
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// next returns the oldest event that may be sent now, or how long to wait for one.
func (l *lane) next(now time.Time) (q *queued, wait time.Duration) {
	if wait = l.until.Sub(now); wait > 0 {
		return nil, wait
	}
	wait = time.Hour
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	for _, q := range l.a.queue {
		if !slices.Contains(q.To, l.name) {
			continue
		}
		h := l.held[q.Event.subject()] // holds the later events of the alarm, too
		if h == nil || !now.Before(h.until) {
			return q, 0
		}
		wait = min(wait, h.until.Sub(now))
	}
	return nil, wait
}

// subject returns the alarm that the event is about.
func (e *Event) subject() subject { return subject{e.Alert, e.Device} }

func (l *lane) deliver(ctx context.Context, q *queued) {
	sending, stop := context.WithTimeout(ctx, sendTimeout)
	defer stop()
	err := l.to.send(sending, &q.Event)
	of := q.Event.subject()
	switch {
	case err == nil:
		l.away.Good()
		delete(l.held, of)
		l.report = ""
		l.a.counts.delivered(l.name, true)
		l.a.take(q.N, l.name)
	case ctx.Err() != nil:
	case errors.Is(err, outlet.ErrRefused):
		l.away.Good()
		if l.held[of] == nil {
			l.held[of] = &hold{waits: l.waits()}
		}
		h := l.held[of]
		h.until = time.Now().Add(h.waits.Next())
		l.failed(q, err)
	default:
		l.until = time.Now().Add(l.away.Next())
		l.failed(q, err)
	}
}

// failed counts and logs a failure; one that comes again is logged once.
func (l *lane) failed(q *queued, err error) {
	l.a.counts.delivered(l.name, false)
	if text := err.Error(); text != l.report {
		l.report = text
		l.a.o.Logger.Warn("an alarm was not delivered; it is sent again", "receiver", l.name, "alert", q.Event.Alert,
			"error", err)
	}
}

// refresh tells the receiver again of the alarms that fire, if it wants that and it is time.
func (l *lane) refresh(ctx context.Context) (done bool) {
	to, ok := l.to.(refresher)
	if !ok || time.Since(l.fresh) < refreshEvery || time.Now().Before(l.until) {
		return false
	}
	l.fresh = time.Now()
	firing := l.a.told(l.name)
	if len(firing) == 0 {
		return false
	}
	sending, stop := context.WithTimeout(ctx, sendTimeout)
	defer stop()
	if err := to.refresh(sending, firing); err != nil && ctx.Err() == nil && err.Error() != l.report {
		l.report = err.Error()
		l.a.o.Logger.Warn("a receiver could not be told again of the alarms that fire", "receiver", l.name, "error",
			err)
	}
	return true
}

// told returns the events of alarms that fire and that a receiver has taken.
func (a *Alarms) told(receiver string) (out []Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	waits := map[subject]bool{}
	for _, q := range a.queue {
		waits[q.Event.subject()] = waits[q.Event.subject()] || slices.Contains(q.To, receiver)
	}
	for _, r := range a.rules {
		for key, al := range a.alarms {
			if key.Rule == r.Name && al.Told && al.Last != nil && !waits[key] && slices.Contains(r.receivers,
				receiver) {
				out = append(out, *al.Last)
			}
		}
	}
	return out
}

// take records that a receiver has an event. If that cannot be written, the event is sent
// again after a restart.
func (a *Alarms) take(n uint64, receiver string) {
	e := entry{Taken: []taken{{n, receiver}}}
	b, err := appendEntry(nil, &e)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		err = a.journal.Append(b)
	}
	a.apply(&e)
	if len(a.queue) == 0 {
		close(a.changed) // for Drain
		a.changed = make(chan struct{})
	}
	if err != nil && a.counts.once("take") {
		a.o.Logger.Error("cannot record that an alarm was delivered; it may be sent again", "error", err)
	}
}
