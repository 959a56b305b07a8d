package console

import (
	"encoding/json"
	"net/http"
	"testing"
)

// The truth is in no page but the demo's.
func TestNoShow(t *testing.T) {
	g := newRig(t, nil)
	b := g.letIn(Holder)
	if w := b.do("GET", "/api/demo", nil); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	var who struct{ Demo bool }
	if b.get("/api/session", &who); who.Demo {
		t.Error("the page has a view for the demo")
	}
}

func TestShow(t *testing.T) {
	show, err := NewShow(map[string]int{"windows": 7})
	must(t, err)
	g := newRig(t, nil)
	must(t, show.Tell("early", 0, 2))
	g.show = show
	g.start()
	if w := (&browser{g: g}).do("GET", "/api/demo", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("without a session: %d %s", w.Code, w.Body)
	}
	s := g.live.open()
	for i := range 5 {
		must(t, show.Tell("late", i, 2))
	}
	var got struct {
		Cast   struct{ Windows int }
		Last   uint64
		Events []struct {
			N    uint64
			Name string
			Data int
		}
	}
	b := g.letIn(Viewer)
	b.get("/api/demo", &got)
	if got.Cast.Windows != 7 || got.Last != 6 || len(got.Events) != 3 || got.Events[0].Name != "early" ||
		got.Events[1].N != 5 || got.Events[1].Data != 3 || got.Events[2].N != 6 || got.Events[2].Data != 4 {
		t.Errorf("%+v", got)
	}
	var who struct{ Demo bool }
	if b.get("/api/session", &who); !who.Demo {
		t.Error("the page has no view for the demo")
	}
	u := s.take()
	if len(u.shown) != 5 || u.shown[0].Number != 2 || string(u.shown[4].Data) != "4" {
		t.Errorf("live: %+v", u.shown)
	}
	if show.Tell("bad", func() {}, 1) == nil {
		t.Error("a function was shown")
	}
	for i := range maxPending + 3 {
		must(t, show.Tell("many", i, 1))
	}
	if u = s.take(); len(u.shown) != maxPending || !json.Valid(u.shown[0].Data) || u.shown[0].Number != 10 {
		t.Errorf("%d events wait, from %d on", len(u.shown), u.shown[0].Number)
	}
}
