package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
)

// fakeDesk keeps what it is asked.
type fakeDesk struct {
	mu       sync.Mutex
	changed  chan struct{}
	approved []Answer
	refused  []Answer
	err      error
	answers  chan (<-chan deskAnswer) // not nil: what each call of Requests waits for
	watched  int                      // calls of Changed
}

// deskAnswer is an answer of Requests.
type deskAnswer struct {
	list []Request
	err  error
}

func (d *fakeDesk) Requests() (Requests, error) {
	if d.answers != nil {
		a := <-<-d.answers
		return Requests{List: a.list}, a.err
	}
	return Requests{List: []Request{{Invitation: "i", State: "asks", Device: "pump17", Class: "pump", Waits: true}},
		Answers: true}, d.err
}

func (d *fakeDesk) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched++
	return d.changed
}

func (d *fakeDesk) isWatched() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watched > 0
}

func (d *fakeDesk) change() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *fakeDesk) keep(list *[]Answer, a *Answer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		*list = append(*list, *a)
	}
	return d.err
}

func (d *fakeDesk) Approve(_ context.Context, a *Answer) error { return d.keep(&d.approved, a) }
func (d *fakeDesk) Refuse(_ context.Context, a *Answer) error  { return d.keep(&d.refused, a) }

// Viewers look at what boards ask, holders answer.
func TestBoards(t *testing.T) {
	g := newRig(t, nil)
	var got struct {
		On      bool
		Answers bool
		List    []Request
	}
	viewer, holder := g.letIn(Viewer), g.letIn(Holder)
	if viewer.get("/api/boards", &got); got.On || got.List == nil {
		t.Errorf("without a desk: %+v", got)
	}
	ask := map[string]string{"invitation": "i", "device": "pump17", "fingerprint": "f", "password": "sesame"}
	if w := holder.do("POST", "/api/boards/approve", ask); w.Code != http.StatusBadRequest {
		t.Errorf("without a desk: %d %s", w.Code, w.Body)
	}
	d := &fakeDesk{changed: make(chan struct{})}
	g.o.Desk = d
	if viewer.get("/api/boards", &got); !got.On || !got.Answers || len(got.List) != 1 ||
		got.List[0].Device != "pump17" {
		t.Errorf("what is shown: %+v", got)
	}
	for _, path := range []string{"/api/boards/approve", "/api/boards/refuse"} {
		if w := viewer.do("POST", path, ask); w.Code != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d", path, w.Code)
		}
		if w := holder.do("POST", path, map[string]string{"device": "pump17"}); w.Code != http.StatusBadRequest {
			t.Errorf("%s of no fingerprint: %d", path, w.Code)
		}
		forged := holder.request("POST", path, ask)
		forged.Header.Del(csrfHeader)
		if w := holder.send(forged); w.Code != http.StatusForbidden {
			t.Errorf("%s, forged: %d", path, w.Code)
		}
		if w := holder.do("POST", path, ask); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	want := Answer{Invitation: "i", Device: "pump17", Fingerprint: "f", Password: "sesame"}
	if len(d.approved) != 1 || d.approved[0] != want || len(d.refused) != 1 || d.refused[0] != want {
		t.Errorf("approved %+v, refused %+v", d.approved, d.refused)
	}
	d.err = errors.New("the board does not ask any more")
	if w := holder.do("POST", "/api/boards/approve", ask); w.Code != http.StatusConflict {
		t.Errorf("a board that is gone: %d %s", w.Code, w.Body)
	}
	if w := viewer.do("GET", "/api/boards", nil); w.Code != http.StatusInternalServerError {
		t.Errorf("a desk that fails: %d", w.Code)
	}
}

// A change at the desk reaches browsers.
func TestBoardsChange(t *testing.T) {
	g := newRig(t, nil)
	d := &fakeDesk{changed: make(chan struct{})}
	close(d.changed)
	g.o.Desk = d
	s := g.live.open()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); g.watchBoards(ctx) }()
	for range 2 {
		<-s.wake
		if !s.take().boards {
			t.Error("browsers are told of something else")
		}
	}
	stop()
	<-ended
}
