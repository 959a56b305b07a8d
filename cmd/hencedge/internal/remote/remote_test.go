package remote

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
)

// remoteStage is a device's file and the operator's key that it names.
type remoteStage struct {
	cfg *config.Agent
	key *transport.SigningKey
	log strings.Builder
}

func newRemoteStage(t *testing.T) *remoteStage {
	t.Helper()
	key, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	return &remoteStage{key: key, cfg: remoteAgent(t, t.TempDir(), key.PublicText(), "")}
}

func remoteAgent(t *testing.T, dir, operator, sections string) *config.Agent {
	t.Helper()
	text := strings.NewReplacer("DIR", dir, "KEY", operator, "SECTIONS", sections).Replace(`
device: board
broker: {url: "tls://localhost"}
keys: {public_key: p}
signing_key: s
state: DIR/state
remote: {operator_key: "KEY"SECTIONS}
streams:
  - name: slow
    interval: 1s
    window: {samples: 8}
    params: edge12-add
    channels:
      - {name: used, unit: "%", range: [0, 100], source: {type: memory}}
`)
	cfg, err := config.ParseAgent("agent.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (s *remoteStage) message(t *testing.T, version uint64, text string) []byte {
	t.Helper()
	b, err := transport.SealRemote(transport.RemoteConfig{Device: "board", Version: version, Text: []byte(text)}, s.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s *remoteStage) logger() *slog.Logger { return slog.New(slog.NewTextHandler(&s.log, nil)) }

// fresh is the keeper of a process that starts now, after its first load.
func (s *remoteStage) fresh(t *testing.T) (*Remote, *config.Agent) {
	t.Helper()
	r := New()
	cfg, _, pending, err := r.Apply(s.cfg, s.logger())
	if err != nil || pending {
		t.Fatalf("%v, pending %v", err, pending)
	}
	return r, cfg
}

// A version is stored as tried before it is tried: after a crash in its trial the
// device starts with what it had, and does not try it again.
func TestRemoteIsTriedOnce(t *testing.T) {
	s := newRemoteStage(t)
	r, cfg := s.fresh(t)
	if cfg != s.cfg {
		t.Error("there is something on top of the file")
	}
	r.Receive(s.message(t, 2, "log: {level: debug}"))
	if reason := <-r.Tell; reason != "remote configuration 2" {
		t.Errorf("reason %q", reason)
	}
	cfg, _, pending, err := r.Apply(s.cfg, s.logger())
	if err != nil || !pending || cfg.Log.Level != "debug" {
		t.Fatalf("%v, %v, %v", err, pending, cfg)
	}
	// The process dies here.
	r, cfg = s.fresh(t)
	if cfg.Log.Level != "info" {
		t.Error("what never proved itself is used after a crash")
	}
	r.Receive(s.message(t, 2, "log: {level: debug}"))
	r.Receive(s.message(t, 1, "log: {level: error}"))
	select {
	case reason := <-r.Tell:
		t.Errorf("%s is tried again", reason)
	default:
	}
	if st := r.Status(); st.Seen != 2 || st.InUse != 0 || !strings.Contains(st.Refused,
		"ended before remote configuration 2 had proved itself") {
		t.Errorf("%+v", st)
	}
}

// A configuration that proved itself and cannot be stored is not used from then on by
// some chance: not by a reload, nor by the status.
func TestRemoteThatCannotBeKept(t *testing.T) {
	s := newRemoteStage(t)
	r, _ := s.fresh(t)
	r.Receive(s.message(t, 2, "log: {level: debug}"))
	_, sealed, _, err := r.Apply(s.cfg, s.logger())
	if err != nil {
		t.Fatal(err)
	}
	c := &daemon.Candidate{}
	r.OnTrial(c, sealed, time.Minute)
	if err := os.RemoveAll(filepath.Dir(s.cfg.State)); err != nil {
		t.Fatal(err)
	}
	if err = c.Confirmed(); err == nil {
		t.Fatal("it was stored nowhere")
	}
	c.Failed(err)
	cfg, _, pending, err := r.Apply(s.cfg, s.logger())
	if err != nil || pending || cfg.Log.Level != "info" {
		t.Errorf("%v, %v, log level %s", err, pending, cfg.Log.Level)
	}
	if st := r.Status(); st.Seen != 2 || st.InUse != 0 ||
		!strings.Contains(st.Refused, "store the remote configuration") {
		t.Errorf("%+v", st)
	}
}

func TestRemoteTrial(t *testing.T) {
	s := newRemoteStage(t)
	r, _ := s.fresh(t)
	step := func(version uint64, text string, outcome func(*daemon.Candidate)) *config.Agent {
		r.Receive(s.message(t, version, text))
		<-r.Tell
		_, sealed, pending, err := r.Apply(s.cfg, s.logger())
		if err != nil || !pending {
			t.Fatalf("%v, %v", err, pending)
		}
		c := &daemon.Candidate{}
		r.OnTrial(c, sealed, time.Minute)
		if c.Trial != time.Minute {
			t.Error("no trial")
		}
		outcome(c)
		cfg, _, pending, err := r.Apply(s.cfg, s.logger())
		if err != nil || pending {
			t.Fatalf("%v, %v", err, pending)
		}
		return cfg
	}
	if cfg := step(1, "log: {level: debug}", func(c *daemon.Candidate) {
		if err := c.Confirmed(); err != nil {
			t.Fatal(err)
		}
	}); cfg.Log.Level != "debug" {
		t.Error("what was confirmed is not used")
	}
	failed := func(c *daemon.Candidate) { c.Failed(errors.New("no broker")) }
	if cfg := step(2, "log: {level: error}", failed); cfg.Log.Level != "debug" {
		t.Error("what failed is used")
	}
	if st := r.Status(); st.Seen != 2 || st.InUse != 1 || st.Refused != "no broker" {
		t.Errorf("%+v", st)
	}
	r, cfg := s.fresh(t)
	if cfg.Log.Level != "debug" {
		t.Error("what was confirmed is forgotten after a restart")
	}
	if st := r.Status(); st.Seen != 2 || st.InUse != 1 || st.Refused != "no broker" {
		t.Errorf("after a restart %+v", st)
	}

	// The operator of the file decides, now and later: another key, a section that
	// is closed now.
	s.cfg = remoteAgent(t, filepath.Dir(s.cfg.State), s.key.PublicText(), ", sections: [queue]")
	if r, cfg := s.fresh(t); cfg.Log.Level != "info" || !strings.Contains(s.log.String(), "no longer fits") ||
		r.Status().InUse != 0 {
		t.Errorf("a section that was closed is still changed: %+v", r.Status())
	}
	stranger, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	s.cfg = remoteAgent(t, filepath.Dir(s.cfg.State), stranger.PublicText(), "")
	if _, cfg := s.fresh(t); cfg.Log.Level != "info" {
		t.Error("another operator's configuration is used")
	}
}

// A message that was to be taken until a time in the past changes nothing, not even the
// version that counts; before its time it is taken, and it stays after it.
func TestRemoteExpired(t *testing.T) {
	s := newRemoteStage(t)
	until := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	b, err := transport.SealRemote(transport.RemoteConfig{Device: "board", Version: 4,
		Text: []byte("log: {level: debug}"), Until: until.Unix()}, s.key)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := s.fresh(t)
	r.now = func() time.Time { return until.Add(time.Second) }
	r.Receive(b)
	if st := r.Status(); st.Seen != 0 || !strings.Contains(st.Refused, "was valid until 2026-05-01T12:00:00Z") ||
		len(r.Tell) != 0 {
		t.Errorf("%+v", st)
	}
	r.now = func() time.Time { return until }
	r.Receive(b)
	<-r.Tell
	_, sealed, pending, err := r.Apply(s.cfg, s.logger())
	if err != nil || !pending {
		t.Fatal(err, pending)
	}
	c := &daemon.Candidate{}
	r.OnTrial(c, sealed, time.Minute)
	if err := c.Confirmed(); err != nil {
		t.Fatal(err)
	}
	r, cfg := s.fresh(t)
	r.now = func() time.Time { return until.AddDate(1, 0, 0) }
	if r.Receive(b); cfg.Log.Level != "debug" || r.Status().InUse != 4 || r.Status().Refused != "" {
		t.Errorf("what was taken in time is not kept: %+v", r.Status())
	}
}

func TestRemoteFileDamaged(t *testing.T) {
	s := newRemoteStage(t)
	for _, text := range []string{"", "{", `{"seen":"x"}`, strings.Repeat("x", maxRemoteFile+1)} {
		if err := os.WriteFile(s.cfg.State+".remote", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.log.Reset()
		if r, cfg := s.fresh(t); cfg != s.cfg || r.Status().Seen != 0 ||
			!strings.Contains(s.log.String(), "cannot be read") {
			t.Errorf("%.20q: %+v", text, r.Status())
		}
	}
	// Without a place to store the version nothing is tried.
	s.cfg.State = filepath.Join(s.cfg.State, "no/such/dir")
	r, _ := s.fresh(t)
	r.Receive(s.message(t, 5, "log: {level: debug}"))
	if st := r.Status(); st.Seen != 0 || st.Refused == "" || len(r.Tell) != 0 {
		t.Errorf("%+v", st)
	}
}
