package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// link is what is known of the way to the broker.
type link struct {
	mu       sync.Mutex
	client   transport.Client
	up       bool
	ever     bool   // there was a connection
	changed  moment // of up
	back     moment // of the connection after the last long absence
	lastAck  moment
	lastErr  string
	lost     uint64 // windows, when Health was asked last
	lostAt   moment // when Health noticed the last of them
	lastFail moment
	short    moment // the last of several connections in a row that soon ended
}

func (l *link) use(c transport.Client, now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client, l.changed, l.up = c, now, c.Connected()
	l.ever = l.ever || l.up
}

// offlineTooLong is how long the broker may be away before the agent calls
// itself unhealthy. Windows wait meanwhile.
const offlineTooLong = 5 * time.Minute

func (l *link) set(up bool, now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if up && !l.up && now.sub(l.changed) > offlineTooLong {
		l.back = now
	}
	l.up, l.changed, l.ever = up, now, l.ever || up
}

func (l *link) acknowledged(now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastAck = now
}

func (l *link) failed(err error, now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastErr, l.lastFail = err.Error(), now
}

// shortMatters is how long connections that soon end count against the agent's health.
const shortMatters = 2 * time.Minute

// ended notes the end of a connection; short says that it was one of several that ended
// soon after they were made.
func (l *link) ended(short bool, now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if short {
		l.short = now
	} else {
		l.short = moment{}
	}
}

// unsteady says that connections end soon after they are made.
func (l *link) unsteady(now moment) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.short.wall.IsZero() || now.sub(l.short) > shortMatters {
		return ""
	}
	return mqtt.ErrShort.Error()
}

// lossMatters is how long a loss of windows counts against the agent's health once
// it was noticed.
const lossMatters = 10 * time.Minute

// losses says which windows were lost lately, or "".
func (l *link) losses(s Stats, now moment) (reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := s.Spool.Dropped + s.Spool.Expired + s.Spool.Damaged + s.Refused; n > l.lost {
		l.lost, l.lostAt = n, now
	}
	if l.lost == 0 || now.sub(l.lostAt) >= lossMatters {
		return ""
	}
	return fmt.Sprintf("%d windows were lost: %d to a full queue, %d to age, %d to damage on disk, %d that can "+
		"never be sent",
		l.lost, s.Spool.Dropped, s.Spool.Expired, s.Spool.Damaged, s.Refused)
}

// unacknowledgedTooLong is how long windows may wait although there is a connection
// before the agent calls itself unhealthy.
const unacknowledgedTooLong = 15 * time.Minute

// unacknowledged says that windows are not acknowledged although there is a connection:
// nobody answers for them, or they are refused. After a long absence the backlog gets the
// same time again.
func (l *link) unacknowledged(s Stats, start, now moment) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Spool.Objects == 0 || s.Delivery.Closed || s.Delivery.LastTrouble == "" || l.client == nil ||
		!l.client.Connected() {
		return ""
	}
	for _, t := range []moment{l.back, l.lastAck} {
		if !t.wall.IsZero() && t.mono > start.mono {
			start = t
		}
	}
	age := now.sub(start)
	if age <= unacknowledgedTooLong {
		return ""
	}
	return fmt.Sprintf("no window was acknowledged for %v, and %d wait: %s", age.Round(time.Second), s.Spool.Objects,
		s.Delivery.LastTrouble)
}

// moment is when something happened: for people, and to measure how long ago that is,
// also when the clock is set meanwhile.
type moment struct {
	wall time.Time
	mono time.Duration
}

func (m moment) sub(o moment) time.Duration { return m.mono - o.mono }

// when returns the wall time, nil for never.
func (m moment) when() *time.Time {
	if m.wall.IsZero() {
		return nil
	}
	return &m.wall
}
