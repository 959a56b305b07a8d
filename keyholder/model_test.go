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

// modelCloud makes results of modelProgram.
type modelCloud struct {
	t       *testing.T
	ctx     *bfv.Context
	enc     *bfv.Encryptor
	pub     *henc.PublicKey
	circuit *program.Circuit
	key     *transport.SigningKey
}

func newModelCloud(t *testing.T, s *Set, key *transport.SigningKey) *modelCloud {
	t.Helper()
	p, err := bfv.Named("bfv13", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := bfv.NewContext(p)
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
	return &modelCloud{t, ctx, enc, pub, approve(t, s, modelProgram()), key}
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
		Kind: transport.KindResult, Device: "cloud", Program: "state", KeyID: c.pub.KeyID, KeyEpoch: c.pub.Epoch,
		BootEpoch: 1, Sequence: number, Params: c.ctx.Parameters().Base().Hash(), Layout: c.circuit.Hash(),
		Inputs: [][32]byte{{byte(number)}}, Level: c.circuit.Level(), Scale: c.circuit.Scale(),
		Start: day0.UnixNano(), End: day0.Add(time.Minute).UnixNano(), Samples: 1,
		Post: &transport.Post{A: 1, Count: 1},
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
	c := newModelCloud(t, s, key)
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
