package role

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/durable"
)

// One process has a state file at a time; who has given it back writes nothing.
func TestState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s, err := LockState("agent", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockState("agent", path)
	if !errors.Is(err, durable.ErrLocked) || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second process: %v", err)
	}
	var v content
	if err := ReadState(path, "d", "", 100, &v); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := s.Save([]byte(`{"version":1,"name":"d","boot":3}`)); err != nil {
		t.Fatal(err)
	}
	if err := ReadState(path, "d", "", 100, &v); err != nil || v.Boot != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Save(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	for _, text := range []string{"", "{", `{"b":1}`, `{"version":1,"name":"d","boot":3}{}`, strings.Repeat(" ", 200),
		`{"version":1,"name":"d","boot":0}`, `{"version":1,"name":"d","boot":4611686018427387904}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := ReadState(path, "d", "restore it", 100, &v)
		if err == nil || len(text) < 100 && !strings.Contains(err.Error(), "restore it") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for want, text := range map[string]string{
		"version 2":                  `{"version":2,"name":"d","boot":3}`,
		`the device "e", not to "d"`: `{"version":1,"name":"e","boot":3}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ReadState(path, "d", "", 100, &v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// content is what the state file of this test holds.
type content struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Boot    uint64 `json:"boot"`
}

func (c *content) Header() Header { return Header{c.Version, "device", c.Name, c.Boot} }

// Boot epochs only grow; those of the clock are the second after the start.
func TestBoot(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		before uint64
		now    time.Time
		want   uint64
	}{{0, now, 1_700_000_001}, {5, now, 1_700_000_001}, {1_700_000_001, now, 1_700_000_002},
		{1_800_000_000, now, 1_800_000_001}, {0, time.Unix(-5, 0), 1}, {7, time.Unix(1<<41, 0), 8}} {
		if got := NextBoot(c.before, c.now); got != c.want {
			t.Errorf("after %d at %v: %d, want %d", c.before, c.now, got, c.want)
		}
		if got := DrawBoot(c.before, c.now); got < c.want || got >= c.want+3600 {
			t.Errorf("drawn after %d at %v: %d", c.before, c.now, got)
		}
	}
	if got := UntilBoot(1_700_000_001, now.Add(300*time.Millisecond)); got != 700*time.Millisecond {
		t.Errorf("wait %v", got)
	}
	for _, c := range []struct {
		boot uint64
		now  time.Time
	}{{1_700_003_000, now}, {1_600_000_000, now}, {100, time.Unix(50, 0)}} {
		if got := UntilBoot(c.boot, c.now); got != 0 {
			t.Errorf("boot epoch %d at %v: wait %v", c.boot, c.now, got)
		}
	}
}
