package mqtt

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hencedge/hencedge/transport"
)

// handlersPer is how many topics of one subscription are handled at a time.
const handlersPer = 8

// inflow holds messages of the broker until their handlers return. It is bounded in number
// and in bytes, whatever the broker sends. Each topic has a queue of its own and is handled
// in order, one message at a time. Topics take turns.
//
// A connection reads a message only when there is room for it (gate.go). When there was none
// for too long, handlers are stuck: then messages are read all the same, so that answers
// among them come through, and the topic that holds the most loses its newest message. That
// message is not acknowledged, so the broker delivers it again on the next connection, which
// is made as soon as there is room.
type inflow struct {
	limit  use
	refuse func(topic string, err error)
	renew  func() // makes the next connection

	mu     sync.Mutex
	queues map[string]*queue // by topic
	held   use
	early  use           // messages that wait for a subscription
	coming use           // let in, and still on their way through the library
	line   []admitted    // these, in their order
	wake   chan struct{} // closed when there may be room; nil: nobody waits
	stuck  bool          // there was no room for too long
	// unclaimed is stuck for messages that nobody subscribes to yet.
	unclaimed bool
	short     bool // a message is missing until the next connection
}

// queue holds the messages of one topic.
type queue struct {
	topic   string
	sub     *subscription   // whose turn it takes
	to      []*subscription // which get the messages, sub among them
	waiting []*arrival
	held    use  // waiting, and being handled
	active  bool // being handled, or among the ready ones
}

type subscription struct {
	filter  string
	handler func(transport.Delivery)
	granted chan struct{} // closed when first granted
	once    sync.Once
	refused chan error // at most one, until granted

	// Of inflow, under its lock.
	held    int      // messages whose handlers have not returned
	coming  int      // let in, and still on their way
	ready   []*queue // topics that have messages, in the order of their turns
	running int      // goroutines that handle them
}

// admitted is a message that was let in. to is nil if there was no subscription.
type admitted struct {
	to      *subscription
	topic   string
	bytes   int
	payload []byte // nil until it was read
}

type arrival struct {
	topic    string
	payload  []byte
	retained bool
	ack      func()
}

// use is how much is held.
type use struct{ messages, bytes int }

func (u *use) add(n, bytes int) { u.messages, u.bytes = u.messages+n, u.bytes+bytes }

func newInflow(limit use, refuse func(string, error), renew func()) *inflow {
	return &inflow{limit: limit, refuse: refuse, renew: renew, queues: map[string]*queue{}}
}

// put queues a message for to, of which there is at least one.
func (f *inflow) put(a *arrival, to []*subscription) {
	f.mu.Lock()
	lost := f.place(a, to)
	f.mu.Unlock()
	f.lose(lost)
}

// place is put without the lock, which the caller holds. It returns what found no room.
func (f *inflow) place(a *arrival, to []*subscription) (lost []*arrival) {
	q := f.queues[a.topic]
	if q == nil {
		q = &queue{topic: a.topic, sub: to[0]}
	}
	lost, ok := f.makeRoom(q, len(a.payload))
	if ok {
		q.to = to
		q.waiting = append(q.waiting, a)
		f.count(q, 1, len(a.payload))
		f.queues[a.topic] = q
		if !q.active {
			f.ready(q)
		}
	} else {
		lost = append(lost, a)
	}
	f.short = f.short || len(lost) > 0
	return lost
}

// lose reports messages that found no room.
func (f *inflow) lose(lost []*arrival) {
	for _, a := range lost {
		f.refuse(a.topic, fmt.Errorf("%w: %d messages of %d bytes wait to be handled", transport.ErrLimit,
			f.limit.messages, f.limit.bytes))
	}
}

// missed notes that a message was left to the next connection.
func (f *inflow) missed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short = true
}

// makeRoom removes messages until one of n bytes fits into q, and returns them. If q itself
// would then hold the most, ok is false. A subscription may always have one message, so that
// none waits for the handlers of another. The caller holds mu.
func (f *inflow) makeRoom(q *queue, n int) (lost []*arrival, ok bool) {
	for q.sub.held > 0 {
		tooMany, tooLarge := f.held.messages+1 > f.limit.messages, f.held.bytes+n > f.limit.bytes
		if !tooMany && !tooLarge {
			break
		}
		weight := func(u use) int {
			if tooLarge {
				return u.bytes
			}
			return u.messages
		}
		most, worst := weight(use{q.held.messages + 1, q.held.bytes + n}), (*queue)(nil)
		for _, o := range f.queues {
			if o != q && len(o.waiting) > 0 && weight(o.held) > most {
				most, worst = weight(o.held), o
			}
		}
		if worst == nil {
			return lost, false
		}
		last := len(worst.waiting) - 1
		lost = append(lost, worst.waiting[last])
		f.count(worst, -1, -len(worst.waiting[last].payload))
		worst.waiting[last] = nil
		worst.waiting = worst.waiting[:last]
	}
	return lost, true
}

func (f *inflow) count(q *queue, n, bytes int) {
	f.held.add(n, bytes)
	q.held.add(n, bytes)
	q.sub.held += n
	if n < 0 {
		f.awake()
	}
}

// ready lets a queue have its turn. The caller holds mu.
func (f *inflow) ready(q *queue) {
	q.active = true
	s := q.sub
	s.ready = append(s.ready, q)
	if s.running < handlersPer {
		s.running++
		go f.work(s)
	}
}

// work handles the messages of a subscription until there are no more.
func (f *inflow) work(s *subscription) {
	f.mu.Lock()
	for len(s.ready) > 0 {
		q := s.ready[0]
		s.ready = s.ready[1:]
		if len(q.waiting) > 0 { // it may have lost them
			a, to := q.waiting[0], q.to
			q.waiting = q.waiting[1:]
			f.mu.Unlock()
			deliver(a, to)
			f.mu.Lock()
			f.count(q, -1, -len(a.payload))
		}
		if len(q.waiting) > 0 {
			s.ready = append(s.ready, q)
		} else {
			q.active = false
			delete(f.queues, q.topic)
		}
		if f.short && f.held.messages <= f.limit.messages/2 && f.held.bytes <= f.limit.bytes/2 {
			f.short = false
			go f.renew()
		}
	}
	s.running--
	f.mu.Unlock()
}

// deliver calls every handler; the message is acknowledged when all have.
func deliver(a *arrival, to []*subscription) {
	var left atomic.Int32
	left.Store(int32(len(to)))
	for _, s := range to {
		ack := sync.OnceFunc(func() {
			if left.Add(-1) == 0 {
				a.ack()
			}
		})
		s.handler(transport.Delivery{Topic: a.topic, Payload: a.payload, Retained: a.retained, Ack: ack})
	}
}
