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
	h := newMarkedStore(t)
	h.good("the first start")
	h.copied(h.dir, h.at("backup"))
	stateCopy, err := os.ReadFile(h.state)
	if err != nil {
		t.Fatal(err)
	}
	h.good("the second start")
	h.move(h.dir, h.at("real"))
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h.refused(h.state, h.dir, "Put it there", "move "+h.state+" away")
	h.move(h.state, h.at("state.real"))
	h.good("without both")
	h.move(h.dir, h.at("other"))
	h.move(h.state, h.at("state.other"))
	h.move(h.at("state.real"), h.state)
	h.copied(h.at("other"), h.dir)
	h.refused("is not the one that belongs to", h.state, h.dir)
	h.removed(h.dir)
	h.move(h.at("real"), h.dir)
	h.good("the store is back")
	h.write(h.state, stateCopy)
	h.good("an old copy of the state")
	h.removed(h.dir)
	h.copied(h.at("backup"), h.dir)
	if health, err := h.start(); err != nil || len(health) != 1 || !strings.Contains(health[0], "is an old copy") {
		t.Errorf("an old copy of the store: %q, %v", health, err)
	}
	h.good("after it")
	mark := filepath.Join(h.dir, store.MarkFile)
	h.write(mark, nil)
	h.refused(mark, "damaged")
	h.removed(mark)
	h.good("the mark alone is lost")
	h.cfg.Store = &config.Store{Dir: h.dir}
	h.cfg.SetDefaults()
	h.cfg.Name = "cloud2"
	h.removed(h.state)
	h.refused("belongs to evaluator")
}

// markedStore is an evaluator that is started again and again over a state file and a
// store, both in one directory with what is moved away.
type markedStore struct {
	*testing.T
	home, dir, state string
	cfg              *config.Evaluator
	keys             engine.Keys
}

func newMarkedStore(t *testing.T) *markedStore {
	t.Helper()
	home := t.TempDir()
	h := &markedStore{T: t, home: home, dir: filepath.Join(home, "store"), state: filepath.Join(home, "state")}
	h.cfg = storeConfig(t, h.dir, prog("mean", "mean(x)", inputs("d1/count/temp")))
	h.cfg.State = h.state
	holder := testHolder(t)
	h.keys = engine.Keys{Context: holder.ctx, Evaluation: holder.keys}
	return h
}

func (h *markedStore) at(name string) string { return filepath.Join(h.home, name) }

// start starts and ends the evaluator. It returns what it says of its health.
func (h *markedStore) start() (health []string, err error) {
	h.Helper()
	s, err := New(h.cfg, Deps{SigningKey: signer(h.T, "cloud"), Keys: []engine.Keys{h.keys}, Logger: testrig.Quiet()})
	if err != nil {
		return nil, err
	}
	health = s.Health()
	return health, s.Close()
}

// good expects a start without a word.
func (h *markedStore) good(what string) {
	h.Helper()
	if health, err := h.start(); err != nil || len(health) != 0 {
		h.Errorf("%s: %q, %v", what, health, err)
	}
}

// refused expects a start that fails.
func (h *markedStore) refused(words ...string) {
	h.Helper()
	_, err := h.start()
	wantError(h.T, err, store.ErrState, words...)
}

func (h *markedStore) move(from, to string) {
	h.Helper()
	if err := os.Rename(from, to); err != nil {
		h.Fatal(err)
	}
}

func (h *markedStore) copied(from, to string) {
	h.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		h.Fatal(err)
	}
}

func (h *markedStore) removed(path string) {
	h.Helper()
	if err := os.RemoveAll(path); err != nil {
		h.Fatal(err)
	}
}

func (h *markedStore) write(path string, text []byte) {
	h.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		h.Fatal(err)
	}
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
