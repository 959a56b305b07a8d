package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// gone is a client without a connection.
type gone struct{ fakeClient }

func (*gone) Connected() bool { return false }

func TestHealth(t *testing.T) {
	cfg := testConfig(t)
	clock := testrig.NewClock()
	deps, _ := testDeps(t, &fakeClient{})
	deps.Clock = clock
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got := a.Health(); len(got) != 0 || a.Connected() {
		t.Errorf("before it runs: %q", got)
	}
	a.link.use(&gone{}, a.now())
	if got := a.Health(); len(got) != 1 || got[0] != "the broker has not been reached since the start" {
		t.Errorf("before the first connection: %q", got)
	}
	a.link.failed(errors.New("no route to host"), a.now())
	if got := a.Health(); len(got) != 1 || !strings.HasSuffix(got[0], ": no route to host") {
		t.Errorf("a first connection that fails: %q", got)
	}
	a.link.use(&fakeClient{}, a.now())
	if got := a.Health(); len(got) != 0 || !a.Connected() {
		t.Errorf("connected: %q", got)
	}
	a.link.use(&gone{}, a.now())
	if got := a.Health(); len(got) != 0 {
		t.Errorf("just disconnected: %q", got)
	}
	for _, step := range []time.Duration{30 * 24 * time.Hour, -60 * 24 * time.Hour} {
		clock.Step(step) // a board without a battery finds its time server
		if got := a.Health(); len(got) != 0 {
			t.Errorf("the clock was set by %v: %q", step, got)
		}
	}
	if err := clock.Sleep(t.Context(), offlineTooLong+time.Second); err != nil {
		t.Fatal(err)
	}
	if got := a.Health(); len(got) != 1 || !strings.Contains(got[0], "no connection to the broker for 5m1s") {
		t.Errorf("offline for long: %q", got)
	}
	now := clock.Now()
	a.link.failed(errors.New("connection refused"), a.now())
	a.link.acknowledged(moment{now.Add(-time.Minute), clock.Mono() - time.Minute})
	r := a.Report()
	if r.Broker.LastError != "connection refused" || !r.Broker.FailedAt.Equal(now) ||
		!r.Broker.LastAck.Equal(now.Add(-time.Minute)) || r.Broker.Connected {
		t.Errorf("%+v", r.Broker)
	}
	if line := a.Line(); !strings.HasPrefix(line, "not connected, 0 windows wait, 0 sent, last acknowledged ") {
		t.Errorf("%q", line)
	}
}

// Windows that nobody acknowledges although there is a connection count after a quarter
// of an hour, measured from the last acknowledgement, the start, or the end of a long
// absence; a connection that comes and goes does not begin it anew.
func TestUnacknowledged(t *testing.T) {
	// The wall clock goes backwards meanwhile.
	at := func(after time.Duration) moment {
		return moment{time.Unix(1_000_000, 0).Add(-after), time.Hour + after}
	}
	stuck := Stats{Spool: spool.Stats{Objects: 7}, Delivery: delivery.Stats{LastTrouble: "no receipt"}}
	for name, c := range map[string]struct {
		change func(*link, *Stats)
		after  time.Duration
		want   bool
	}{
		"not yet":           {nil, unacknowledgedTooLong, false},
		"too long":          {nil, unacknowledgedTooLong + time.Second, true},
		"nothing waits":     {func(_ *link, s *Stats) { s.Spool.Objects = 0 }, time.Hour, false},
		"no trouble":        {func(_ *link, s *Stats) { s.Delivery.LastTrouble = "" }, time.Hour, false},
		"outside the hours": {func(_ *link, s *Stats) { s.Delivery.Closed = true }, time.Hour, false},
		"no connection":     {func(l *link, _ *Stats) { l.client = &gone{} }, time.Hour, false},
		"acknowledged":      {func(l *link, _ *Stats) { l.acknowledged(at(50 * time.Minute)) }, time.Hour, false},
		"and then not":      {func(l *link, _ *Stats) { l.acknowledged(at(44 * time.Minute)) }, time.Hour, true},
		"back after a while": {func(l *link, _ *Stats) { l.set(false, at(0)); l.set(true, at(50*time.Minute)) },
			time.Hour, false},
		"comes and goes": {func(l *link, _ *Stats) {
			for i := range 60 {
				l.set(i%2 == 1, at(time.Duration(i)*time.Minute))
			}
		}, time.Hour, true},
	} {
		var l link
		s := stuck
		l.use(&fakeClient{}, at(0))
		if c.change != nil {
			c.change(&l, &s)
		}
		if got := l.unacknowledged(s, at(0), at(c.after)); (got != "") != c.want || c.want &&
			(!strings.Contains(got, "7 wait: no receipt") || !strings.Contains(got, "m")) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A loss counts for a while after it was noticed, and again when there is more.
func TestLossesCount(t *testing.T) {
	var l link
	now := moment{wall: time.Unix(1_000_000, 0)}
	s := func(dropped, expired uint64) Stats {
		return Stats{Spool: spool.Stats{Dropped: dropped, Expired: expired}}
	}
	for i, c := range []struct {
		after            time.Duration
		dropped, expired uint64
		want             string
	}{
		{0, 0, 0, ""},
		{time.Second, 3, 0, "3 windows were lost: 3 to a full queue"},
		{lossMatters - time.Second, 3, 0, "3 windows were lost"},
		{time.Second, 3, 0, ""},
		{time.Hour, 3, 2, "5 windows were lost: 3 to a full queue, 2 to age"},
	} {
		now = moment{now.wall.Add(-c.after), now.mono + c.after}
		if got := l.losses(s(c.dropped, c.expired), now); (c.want == "") != (got == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}
