package keyholder

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/transport"
)

// A state that cannot be used stops the key holder with the file's name and the remedy;
// one that lost a part is told, once.
func TestStateDamage(t *testing.T) {
	set := newSet(t)
	path := filepath.Join(t.TempDir(), "home.state")
	open := func() (r *Receipts, log string, err error) {
		t.Helper()
		var b bytes.Buffer
		r, err = NewReceipts(set, ReceiptOptions{State: path, Logger: slog.New(slog.NewTextHandler(&b, nil))})
		return r, b.String(), err
	}
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string][]byte{"empty": {}, "damaged": []byte("{}"), "cut": {0xa1}} {
		write(path, b)
		_, _, err := open()
		if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "move only the first one away") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
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
		write(path+".results", c.b)
		r, log, err := open()
		if err != nil {
			t.Fatal(c.name, err)
		}
		if r.Damaged() != c.lost || len(c.say) == 0 && log != "" {
			t.Errorf("%s: %d lost, %s", c.name, r.Damaged(), log)
		}
		for _, s := range c.say {
			if !strings.Contains(log, s) {
				t.Errorf("%s: the log does not say %q: %s", c.name, s, log)
			}
		}
		r.Close()
		r, log, err = open()
		if err != nil || c.again == "" && log != "" || !strings.Contains(log, c.again) {
			t.Errorf("%s, the next start: %s, %v", c.name, log, err)
		}
		r.Close()
	}
	// A state without the other file.
	if err := os.Remove(path + ".results"); err != nil {
		t.Fatal(err)
	}
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
	if err := transport.SaveReplay(g, transport.FileReplayStore(path)); err != nil {
		t.Fatal(err)
	}
	if r, log, err := open(); err != nil || !strings.Contains(log, "missing="+path+".results") {
		t.Errorf("%s, %v", log, err)
	} else {
		r.Close()
	}
}
