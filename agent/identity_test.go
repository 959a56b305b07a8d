package agent

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// A window under a new number is the same ciphertext, signed by the same device, in
// another boot epoch, which the first of them begins. What this device did not sign
// gets none.
func TestRenumber(t *testing.T) {
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	a, err := New(testConfig(t), deps)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	seal := func(sequence uint64, key *transport.SigningKey) []byte {
		t.Helper()
		sealed, err := transport.Seal(transport.Meta{Kind: transport.KindReading, Device: "board1", Stream: "system",
			BootEpoch: a.state.Boot(), Sequence: sequence,
			Level: 1, Scale: 1024, Samples: 4, Start: 5, End: 9}, []byte("ciphertext"), key)
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	first, second, boot := seal(100, k.signing), seal(101, k.signing), a.state.Boot()
	trust := transport.NewTrustStore()
	if err := trust.AddDevice("board1", k.signing.Public()); err != nil {
		t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, AnyParams: true, AnyKey: true})
	if err != nil {
		t.Fatal(err)
	}
	var epochs []uint64
	for i, sealed := range [][]byte{first, second} {
		again, err := a.renumber(sealed)
		if err != nil {
			t.Fatal(err)
		}
		o, err := transport.Open(again, v)
		if err != nil || string(o.Body) != "ciphertext" || o.Meta.Sequence != uint64(i) || o.Meta.Start != 5 ||
			o.Meta.Samples != 4 {
			t.Errorf("%+v, %v", o, err)
		}
		epochs = append(epochs, o.Meta.BootEpoch)
	}
	if epochs[0] <= boot || epochs[1] != epochs[0] || a.state.Boot() != epochs[0] {
		t.Errorf("boot epochs %v after %d, now %d", epochs, boot, a.state.Boot())
	}
	stranger, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.renumber(seal(1, stranger)); !errors.Is(err, transport.ErrUnknownSigner) {
		t.Errorf("another one's window: %v", err)
	}
}

// Windows of another device are refused at the start, by name and number; those of
// this one under an earlier topic prefix are its own.
func TestForeignSpool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	fill := func(topic string, n int) {
		t.Helper()
		s, err := spool.Open(spool.Options{Dir: dir, Logger: testrig.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		for range n {
			if err := s.Put(t.Context(),
				spool.Item{Stream: "system", Topic: topic, Sealed: []byte(topic)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	cfg := withSpool(t, testConfig(t), dir)
	deps, _ := testDeps(t, &fakeClient{})
	fill("old/prefix/up/board1/system", 1)
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, deps); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second agent: %v", err)
	}
	cfg2 := *cfg
	cfg2.State = filepath.Join(t.TempDir(), "state")
	if _, err := New(&cfg2, deps); !errors.Is(err, spool.ErrLocked) {
		t.Errorf("a second agent with a state of its own: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	fill("hencedge/v1/up/board7/system", 2)
	if _, err := New(cfg, deps); !errors.Is(err, ErrSpool) ||
		!strings.Contains(err.Error(), `2 windows of the device "board7"`) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	if s, err := spool.Open(spool.Options{Dir: dir, Logger: testrig.Quiet()}); err != nil || s.Stats().Objects != 3 {
		t.Errorf("the refusal changed the spool, or held on to it: %v", err)
	} else {
		s.Release()
	}
}
