package seal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/role"
)

// stateStart is when the first start of a test is.
var stateStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestStateFirstStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	now := time.Unix(1_700_000_000, 0)
	s, err := OpenState(path, "d", now)
	if err != nil {
		t.Fatal(err)
	}
	if s.Boot() != 1_700_000_001 { // the next second: this one may be that of a start whose state was lost
		t.Errorf("boot epoch %d", s.Boot())
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := OpenState(path, "d", now); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second agent got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if s, err = OpenState(path, "d", time.Unix(5, 0)); err != nil || s.Boot() != 1_700_000_002 {
		t.Fatalf("second start: boot epoch %v, %v", s.Boot(), err)
	}
	s.Close()
	if s, err = OpenState(path+"2", "d", time.Unix(-100, 0)); err != nil || s.Boot() != 1 {
		t.Fatalf("with a wrong clock: %v", err)
	}
	s.Close()
}

func TestStateRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for name, text := range map[string]string{
		"damaged": "{\"version\":1,\"dev", "empty": "",
		"other device": `{"version":1,"device":"e","boot_epoch":1,"reserved":{}}`,
		"version":      `{"version":2,"device":"d","boot_epoch":1}`, "no epoch": `{"version":1,"device":"d"}`,
		"huge epoch":    `{"version":1,"device":"d","boot_epoch":18446744073709551615}`,
		"huge sequence": `{"version":1,"device":"d","boot_epoch":1,"reserved":{"a":9223372036854775807}}`,
		"unknown field": `{"version":1,"device":"d","boot_epoch":1,"x":1}`,
		"negative":      `{"version":1,"device":"d","boot_epoch":-1}`,
		"trailing":      `{"version":1,"device":"d","boot_epoch":1}{}`, "too large": strings.Repeat(" ", stateMax+1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenState(path, "d", stateStart); !errors.Is(err, ErrState) {
			t.Errorf("%s: got %v, %v", name, s, err)
		}
		if after, _ := os.ReadFile(path); string(after) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if _, err := OpenState(filepath.Join(dir, "none", "state"), "d", stateStart); !errors.Is(err, ErrState) {
		t.Errorf("missing directory: %v", err)
	}
}

// TestStateLostAtOnce: starts in quick succession, each after a crash, with the state
// lost, with an old copy of it, or with a disk that takes nothing, number no window
// twice, whatever they had time for.
func TestStateLostAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		pass := func() { now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "passes")) * time.Millisecond) }
		used := map[[2]uint64]bool{}
		var old []byte
		os.Remove(path)
		for range rapid.IntRange(2, 5).Draw(t, "starts") {
			switch rapid.SampledFrom([]string{"kept", "copied", "lost", "restored"}).Draw(t, "state") {
			case "copied":
				old, _ = os.ReadFile(path)
			case "lost":
				os.Remove(path)
			case "restored":
				if old == nil {
					break
				}
				if err := os.WriteFile(path, old, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write := durable.WriteState
			if rapid.Bool().Draw(t, "full") {
				write = func(string, []byte) error { return unix.ENOSPC }
			}
			s, err := openStateWith(path, "d", now, write)
			if err != nil {
				t.Fatal(err)
			}
			defer s.disk.Close()
			if !role.FromClock(s.Boot(), now) {
				break // drawn
			}
			for range rapid.IntRange(0, 2).Draw(t, "windows") {
				pass()
				now = now.Add(s.Lead(now))
				n, err := s.Take("a")
				if err != nil {
					t.Fatal(err)
				}
				if k := [2]uint64{s.Boot(), n}; used[k] {
					t.Fatalf("number %d of boot epoch %d is used twice", n, s.Boot())
				} else {
					used[k] = true
				}
			}
			pass()
			s.disk.Close() // killed
		}
	})
}

// A number whose reservation cannot be written is not handed out.
func TestStatePersistsBeforeUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := OpenState(filepath.Join(dir, "state"), "d", stateStart)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(SequenceBlock) {
		if n, err := s.Take("a"); err != nil || n != i {
			t.Fatalf("got %d, %v; want %d", n, err, i)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for i := uint64(SequenceBlock); i < SequenceBlock*3/2; i++ { // reserved before
		if n, err := s.Take("a"); err != nil || n != i {
			t.Fatalf("got %d, %v; want %d", n, err, i)
		}
	}
	for range 2 {
		if n, err := s.Take("a"); !errors.Is(err, ErrState) {
			t.Fatalf("got %d, %v although nothing can be written", n, err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Take("a"); err != nil || n != SequenceBlock*3/2 {
		t.Errorf("after the disk came back: %d, %v", n, err)
	}
	if f, err := ReadState(filepath.Join(dir, "state"), "d"); err != nil || f.Reserved["a"] <= SequenceBlock*3/2 {
		t.Errorf("on disk: %+v, %v", f, err)
	}
	s.Close()
}

// A state that is an old copy starts behind its own past only while the clock is
// wrong; what it then finds used, renew leaves for good.
func TestStateFromACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	start := func(now time.Time) *State {
		t.Helper()
		s, err := OpenState(path, "d", now)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := time.Unix(1_700_000_000, 0)
	if err := start(first).Close(); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := uint64(0)
	for i := range 5 {
		s := start(first.Add(time.Duration(i) * time.Minute))
		used = s.Boot()
		s.Close()
	}
	restore := func() {
		t.Helper()
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	restore()
	s := start(first.Add(time.Hour))
	if s.Boot() <= used {
		t.Errorf("boot epoch %d, and %d was used", s.Boot(), used)
	}
	s.Close()
	restore()
	s = start(time.Unix(30, 0))
	if s.Boot() != 1_700_000_002 {
		t.Errorf("boot epoch %d with a clock of 1970", s.Boot())
	}
	before := s.Boot()
	if err := s.Renew(first.Add(2 * time.Hour)); err != nil || s.Boot() < uint64(first.Unix()+7200) {
		t.Errorf("renewed to %d, %v", s.Boot(), err)
	}
	now := s.Boot()
	if err := s.Renew(time.Unix(31, 0)); err != nil || s.Boot() <= now || now <= before {
		t.Errorf("renewed from %d to %d, %v", now, s.Boot(), err)
	}
	now = s.Boot()
	s.disk.Write = func(string, []byte) error { return errors.New("the disk fails") }
	if err := s.Renew(first); !errors.Is(err, ErrState) || s.Boot() != now {
		t.Errorf("a boot epoch that is not on disk is in use: %d after %d, %v", s.Boot(), now, err)
	}
	s.disk.Close()
	if s = start(time.Unix(32, 0)); s.Boot() != now+1 {
		t.Errorf("after a crash the boot epoch is %d, want %d", s.Boot(), now+1)
	}
	s.Close()
}

// A state that was given back belongs to the next start: who still holds the old one
// gets no numbers and writes nothing.
func TestStateAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	old, err := OpenState(path, "d", stateStart)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Take("a"); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := OpenState(path, "d", stateStart)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"", "a"} {
		if n, err := old.Take(stream); !errors.Is(err, ErrState) {
			t.Errorf("number %d of %q, %v", n, stream, err)
		}
	}
	if err := old.Renew(stateStart.Add(time.Hour)); !errors.Is(err, ErrState) {
		t.Errorf("renewed: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file of the next start was changed: %s, %v", after, err)
	}
}

// Through any history of starts, stops and crashes, a (boot epoch, stream,
// sequence) never repeats and a later start is always later.
func TestStateNeverRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "state")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "state")
		type use struct {
			stream   string
			sequence uint64
		}
		last := map[string]uint64{}
		seen := map[use]bool{}
		boot := uint64(0)
		for range rapid.IntRange(1, 5).Draw(t, "starts") {
			// Flushing is not under test here, and slow.
			s, err := openStateWith(path, "d", stateStart,
				func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) })
			if err != nil {
				t.Fatal(err)
			}
			if s.Boot() <= boot {
				t.Fatalf("boot epoch %d after %d", s.Boot(), boot)
			}
			boot = s.Boot()
			for range rapid.IntRange(0, 3).Draw(t, "rounds") {
				stream := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "stream")
				for range rapid.IntRange(0, SequenceBlock+2).Draw(t, "takes") {
					n, err := s.Take(stream)
					if err != nil {
						t.Fatal(err)
					}
					if before, ok := last[stream]; ok && n <= before || seen[use{stream, n}] {
						t.Fatalf("sequence %d of %q after %d", n, stream, before)
					}
					last[stream], seen[use{stream, n}] = n, true
				}
			}
			if rapid.Bool().Draw(t, "orderly") {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				s.disk.Close() // as the kernel does at a crash
			}
		}
	})
}

// FuzzState checks that no file is taken for a state that it is not: what is
// accepted has this device, a boot epoch that can grow, and survives a start.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version":1,"device":"d","boot_epoch":7,"reserved":{"a":256,"":3}}`))
	f.Add([]byte(`{"version":1,"device":"d","boot_epoch":4611686018427387903}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		before, err := ReadState(path, "d")
		s, openErr := openStateWith(path, "d", stateStart,
			func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) })
		if (err == nil) != (openErr == nil) || err != nil && !errors.Is(err, ErrState) {
			t.Fatalf("read: %v, open: %v", err, openErr)
		}
		if err != nil {
			return
		}
		n, err := s.Take("a")
		if s.Boot() != role.NextBoot(before.BootEpoch, stateStart) || s.Boot() <= before.BootEpoch ||
			before.Device != "d" || err == nil && n < before.Reserved["a"] {
			t.Fatalf("boot epoch %d after %d, sequence %d after %d, %v", s.Boot(), before.BootEpoch, n,
				before.Reserved["a"], err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
