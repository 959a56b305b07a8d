package seal

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// stepsStream has two channels.
func stepsStream() config.Stream {
	s := config.Stream{Name: "machine", Mode: config.ModeSteps, Params: "bfv13", Interval: time.Second,
		Window: config.Window{Samples: 1}, Channels: []config.Channel{
			{Name: "t", Unit: "degC", Range: [2]float64{-40, 125}, Resolution: 0.25},
			{Name: "p", Unit: "hPa", Range: [2]float64{300, 1100}, Resolution: 0.02}}}
	s.SetDefaults()
	return s
}

// TestSteps: a row is encrypted as the bits of its nearest steps, whose header names the plaintext modulus.
func TestSteps(t *testing.T) {
	s := stepsStream()
	params, err := henc.Named(s.Params)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(params)
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	signing, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	k := &Keys{Context: ctx}
	t.Cleanup(k.Wipe)
	cfg := &config.Agent{Device: "board1", Streams: []config.Stream{s}}
	k.Load(cfg, Given{Public: public, Signing: signing}, func(path string, err error) { t.Errorf("%s: %v", path, err) })
	code, _, err := Row(s, params)
	if err != nil {
		t.Fatal(err)
	}
	ints, err := bfv.ContextOf(ctx)
	if err != nil {
		t.Fatal(err)
	}
	seal := func(values ...float64) (*Sealed, error) {
		w := &source.Window{Samples: 1, Start: time.Unix(1, 0), End: time.Unix(2, 0)}
		for _, v := range values {
			w.Values = append(w.Values, []float64{v})
		}
		return k.Seal(&Stream{Config: s, Level: params.MaxLevel(), Scale: henc.DefaultT, Layout: s.LayoutHash()}, w,
			Identity{Device: "board1", Boot: 1, Sequence: 1}, testrig.NewClock())
	}
	trust := transport.NewTrustStore()
	if err := trust.AddDevice("board1", signing.Public()); err != nil {
		t.Fatal(err)
	}
	verifier, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds: []transport.Kind{transport.KindReading}, Params: [][32]byte{params.Hash()}, NoReplay: true,
		Keys:   []transport.KeyRef{{ID: public.KeyID, Epoch: public.Epoch}},
		Layout: func(string, string) ([32]byte, bool) { return s.LayoutHash(), true }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values []float64
		row    []int
	}{
		{[]float64{-40, 300}, []int{0, 0}}, {[]float64{125, 1100}, []int{660, 40000}},
		{[]float64{20.1, 1013.249}, []int{240, 35662}}, {[]float64{-400, 2000}, []int{0, 40000}},
	} {
		out, err := seal(c.values...)
		if err != nil {
			t.Fatal(err)
		}
		obj, err := transport.Open(out.Object, verifier)
		if err != nil {
			t.Fatal(err)
		}
		if m := obj.Meta; m.Scale != henc.DefaultT || m.Level != 0 || m.Samples != 1 || len(obj.Body) != out.Body {
			t.Errorf("header %+v", m)
		}
		ct, err := ints.Unmarshal(obj.Body, ints.Parameters().Noise().FreshPK())
		if err != nil {
			t.Fatal(err)
		}
		got, err := secret.NewIntegerDecryptor(ints, key).Coeffs(ct)
		if err != nil {
			t.Fatal(err)
		}
		want, err := code.Bits(c.row)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, make([]uint64, len(got)-len(want))...)
		for i := range got { // separated, a bit counts 2^Log times
			got[i] = got[i] << code.Log() % henc.DefaultT
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: the bits are not those of %v", c.values, c.row)
		}
	}
	if _, err := seal(1); err == nil {
		t.Error("a row of one reading was sealed for two channels")
	}
	if err := (&Keys{Context: ctx}).useSecret(key); !errors.Is(err, ErrKey) {
		t.Errorf("symmetric: %v", err)
	}
}
