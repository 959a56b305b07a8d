package seal

import (
	"bytes"
	"crypto/sha256"
	"math"
	"testing"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// TestCopiesOfAMachine: two machines with the same name, boot, counters and clock, whose
// kernels draw the same bytes, so that a seed depends on its hedges alone, encrypt
// different windows, or one at two scales or under two keys, with different randomness.
// In symmetric mode the same would give c0' - c0 = m' - m, under two public keys
// v*(b' - b), and with it the window.
func TestCopiesOfAMachine(t *testing.T) {
	params, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	hctx, err := henc.NewContext(params)
	if err != nil {
		t.Fatal(err)
	}
	sk, err := secret.Generate(hctx, &henc.Seed{1})
	if err != nil {
		t.Fatal(err)
	}
	public, err := sk.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	signing, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Stream{Name: "s", Window: config.Window{Samples: 4}, Params: "edge12-d1", Channels: []config.Channel{
		{Name: "a", Range: [2]float64{-40, 125}}, {Name: "b", Range: [2]float64{0, 100}},
		{Name: "c", Range: [2]float64{0, 64}}}}
	cfg.SetDefaults()
	k := &Keys{Context: hctx, encryptor: secret.NewSeededEncryptor(hctx, sk), ID: public.KeyID, Seeded: true,
		Signing: signing,
		newSeed: func(hedge ...[]byte) (*henc.Seed, error) {
			seed := henc.Seed(sha256.Sum256(bytes.Join(hedge, []byte{0})))
			return &seed, nil
		}}
	place := 0
	seal := func(value, scale float64) *henc.Ciphertext {
		s := &Stream{Config: cfg, Level: 1, Scale: scale, Place: place}
		w := &source.Window{Samples: 4, Values: [][]float64{{value, 1, 2, 3}, {0, 0, 0, 0}, {0, 0, 0, 0}}}
		out, err := k.Seal(s, w, Identity{Device: "board1", Boot: 1, Sequence: 1, BootID: []byte("boot")},
			testrig.NewClock())
		if err != nil {
			t.Fatal(err)
		}
		trust := transport.NewTrustStore()
		if err := trust.AddDevice("board1", k.Signing.Public()); err != nil {
			t.Fatal(err)
		}
		v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, AnyParams: true, AnyKey: true})
		if err != nil {
			t.Fatal(err)
		}
		o, err := transport.Open(out.Object, v)
		if err != nil {
			t.Fatal(err)
		}
		if o.Meta.Place != uint32(place) {
			t.Errorf("the header says place %d, want %d", o.Meta.Place, place)
		}
		ct, err := hctx.UnmarshalCiphertext(o.Body)
		if err != nil {
			t.Fatal(err)
		}
		return ct
	}
	a, again, b, finer := seal(20, 0x1p26), seal(20, 0x1p26), seal(21, 0x1p26), seal(20, 0x1p27)
	k.ID[0] ^= 1
	other := seal(20, 0x1p26)
	if !bytes.Equal(a.Seed[:], again.Seed[:]) {
		t.Fatal("equal windows of equal machines differ: the test does not test what it says")
	}
	k.ID[0] ^= 1
	cfg.Places, place = 4, 3
	placed := seal(20, 0x1p26)
	for what, ct := range map[string]*henc.Ciphertext{"two windows": b, "two scales": finer, "two keys": other,
		"two places": placed} {
		if bytes.Equal(a.Seed[:], ct.Seed[:]) {
			t.Errorf("%s, and the same randomness", what)
		}
	}
	// The samples stand at the place, with zeros elsewhere.
	dec := secret.NewDecryptor(hctx, sk)
	at0, err := dec.DecryptReal(a)
	if err != nil {
		t.Fatal(err)
	}
	at3, err := dec.DecryptReal(placed)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range at3 {
		want := 0.0
		if first := 3 * params.Slots() / 4; i >= first {
			want = at0[i-first]
		}
		if math.Abs(v-want) > 1e-4 {
			t.Fatalf("slot %d holds %g, want %g", i, v, want)
		}
	}
}
