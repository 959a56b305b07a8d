package mqtt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// A session at the broker outlives the process. It still has the subscriptions of an earlier
// process, such as those of a stream that is no longer configured. Brokers stop delivering
// when too many messages are unacknowledged, so a stray message must not stay
// unacknowledged: it would keep everything else away. It is dropped at once where
// Options.Filters names all subscriptions, and otherwise after a time in which the program
// could have subscribed. Then its subscription is ended.

// expected reports whether a subscription to a topic may still be made.
func (r *router) expected(topic string) bool {
	f := r.c.opts.Filters
	return f == nil || slices.ContainsFunc(f, func(filter string) bool { return matchTopic(filter, topic) })
}

// patience returns how long a message that no subscription covers may still wait for one.
// The caller holds mu.
func (r *router) patience() time.Duration {
	r.c.mu.Lock()
	since := r.c.opened
	r.c.mu.Unlock()
	if r.added.After(since) {
		since = r.added
	}
	return r.c.opts.strayWait - time.Since(since)
}

// sweep drops the stash when its time is over.
func (r *router) sweep() {
	r.mu.Lock()
	r.sweeper = nil
	if left := r.patience(); left > 0 && r.c.ctx.Err() == nil {
		if len(r.stash) > 0 {
			r.sweeper = time.AfterFunc(left, r.sweep)
		}
		r.mu.Unlock()
		return
	}
	strays := r.stash
	r.flow.dropEarly(len(r.stash), r.stashed)
	r.stash, r.stashed = nil, 0
	r.mu.Unlock()
	if r.c.ctx.Err() != nil { // the broker keeps them for the next process
		return
	}
	for _, a := range strays {
		r.stray(a)
	}
}

// stray drops a message that nobody subscribes to.
func (r *router) stray(a *arrival) {
	r.refuse(a.topic, fmt.Errorf("%w: nothing subscribes to %q any more", transport.ErrWrongTopic, a.topic))
	a.ack()
	var end []string
	r.mu.Lock()
	for _, f := range coveringFilters(a.topic) {
		used := slices.ContainsFunc(r.subs, func(s *subscription) bool { return s.filter == f })
		if used || r.gone[f] {
			continue
		}
		if len(r.gone) >= maxGone {
			clear(r.gone)
		}
		r.gone[f] = true
		end = append(end, f)
	}
	r.mu.Unlock()
	if len(end) > 0 && r.c.paho != nil {
		r.c.log.Warn("a message of an earlier process's subscription is dropped, and the subscription is ended",
			"topic", a.topic)
		go r.c.paho.Unsubscribe(end...) // on the next connection once more, if there is need
	}
}

// coveringFilters returns the filters of this program's kind that cover a topic: itself, and
// with its last level, or its last two, left open.
func coveringFilters(topic string) []string {
	out, parts := []string{topic}, strings.Split(topic, "/")
	for n := 1; n <= 2 && n < len(parts); n++ {
		parts[len(parts)-n] = "+"
		out = append(out, strings.Join(parts, "/"))
	}
	return out
}

func (r *router) refuse(topic string, err error) {
	r.c.opts.Counters.Refuse(err)
	reason := transport.Reason(err)
	if ok, more := r.reports.Allow(reason, time.Now()); ok {
		r.c.log.Warn("message dropped", "topic", topic, "reason", reason, "error", err, "more", more)
	}
	if r.c.opts.OnRefused != nil {
		r.c.opts.OnRefused(topic, err)
	}
}
