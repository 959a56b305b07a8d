package evaluator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// An evaluator does not go on without the store that its state belongs to, since what is
// in it would be lost; an old copy of it is told, and everything else needs no word.
func TestStoreBelongsToState(t *testing.T) {
	home := t.TempDir()
	dir, path := filepath.Join(home, "store"), filepath.Join(home, "state")
	program := prog("mean", "mean(x)", inputs("d1/count/temp"))
	cfg := storeConfig(t, dir, program)
	cfg.State = path
	h := testHolder(t)
	start := func() (health []string, err error) {
		t.Helper()
		s, err := New(cfg,
			Deps{SigningKey: signer(t, "cloud"), Keys: []engine.Keys{{Context: h.ctx, Evaluation: h.keys}},
				Logger: testrig.Quiet()})
		if err != nil {
			return nil, err
		}
		health = s.Health()
		return health, s.Close()
	}
	good := func(what string) {
		t.Helper()
		if health, err := start(); err != nil || len(health) != 0 {
			t.Errorf("%s: %q, %v", what, health, err)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	empty := func() {
		t.Helper()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	copied := func(from, to string) {
		t.Helper()
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	good("the first start")
	copied(dir, filepath.Join(home, "backup"))
	stateCopy, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good("the second start")
	move(dir, filepath.Join(home, "real"))
	empty()
	_, err = start()
	wantError(t, err, store.ErrState, path, dir, "Put it there", "move "+path+" away")
	move(path, filepath.Join(home, "state.real"))
	good("without both")
	move(dir, filepath.Join(home, "other"))
	move(path, filepath.Join(home, "state.other"))
	move(filepath.Join(home, "state.real"), path)
	copied(filepath.Join(home, "other"), dir)
	_, err = start()
	wantError(t, err, store.ErrState, "is not the one that belongs to", path, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	move(filepath.Join(home, "real"), dir)
	good("the store is back")
	if err := os.WriteFile(path, stateCopy, 0o600); err != nil {
		t.Fatal(err)
	}
	good("an old copy of the state")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	copied(filepath.Join(home, "backup"), dir)
	if health, err := start(); err != nil || len(health) != 1 || !strings.Contains(health[0], "is an old copy") {
		t.Errorf("an old copy of the store: %q, %v", health, err)
	}
	good("after it")
	if err := os.WriteFile(filepath.Join(dir, store.MarkFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = start()
	wantError(t, err, store.ErrState, filepath.Join(dir, store.MarkFile), "damaged")
	if err := os.Remove(filepath.Join(dir, store.MarkFile)); err != nil {
		t.Fatal(err)
	}
	good("the mark alone is lost")
	cfg.Store = &config.Store{Dir: dir}
	cfg.SetDefaults()
	cfg.Name = "cloud2"
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = start()
	wantError(t, err, store.ErrState, "belongs to evaluator")
}

// Windows that were acknowledged, and that the configuration of the next start does not
// accept, are told: nobody else has them.
func TestStrandedWindows(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "state")
	program := prog("change", "mean(x) - mean(lag(x, 1))", inputs("d1/count/temp")) // keeps a window
	r := newRigAt(t, storeConfig(t, dir, program), state)
	rc := r.receipts("d1")
	rc.expect(r.sendWindow(r.window("d1", "count", 0, time.Unix(1000, 0), numbers(8, 10, 2), numbers(8, 0, 0.1))),
		transport.Taken, "")
	r.stop()
	// A layout that differs, found when the object is opened; an epoch that is over, found later.
	cfg := storeConfig(t, dir, program)
	for i := range cfg.Streams {
		cfg.Streams[i].Channels[0].Range = [2]float64{0, 101}
	}
	r = newRigAt(t, cfg, state)
	if h := r.service.Health(); len(h) != 1 || !strings.Contains(h[0], "1 windows that were acknowledged are "+
		"not accepted by this configuration (wrong_layout)") {
		t.Errorf("%q", h)
	}
	r.stop()
	r = newRigAt(t, storeConfig(t, dir, program), state, func(d *Deps) { d.Keys[0].AcceptUntil = time.Unix(500, 0) })
	testrig.Eventually(t, "a reason in health", func() bool { return len(r.service.Health()) > 0 })
	if h := r.service.Health(); len(h) != 1 || !strings.Contains(h[0], "(wrong_epoch)") ||
		!strings.Contains(h[0], "d1/count") {
		t.Errorf("%q", h)
	}
	r.stop()
	r = newRigAt(t, storeConfig(t, dir, program), state)
	r.sendWindow(r.window("d1", "count", 1, time.Unix(2000, 0), numbers(8, 15, 2), numbers(8, 0, 0.1)))
	r.expect("change", 5)
}
