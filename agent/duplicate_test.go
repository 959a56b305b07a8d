package agent

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// Another board shows itself by a birth message that this process did not make; what
// this board itself left behind does not.
func TestDuplicates(t *testing.T) {
	since := time.Unix(1_800_000_000, 0)
	at := func(s int) int64 { return since.Add(time.Duration(s) * time.Second).UnixNano() }
	type m struct {
		boot, sequence   uint64
		made             int64
		online, retained bool
		news, later      bool
	}
	own := m{boot: 50, sequence: 100, made: at(1), online: true}
	for name, tt := range map[string]struct {
		since time.Time
		list  []m
		sick  bool
	}{
		"its own":           {since, []m{own, {boot: 50, sequence: 131, made: at(32), online: true}}, false},
		"its own, long ago": {since, []m{{boot: 50, sequence: 99, made: at(0), online: true}, own}, false},
		"the same second": {since,
			[]m{own, {boot: 50, sequence: 100, made: at(2), online: true, news: true, later: true},
				{boot: 50, sequence: 101, made: at(1), online: true, later: true}}, true},
		"the same second, that went": {since,
			[]m{own, {boot: 50, sequence: 132, made: at(33), online: true, news: true, later: true},
				{boot: 50, sequence: 133, made: at(34)}}, false},
		"the same second, before its state was lost": {since,
			[]m{{boot: 50, sequence: 100, made: at(0), online: true, retained: true}, own}, false},
		"an earlier start": {since,
			[]m{{boot: 40, made: at(-9), online: true, retained: true}, own, {boot: 40, made: at(-8), online: true},
				{boot: 40, made: at(-9)}}, false},
		"a later start": {since,
			[]m{own, {boot: 60, made: at(9), online: true, news: true, later: true},
				{boot: 60, made: at(12), online: true, later: true}}, true},
		"that went": {since,
			[]m{own, {boot: 60, made: at(9), online: true, news: true, later: true}, {boot: 60, made: at(12)}}, false},
		"the original answers":      {since, []m{own, {boot: 40, made: at(2), online: true, news: true}}, true},
		"no clock at the start":     {time.Unix(40, 0), []m{own, {boot: 40, made: at(2), online: true}}, false},
		"its own with a lost state": {since, []m{{boot: 60, made: at(9), online: true, retained: true}, own}, false},
		"kept, after its own": {since,
			[]m{own, {boot: 60, made: at(9), online: true, retained: true, news: true, later: true}}, true},
	} {
		var d duplicates
		for i := range maxIssues + 1 {
			d.issued(&transport.Meta{BootEpoch: 50, Sequence: 99 + uint64(i), Start: at(i)})
		}
		for i, x := range tt.list {
			meta := transport.Meta{BootEpoch: x.boot, Sequence: x.sequence, Start: x.made}
			news, later := d.note(&meta, x.online, x.retained, tt.since)
			if news != x.news || later != x.later {
				t.Errorf("%s: message %d: news %v, later %v", name, i, news, later)
			}
		}
		if h := d.health(); (h != "") != tt.sick {
			t.Errorf("%s: %q", name, h)
		}
	}
}

// looped is a broker with one client: what is published comes back where it was
// subscribed to.
type looped struct {
	fakeClient
	handlers map[string]func(transport.Delivery)
	ready    chan struct{}
}

func (c *looped) Subscribe(_ context.Context, topic string, h func(transport.Delivery)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[topic] = h
	if strings.Contains(topic, "/st/") {
		close(c.ready)
	}
	return nil
}

// An agent answers the birth of a clone with its own, says so, and is unhealthy until
// the clone goes.
func TestDuplicateIsTold(t *testing.T) {
	cfg := testConfig(t)
	client := &looped{handlers: map[string]func(transport.Delivery){}, ready: make(chan struct{})}
	deps, _ := testDeps(t, &client.fakeClient)
	deps.Client, deps.Clock = client, role.SystemClock()
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	<-client.ready
	later, err := seal.OpenState(filepath.Join(t.TempDir(), "state"), cfg.Device, a.since.wall.Add(9*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	tell := func(online bool) {
		t.Helper()
		m, err := (&Agent{cfg: a.cfg, keys: a.keys, clock: a.clock, since: a.since, state: later}).status(online)
		if err != nil {
			t.Fatal(err)
		}
		client.mu.Lock()
		h := client.handlers[m.Topic]
		client.mu.Unlock()
		h(transport.Delivery{Topic: m.Topic, Payload: m.Payload})
	}
	births := func() (n int) {
		client.mu.Lock()
		defer client.mu.Unlock()
		for _, m := range client.messages {
			if strings.Contains(m.Topic, "/st/") {
				n++
			}
		}
		return n
	}
	before := births()
	tell(true)
	if h := strings.Join(a.Health(), "; "); !strings.Contains(h, "another board sends") {
		t.Errorf("healthy: %q", h)
	}
	testrig.Eventually(t, "a new birth message", func() bool { return births() > before })
	tell(true)
	tell(false)
	if h := strings.Join(a.Health(), "; "); births() != before+1 || strings.Contains(h, "another board") {
		t.Errorf("%d answers; %q", births()-before, h)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
