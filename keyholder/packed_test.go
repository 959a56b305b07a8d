package keyholder

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// packer makes packs as an evaluator would.
type packer struct {
	*cloud
	circuits map[string]*program.Circuit // for packs, by program
}

// packedValue is a value in the slots of a pack: in units of the slot.
type packedValue struct {
	program, subject string
	slot             float64
	edit             func(*transport.Meta)
}

const packedTopic = "hencedge/v1/res/packed"

// newPacker makes a key set with the approved programs a, b and c, the last one for a class.
func newPacker(t *testing.T, key *transport.SigningKey) (*Set, *packer) {
	t.Helper()
	s, err := Create(filepath.Join(t.TempDir(), "keys"), CreateOptions{
		Params: params(t, "edge13-d3"), Needs: Needs{Rotations: []int{1}}, Now: at(day0),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &packer{newCloud(t, s, s.manifest.Current(), key), map[string]*program.Circuit{}}
	for _, name := range []string{"a", "b", "c", "secret"} {
		p := testProgram("edge13-d3", 8)
		p.Name, p.Expr = name, "mean(x)"
		if name == "c" {
			in := p.Inputs["x"]
			in.Device = ""
			p.Class, p.Inputs = "pump", map[string]program.PublishedInput{"x": in}
		}
		a, _, err := NewApproval("cloud", p, day0)
		if err != nil {
			t.Fatal(err)
		}
		if name != "secret" {
			if err := s.Approve(a); err != nil {
				t.Fatal(err)
			}
		}
		if c.circuits[name], err = a.compile(nil, true); err != nil {
			t.Fatal(err)
		}
	}
	return s, c
}

// metas returns the headers of values, in slots 3, 6, 9, ...
func (c *packer) metas(values []packedValue) []transport.Meta {
	var all []transport.Meta
	for i, v := range values {
		circuit := c.circuits[v.program]
		out, number := circuit.Output(), sequence.Add(1)
		input := [32]byte{0xee}
		binary.BigEndian.PutUint64(input[1:], number)
		m := transport.Meta{
			Kind: transport.KindResult, Device: "cloud", Program: v.program, Subject: v.subject, KeyID: c.pub.KeyID,
			KeyEpoch: c.pub.Epoch, BootEpoch: 1, Sequence: number, Params: c.ctx.Parameters().Hash(),
			Layout: circuit.Hash(), Inputs: [][32]byte{input}, Level: 0, Scale: circuit.Scale(),
			Start: day0.UnixNano(), End: day0.Add(time.Minute).UnixNano(), Samples: 8,
			Post: &transport.Post{A: out.A, B: out.B, Slot: 3 * (i + 1), Count: 1, Bound: out.Bound},
		}
		if v.edit != nil {
			v.edit(&m)
		}
		all = append(all, m)
	}
	return all
}

// pack seals values.
func (c *packer) pack(values ...packedValue) []byte {
	c.t.Helper()
	all := c.metas(values)
	slots := make([]float64, c.ctx.Parameters().Slots())
	for i, v := range values {
		slots[3*(i+1)] = v.slot
	}
	ct, err := c.enc.EncryptReal(slots, 0, program.PackScale(c.ctx.Parameters()), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := c.ctx.MarshalCiphertext(ct)
	if err != nil {
		c.t.Fatal(err)
	}
	m, body, err := transport.MarshalPack(all, body)
	if err != nil {
		c.t.Fatal(err)
	}
	m.Sequence = sequence.Add(1)
	sealed, err := transport.Seal(m, body, c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return sealed
}

func (h *holder) takePacked(t *testing.T, sealed []byte) {
	t.Helper()
	payload, err := transport.Whole(sealed, transport.MaxChunkSize)
	if err == nil {
		err = h.w.receiver.Feed(packedTopic, payload)
	}
	if err != nil && !errors.Is(err, transport.ErrReplayed) {
		t.Fatal(err)
	}
}

// TestReadPack: every value of a pack is a result of its own program.
func TestReadPack(t *testing.T) {
	key := signingKey(t)
	s, c := newPacker(t, key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	sealed := c.pack(packedValue{"a", "", 0.25, nil}, packedValue{"b", "", -0.5, nil}, packedValue{"a", "", 0.125, nil},
		packedValue{"c", "pump7", 1, nil})
	got, refused, err := r.ReadAll(packedTopic, sealed)
	if err != nil || len(got) != 4 || len(refused) != 0 {
		t.Fatalf("%d results, refused %v, %v", len(got), refused, err)
	}
	for i, want := range []struct {
		program, device string
		slot            float64
	}{{"a", "", 0.25}, {"b", "", -0.5}, {"a", "", 0.125}, {"c", "pump7", 1}} {
		out, res := c.circuits[want.program].Output(), got[i]
		if v := out.A*want.slot + out.B; len(res.Values) != 1 || math.Abs(res.Values[0]-v) > out.Bound ||
			res.Bound != out.Bound || res.Program != want.program || res.Device != want.device || res.Packed != 4 ||
			res.ID != transport.ObjectID(sealed) || res.Evaluator != "cloud" || len(res.Inputs) != 1 ||
			!res.Start.Equal(day0) || res.Unit != "K" {
			t.Errorf("%d: want %g, got %+v", i, v, res)
		}
	}
	if j, err := json.Marshal(got[0]); err != nil || !strings.Contains(string(j), `"packed":4`) {
		t.Errorf("%s, %v", j, err)
	}
	dir := t.TempDir()
	for _, res := range got {
		if _, err := res.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 1 ||
		!strings.HasPrefix(filepath.Base(files[0]), "packed-cloud-1-") {
		t.Errorf("saved as %v, %v", files, err)
	}
	several := c.pack(packedValue{"a", "", 0, nil}, packedValue{"b", "", 0, nil})
	if _, err := r.Read(packedTopic, several); !errors.Is(err, ErrNotResult) {
		t.Errorf("a pack where one result is read: %v", err)
	}
	if _, _, err := r.ReadAll(packedTopic, sealed); !errors.Is(err, transport.ErrReplayed) {
		t.Errorf("again: %v", err)
	}
	if _, _, err := r.ReadAll("hencedge/v1/res/a", c.pack(packedValue{"a", "", 0, nil})); !errors.Is(err, ErrTampered) {
		t.Errorf("on another topic: %v", err)
	}
}

// TestPackOfStrangers: a value whose program is not approved, or whose header the program
// does not give, is not read. The others of its pack are. A pack of nothing else is refused.
func TestPackOfStrangers(t *testing.T) {
	key := signingKey(t)
	s, c := newPacker(t, key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	good := packedValue{"a", "", 0.25, nil}
	for name, bad := range map[string]packedValue{
		"not approved":     {"secret", "", 0.75, nil},
		"another hash":     {"a", "", 0.75, func(m *transport.Meta) { m.Layout[0] ^= 1 }},
		"another factor":   {"a", "", 0.75, func(m *transport.Meta) { m.Post.A *= 2 }},
		"another bound":    {"a", "", 0.75, func(m *transport.Meta) { m.Post.Bound /= 2 }},
		"a root":           {"a", "", 0.75, func(m *transport.Meta) { m.Post.Sqrt = true }},
		"a distant slot":   {"a", "", 0.75, func(m *transport.Meta) { m.Post.Slot = 5000 }},
		"a device":         {"a", "pump7", 0.75, nil},
		"no device":        {"c", "", 0.75, nil},
		"two inputs":       {"a", "", 0.75, func(m *transport.Meta) { m.Inputs = append(m.Inputs, [32]byte{1}) }},
		"too many samples": {"a", "", 0.75, func(m *transport.Meta) { m.Present = []uint32{9} }},
		"alone": {"a", "", 0.75, func(m *transport.Meta) { // what the program gives outside of packs
			out := c.circuits["b"].Output()
			m.Post.A = out.A / 2
		}},
	} {
		got, refused, err := r.ReadAll(packedTopic, c.pack(good, bad))
		if err != nil || len(got) != 1 || len(refused) != 1 || got[0].Program != "a" {
			t.Errorf("%s: %d results, %v, %v", name, len(got), refused, err)
			continue
		}
		if want := ErrWrongProgram; !errors.Is(refused[0], want) && !errors.Is(refused[0], ErrNotApproved) {
			t.Errorf("%s: %v", name, refused[0])
		}
		if _, _, err := r.ReadAll(packedTopic, c.pack(bad)); !errors.Is(err, ErrNotApproved) &&
			!errors.Is(err, ErrWrongProgram) {
			t.Errorf("%s by itself: %v", name, err)
		}
	}
	// A result of a packed program that comes alone is none of its program, and the reverse.
	m := c.metas([]packedValue{good})[0]
	ct, err := c.enc.EncryptReal(nil, 0, m.Scale, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.ctx.MarshalCiphertext(ct)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := transport.Seal(m, body, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read("hencedge/v1/res/a", alone); !errors.Is(err, ErrWrongProgram) {
		t.Errorf("alone: %v", err)
	}
}

// TestPackOfPartialWindows: a value of a window that is not full is read as the program for
// such windows says.
func TestPackOfPartialWindows(t *testing.T) {
	key := signingKey(t)
	s, c := newPacker(t, key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	p := testProgram("edge13-d3", 8)
	p.Name, p.Expr = "a", "mean(x)"
	a, _, err := NewApproval("cloud", p, day0)
	if err != nil {
		t.Fatal(err)
	}
	short, err := a.compile(map[program.Input]int{{Device: "board", Stream: "s"}: 5}, true)
	if err != nil {
		t.Fatal(err)
	}
	out := short.Output()
	got, _, err := r.ReadAll(packedTopic, c.pack(packedValue{"a", "", 0.25, func(m *transport.Meta) {
		m.Present, m.Samples = []uint32{5}, 5
		m.Post.A, m.Post.B, m.Post.Bound = out.A, out.B, out.Bound
	}}))
	if err != nil || len(got) != 1 || math.Abs(got[0].Values[0]-(out.A*0.25+out.B)) > out.Bound || got[0].Samples != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestInboxSurvivesWithinAPack: each value of a pack is handed on once, whatever value a
// kill comes after, and whatever else it comes in.
func TestInboxSurvivesWithinAPack(t *testing.T) {
	key := signingKey(t)
	s, c := newPacker(t, key)
	state := filepath.Join(t.TempDir(), "state")
	values := []packedValue{{"a", "", 0.25, nil}, {"b", "", 0.5, nil}, {"secret", "", 1, nil}, {"a", "", -0.25, nil}}
	sealed := c.pack(values...)
	var programs []string
	collect := func(h *holder) {
		h.w.o.OnResult = func(res *Result) error {
			if h.fail != nil {
				return h.fail
			}
			programs = append(programs, fmt.Sprintf("%s %d", res.Program, res.Sequence))
			if len(programs) == 2 {
				h.fail = errors.New("the output is closed")
			}
			return nil
		}
	}
	h := newHolder(t, s, key, state, 0)
	collect(h)
	h.takePacked(t, sealed)
	if got, err := h.outcome(t, "cloud", key, packedTopic, sealed); got != "taken" || err != nil {
		t.Fatalf("answered %q, %v", got, err)
	}
	if len(h.refused) != 1 || !errors.Is(h.refused[0], ErrNotApproved) {
		t.Errorf("refused %v", h.refused)
	}
	if err := h.next(t); !errors.Is(err, h.fail) || len(programs) != 2 || h.waiting() != 1 {
		t.Fatalf("%v, handed on %v, %d wait", err, programs, h.waiting())
	}
	h.kill()

	h = newHolder(t, s, key, state, 0)
	collect(h)
	h.takePacked(t, sealed)
	if h.waiting() != 1 {
		t.Errorf("%d wait", h.waiting())
	}
	if err := h.next(t); err != nil || len(programs) != 3 || h.waiting() != 0 {
		t.Fatalf("%v, handed on %v, %d wait", err, programs, h.waiting())
	}
	if one := slices.Compact(slices.Clone(programs)); len(one) != 3 || !strings.HasPrefix(programs[2], "a ") {
		t.Errorf("handed on %v", programs)
	}
	h.takePacked(t, sealed)
	h.kill()

	h = newHolder(t, s, key, state, 0)
	h.takePacked(t, sealed)
	if h.waiting() != 0 {
		t.Error("a pack that was handed on waits again")
	}
	// The evaluator's store is an old copy: the same windows, in a pack with another one.
	repeated := values[0]
	first, err := transport.PeekResults(sealed)
	if err != nil {
		t.Fatal(err)
	}
	repeated.edit = func(m *transport.Meta) { m.Inputs = first[0].Inputs }
	mixed := c.pack(repeated, packedValue{"b", "", 0.5, nil})
	h.takePacked(t, mixed)
	if err := h.next(t); err != nil || len(h.read) != 1 || h.waiting() != 0 {
		t.Errorf("%v, read %d, %d wait", err, len(h.read), h.waiting())
	}
	again := c.pack(repeated)
	h.takePacked(t, again)
	if got, err := h.outcome(t, "cloud", key, packedTopic, again); got != "taken" || err != nil || h.waiting() != 0 {
		t.Errorf("only what was handed on: %q, %v, %d wait", got, err, h.waiting())
	}
	h.kill()
}

// TestPackAndCount: after Count values a watch ends within a pack, and the next one goes on
// from there.
func TestPackAndCount(t *testing.T) {
	key := signingKey(t)
	s, c := newPacker(t, key)
	state := filepath.Join(t.TempDir(), "state")
	h := newHolder(t, s, key, state, 2)
	h.takePacked(t, c.pack(packedValue{"a", "", 0.25, nil}, packedValue{"b", "", 0.5, nil},
		packedValue{"a", "", 0.25, nil}))
	if err := h.w.takeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.w.readAll(t.Context()); err != nil || len(h.read) != 2 || h.waiting() != 1 {
		t.Fatalf("%v, read %d, %d wait", err, len(h.read), h.waiting())
	}
	h.kill()
	h = newHolder(t, s, key, state, 1)
	defer h.kill()
	if err := h.w.readAll(t.Context()); err != nil || len(h.read) != 1 || h.waiting() != 0 {
		t.Fatalf("%v, read %d, %d wait", err, len(h.read), h.waiting())
	}
}

// TestPackOfSelectedPrograms: a reader of some programs takes these out of packs. A pack
// without any of them is not answered as taken.
func TestPackOfSelectedPrograms(t *testing.T) {
	key := signingKey(t)
	s, c := newPacker(t, key)
	h := newHolder(t, s, key, "", 0)
	defer h.kill()
	h.w.o.Programs = []string{"b"}
	filters, err := h.w.filters()
	if err != nil || !slices.Contains(filters, packedTopic) || !slices.Contains(filters, "hencedge/v1/res/b") {
		t.Fatalf("subscribes to %v, %v", filters, err)
	}
	h.takePacked(t, c.pack(packedValue{"a", "", 0.25, nil}, packedValue{"b", "", 0.5, nil}))
	if err := h.next(t); err != nil || len(h.read) != 1 {
		t.Errorf("%v, read %d", err, len(h.read))
	}
	other := c.pack(packedValue{"a", "", 0.25, nil})
	h.takePacked(t, other)
	if got, err := h.outcome(t, "cloud", key, packedTopic, other); got == "taken" || err != nil || h.waiting() != 0 {
		t.Errorf("answered %q, %v, %d wait", got, err, h.waiting())
	}
}

// TestPackOutOfForm: a pack whose list breaks the format is refused whole.
func TestPackOutOfForm(t *testing.T) {
	key := signingKey(t)
	s, c := newPacker(t, key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	m, body, err := transport.Peek(c.pack(packedValue{"a", "", 0.25, nil}, packedValue{"b", "", 0.5, nil}))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m *transport.Meta, b []byte) []byte{
		"another count": func(m *transport.Meta, b []byte) []byte { m.Packed = 3; return b },
		"another end":   func(m *transport.Meta, b []byte) []byte { m.End++; return b },
		"cut":           func(_ *transport.Meta, b []byte) []byte { return b[:len(b)-1] },
		"no list":       func(_ *transport.Meta, b []byte) []byte { return b[40:] },
		"another scale": func(m *transport.Meta, b []byte) []byte { m.Scale *= 2; return b },
	} {
		h := *m
		h.Sequence = sequence.Add(1)
		sealed, err := transport.Seal(h, slices.Clone(body), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.ReadAll("", sealed); err != nil {
			t.Fatal(err)
		}
		h.Sequence = sequence.Add(1)
		changed := change(&h, slices.Clone(body))
		if sealed, err = transport.Seal(h, changed, key); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.ReadAll("", sealed); !errors.Is(err, ErrTampered) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(filepath.Join(s.dir, approvalsFile)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.ReadAll("", c.pack(packedValue{"a", "", 0.25, nil})); !errors.Is(err, ErrNotApproved) {
		t.Errorf("without approvals: %v", err)
	}
}
