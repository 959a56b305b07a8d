//go:build !nostore && !evaluatoronly

package invite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/enroll"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
)

func asks(t *testing.T, device string) enroll.Pending {
	t.Helper()
	key, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	return enroll.Pending{Invitation: enroll.Invitation{Class: "pump"},
		Request: &enroll.Request{Device: device, PublicKey: key.Public()}}
}

// TestMatching: a board that is called like the fingerprint of another is not taken for it.
func TestMatching(t *testing.T) {
	right := asks(t, "pump17")
	fingerprint := right.Request.Fingerprint()
	thief := asks(t, fingerprint)
	for _, name := range []string{fingerprint, strings.ToUpper(fingerprint)} {
		if got := matching([]enroll.Pending{right, thief}, name); len(got) != 1 || got[0].Request != right.Request {
			t.Errorf("%s gives %+v", name, got)
		}
		if got := matching([]enroll.Pending{thief}, name); len(got) != 0 {
			t.Errorf("%s gives the thief", name)
		}
	}
	if got := matching([]enroll.Pending{thief, right}, "pump17"); len(got) != 1 || got[0].Request != right.Request {
		t.Errorf("pump17 gives %+v", got)
	}
}

// TestNewFile: a board cannot have a name by which it would replace a list of other devices, or
// by which the evaluator would not find it.
func TestNewFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte("# devices\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("none", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Evaluator{Enrolled: []string{dir}}
	for device, good := range map[string]bool{"pump17": true, "all": false, "link": false, ".hidden": false} {
		p := asks(t, device)
		file, err := (&desk{cfg: cfg}).check(&p)
		if good != (err == nil) || good && file != filepath.Join(dir, device+".yaml") {
			t.Errorf("%s: %q, %v", device, file, err)
		}
	}
}

// TestOtherClass: a device keeps the class that the evaluator lists.
func TestOtherClass(t *testing.T) {
	p := asks(t, "pump17")
	listed := config.Device{Name: "pump17", PublicKey: transport.FormatPublicKey(p.Request.PublicKey)}
	for class, good := range map[string]bool{"pump": true, "fan": false} {
		listed.Class = class
		file, err := (&desk{cfg: &config.Evaluator{Devices: []config.Device{listed}}}).check(&p)
		if good != (err == nil) || file != "" {
			t.Errorf("%s: %q, %v", class, file, err)
		}
	}
}

// TestGuestTLS: the server name of a token counts with either kind of authority.
func TestGuestTLS(t *testing.T) {
	at := config.Endpoint{Host: "10.0.0.1", TLS: true}
	for _, ca := range []enroll.Print{{}, {1}} {
		for name, want := range map[string]string{"": "10.0.0.1", "broker.example": "broker.example"} {
			conf, witness := guestTLS(&enroll.Token{CA: ca, Broker: enroll.Broker{ServerName: name}}, at)
			if conf.ServerName != want || (witness != nil) != (ca != enroll.Print{}) ||
				conf.InsecureSkipVerify != (witness != nil) {
				t.Errorf("authority %v, name %q: checks %q, witness %v", ca, name, conf.ServerName, witness)
			}
		}
	}
	if conf, witness := guestTLS(&enroll.Token{}, config.Endpoint{Host: "127.0.0.1"}); conf != nil || witness != nil {
		t.Error("TLS for a broker without")
	}
}

// TestDeskIDs: commands at the same time do not throw each other off the broker.
func TestDeskIDs(t *testing.T) {
	one, other := deskID("cloud"), deskID("cloud")
	if one == other || !strings.HasPrefix(one, "cloud-enroll-") {
		t.Errorf("two commands connect as %q and %q", one, other)
	}
}

// TestKilledJoin: a board whose join was killed before it had a configuration can join again.
func TestKilledJoin(t *testing.T) {
	dir := t.TempDir()
	h := &home{dir: dir, state: filepath.Join(dir, "state")}
	half := filepath.Join(dir, ".agent-keys-1")
	for _, path := range []string{h.keys(), half} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.prepare(); err == nil {
		t.Error("keys that somebody put there are no obstacle")
	}
	if err := writePublic(h.joining(), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.prepare(); err != nil {
		t.Errorf("after a kill: %v", err)
	}
	for _, path := range []string{h.keys(), half, h.joining()} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// TestOneJoin: of two joins in one directory, or with one state, the second is told of the first.
func TestOneJoin(t *testing.T) {
	dir := t.TempDir()
	first := &home{dir: filepath.Join(dir, "a"), state: filepath.Join(dir, "state")}
	if err := first.prepare(); err != nil {
		t.Fatal(err)
	}
	for _, second := range []*home{{dir: first.dir, state: filepath.Join(dir, "other")},
		{dir: filepath.Join(dir, "b"), state: first.state}} {
		if err := second.prepare(); err == nil || !strings.Contains(err.Error(), `another "agent join" works in `+dir) {
			t.Errorf("a second join in %s and %s: %v", second.dir, second.state, err)
		}
		first.release()
		if err := second.prepare(); err != nil {
			t.Errorf("after the first: %v", err)
		}
		second.release()
		if err := first.prepare(); err != nil {
			t.Fatal(err)
		}
	}
	first.release()
}

// TestKeepMarks: while an answer is written the board says so on disk, and no longer after it.
func TestKeepMarks(t *testing.T) {
	dir := t.TempDir()
	h := &home{dir: dir, state: dir}
	streams, err := transport.MarshalStatus(transport.Status{})
	if err != nil {
		t.Fatal(err)
	}
	w := &enroll.Welcome{Class: "pump", Streams: streams, Files: map[string][]byte{"public.key": {1}}}
	if _, err := h.keep(&joinFlags{}, &enroll.Token{}, w, nil, nil); err == nil {
		t.Error("keys of nobody are kept")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("an answer that does not count leaves %v, %v", left, err)
	}
	if err := os.Mkdir(h.joining(), 0o755); err != nil { // so that it cannot be written
		t.Fatal(err)
	}
	if _, err := h.keep(&joinFlags{}, &enroll.Token{}, w, nil, nil); err == nil ||
		!strings.Contains(err.Error(), h.joining()) {
		t.Errorf("keys are written before the mark: %v", err)
	}
}

// TestSourcesOf: a source for a channel that the class does not have is no source.
func TestSourcesOf(t *testing.T) {
	streams := []config.Stream{{Name: "motor", Channels: []config.Channel{{Name: "load"}, {Name: "heat"}}}}
	out, left := sourcesOf(streams, map[string]string{"motor/load": "{type: load}", "motor/laod": "{type: load}"}, nil)
	if len(out) != 1 || out["motor/load"] == "" || !slices.Equal(left.missing, []string{"motor/heat"}) ||
		!slices.Equal(left.unknown, []string{"motor/laod"}) {
		t.Errorf("sources %v, left %+v", out, left)
	}
}

// TestStreamsFrom: streams are taken only if the board can send them.
func TestStreamsFrom(t *testing.T) {
	for packing, good := range map[string]bool{config.PackingReal: true, config.PackingHistogram: true,
		config.PackingSteps:     true,
		config.PackingDigits:    true,
		config.PackingCompact16: false, "later": false} {
		b, err := transport.MarshalStatus(transport.Status{Streams: []transport.StreamStatus{{Name: "s", Params: "p",
			Packing: packing, Samples: 4, Channels: []transport.ChannelStatus{{Name: "c", Max: 1}}}}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := streamsFrom(b)
		if good != (err == nil) || good && (len(out) != 1 || out[0].Packing != packing) ||
			!good && !errors.Is(err, enroll.ErrMalformed) {
			t.Errorf("%s: %+v, %v", packing, out, err)
		}
	}
}

// TestFollowBook: the page hears of an invitation that a command makes beside it, of which no board says anything.
func TestFollowBook(t *testing.T) {
	client, err := mqtt.Dial(testrig.Context(t), mqtt.Options{URL: testrig.Broker(t, broker.Options{}).URL(),
		ClientID: "page", Live: true, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	book, err := enroll.OpenBook(filepath.Join(t.TempDir(), "enrolment"))
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{close: func() { cli.CloseClient(client) }}
	defer d.close()
	d.Desk, err = enroll.OpenDesk(testrig.Context(t), enroll.DeskOptions{Client: client,
		Prefix: transport.DefaultPrefix, Book: book})
	if err != nil {
		t.Fatal(err)
	}
	o := NewOperator(&config.ConsoleEnrolment{Evaluator: filepath.Join(t.TempDir(), "evaluator.yaml")},
		testrig.Quiet())
	began := o.Changed()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); o.follow(ctx, d) }()
	defer func() { stop(); <-ended }()
	testrig.Receive(t, "the beginning", began)
	changed := o.Changed()
	if err := book.Add(enroll.Invitation{ID: "made", Class: "pump", Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	testrig.Receive(t, "a change", changed)
}
