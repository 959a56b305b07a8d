package transport

import (
	"container/heap"
	"container/list"
	"fmt"
	"time"
)

// makeRoom evicts objects until n more bytes fit, and, if own is nil, one more object. It
// never evicts own: when own alone fills its bounds, the chunk is refused. If working off
// staged objects will make the room, nothing is evicted and wait is true.
func (r *Receiver) makeRoom(key partKey, n int, own *partial) (wait bool, err error) {
	more := 0
	if own == nil {
		more = 1
	}
	if n > r.limits.TopicBytes {
		return false, fmt.Errorf("%w: chunk of %d bytes, a topic may hold %d", ErrLimit, n, r.limits.TopicBytes)
	}
	for {
		t := r.topics[key.topic]
		if t == nil || (t.bytes+n <= r.limits.TopicBytes && t.objects()+more <= r.limits.TopicObjects) {
			break
		}
		if t.staged.objects > 0 && t.bytes-t.staged.bytes+n <= r.limits.TopicBytes &&
			t.idle.Len()+more <= r.limits.TopicObjects {
			return true, nil
		}
		p := longestIdle(t, own)
		if p == nil {
			return false, fmt.Errorf("%w: topic %q holds %d bytes", ErrLimit, key.topic, t.bytes)
		}
		r.evict(p, "its topic is full")
	}
	for {
		tooMany, tooLarge := len(r.parts)+r.staged.objects+more > r.limits.MaxObjects, r.bytes+n > r.limits.MaxBytes
		if !tooMany && !tooLarge {
			return false, nil
		}
		if r.staged.objects > 0 && r.bytes-r.staged.bytes+n <= r.limits.MaxBytes &&
			len(r.parts)+more <= r.limits.MaxObjects {
			return true, nil
		}
		p := r.worst(own, tooLarge)
		if p == nil {
			return false, fmt.Errorf("%w: %d incomplete objects hold %d bytes", ErrLimit, len(r.parts), r.bytes)
		}
		r.evict(p, "all room is taken")
	}
}

// worst returns what is dropped for others: the longest idle object, other than own, of
// the topic that holds the most bytes, or the most objects.
func (r *Receiver) worst(own *partial, byBytes bool) (worst *partial) {
	most := 0
	for _, t := range r.topics {
		p, held := longestIdle(t, own), t.objects()
		if byBytes {
			held = t.bytes
		}
		if p != nil && (worst == nil || held > most || held == most && p.last.Before(worst.last)) {
			worst, most = p, held
		}
	}
	return worst
}

// longestIdle returns the first of t's objects that is not own.
func longestIdle(t *topicUse, own *partial) *partial {
	for e := t.idle.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*partial); p != own {
			return p
		}
	}
	return nil
}

func (r *Receiver) evict(p *partial, why string) {
	r.drop(p)
	r.counters.Refuse(fmt.Errorf("%w: object %x: %s", ErrEvicted, p.key.id[:6], why))
}

// Expire drops every object that is idle for MaxAge and returns how many. A
// service calls it now and then; Feed does it too.
func (r *Receiver) Expire() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expire(r.limits.Now())
}

// expire looks at all topics only when an object may have come of age since it did so last.
func (r *Receiver) expire(now time.Time) (n int) {
	if now.Before(r.nextExpiry) {
		return 0
	}
	r.nextExpiry = now.Add(r.limits.MaxAge) // of what comes from now on
	for _, t := range r.topics {
		for e := t.idle.Front(); e != nil; e = t.idle.Front() {
			p := e.Value.(*partial)
			if now.Sub(p.last) < r.limits.MaxAge {
				if at := p.last.Add(r.limits.MaxAge); at.Before(r.nextExpiry) {
					r.nextExpiry = at
				}
				break
			}
			r.evict(p, "idle for too long")
			n++
		}
	}
	return n
}

// drop forgets an incomplete object.
func (r *Receiver) drop(p *partial) {
	t := r.topics[p.key.topic]
	t.idle.Remove(p.elem)
	t.bytes -= p.bytes
	r.bytes -= p.bytes
	delete(r.parts, p.key)
	r.tidy(p.key.topic)
}

// tidy forgets a topic of which nothing is left.
func (r *Receiver) tidy(topic string) {
	if t := r.topics[topic]; t.objects() == 0 && t.done.Len() == 0 {
		delete(r.topics, topic)
	}
}

// forget lets a finished object come again.
func (r *Receiver) forget(key partKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.done[key]; e != nil {
		r.forgetDone(e)
	}
}

// remember notes a finished object. When there are too many, the oldest of the topic
// with the most goes.
func (r *Receiver) remember(d *doneEntry) {
	d.number = r.remembered
	r.remembered++
	t := r.topics[d.key.topic]
	r.done[d.key] = t.done.PushBack(d)
	r.most.changed(t)
	for len(r.done) > r.limits.Remember {
		r.forgetDone(r.done[r.most[0].oldest().key])
	}
}

// forgetDone forgets a finished object.
func (r *Receiver) forgetDone(e *list.Element) {
	key := e.Value.(*doneEntry).key
	t := r.topics[key.topic]
	t.done.Remove(e)
	r.most.changed(t)
	delete(r.done, key)
	r.tidy(key.topic)
}

// mostDone is a heap of the topics that have finished objects: first the one with most, of equal
// ones that with the oldest.
type mostDone []*topicUse

// changed puts t in its place after its finished objects changed.
func (m *mostDone) changed(t *topicUse) {
	switch n := t.done.Len(); {
	case n > 0 && t.place == 0:
		heap.Push(m, t)
	case n > 0:
		heap.Fix(m, t.place-1)
	case t.place > 0:
		heap.Remove(m, t.place-1)
	}
}

func (m mostDone) Len() int { return len(m) }

func (m mostDone) Less(i, j int) bool {
	if a, b := m[i].done.Len(), m[j].done.Len(); a != b {
		return a > b
	}
	return m[i].oldest().number < m[j].oldest().number
}

func (m mostDone) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	m[i].place, m[j].place = i+1, j+1
}

func (m *mostDone) Push(t any) {
	*m = append(*m, t.(*topicUse))
	t.(*topicUse).place = len(*m)
}

func (m *mostDone) Pop() any {
	last := len(*m) - 1
	t := (*m)[last]
	t.place = 0
	(*m)[last] = nil
	*m = (*m)[:last]
	return t
}

// pending returns the number of incomplete objects, and the bytes of these and of
// staged ones.
func (r *Receiver) pending() (objects, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.parts), r.bytes
}
