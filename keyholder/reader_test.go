package keyholder

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// cloud makes results as an evaluator would, for one epoch of a set.
type cloud struct {
	t   *testing.T
	ctx *henc.Context
	enc *henc.Encryptor
	pub *henc.PublicKey
	key *transport.SigningKey

	programs map[int]*program.Circuit // by the number of values
}

// testProgram is a program that gives n values of a channel as they are.
func testProgram(params string, n int) program.Published {
	stream := program.PublishedStream{Name: "s", Samples: n, Channels: []program.PublishedChannel{{Name: "c", Unit: "1",
		Range: [2]float64{-40, 60}}}}
	return program.Published{Name: "mean", Expr: "x", Params: params, Unit: "K",
		Inputs: map[string]program.PublishedInput{"x": {Device: "board", Channel: "c", Stream: stream}}}
}

// approve approves a program of the evaluator "cloud".
func approve(t *testing.T, s *Set, p program.Published) *program.Circuit {
	t.Helper()
	a, c, err := NewApproval("cloud", p, day0)
	if err == nil {
		err = s.Approve(a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sequence numbers every result of a test run, whichever cloud makes it.
var sequence atomic.Uint64

func newCloud(t *testing.T, s *Set, e Epoch, key *transport.SigningKey) *cloud {
	t.Helper()
	ctx, err := henc.NewContext(s.Parameters())
	if err != nil {
		t.Fatal(err)
	}
	b, err := readChecked(s, e, PublicFile)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ctx.UnmarshalPublicKey(b)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := henc.NewEncryptor(ctx, pub)
	if err != nil {
		t.Fatal(err)
	}
	programs := map[int]*program.Circuit{}
	for n := 1; n <= 2; n++ {
		programs[n] = approve(t, s, testProgram(s.params.Name(), n))
	}
	return &cloud{t: t, ctx: ctx, enc: enc, pub: pub, key: key, programs: programs}
}

func signingKey(t *testing.T) *transport.SigningKey {
	t.Helper()
	k, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// result seals values in slots 0.. of a fresh ciphertext; edit changes the
// header before it is signed.
func (c *cloud) result(values []float64, edit func(*transport.Meta)) []byte {
	c.t.Helper()
	number, circuit := sequence.Add(1), c.programs[len(values)]
	ct, err := c.enc.EncryptReal(values, circuit.Level(), circuit.Scale(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := c.ctx.MarshalCiphertext(ct)
	if err != nil {
		c.t.Fatal(err)
	}
	input, out := [32]byte{0xff}, circuit.Output()
	binary.BigEndian.PutUint64(input[1:], number)
	m := transport.Meta{
		Kind: transport.KindResult, Device: "cloud", Program: "mean", KeyID: c.pub.KeyID, KeyEpoch: c.pub.Epoch,
		BootEpoch: 1, Sequence: number, Params: c.ctx.Parameters().Hash(), Layout: circuit.Hash(),
		Inputs: [][32]byte{input}, Level: ct.Level, Scale: ct.Scale,
		Start: day0.UnixNano(), End: day0.Add(time.Minute).UnixNano(), Samples: 60,
		Post: &transport.Post{A: out.A, B: out.B, Slot: out.Slot, Count: out.Count, Bound: out.Bound},
	}
	if edit != nil {
		edit(&m)
	}
	sealed, err := transport.Seal(m, body, c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return sealed
}

func reader(t *testing.T, s *Set, o ReaderOptions) *Reader {
	t.Helper()
	r, err := NewReader(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func trust(keys ...*transport.SigningKey) map[string][]ed25519.PublicKey {
	m := map[string][]ed25519.PublicKey{}
	for _, k := range keys {
		m["cloud"] = append(m["cloud"], k.Public())
	}
	return m
}

func TestReadResult(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	r := reader(t, s, ReaderOptions{Signers: trust(key), Units: map[string]string{"mean": "degC"}})
	got, err := r.Read("hencedge/v1/res/mean", c.result([]float64{0.5, -0.25}, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{35, -2.5}
	for i, v := range got.Values {
		if math.Abs(v-want[i]) > 1 {
			t.Errorf("value %d is %g, want %g", i, v, want[i])
		}
	}
	if len(got.Values) != 2 || got.Program != "mean" || got.Evaluator != "cloud" || got.Epoch != 1 || got.Bound <= 0 ||
		got.Bound > 1 || got.Unit != "degC" ||
		got.Sequence == 0 || !got.Start.Equal(day0) || got.Samples != 60 || got.KeyID != c.pub.KeyID ||
		len(got.Sealed) == 0 {
		t.Errorf("got %+v", got)
	}
}

// TestEarlierResultsRead: results that evaluators made when they left at a higher level are read under the same
// approval, and traced. A header that mixes both is refused.
func TestEarlierResultsRead(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	p := testProgram(s.params.Name(), 64)
	p.Expr = "mean(x)"
	now := approve(t, s, p)
	src, params, err := p.Source()
	if err != nil {
		t.Fatal(err)
	}
	src.Earlier = true
	earlier, err := program.Compile(src, params)
	if err != nil {
		t.Fatal(err)
	}
	if earlier.Level() <= now.Level() || earlier.Hash() != now.Hash() || earlier.Output().Bound >= now.Output().Bound {
		t.Fatalf("level %d, now %d; promised %g, now %g", earlier.Level(), now.Level(), earlier.Output().Bound,
			now.Output().Bound)
	}
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	for _, circuit := range []*program.Circuit{earlier, now, earlier} {
		c.programs[1] = circuit
		const slot = 16
		sealed, out := c.result([]float64{slot}, nil), circuit.Output()
		got, err := r.Read("hencedge/v1/res/mean", sealed)
		if err != nil {
			t.Fatalf("level %d: %v", circuit.Level(), err)
		}
		if want := out.A*slot + out.B; math.Abs(got.Values[0]-want) > 1 || got.Bound != out.Bound {
			t.Errorf("level %d: %g +- %g, want %g +- %g", circuit.Level(), got.Values[0], got.Bound, want, out.Bound)
		}
		steps, again := r.Trace(transport.ObjectID(sealed), sealed, "mean", "", got.Start)
		if again == nil || again.Values[0] != got.Values[0] {
			t.Errorf("level %d: traced as %+v: %+v", circuit.Level(), again, steps)
		}
	}
	c.programs[1] = earlier
	mixed := c.result([]float64{16}, func(m *transport.Meta) { m.Post.Bound = now.Output().Bound })
	if _, err := r.Read("hencedge/v1/res/mean", mixed); !errors.Is(err, ErrWrongProgram) {
		t.Errorf("of an earlier level with the error promised now: %v", err)
	}
}

// TestEveryRefusalHasItsOwnError changes one thing at a time.
// One approval of a program for a class covers each device that a result names, and only
// results that name one; an approval of another program covers none of these.
func TestApprovalOfAClass(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	p := testProgram(s.params.Name(), 1)
	in := p.Inputs["x"]
	in.Device = ""
	p.Name, p.Class, p.Inputs = "each", "pump", map[string]program.PublishedInput{"x": in}
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	offered, circuit, err := NewApproval("cloud", p, day0)
	if err != nil {
		t.Fatal(err)
	}
	if text := offered.Describe(circuit); !strings.Contains(text, "x = each pump/s/c, ") ||
		!strings.Contains(text, "for each device that the evaluator counts among the class pump") {
		t.Errorf("%s", text)
	}
	of := func(device string) func(*transport.Meta) {
		return func(m *transport.Meta) { m.Program, m.Layout, m.Subject = "each", circuit.Hash(), device }
	}
	_, err = r.Read("hencedge/v1/res/each", c.result([]float64{0.5}, of("pump1")))
	if !errors.Is(err, ErrNotApproved) {
		t.Errorf("not approved: %v", err)
	}
	approve(t, s, p)
	for _, device := range []string{"pump1", "pump2"} {
		got, err := r.Read("hencedge/v1/res/each", c.result([]float64{0.5}, of(device)))
		if err != nil || got.Device != device || math.Abs(got.Values[0]-35) > 1 {
			t.Errorf("%s: %+v, %v", device, got, err)
		}
	}
	if _, err := r.Read("hencedge/v1/res/each", c.result([]float64{0.5}, of(""))); !errors.Is(err, ErrWrongProgram) {
		t.Errorf("without a device: %v", err)
	}
	_, err = r.Read("hencedge/v1/res/mean", c.result([]float64{0.5}, func(m *transport.Meta) { m.Subject = "pump1" }))
	if !errors.Is(err, ErrWrongProgram) {
		t.Errorf("a device under a program for none: %v", err)
	}
	other := p
	other.Class = "tank"
	if _, c2, err := NewApproval("cloud", other, day0); err != nil || c2.Hash() == circuit.Hash() {
		t.Errorf("the class is not part of the hash: %v", err)
	}
	p.Class = ""
	if _, _, err := NewApproval("cloud", p, day0); err == nil {
		t.Error("a program without class or device")
	}
}

func TestEveryRefusalHasItsOwnError(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	good := newCloud(t, s, s.manifest.Current(), key)
	other := newSet(t)
	foreign := newCloud(t, other, other.manifest.Current(), key)
	stranger := newCloud(t, s, s.manifest.Current(), signingKey(t))
	other13, err := Create(filepath.Join(t.TempDir(), "keys"), CreateOptions{Params: params(t, "edge12-add")})
	if err != nil {
		t.Fatal(err)
	}
	wrongParams := newCloud(t, other13, other13.manifest.Current(), key)
	one := []float64{0.5}
	flip := func(b []byte, i int) []byte {
		b = slices.Clone(b)
		b[i] ^= 1
		return b
	}
	plain := good.result(one, nil)
	replay := good.result(one, nil)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	if _, err := r.Read("", replay); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		topic  string
		sealed []byte
		want   error
	}{
		{"key of another set", "", foreign.result(one, nil), ErrWrongKey},
		{"known key, other epoch", "", good.result(one, func(m *transport.Meta) { m.KeyEpoch = 5 }), ErrWrongEpoch},
		{"epoch that the set misses", "", foreign.result(one, func(m *transport.Meta) { m.KeyEpoch = 2 }),
			ErrWrongEpoch},
		{"unknown signer", "", stranger.result(one, nil), ErrUnknownSigner},
		{"name of another evaluator", "", good.result(one, func(m *transport.Meta) { m.Device = "cloud2" }),
			ErrUnknownSigner},
		{"other parameters", "", wrongParams.result(one, nil), ErrWrongParams},
		{"parameters in the body only", "", wrongParams.result(one, func(m *transport.Meta) {
			m.Params, m.KeyID = s.params.Hash(), good.pub.KeyID
		}), ErrWrongParams},
		{"level in the header only", "", good.result(one, func(m *transport.Meta) { m.Level = 1 }), ErrTampered},
		{"scale in the header only", "", good.result(one, func(m *transport.Meta) { m.Scale *= 2 }), ErrTampered},
		{"bit of the ciphertext", "", flip(plain, len(plain)/2), ErrTampered},
		{"bit of the signature", "", flip(plain, len(plain)-1), ErrTampered},
		{"truncated", "", plain[:len(plain)-10], ErrTampered},
		{"empty", "", nil, ErrTampered},
		{"other topic", "hencedge/v1/res/other", plain, ErrTampered},
		{"slots that do not exist", "", good.result(one, func(m *transport.Meta) { m.Post.Slot = 4000 }),
			ErrWrongProgram},
		{"another factor", "", good.result(one, func(m *transport.Meta) { m.Post.A *= 1 + 0x1p-30 }), ErrWrongProgram},
		{"another program", "", good.result(one, func(m *transport.Meta) { m.Layout[0] ^= 1 }), ErrNotApproved},
		{"another name", "", good.result(one, func(m *transport.Meta) { m.Program = "other" }), ErrNotApproved},
		{"a reading", "", good.result(one, func(m *transport.Meta) {
			m.Kind, m.Program, m.Stream, m.Post, m.Inputs = transport.KindReading, "", "x", nil, nil
		}), ErrNotResult},
		{"no way to read it", "", good.result(one, func(m *transport.Meta) { m.Post = nil }), ErrNotResult},
		{"replayed", "", replay, transport.ErrReplayed},
	}
	classes := []error{ErrNotApproved, ErrWrongProgram, ErrWrongKey, ErrWrongEpoch, ErrTampered, ErrUnknownSigner,
		ErrWrongParams, ErrNotResult}
	for _, c := range cases {
		_, err := r.Read(c.topic, c.sealed)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		for _, other := range classes {
			if other != c.want && errors.Is(err, other) {
				t.Errorf("%s: is also %v", c.name, other)
			}
		}
	}
	// None of it disturbs what follows.
	if _, err := r.Read("", good.result(one, nil)); err != nil {
		t.Errorf("after the refusals: %v", err)
	}
}

func TestOldEpochStillDecrypts(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	first := newCloud(t, s, s.manifest.Current(), key)
	stored := first.result([]float64{0.5}, nil)
	if _, err := s.Rotate(RotateOptions{Overlap: time.Hour, Now: at(day0.AddDate(0, 1, 0))}); err != nil {
		t.Fatal(err)
	}
	second := newCloud(t, s, s.manifest.Current(), key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	if got, err := r.Read("", stored); err != nil || got.Epoch != 1 {
		t.Errorf("old epoch: %+v, %v", got, err)
	}
	if got, err := r.Read("", second.result([]float64{0.5}, nil)); err != nil || got.Epoch != 2 {
		t.Errorf("new epoch: %+v, %v", got, err)
	}
	late := first.result([]float64{0.5}, func(m *transport.Meta) {
		m.Start, m.End = day0.AddDate(0, 2, 0).UnixNano(), day0.AddDate(0, 2, 0).UnixNano()
	})
	if _, err := r.Read("", late); !errors.Is(err, ErrWrongEpoch) {
		t.Errorf("after the overlap: %v", err)
	}
}

// TestReaderFollowsARotation: results of an epoch that was made after the reader are
// read, once each; what was seen before stays seen. A key that cannot be read, or
// another key set in the directory, is told.
func TestReaderFollowsARotation(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	first := newCloud(t, s, s.manifest.Current(), key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	old := first.result([]float64{0.5}, nil)
	if _, err := r.Read("", old); err != nil {
		t.Fatal(err)
	}
	again, err := Open(s.Dir()) // another process
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Rotate(RotateOptions{Overlap: time.Hour, Now: at(day0.AddDate(0, 1, 0))}); err != nil {
		t.Fatal(err)
	}
	second := newCloud(t, again, again.manifest.Current(), key)
	secretFile := filepath.Join(s.Dir(), again.manifest.Current().Dir(), SecretFile)
	if err := os.Chmod(secretFile, 0o644); err != nil {
		t.Fatal(err)
	}
	fresh := second.result([]float64{0.5}, nil)
	if _, err := r.Read("", fresh); !errors.Is(err, ErrWrongEpoch) || !errors.Is(err, ErrPermissions) {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := os.Chmod(secretFile, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Read("", fresh); err != nil || got.Epoch != 2 {
		t.Errorf("the new epoch: %+v, %v", got, err)
	}
	for what, sealed := range map[string][]byte{"before the rotation": old, "after it": fresh} {
		if _, err := r.Read("", sealed); !errors.Is(err, transport.ErrReplayed) {
			t.Errorf("a result that was read %s: %v", what, err)
		}
	}
	if got, err := r.Read("", first.result([]float64{0.5}, nil)); err != nil || got.Epoch != 1 {
		t.Errorf("the old epoch in its overlap: %+v, %v", got, err)
	}

	stranger := newSet(t)
	foreign := newCloud(t, stranger, stranger.manifest.Current(), key)
	if _, err := r.Read("", foreign.result([]float64{0.5}, nil)); !errors.Is(err, ErrWrongKey) {
		t.Errorf("another key set: %v", err)
	}
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(stranger.Dir(), s.Dir()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read("", foreign.result([]float64{0.5}, nil)); !errors.Is(err, ErrWrongKey) ||
		!strings.Contains(err.Error(), "holds another key set than at the start") {
		t.Errorf("another key set in the directory: %v", err)
	}
}

func TestArchiveReadsInAnyOrderAndAgain(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	var stored [][]byte
	for boot := range uint64(3) {
		stored = append(stored, c.result([]float64{0.5}, func(m *transport.Meta) { m.BootEpoch = 3 - boot }))
	}
	r := reader(t, s, ReaderOptions{Signers: trust(key), Archive: true})
	for _, i := range []int{2, 0, 1, 0, 0} {
		if _, err := r.Read("", stored[i]); err != nil {
			t.Errorf("object %d: %v", i, err)
		}
	}
}

func TestReaderNeedsSignersAndEndsWithClose(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	if _, err := NewReader(s, ReaderOptions{}); err == nil {
		t.Error("a reader that trusts nobody was made")
	}
	if _, err := NewReader(s,
		ReaderOptions{Signers: map[string][]ed25519.PublicKey{"a/b": {key.Public()}}}); err == nil {
		t.Error("an invalid name was accepted")
	}
	c := newCloud(t, s, s.manifest.Current(), key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	if _, err := r.Read("", c.result([]float64{0.5}, nil)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read("", c.result([]float64{0.5}, nil)); err == nil {
		t.Error("a closed reader decrypted")
	}
}

func TestVerifyNeedsNoSecret(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	r := reader(t, s, ReaderOptions{Signers: trust(key), Archive: true})
	if _, err := r.Verify("", c.result([]float64{0.5}, nil)); err != nil {
		t.Fatal(err)
	}
	if len(r.keys) != 0 {
		t.Error("verifying loaded a secret key")
	}
}

// A result across devices is read as the approved program gives it for the windows that its
// header counts, and under no other approval.
func TestApprovalAcrossDevices(t *testing.T) {
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	p := testProgram(s.params.Name(), 4)
	in := p.Inputs["x"]
	in.Device = ""
	p.Name, p.Class, p.Expr, p.Inputs = "all", "pump", "fleet.mean(x)", map[string]program.PublishedInput{"x": in}
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	offered, circuit, err := NewApproval("cloud", p, day0)
	if err != nil {
		t.Fatal(err)
	}
	if text := offered.Describe(circuit); !strings.Contains(text, "x = all pump/s/c, ") ||
		!strings.Contains(text, "across all devices that the evaluator counts among the class pump") ||
		!strings.Contains(text, "for 1, ") {
		t.Errorf("%s", text)
	}
	approve(t, s, p)
	samples := in.Stream.Samples
	across := func(windows int, edit func(*transport.Meta)) []byte {
		rest, err := circuit.Across(windows, int64(windows*samples))
		if err != nil {
			t.Fatal(err)
		}
		c.programs[1] = rest
		return c.result([]float64{0.5 * float64(windows*samples)}, func(m *transport.Meta) {
			ids := make([][32]byte, windows)
			for i := range ids {
				ids[i] = [32]byte{byte(i), byte(i >> 8), 1}
			}
			m.Program = "all"
			m.SetFleet(ids, windows, uint64(windows*samples))
			if edit != nil {
				edit(m)
			}
		})
	}
	mid, half := 10.0, 50.0 // see testProgram
	for _, windows := range []int{1, 3, 300} {
		got, err := r.Read("hencedge/v1/res/all", across(windows, nil))
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Values[0]-(mid+half*0.5)) > 1 || int(got.Fleet.Windows) != windows || got.Device != "" ||
			len(got.Inputs) != windows && windows <= transport.MaxInputs {
			t.Errorf("%d windows: %v, %+v", windows, got.Values, got.Fleet)
		}
		text, err := json.Marshal(got)
		counts := fmt.Sprintf(`"fleet":{"devices":%d,"windows":%d,`, windows, windows)
		if err != nil || !strings.Contains(string(text), counts) {
			t.Errorf("%s, %v", text, err)
		}
	}
	for name, edit := range map[string]func(*transport.Meta){
		"of more samples":  func(m *transport.Meta) { m.Fleet.Samples++ },
		"of fewer samples": func(m *transport.Meta) { m.Fleet.Samples-- },
		"of one device":    func(m *transport.Meta) { m.Fleet, m.Subject = nil, "pump1" },
		"without devices":  func(m *transport.Meta) { m.Fleet = nil },
	} {
		if _, err := r.Read("hencedge/v1/res/all", across(2, edit)); !errors.Is(err, ErrWrongProgram) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.programs[1] = approve(t, s, testProgram(s.params.Name(), 1))
	_, err = r.Read("hencedge/v1/res/mean", c.result([]float64{0.5}, func(m *transport.Meta) {
		m.SetFleet([][32]byte{{1}}, 1, 1)
	}))
	if !errors.Is(err, ErrWrongProgram) {
		t.Errorf("across devices under a program for one: %v", err)
	}
}
