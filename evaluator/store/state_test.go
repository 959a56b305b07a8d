package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
	"pgregory.net/rapid"
)

// epoch is the time of the first start.
var epoch = time.Unix(1_700_000_000, 0)

// A state that is an old copy numbers nothing as its own past did.
func TestStateFromACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	var old []byte
	used := uint64(0)
	for i := range 5 {
		s, err := OpenState(path, "cloud", epoch.Add(time.Duration(i)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if used = s.Boot(); i == 0 {
			if old, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenState(path, "cloud", epoch.Add(time.Hour))
	if err != nil || s.Boot() <= used {
		t.Fatalf("boot epoch %d, and %d was used; %v", s.Boot(), used, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNumbersAfterAnOldCopy: starts in quick succession, each after a crash, with the state kept,
// lost or replaced by an old copy, give no number twice.
func TestNumbersAfterAnOldCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	rapid.Check(t, func(t *rapid.T) {
		now := epoch
		used := map[[2]uint64]bool{}
		var old []byte
		os.Remove(path)
		for range rapid.IntRange(2, 6).Draw(t, "starts") {
			switch state := rapid.SampledFrom([]string{"kept", "copied", "lost", "restored"}).Draw(t, "state"); {
			case state == "copied":
				old, _ = os.ReadFile(path)
			case state == "lost":
				os.Remove(path)
			case state == "restored" && old != nil:
				if err := os.WriteFile(path, old, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := OpenState(path, "cloud", now)
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(s.Lead(now))
			for range rapid.IntRange(0, 2).Draw(t, "results") {
				boot, n := s.Sequence("result mean")
				if used[[2]uint64{boot, n}] {
					t.Fatalf("number %d of boot epoch %d is used twice", n, boot)
				}
				used[[2]uint64{boot, n}] = true
				now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "passes")) * time.Millisecond)
			}
			if err := s.disk.Close(); err != nil { // killed
				t.Fatal(err)
			}
		}
	})
}

func TestStateSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s, err := OpenState(path, "cloud", epoch)
	if err != nil {
		t.Fatal(err)
	}
	if s.Boot() != uint64(epoch.Unix())+1 {
		t.Errorf("boot epoch %d, want the next second", s.Boot())
	}
	if _, err := OpenState(path, "cloud", epoch); !errors.Is(err, ErrState) ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("second process: %v", err)
	}
	for want := range uint64(3) {
		if _, n := s.Sequence("a"); n != want+1 {
			t.Errorf("number %d, want %d", n, want+1)
		}
	}
	if _, n := s.Sequence("b"); n != 1 {
		t.Errorf("other series starts at %d", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state file: %v %v", info.Mode(), err)
	}
	again, err := OpenState(path, "cloud", epoch)
	if err != nil {
		t.Fatal(err)
	}
	if again.Boot() != s.Boot()+1 {
		t.Errorf("boot epoch %d after %d", again.Boot(), s.Boot())
	}
	if err := errors.Join(again.Close(), again.Close()); err != nil {
		t.Error(err)
	}
	for content, says := range map[string]string{
		"{":                               "damaged",
		`{"version": 9}`:                  "version 9",
		`{"version": 1, "name": "other"}`: `belongs to the evaluator "other"`,
		`{"version": 1, "name": "cloud", "boot_epoch": 7, "replay": "AAAA"}`: "replay state",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenState(path, "cloud", epoch); !errors.Is(err, ErrState) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// FuzzState: no state file makes the evaluator panic or reuse a boot epoch.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 7}`))
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 18446744073709551615}`))
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 7, "replay": "gwEAgA=="}`))
	path := filepath.Join(testenv.QuickDir(f), "state")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &State{guard: transport.NewReplayGuard(0), next: map[string]uint64{}}
		if err := s.load(path, "cloud", epoch); err == nil && s.Boot() < uint64(epoch.Unix()) {
			t.Fatal("the boot epoch did not grow")
		}
	})
}
