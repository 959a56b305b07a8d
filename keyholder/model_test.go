package keyholder

import (
	"encoding/hex"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/transport"
)

// modelProgram is a model of one tree whose class is learned.
func modelProgram() program.Published {
	stream := program.PublishedStream{Name: "s", Packing: "steps", Samples: 1, Channels: []program.PublishedChannel{
		{Name: "c", Unit: "1", Range: [2]float64{-40, 60}, Resolution: 0.5}}}
	return program.Published{Name: "state", Expr: "anything", Params: "bfv13", Unit: "1",
		Inputs: map[string]program.PublishedInput{"x": {Device: "board", Channel: "c", Stream: stream}},
		Model: &answer.Model{File: "tree.json", SHA256: strings.Repeat("0f", 32), Answer: answer.Class,
			Features: []string{"x"}, Classes: []string{"good", "worn", "broken"}, Link: "identity", Decided: true,
			Splits: 3, Trees: 1, Outputs: 1, Words: 1, Bits: 16, Divisor: 1, Bound: 2}}
}

// modelCloud makes results of a program on whole numbers.
type modelCloud struct {
	t       *testing.T
	ctx     *bfv.Context
	enc     *bfv.Encryptor
	pub     *henc.PublicKey
	circuit *program.Circuit
	key     *transport.SigningKey
}

func newModelCloud(t *testing.T, s *Set, key *transport.SigningKey, p program.Published) *modelCloud {
	t.Helper()
	params, err := bfv.Named("bfv13", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := bfv.NewContext(params)
	if err != nil {
		t.Fatal(err)
	}
	b, err := readChecked(s, s.manifest.Current(), PublicFile)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ctx.Base().UnmarshalPublicKey(b)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := bfv.NewEncryptor(ctx, pub)
	if err != nil {
		t.Fatal(err)
	}
	return &modelCloud{t, ctx, enc, pub, approve(t, s, p), key}
}

// body is a result's: one ciphertext for each list of slots.
func (c *modelCloud) body(all ...[]uint64) []byte {
	c.t.Helper()
	out := answer.Begin(nil, len(all))
	for _, slots := range all {
		pt, err := c.ctx.EncodeSlots(slots)
		if err != nil {
			c.t.Fatal(err)
		}
		ct, err := c.enc.Encrypt(pt, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		p := c.ctx.Parameters()
		ct, err = bfv.NewEvaluator(c.ctx, nil).ModSwitch(ct, p.Base().MaxLevel()-p.LowestLevel())
		if err != nil {
			c.t.Fatal(err)
		}
		if out, err = c.ctx.Base().AppendCiphertext(out, c.ctx.Scaled(ct)); err != nil {
			c.t.Fatal(err)
		}
	}
	return out
}

func (c *modelCloud) result(body []byte, edit func(*transport.Meta)) []byte {
	c.t.Helper()
	number := sequence.Add(1)
	m := transport.Meta{
		Kind: transport.KindResult, Device: "cloud", Program: c.circuit.Name(),
		KeyID: c.pub.KeyID, KeyEpoch: c.pub.Epoch,
		BootEpoch: 1, Sequence: number, Params: c.ctx.Parameters().Base().Hash(), Layout: c.circuit.Hash(),
		Inputs: make([][32]byte, len(c.circuit.Inputs())), Level: c.circuit.Level(), Scale: c.circuit.Scale(),
		Start: day0.UnixNano(), End: day0.Add(time.Minute).UnixNano(), Samples: 1,
		Post: &transport.Post{A: 1, Count: c.circuit.Output().Count},
	}
	for i := range m.Inputs {
		m.Inputs[i] = [32]byte{byte(number), byte(i)}
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

// TestModelResults: the holder of the key reads the class that a result holds, takes whatever decrypts, and refuses
// what is no result of the approved model before it decrypts.
func TestModelResults(t *testing.T) {
	params, err := henc.Named("bfv13")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Create(filepath.Join(t.TempDir(), "keys"), CreateOptions{Params: params,
		Needs: Needs{Rotations: []int{}}})
	if err != nil {
		t.Fatal(err)
	}
	if e := s.manifest.Current(); !slices.Equal(e.Rotations, bfv.KeyRotations(params)) || !e.Conjugation ||
		!e.Relinearise {
		t.Errorf("keys %v, conjugation %t, relinearisation %t", e.Rotations, e.Conjugation, e.Relinearise)
	}
	key := signingKey(t)
	c := newModelCloud(t, s, key, modelProgram())
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	n := params.N()
	test, values := slices.Repeat([]uint64{5}, n), slices.Repeat([]uint64{40000}, n)
	test[77], values[77] = 0, 2
	for what, want := range map[string]struct {
		body  []byte
		value float64
	}{
		"a class":         {c.body(test, values), 2},
		"two blocks":      {c.body(slices.Repeat([]uint64{5}, n), values, test, values), 2},
		"no leaf":         {c.body(slices.Repeat([]uint64{5}, n), values), math.MaxFloat64},
		"a leaf too many": {c.body(test, values, test, values), math.MaxFloat64},
	} {
		got, err := r.Read("", c.result(want.body, nil))
		if err != nil || len(got.Values) != 1 || got.Values[0] != want.value || got.Bound != 0 {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	whole := c.body(test, values)
	for what, bad := range map[string]struct {
		sealed []byte
		want   error
	}{
		"a ciphertext too few": {c.result(c.body(test), nil), ErrTampered},
		"cut short":            {c.result(whole[:len(whole)-2], nil), ErrTampered},
		"empty":                {c.result(nil, nil), ErrTampered},
		"no count":             {c.result(whole[answer.BodyRoom:], nil), ErrTampered},
		"another scale":        {c.result(whole, func(m *transport.Meta) { m.Scale = 2 }), ErrTampered},
		"another model":        {c.result(whole, func(m *transport.Meta) { m.Layout[0] ^= 1 }), ErrNotApproved},
		"two values":           {c.result(whole, func(m *transport.Meta) { m.Post.Count = 2 }), ErrWrongProgram},
	} {
		if got, err := r.Read("", bad.sealed); !errors.Is(err, bad.want) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	p := modelProgram()
	p.Model.SHA256 = hex.EncodeToString(make([]byte, 32))
	if a, other, err := NewApproval("cloud", p, day0); err != nil || other.Hash() == c.circuit.Hash() {
		t.Errorf("another file has the same hash: %+v, %v", a, err)
	} else if text := a.Describe(other); !strings.Contains(text, p.Model.SHA256) ||
		!strings.Contains(text, "2 = broken; decryption shows the class alone") {
		t.Errorf("described as %s", text)
	}
}

// comparisonProgram compares the samples of two boards.
func comparisonProgram() program.Published {
	in := func(device string) program.PublishedInput {
		return program.PublishedInput{Device: device, Channel: "height", Stream: program.PublishedStream{Name: "level",
			Packing: "digits", Samples: 5, Every: time.Minute, Channels: []program.PublishedChannel{
				{Name: "height", Unit: "m", Range: [2]float64{0, 4}, Resolution: 0.001}}}}
	}
	return program.Published{Name: "lower", Expr: "private_less(a, b)", Params: "bfv13",
		Inputs: map[string]program.PublishedInput{"a": in("one"), "b": in("two")}}
}

// TestComparisonResults: the holder of the key reads an answer for each sample and takes whatever decrypts; a program
// that was not approved, as one with the operands turned, is refused before it decrypts.
func TestComparisonResults(t *testing.T) {
	params, err := henc.Named("bfv13")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Create(filepath.Join(t.TempDir(), "keys"), CreateOptions{Params: params,
		Needs: Needs{Rotations: []int{}}})
	if err != nil {
		t.Fatal(err)
	}
	key := signingKey(t)
	c := newModelCloud(t, s, key, comparisonProgram())
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	w := c.circuit.Comparison().Window
	slots := slices.Repeat([]uint64{40000}, params.N())
	for i, v := range []uint64{1, 0, 0, 1, 1} {
		slots[w.Slot(i)] = v
	}
	got, err := r.Read("", c.result(c.body(slots), nil))
	if err != nil || !slices.Equal(got.Values, []float64{1, 0, 0, 1, 1}) || got.Bound != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = r.Read("", c.result(c.body(slots), func(m *transport.Meta) {
		m.Present, m.Samples, m.Post.Count = []uint32{3, 3}, 3, 3
	}))
	if err != nil || !slices.Equal(got.Values, []float64{1, 0, 0}) {
		t.Errorf("a partial window: %+v, %v", got, err)
	}
	slots[w.Slot(2)] = 7
	got, err = r.Read("", c.result(c.body(slots), nil))
	if err != nil || !slices.Equal(got.Values, []float64{1, 0, math.MaxFloat64, 1, 1}) {
		t.Errorf("an answer that is none: %+v, %v", got, err)
	}
	whole := c.body(slots)
	turned := comparisonProgram()
	turned.Expr = "private_less(b, a)"
	a, other, err := NewApproval("cloud", turned, day0)
	if err != nil || other.Hash() == c.circuit.Hash() {
		t.Fatalf("turned has the same hash: %+v, %v", a, err)
	}
	for what, bad := range map[string]struct {
		sealed []byte
		want   error
	}{
		"two ciphertexts": {c.result(c.body(slots, slots), nil), ErrTampered},
		"cut short":       {c.result(whole[:len(whole)-2], nil), ErrTampered},
		"empty":           {c.result(nil, nil), ErrTampered},
		"turned":          {c.result(whole, func(m *transport.Meta) { m.Layout = other.Hash() }), ErrNotApproved},
		"more answers":    {c.result(whole, func(m *transport.Meta) { m.Post.Count = 6 }), ErrWrongProgram},
		"unequal windows": {c.result(whole, func(m *transport.Meta) { m.Present = []uint32{3, 4} }), ErrWrongProgram},
	} {
		if got, err := r.Read("", bad.sealed); !errors.Is(err, bad.want) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	if text := a.Describe(other); !strings.Contains(text, "1 where a sample of two/level is below that of one/level") ||
		!strings.Contains(text, "in steps of 0.001") || !strings.Contains(text, "5 value(s) from 0 to 1 , exact") {
		t.Errorf("described as %s", text)
	}
}
