package mqtt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/transport"
)

// Subscribe adds a subscription and waits until the broker has granted it.
func (c *client) Subscribe(ctx context.Context, filter string, h func(transport.Delivery)) error {
	if err := checkFilter(filter); err != nil {
		return err
	}
	s, err := c.router.add(filter, h)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		c.router.remove(s)
		return fmt.Errorf("subscribe to %q: %w", filter, err)
	}
	if err := c.awaitConnection(ctx); err != nil {
		return fail(err)
	}
	go c.router.request(s)
	select {
	case <-s.granted:
		return nil
	case err := <-s.refused:
		return fail(err)
	case <-ctx.Done():
		return fail(ctx.Err())
	case <-c.ctx.Done():
		return fail(transport.ErrClosed)
	}
}

func newRouter(c *client) *router {
	r := &router{c: c, added: time.Now(), gone: map[string]bool{}, named: map[string]*subscription{}}
	if c != nil {
		r.flow = newInflow(use{c.opts.MaxInflight, c.opts.MaxInflightBytes}, r.refuse, c.recycle)
	}
	return r
}

func (r *router) add(filter string, h func(transport.Delivery)) (*subscription, error) {
	if h == nil {
		return nil, fmt.Errorf("subscribe to %q: %w: no handler", filter, transport.ErrOptions)
	}
	if f := r.c.opts.Filters; f != nil && !slices.Contains(f, filter) {
		return nil, fmt.Errorf("subscribe to %q: %w: it is not among the filters of the options", filter,
			transport.ErrOptions)
	}
	s, early, err := r.insert(filter, h)
	for _, a := range early {
		r.flow.takeEarly(a, []*subscription{s})
	}
	r.flow.changed()
	return s, err
}

// insert adds a subscription and returns the messages that came before it.
func (r *router) insert(filter string, h func(transport.Delivery)) (s *subscription, early []*arrival, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.subs {
		if s.filter == filter {
			return nil, nil, fmt.Errorf("subscribe to %q: %w: already subscribed", filter, transport.ErrOptions)
		}
	}
	s = &subscription{filter: filter, handler: h, granted: make(chan struct{}), refused: make(chan error, 1)}
	r.subs, r.added = append(r.subs, s), time.Now()
	if wildFilter(filter) {
		r.wild = append(r.wild, s)
	} else {
		r.named[filter] = s
	}
	delete(r.gone, filter)
	kept := r.stash[:0]
	for _, a := range r.stash {
		if matchTopic(filter, a.topic) {
			early = append(early, a)
			r.stashed -= len(a.payload)
		} else {
			kept = append(kept, a)
		}
	}
	clear(r.stash[len(kept):])
	r.stash = kept
	return s, early, nil
}

func (r *router) remove(s *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subs, r.wild = without(r.subs, s), without(r.wild, s)
	if r.named[s.filter] == s {
		delete(r.named, s.filter)
	}
}

// without returns list without s. It leaves list as it is.
func without(list []*subscription, s *subscription) []*subscription {
	return slices.DeleteFunc(slices.Clone(list), func(o *subscription) bool { return o == s })
}

// granted reports whether any subscription was ever granted.
func (r *router) granted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.subs, func(s *subscription) bool {
		select {
		case <-s.granted:
			return true
		default:
			return false
		}
	})
}

// resubscribe asks for every filter again on a new connection, and keeps asking
// for those that are refused until change closes, which means another connection. It calls
// asked when it has asked for each once, or after a while.
func (r *router) resubscribe(change <-chan struct{}, asked func()) {
	r.mu.Lock()
	clear(r.gone)
	r.mu.Unlock()
	defer asked()
	late := time.AfterFunc(subscribeWait, asked)
	defer late.Stop()
	for {
		r.mu.Lock()
		subs := append([]*subscription(nil), r.subs...)
		r.mu.Unlock()
		var g errgroup.Group
		g.SetLimit(atATime)
		for _, s := range subs {
			g.Go(func() error { return r.request(s) })
		}
		if g.Wait() == nil {
			return
		}
		asked()
		retry := time.NewTimer(subscribeWait)
		select {
		case <-retry.C:
		case <-change:
			retry.Stop()
			return
		case <-r.c.ctx.Done():
			retry.Stop()
			return
		}
	}
}

// atATime is how many filters are asked for at a time on a new connection. Messages wait for all
// of them if the session is new, and an evaluator may have thousands.
const atATime = 16

var errNoSuback = errors.New("the broker does not answer")

// subscribeTries is how often one filter is asked for in a row. Some brokers
// (mochi-mqtt 2.7) refuse a subscription whose message id equals that of an
// unacknowledged message in the other direction; each try has another id.
const subscribeTries = 16

// request subscribes and reports the outcome to whoever waits for it.
func (r *router) request(s *subscription) (err error) {
	for range subscribeTries {
		if err = r.ask(s); !errors.Is(err, transport.ErrRefused) {
			break
		}
	}
	switch {
	case err == nil:
		s.once.Do(func() { close(s.granted) })
	case errors.Is(err, transport.ErrRefused):
		r.c.log.Error("subscription refused", "filter", s.filter)
		select {
		case s.refused <- err:
		default:
		}
	}
	return err
}

// ask sends one subscription and waits for the answer.
func (r *router) ask(s *subscription) error {
	token := r.c.paho.Subscribe(s.filter, 1, nil)
	wait := time.NewTimer(subscribeWait)
	defer wait.Stop()
	select {
	case <-token.Done():
	case <-r.c.ctx.Done():
		return transport.ErrClosed
	case <-wait.C:
		r.c.log.Warn("no answer to a subscription, reconnecting", "filter", s.filter)
		r.c.recycle()
		return errNoSuback
	}
	if err := token.Error(); err != nil {
		return err // the connection went; the next one asks again
	}
	t, ok := token.(*paho.SubscribeToken)
	if !ok {
		return errNoSuback
	}
	for _, code := range t.Result() {
		switch {
		case code > 2:
			return fmt.Errorf("%w: the broker does not grant %q", transport.ErrRefused, s.filter)
		case code == 0 && !r.c.opts.Live:
			return fmt.Errorf("%w: the broker grants %q with QoS 0 only, want QoS 1", transport.ErrRefused, s.filter)
		}
	}
	return nil
}

// dispatch is the library's only handler. The library calls it for one message at a time,
// and everything that the broker sends waits until it returns. So it never waits for the
// handler of a subscription, except for a live client, whose handlers must not block.
func (r *router) dispatch(_ paho.Client, m paho.Message) {
	topic, payload := m.Topic(), m.Payload()
	if m.Qos() == 0 && !r.c.opts.Live {
		r.refuse(topic, fmt.Errorf("%w: with QoS 0, want QoS 1", transport.ErrWrongDelivery))
		return
	}
	if size, ok := oversized(payload, r.c.marker); ok {
		r.refuse(topic, fmt.Errorf("%w: message of %d bytes, want at most %d", transport.ErrTooLarge, size,
			r.c.opts.MaxInbound))
		m.Ack()
		return
	}
	payload, ok := r.flow.payload(topic, payload)
	if !ok {
		r.c.log.Error("messages come in another order than they were read, reconnecting", "topic", topic)
		r.c.recycle()
		return
	}
	a := &arrival{topic: topic, payload: payload, retained: m.Retained(), ack: m.Ack}
	r.mu.Lock()
	if to := r.takers(topic); len(to) > 0 {
		r.mu.Unlock()
		if r.c.opts.Live {
			deliver(a, to)
		} else {
			r.flow.take(a, to)
		}
		return
	}
	left := r.patience()
	if left <= 0 || !r.expected(topic) {
		r.flow.pass()
		r.mu.Unlock()
		r.stray(a)
		return
	}
	if limit := r.stashLimit(); len(r.stash) < limit.messages && r.stashed+len(payload) <= limit.bytes {
		r.flow.keep(len(payload))
		r.stash = append(r.stash, a)
		r.stashed += len(payload)
		if r.sweeper == nil {
			r.sweeper = time.AfterFunc(left, r.sweep)
			r.c.log.Warn("messages came for a subscription that does not exist yet; they are dropped if it is not "+
				"made in time, and the broker may hold others back until "+
				"then", "topic", topic, "wait", left.Round(time.Second))
		}
		r.mu.Unlock()
		return
	}
	r.flow.pass()
	r.mu.Unlock()
	// Not acknowledged: the broker delivers it again on the next connection.
	r.flow.missed()
	r.refuse(topic, fmt.Errorf("%w: %d messages wait for a subscription", transport.ErrLimit, maxStashed))
}
