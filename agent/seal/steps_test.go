package seal

import (
	"errors"
	"slices"
	"strings"
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

// wholeRig seals windows of whole numbers and opens them again.
type wholeRig struct {
	t      *testing.T
	stream config.Stream
	keys   *Keys
	key    *secret.Key
	ints   *bfv.Context
	opener *transport.Verifier
}

func newWholeRig(t *testing.T, s config.Stream) *wholeRig {
	t.Helper()
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
	ints, err := bfv.ContextOf(ctx)
	if err != nil {
		t.Fatal(err)
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
	return &wholeRig{t, s, k, key, ints, verifier}
}

// seal seals a window with the samples of each channel.
func (r *wholeRig) seal(channels ...[]float64) (*Sealed, error) {
	w := &source.Window{Samples: len(channels[0]), Start: time.Unix(1, 0), End: time.Unix(2, 0), Values: channels}
	p := r.keys.Context.Parameters()
	return r.keys.Seal(&Stream{Config: r.stream, Level: p.MaxLevel(), Scale: henc.DefaultT,
		Layout: r.stream.LayoutHash()}, w, Identity{Device: "board1", Boot: 1, Sequence: 1}, testrig.NewClock())
}

// open returns the ciphertext of a window, whose header it checks.
func (r *wholeRig) open(out *Sealed, samples int) *bfv.Ciphertext {
	r.t.Helper()
	obj, err := transport.Open(out.Object, r.opener)
	if err != nil {
		r.t.Fatal(err)
	}
	top := r.ints.Parameters().Base().MaxLevel()
	if m := obj.Meta; m.Scale != henc.DefaultT || m.Level != top || m.Samples != uint32(samples) ||
		len(obj.Body) != out.Body {
		r.t.Errorf("header %+v", m)
	}
	ct, err := r.ints.Unmarshal(obj.Body, r.ints.Parameters().Noise().FreshPK())
	if err != nil {
		r.t.Fatal(err)
	}
	return ct
}

// TestSteps: a row is encrypted as the bits of its nearest steps, whose header names the plaintext modulus.
func TestSteps(t *testing.T) {
	r := newWholeRig(t, stepsStream())
	code, _, err := Row(r.stream, r.keys.Context.Parameters())
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
		out, err := r.seal(c.values[:1], c.values[1:])
		if err != nil {
			t.Fatal(err)
		}
		got, err := secret.NewIntegerDecryptor(r.ints, r.key).Coeffs(r.open(out, 1))
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
	if _, err := r.seal([]float64{1}); err == nil {
		t.Error("a row of one reading was sealed for two channels")
	}
	if _, err := r.seal([]float64{1, 2}, []float64{400, 500}); err == nil {
		t.Error("two rows were sealed as one")
	}
	if err := (&Keys{Context: r.keys.Context}).useSecret(r.key); !errors.Is(err, ErrKey) {
		t.Errorf("symmetric: %v", err)
	}
}

// TestDigits: samples are encrypted as the digits of their nearest steps, in the slots that docs/wire-format.md names.
func TestDigits(t *testing.T) {
	s := config.Stream{Name: "level", Mode: config.ModeDigits, Params: "bfv13", Interval: time.Second,
		Window:   config.Window{Samples: 200},
		Channels: []config.Channel{{Name: "h", Unit: "m", Range: [2]float64{0, 4}, Resolution: 0.001}}}
	s.SetDefaults()
	r := newWholeRig(t, s)
	values := []float64{0, 4, 1.2344, 1.2346, -3, 17, 0.001, 2.048, 3.999}
	steps := []int{0, 4000, 1234, 1235, 0, 4000, 1, 2048, 3999}
	for len(values) < 150 { // the second row of slots too
		values, steps = append(values, float64(len(values))/100), append(steps, 10*len(values))
	}
	out, err := r.seal(values)
	if err != nil {
		t.Fatal(err)
	}
	got, err := secret.NewIntegerDecryptor(r.ints, r.key).Slots(r.open(out, len(values)))
	if err != nil {
		t.Fatal(err)
	}
	const lanes = 8192 / 2 / 32 // 8 digits of 4 places
	want := make([]uint64, 8192)
	for i, v := range steps {
		for d := range 8 {
			for k := 1; k <= 3; k++ {
				if v>>(2*d)&3 >= k {
					want[i/lanes*4096+(4*d+k)*lanes+i%lanes] = 1
				}
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Error("the slots are not those of the samples' digits")
	}
	if _, err := r.seal(values, values); err == nil {
		t.Error("two channels were sealed as one")
	}
	if _, _, err := Digits(stepsStream(), r.keys.Context.Parameters()); err == nil {
		t.Error("digits of two channels")
	}
	s.Window.Samples = 257
	_, _, err = Digits(s, r.keys.Context.Parameters())
	if err == nil || !strings.Contains(err.Error(), "room for 256") {
		t.Errorf("a window that is too long: %v", err)
	}
}
