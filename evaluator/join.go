package evaluator

import (
	"container/list"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
)

// joiner keeps recent windows and finds the sets that programs wait for. A window leaves
// once every program has used it for all that it can. A stream has at most depth windows,
// plus as many as programs look back; beyond that the oldest leaves. A window that is
// older than timeout leaves unless a program may still look back at it.
type joiner struct {
	depth   int
	timeout time.Duration
	lost    func(w *window) // called for a window that leaves unused, or that a join has missed
	left    func(w *window) // called for every window that leaves, under the lock; may be nil
	// class returns the class of a device, and instances the programs of a class on its
	// streams. nil: no program is for a class.
	class     func(device string) string
	instances func(class, device string) []*runnable

	mu      sync.Mutex
	streams map[streamID]*history
}

// history is what is kept of one stream. That of a device of a class begins with its first
// window.
type history struct {
	class   string                  // that the device had then
	byPlace map[place]*list.Element // of *window
	order   *list.List              // by arrival
	seen    *recent                 // places that were taken, also of windows that left
	newest  place
	lag     int // the furthest that any program looks back
	users   []*runnable
}

func newJoiner(depth int, timeout time.Duration, progs []*runnable, lost func(*window)) *joiner {
	j := &joiner{depth: max(depth, 1), timeout: timeout, lost: lost, streams: map[streamID]*history{}}
	j.serve("", progs)
	return j
}

// serve begins the histories of the streams that programs read. It is called once for each of
// these streams, with all programs that read it.
func (j *joiner) serve(class string, progs []*runnable) {
	begun := map[streamID]*history{}
	for _, p := range progs {
		p.done = newRecent(64)
		seen := map[streamID]bool{}
		for _, in := range p.planned.Circuit.Inputs() {
			id := p.stream(in)
			h := begun[id]
			if h == nil {
				h = &history{class: class, byPlace: map[place]*list.Element{}, order: list.New(), seen: newRecent(0)}
				begun[id], j.streams[id] = h, h
			}
			h.lag = max(h.lag, in.Lag)
			if !seen[id] {
				seen[id] = true
				h.users = append(h.users, p)
			}
		}
	}
	for _, h := range begun {
		h.seen.limit = max(64, 4*(j.depth+h.lag))
		for _, p := range h.users {
			p.done.limit = max(p.done.limit, 4*(j.depth+h.lag))
		}
	}
}

// history returns the history of a stream, nil if no program reads it; and gone with the
// windows of what the device was before its class changed.
func (j *joiner) history(id streamID, gone []*window) (*history, []*window) {
	h := j.streams[id]
	if j.class == nil || h != nil && h.class == "" {
		return h, gone
	}
	class := j.class(id.device)
	if h != nil && h.class == class {
		return h, gone
	}
	if h != nil {
		gone = j.forget(id.device, gone)
	}
	if class != "" && j.streams[id] == nil {
		progs := j.instances(class, id.device)
		if slices.ContainsFunc(progs, func(p *runnable) bool { return p.reads(id) }) {
			j.serve(class, progs)
		}
	}
	return j.streams[id], gone
}

// forget ends the histories of a device of a class, and adds its windows to gone.
func (j *joiner) forget(device string, gone []*window) []*window {
	for id, h := range j.streams {
		if id.device != device || h.class == "" {
			continue
		}
		for h.order.Len() > 0 {
			gone = j.evict(h, h.order.Front(), gone)
		}
		delete(j.streams, id)
	}
	return gone
}

// add keeps w and returns the jobs that it completes. It fails with
// ErrDuplicate when the place is taken.
func (j *joiner) add(w *window) ([]*job, error) {
	j.mu.Lock()
	jobs, gone, err := j.insert(w)
	j.mu.Unlock()
	j.report(gone)
	return jobs, err
}

// follows reports whether windows of a stream are kept here.
func (j *joiner) follows(id streamID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.streams[id] != nil
}

// report tells of windows that left too early, outside the lock.
func (j *joiner) report(gone []*window) {
	for _, w := range gone {
		if j.lost != nil {
			j.lost(w)
		}
	}
}

func (j *joiner) insert(w *window) (jobs []*job, gone []*window, err error) {
	h, gone := j.history(w.stream, nil)
	if h == nil {
		return nil, gone, nil // no program reads it
	}
	for w.byTime && h.seen.has(w.place) {
		w.place.part++
	}
	if h.seen.has(w.place) {
		return nil, gone, fmt.Errorf("%w: %s/%s window %d", ErrDuplicate, w.stream.device, w.stream.stream, w.place.n)
	}
	h.seen.add(w.place)
	h.byPlace[w.place] = h.order.PushBack(w)
	if w.place.boot > h.newest.boot || w.place.boot == h.newest.boot && w.place.n > h.newest.n {
		h.newest = w.place
	}
	for _, p := range h.users {
		for _, in := range p.planned.Circuit.Inputs() {
			if p.stream(in) != w.stream {
				continue
			}
			if jb := j.complete(p, w.place.later(in.Lag)); jb != nil {
				jobs = append(jobs, jb)
			}
		}
	}
	for _, jb := range jobs {
		for _, used := range jb.inputs {
			j.release(used)
		}
	}
	for h.order.Len() > j.depth+h.lag {
		gone = j.evict(h, h.order.Front(), gone)
	}
	return jobs, gone, nil
}

// release lets a window go once it was used for everything that it can be.
func (j *joiner) release(w *window) {
	h := j.streams[w.stream]
	e := h.byPlace[w.place]
	if e == nil {
		return
	}
	for _, p := range h.users {
		for _, in := range p.planned.Circuit.Inputs() {
			if p.stream(in) == w.stream && !p.done.has(w.place.later(in.Lag)) {
				return
			}
		}
	}
	j.evict(h, e, nil)
}

// complete returns the job of p at a place, if all its windows are here and it
// was not given before.
func (j *joiner) complete(p *runnable, at place) *job {
	if p.done.has(at) {
		return nil
	}
	ins := p.planned.Circuit.Inputs()
	found := make(map[program.Input]*window, len(ins))
	for _, in := range ins {
		e := j.streams[p.stream(in)].byPlace[at.later(-in.Lag)]
		if e == nil {
			return nil
		}
		found[in] = e.Value.(*window)
	}
	p.done.add(at)
	for _, w := range found {
		w.used = true
	}
	return &job{prog: p, place: at, inputs: found}
}

// expire drops windows that arrived longer ago than the timeout.
func (j *joiner) expire(now time.Time) {
	var gone []*window
	j.mu.Lock()
	for id, h := range j.streams {
		if h.class != "" && j.class(id.device) != h.class {
			gone = j.forget(id.device, gone)
			continue
		}
		for e := h.order.Front(); e != nil; {
			w, next := e.Value.(*window), e.Next()
			if now.Sub(w.at) < j.timeout {
				break
			}
			if w.place.boot != h.newest.boot || w.place.n+int64(h.lag) <= h.newest.n {
				gone = j.evict(h, e, gone)
			}
			e = next
		}
	}
	j.mu.Unlock()
	j.report(gone)
}

// missed returns the programs that join w with windows of other streams and have made no
// result of it. Looking back does not count, because that waits for the next window.
func (h *history) missed(w *window) (names []string) {
	for _, p := range h.users {
		var now, others bool
		for _, in := range p.planned.Circuit.Inputs() {
			same := p.stream(in) == w.stream
			now = now || same && in.Lag == 0
			others = others || !same
		}
		if now && others && !p.done.has(w.place) {
			names = append(names, p.planned.Name)
		}
	}
	return names
}

// evict takes a window out and adds it to gone if nothing used it, or a join missed it.
func (j *joiner) evict(h *history, e *list.Element, gone []*window) []*window {
	w := h.order.Remove(e).(*window)
	delete(h.byPlace, w.place)
	if j.left != nil {
		j.left(w)
	}
	if w.missed = h.missed(w); !w.used || len(w.missed) > 0 {
		gone = append(gone, w)
	}
	return gone
}
