package evaluator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/evaluator/store"
)

// A state that is an old copy numbers nothing as its own past did.
func TestStateFromACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	var old []byte
	used := uint64(0)
	for i := range 5 {
		s, err := openState(path, "cloud", epoch.Add(time.Duration(i)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if used = s.boot(); i == 0 {
			if old, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openState(path, "cloud", epoch.Add(time.Hour))
	if err != nil || s.boot() <= used {
		t.Fatalf("boot epoch %d, and %d was used; %v", s.boot(), used, err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

func TestStateSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s, err := openState(path, "cloud", epoch)
	if err != nil {
		t.Fatal(err)
	}
	if s.boot() != uint64(epoch.Unix()) {
		t.Errorf("boot epoch %d, want the time", s.boot())
	}
	if _, err := openState(path, "cloud", epoch); !errors.Is(err, store.ErrState) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second process: %v", err)
	}
	for want := range uint64(3) {
		if _, n := s.sequence("a"); n != want+1 {
			t.Errorf("number %d, want %d", n, want+1)
		}
	}
	if _, n := s.sequence("b"); n != 1 {
		t.Errorf("other series starts at %d", n)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state file: %v %v", info.Mode(), err)
	}
	again, err := openState(path, "cloud", epoch)
	if err != nil {
		t.Fatal(err)
	}
	if again.boot() != s.boot()+1 {
		t.Errorf("boot epoch %d after %d", again.boot(), s.boot())
	}
	if err := errors.Join(again.close(), again.close()); err != nil {
		t.Error(err)
	}
	for content, says := range map[string]string{
		"{":                               "damaged",
		`{"version": 9}`:                  "version 9",
		`{"version": 1, "name": "other"}`: `belongs to the evaluator "other"`,
		`{"version": 1, "name": "cloud", "replay": "AAAA"}`: "replay state",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openState(path, "cloud", epoch); !errors.Is(err, store.ErrState) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// TestReplayAcrossRestart: what one process took, the next one refuses.
func TestReplayAcrossRestart(t *testing.T) {
	cfg := testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"}))
	r := newRig(t, cfg)
	w := r.window("d1", "count", 1, epoch, numbers(8, 1, 1), numbers(8, 0, 0))
	sealed := r.seal(w)
	r.send(w.topic, sealed)
	r.expect("mean", average(numbers(8, 1, 1)))
	r.stop()
	state := cfg.State
	next := newRigAt(t, cfg, state)
	next.send(w.topic, sealed)
	next.expectRefusal("replayed")
	next.sendWindow(next.window("d1", "count", 2, epoch, numbers(8, 2, 1), numbers(8, 0, 0)))
	obj := next.expect("mean", average(numbers(8, 2, 1)))
	if obj.Meta.Sequence != 1 || obj.Meta.BootEpoch <= uint64(epoch.Unix()) {
		t.Errorf("header %+v", obj.Meta)
	}
}
