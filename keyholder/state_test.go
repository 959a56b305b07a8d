package keyholder

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// stateRig is a key holder's state in a directory of its own.
type stateRig struct {
	t    *testing.T
	set  *Set
	path string
}

func newStateRig(t *testing.T) *stateRig {
	t.Helper()
	return &stateRig{t, newSet(t), filepath.Join(t.TempDir(), "home.state")}
}

// open starts on the state and returns what was logged.
func (s *stateRig) open() (r *Receipts, log string, err error) {
	s.t.Helper()
	var b testrig.Log
	r, err = NewReceipts(s.set, ReceiptOptions{State: s.path, Logger: b.Logger()})
	return r, b.String(), err
}

func (s *stateRig) write(name string, b []byte) {
	s.t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// A state that cannot be used stops the key holder, with the file's name and the remedy.
func TestUnusableState(t *testing.T) {
	s := newStateRig(t)
	for name, b := range map[string][]byte{"empty": {}, "damaged": []byte("{}"), "cut": {0xa1}} {
		s.write(s.path, b)
		_, _, err := s.open()
		if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), s.path) ||
			!strings.Contains(err.Error(), "move only the first one away") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A state that lost a part is logged, once.
func TestStateDamage(t *testing.T) {
	s := newStateRig(t)
	path := s.path
	records := func(n byte) (b []byte) {
		for i := range n {
			b = appendSeen(b, [16]byte{i})
		}
		return b
	}
	torn := records(3)[:3*seenRecord-1]
	bad := records(3)
	bad[seenRecord] ^= 1
	for _, c := range []struct {
		name  string
		b     []byte
		say   []string
		again string // what the next start says
		lost  int
	}{
		{"torn", torn, []string{"level=WARN", path + ".results", "19 bytes were cut"}, "the state is missing", 0},
		{"damaged", bad, []string{"level=ERROR", path + ".results", "1 records were lost"}, "the state is missing", 1},
		{"without the state", records(2), []string{"level=ERROR", "the state is missing", "missing=" + path},
			"the state is missing", 0},
		{"nothing", nil, nil, "", 0},
	} {
		s.write(path+".results", c.b)
		r, log, err := s.open()
		if err != nil {
			t.Fatal(c.name, err)
		}
		if r.Damaged() != c.lost || len(c.say) == 0 && log != "" {
			t.Errorf("%s: %d lost, %s", c.name, r.Damaged(), log)
		}
		for _, text := range c.say {
			if !strings.Contains(log, text) {
				t.Errorf("%s: the log does not say %q: %s", c.name, text, log)
			}
		}
		r.Close()
		r, log, err = s.open()
		if err != nil || c.again == "" && log != "" || !strings.Contains(log, c.again) {
			t.Errorf("%s, the next start: %s, %v", c.name, log, err)
		}
		r.Close()
	}
}

// A state without the file of what was read is logged.
func TestStateWithoutResults(t *testing.T) {
	s := newStateRig(t)
	g := transport.NewReplayGuard(0)
	key, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{"cloud": key.Public()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, Kinds: []transport.Kind{transport.KindAsk},
		Replay: g})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := transport.Seal(transport.Meta{Kind: transport.KindAsk, Device: "cloud", BootEpoch: 1, Sequence: 1},
		[]byte("x"), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.Open(sealed, v); err != nil {
		t.Fatal(err)
	}
	if err := transport.SaveReplay(g, transport.FileReplayStore(s.path)); err != nil {
		t.Fatal(err)
	}
	if r, log, err := s.open(); err != nil || !strings.Contains(log, "missing="+s.path+".results") {
		t.Errorf("%s, %v", log, err)
	} else {
		r.Close()
	}
}
