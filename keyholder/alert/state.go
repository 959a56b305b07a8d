package alert

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/internal/durable"
)

// state is what outlives a process.
type state struct {
	series map[subject]*series // by rule and device
	alarms map[subject]*alarm
	queue  []*queued // in order of N; all wait for somebody
	next   uint64    // N of the next
}

func newState() *state {
	return &state{series: map[subject]*series{}, alarms: map[subject]*alarm{}, next: 1}
}

// apply takes over a change.
func (s *state) apply(e *entry) {
	for _, v := range e.Series {
		s.series[subject{v.Rule, v.Device}] = &v
	}
	for _, v := range e.Alarms {
		s.alarms[v.subject] = &v
	}
	for _, v := range e.Queued {
		if v.N >= s.next && len(v.To) > 0 {
			s.queue = append(s.queue, &v)
			s.next = v.N + 1
		}
	}
	for _, t := range e.Taken {
		if i, ok := slices.BinarySearchFunc(s.queue, t.N, byNumber); ok {
			q := s.queue[i]
			if q.To = slices.DeleteFunc(slices.Clone(q.To), func(r string) bool { return r == t.By }); len(q.To) == 0 {
				s.queue = slices.Delete(s.queue, i, i+1)
			}
		}
	}
	for _, g := range e.Gone {
		delete(s.series, g)
		delete(s.alarms, g)
	}
}

func byNumber(q *queued, n uint64) int { return cmp.Compare(q.N, n) }

// readState reads the log at path without changing it. It may be in use.
func readState(path string) (*state, durable.Found, error) {
	s := newState()
	log := durable.NewLog(durable.LogOptions{Path: path, Width: recordSize})
	found, err := log.Read(s.take)
	return s, found, damaged(path, err)
}

// take applies the payload of a record. It returns false if that makes no sense.
func (s *state) take(payload []byte) bool {
	e, err := readEntry(payload)
	if err == nil {
		s.apply(e)
	}
	return err == nil
}

// damaged says what to do about a log that cannot be read.
func damaged(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state of the alarms: %s: %w; restore the newest copy of it, or move it away: then all alarms "+
		"begin anew, and events that no receiver has taken are lost", path, err)
}

// openState reads the log at path and opens it to append.
func openState(path string) (*state, *durable.Log, error) {
	s := newState()
	log := durable.NewLog(durable.LogOptions{Path: path, Width: recordSize,
		Contents: func() []byte { return appendAll(nil, s) }})
	durable.SweepTemporary(path)
	found, err := log.Read(s.take)
	if err != nil {
		return nil, nil, damaged(path, err)
	}
	if err := log.Open(found.Size); err != nil {
		return nil, nil, fmt.Errorf("state of the alarms: %w", err)
	}
	return s, log, nil
}
