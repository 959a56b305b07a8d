package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// roll is what is enrolled.
type roll struct {
	boards []config.Device
	faults []error
}

func (r *roll) Stamp() string { return fmt.Sprint(r.boards) }

func (r *roll) Each(take func(config.Device)) []error {
	for _, d := range r.boards {
		take(d)
	}
	return r.faults
}

func (r *roll) add(name string, key *transport.SigningKey) {
	r.boards = append(r.boards, config.Device{Name: name, PublicKey: key.PublicText()})
}

// station is the connection of a key holder, whose broker keeps what is published.
type station struct {
	mu       sync.Mutex
	handlers map[string]func(transport.Delivery)
	refuse   error
	away     bool
}

func (s *station) Publish(context.Context, string, []byte, bool) error { return nil }
func (s *station) Close(context.Context) error                         { return nil }

func (s *station) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.away
}

func (s *station) Subscribe(_ context.Context, topic string, h func(transport.Delivery)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse == nil {
		s.handlers[topic] = h
	}
	return s.refuse
}

func (s *station) has(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handlers[topic] != nil
}

// say is a status of a device under a topic.
func (s *station) say(t *testing.T, topic, device string, boot, sequence uint64, st transport.Status,
	key *transport.SigningKey) {
	t.Helper()
	body, err := transport.MarshalStatus(st)
	must(t, err)
	sealed, err := transport.Seal(transport.Meta{Kind: transport.KindStatus, Device: device, BootEpoch: boot,
		Sequence: sequence}, body, key)
	must(t, err)
	payload, err := transport.Whole(sealed, 0)
	must(t, err)
	s.mu.Lock()
	h := s.handlers[transport.StatusTopic(transport.DefaultPrefix, "+")]
	s.mu.Unlock()
	acked := false
	h(transport.Delivery{Topic: transport.StatusTopic(transport.DefaultPrefix, topic), Payload: payload,
		Ack: func() { acked = true }})
	if !acked {
		t.Errorf("a status under %s is not acknowledged", topic)
	}
}

func newKey(t *testing.T) *transport.SigningKey {
	t.Helper()
	key, err := transport.NewSigningKey()
	must(t, err)
	return key
}

type fleetPage struct {
	Total    int
	Enrolled bool
	Trouble  string
	Rows     []device
}

// listening starts to listen to boards.
func listening(t *testing.T, r *roll) (*rig, *station) {
	t.Helper()
	g := newRig(t, func(k *config.KeyHolder) { k.Broker.TopicPrefix = transport.DefaultPrefix })
	g.o.Enrolled = r
	s := &station{handlers: map[string]func(transport.Delivery){}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); g.ListenBoards(ctx, s) }()
	t.Cleanup(func() { stop(); <-ended })
	testrig.Eventually(t, "a subscription", func() bool {
		return s.has(transport.StatusTopic(transport.DefaultPrefix, "+"))
	})
	return g, s
}

// The table has what enrolled boards have signed of themselves, and nothing that anybody else says of them.
func TestWhatBoardsSay(t *testing.T) {
	key, other, thief := newKey(t), newKey(t), newKey(t)
	r := &roll{faults: []error{errors.New("devices.d/x.yaml:1: not a line of a list of devices")}}
	r.add("board", key)
	r.add("pump", other)
	g, s := listening(t, r)
	g.compute(20)
	b := g.letIn(Viewer)
	end := noon.Add(20 * 24 * time.Hour)
	st := transport.Status{Online: true, Version: "1.4.0", CertificateEnd: end.UnixNano()}
	row := func(what, name, state, version string, until time.Time) {
		t.Helper()
		var page fleetPage
		b.get("/api/fleet", &page)
		for _, d := range page.Rows {
			if d.Name != name {
				continue
			}
			shows := d.Certificate != nil && *d.Certificate == millis(until) || d.Certificate == nil && until.IsZero()
			if d.State != state || d.Version != version || !shows || !d.Enrolled {
				t.Errorf("%s: %+v", what, d)
			}
			return
		}
		t.Errorf("%s: %s is not in the table", what, name)
	}
	row("before", "board", "", "", time.Time{})
	row("before", "pump", "", "", time.Time{})
	forged := st
	forged.Version = "6.6.6"
	s.say(t, "board", "board", 1, 9, forged, thief) // signed by nobody
	s.say(t, "board", "board", 1, 9, forged, other) // by another device
	s.say(t, "pump", "board", 1, 9, forged, key)    // under the topic of another device
	s.say(t, "stranger", "stranger", 1, 9, forged, thief)
	row("forged", "board", "", "", time.Time{})
	row("forged", "pump", "", "", time.Time{})
	if text := g.log.String(); strings.Contains(text, "stranger") || strings.Count(text, "status is refused") != 3 ||
		!strings.Contains(text, "x.yaml:1") {
		t.Errorf("the log: %s", text)
	}

	s.say(t, "board", "board", 1, 9, st, key)
	row("a birth message", "board", "online", "1.4.0", end)
	gone := st
	gone.Online = false
	s.say(t, "board", "board", 1, 8, gone, key)
	row("its will", "board", "offline", "1.4.0", end)
	over := transport.Status{Online: true, Version: "1.5.0", CertificateEnd: noon.Add(-time.Hour).UnixNano()}
	s.say(t, "board", "board", 2, 1, over, key)
	s.say(t, "board", "board", 1, 9, st, key)
	row("a newer process, and a message that somebody kept", "board", "online", "1.5.0", noon.Add(-time.Hour))
	s.say(t, "pump", "pump", 1, 1, transport.Status{Version: "0.9.0"}, other)
	row("a board without a certificate", "pump", "offline", "0.9.0", time.Time{})

	var page fleetPage
	for query, want := range map[string]string{"sort=state": "pump board", "sort=version&way=down": "board pump",
		"sort=certificate": "pump board", "q=1.5": "board", "q=Offline": "pump", "q=off": ""} {
		b.get("/api/fleet?"+query, &page)
		var names []string
		for _, d := range page.Rows {
			names = append(names, d.Name)
		}
		if got := strings.Join(names, " "); got != want || !page.Enrolled || page.Trouble != "" {
			t.Errorf("%s: %q, want %q, %+v", query, got, want, page)
		}
	}
	s.mu.Lock()
	s.away = true
	s.mu.Unlock()
	if b.get("/api/fleet", &page); !strings.Contains(page.Trouble, "may be old") {
		t.Errorf("without a connection: %+v", page)
	}
}

// Boards come, go and get other keys while the page is served.
func TestEnrolledBoardsChange(t *testing.T) {
	key, renewed := newKey(t), newKey(t)
	r := &roll{}
	r.add("board", key)
	g := newRig(t, nil)
	g.o.Enrolled = r
	l := g.newListener()
	silent := func(what string, want ...string) {
		t.Helper()
		l.refresh()
		if got := g.fleet.silent(); !slices.Equal(got, want) {
			t.Errorf("%s: the broker is asked for %q, want %q", what, got, want)
		}
	}
	silent("at first", "board")
	silent("nothing changed")
	g.fleet.words.by["board"].said = true
	r.boards = nil
	r.add("board", renewed)
	r.add("pump", key)
	r.add("tank", key)
	l.refresh()
	g.fleet.words.by["tank"].said = true
	silent("another key, a new board, and one that has said something", "pump")
	if g.fleet.words.by["board"].said {
		t.Error("what was signed with the old key counts")
	}
	r.boards = r.boards[1:2]
	silent("a board that is gone")
	if g.fleet.key("board") != nil || g.fleet.key("pump") == nil {
		t.Error("a board that is gone is still there, or another one is not")
	}
	s := &station{refuse: transport.ErrRefused}
	g.fleet.words.client = s
	g.fleet.setTrouble(l.subscribe(t.Context(), s, "hencedge/v1/st/+"))
	var page fleetPage
	if g.letIn(Viewer).get("/api/fleet", &page); page.Total != 1 || !strings.Contains(page.Trouble, "does not let") {
		t.Errorf("a broker that refuses: %+v", page)
	}
}

// Without enrolled boards the table says so, and listens to nobody.
func TestNoEnrolledBoards(t *testing.T) {
	g := newRig(t, nil)
	g.ListenBoards(t.Context(), nil)
	var page fleetPage
	if g.letIn(Viewer).get("/api/fleet", &page); page.Enrolled || page.Trouble != "" {
		t.Errorf("%+v", page)
	}
}
