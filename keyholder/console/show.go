package console

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
)

// Show is what the demo has beside results, and no key holder does: the plaintext truth, and
// the messages at the broker. A page without a Show has nothing of it. It is safe for
// concurrent use.
type Show struct {
	cast json.RawMessage

	mu   sync.Mutex
	last uint64
	kept map[string][]shown // the newest events of each name
	live *hub               // nil before the page
}

// shown is an event of a Show.
type shown struct {
	Number uint64          `json:"n"` // from 1, without holes
	Name   string          `json:"name"`
	Data   json.RawMessage `json:"data"`
}

// NewShow returns a Show without events. cast, who plays, is sent to the page as JSON.
func NewShow(cast any) (*Show, error) {
	b, err := json.Marshal(cast)
	return &Show{cast: b, kept: map[string][]shown{}}, err
}

// Tell shows an event on every open page. The newest most events of a name are kept for pages
// that are opened later.
func (s *Show) Tell(name string, data any, most int) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	e := shown{s.last, name, b}
	list := append(s.kept[name], e)
	s.kept[name] = slices.Delete(list, 0, max(0, len(list)-most))
	if s.live != nil {
		s.live.show(e)
	}
	return nil
}

// attach sends events to the page's browsers from now on.
func (s *Show) attach(live *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = live
}

// show hands an event to each browser. A browser that misses one finds a hole in the numbers.
func (h *hub) show(e shown) {
	h.each(func(s *sub) {
		if len(s.shown) == maxPending {
			s.shown = s.shown[1:]
		}
		s.shown = append(s.shown, e)
	})
}

// demo answers who plays, and the newest events in their order.
func (c *Console) demo(w http.ResponseWriter, _ *http.Request) {
	s := c.o.Show
	s.mu.Lock()
	events := []shown{}
	for _, list := range s.kept {
		events = append(events, list...)
	}
	last := s.last
	s.mu.Unlock()
	slices.SortFunc(events, func(a, b shown) int { return int(int64(a.Number) - int64(b.Number)) })
	answer(w, map[string]any{"cast": s.cast, "events": events, "last": last, "now": millis(c.now())})
}
