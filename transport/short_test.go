package transport

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/veraison/go-cose"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/internal/vectors"
)

func mustSealShort(t testing.TB, m Meta, body []byte, k *SigningKey) []byte {
	t.Helper()
	b, err := SealShort(m, body, k)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// knownOf is what a receiver knows of a reading: the fields that do not travel.
func knownOf(m Meta) Meta {
	return Meta{Device: m.Device, Stream: m.Stream, KeyID: m.KeyID, Params: m.Params, Layout: m.Layout, Level: m.Level,
		Scale: m.Scale, Place: m.Place}
}

func TestShort(t *testing.T) {
	key := testKey(t, "board-7")
	placed, first := testReading(3), testReading(4)
	placed.Place = 5
	first.Start, first.End, first.Samples, first.Sequence = 0, 0, 0, math.MaxUint64
	for name, m := range map[string]Meta{"usual": testReading(1), "placed": placed, "zeros": first} {
		for _, n := range []int{0, 1, 158, 11000} {
			o := testOptions(t)
			v, body := testVerifier(t, o), testrig.Pattern(n)
			sealed := mustSealShort(t, m, body, key)
			obj, err := v.OpenShort(knownOf(m), sealed)
			if err != nil {
				t.Fatalf("%s, %d bytes: %v", name, n, err)
			}
			if !reflect.DeepEqual(obj.Meta, m) || obj.ID != ObjectID(sealed) ||
				!bytes.Equal(obj.Signer[:], key.Public()) {
				t.Errorf("%s: %+v, want %+v", name, obj.Meta, m)
			}
			equalBytes(t, name, obj.Body, body)
			if _, err := v.OpenShort(knownOf(m), sealed); !errors.Is(err, ErrReplayed) {
				t.Errorf("%s opened twice: %v", name, err)
			}
			v.Forget(obj)
			if _, err := v.OpenShort(knownOf(m), sealed); err != nil {
				t.Errorf("%s after Forget: %v", name, err)
			}
			if o.Counters.accepted.Load() != 2 || o.Counters.Refused("replayed") != 1 {
				t.Errorf("%s: counters %v", name, o.Counters.Snapshot())
			}
		}
	}
}

// TestShortSize: a compact window of 64 readings is one message of at most 350 bytes at 12 bits, 400 at
// 16, whatever the names are; and the documented additions.
func TestShortSize(t *testing.T) {
	key, m := testKey(t, "board-7"), testReading(math.MaxUint32)
	m.Device, m.Stream = strings.Repeat("d", MaxName), strings.Repeat("s", MaxName)
	m.BootEpoch, m.KeyEpoch, m.Samples = 1_800_000_000, 99, 64
	m.End = m.Start + 3_600_000_000_000
	for body, limit := range map[int]int{158: 350, 190: 400} {
		if n := len(mustSealShort(t, m, testrig.Pattern(body), key)); n > limit {
			t.Errorf("%d bytes for a body of %d, at most %d", n, body, limit)
		}
	}
	small := m
	small.KeyEpoch, small.BootEpoch, small.Sequence, small.Samples = 1<<16-1, 1<<16-1, 1<<16-1, 1<<16-1
	small.End = small.Start + 4_000_000_000
	large := m
	large.KeyEpoch, large.BootEpoch, large.Sequence = math.MaxUint32, math.MaxUint64, math.MaxUint64
	large.Samples, large.Start, large.End = MaxSamples, 1<<62, math.MaxInt64
	for want, m := range map[int]Meta{113: small, 133: large} {
		if n := len(mustSealShort(t, m, testrig.Pattern(190), key)) - 190; n != want {
			t.Errorf("%d bytes around the body, want %d", n, want)
		}
	}
}

// TestShortIsCOSE: another implementation verifies it as a COSE_Sign1 with external data, and what it seals has
// the same bytes.
func TestShortIsCOSE(t *testing.T) {
	board, meta := testKey(t, "board-7"), testReading(1)
	sealed := mustSealShort(t, meta, testrig.Pattern(20), board)
	header, err := marshalMeta(&meta, Version)
	if err != nil {
		t.Fatal(err)
	}
	context, key := append([]byte("hencedge short v1"), header...), coseKey{board, cose.Algorithm(algEd25519)}
	var m cose.UntaggedSign1Message
	if err := m.UnmarshalCBOR(sealed); err != nil {
		t.Fatal(err)
	}
	if err := m.Verify(context, key); err != nil {
		t.Error(err)
	}
	again := cose.NewSign1Message()
	again.Headers.Protected[cose.HeaderLabelAlgorithm] = key.alg
	again.Headers.Protected[cose.HeaderLabelKeyID] = board.kid[:]
	again.Payload = m.Payload
	if err := again.Sign(nil, context, key); err != nil {
		t.Fatal(err)
	}
	b, err := again.MarshalCBOR()
	if err != nil {
		t.Fatal(err)
	}
	equalBytes(t, "sealed", sealed, b[1:]) // without the tag
}

// TestShortBindsTheHeader: a receiver that knows another header refuses the signature.
func TestShortBindsTheHeader(t *testing.T) {
	m := testReading(1)
	sealed := mustSealShort(t, m, testrig.Pattern(20), testKey(t, "board-7"))
	for name, edit := range map[string]func(m *Meta){
		"device": func(m *Meta) { m.Device = "board-8" },
		"stream": func(m *Meta) { m.Stream = "vibratio" },
		"key":    func(m *Meta) { m.KeyID[15]++ },
		"params": func(m *Meta) { m.Params[31]++ },
		"layout": func(m *Meta) { m.Layout[0]++ },
		"level":  func(m *Meta) { m.Level++ },
		"scale":  func(m *Meta) { m.Scale = math.Nextafter(m.Scale, 0) },
		"place":  func(m *Meta) { m.Place++ },
	} {
		known := knownOf(m)
		edit(&known)
		obj, err := testVerifier(t, testOptions(t)).OpenShort(known, sealed)
		if !errors.Is(err, ErrSignature) || obj != nil {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

// TestShortAltered: every byte that is changed, cut off or added is noticed.
func TestShortAltered(t *testing.T) {
	m := testReading(1)
	good := mustSealShort(t, m, testrig.Pattern(20), testKey(t, "board-7"))
	v := testVerifier(t, testOptions(t))
	try := func(what string, i int, b []byte) {
		if _, err := v.OpenShort(knownOf(m), b); err == nil || Reason(err) == ReasonOther {
			t.Errorf("%s %d: %v", what, i, err)
		}
	}
	for i := range good {
		for _, bit := range []byte{1, 0x80} {
			b := bytes.Clone(good)
			b[i] ^= bit
			try("byte", i, b)
		}
		try("cut at", i, good[:i])
	}
	try("longer by", 1, append(bytes.Clone(good), 0))
	if _, err := v.OpenShort(knownOf(m), good); err != nil {
		t.Error(err)
	}
}

func TestShortRefuses(t *testing.T) {
	m, key := testReading(1), testKey(t, "board-7")
	body := testrig.Pattern(20)
	with := func(edit func(m *Meta)) Meta {
		m := m
		edit(&m)
		return m
	}
	epoch := with(func(m *Meta) { m.KeyEpoch = 2 })
	wide := with(func(m *Meta) { m.Params[0]++ })
	laid := with(func(m *Meta) { m.Layout[0]++ })
	set := with(func(m *Meta) { m.KeyID[0]++ })
	for _, c := range []struct {
		name   string
		known  Meta
		sealed []byte
		want   error
	}{
		{"nothing", m, nil, ErrTruncated},
		{"a sealed object", m, mustSeal(t, m, body, key), ErrMalformed},
		{"too large", m, make([]byte, MaxShort+1), ErrTooLarge},
		{"another signer", m, mustSealShort(t, m, body, testKey(t, "stranger")), ErrUnknownSigner},
		{"an evaluator", m, mustSealShort(t, m, body, testKey(t, "cloud-1")), ErrUnknownSigner},
		{"another epoch", epoch, mustSealShort(t, epoch, body, key), ErrWrongEpoch},
		{"another key set", set, mustSealShort(t, set, body, key), ErrWrongKey},
		{"other parameters", wide, mustSealShort(t, wide, body, key), ErrWrongParams},
		{"another layout", laid, mustSealShort(t, laid, body, key), ErrWrongLayout},
		{"no stream", with(func(m *Meta) { m.Stream = "" }), mustSealShort(t, m, body, key), ErrMalformed},
	} {
		o := testOptions(t)
		if obj, err := testVerifier(t, o).OpenShort(knownOf(c.known), c.sealed); !errors.Is(err, c.want) || obj != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if o.Counters.Refused(Reason(c.want)) != 1 {
			t.Errorf("%s: counted %v", c.name, o.Counters.Snapshot())
		}
	}
	o := testOptions(t)
	o.Kinds = []Kind{KindStatus}
	sealed := mustSealShort(t, m, body, key)
	if _, err := testVerifier(t, o).OpenShort(knownOf(m), sealed); !errors.Is(err, ErrWrongKind) {
		t.Errorf("a kind that is not taken: %v", err)
	}
	if _, err := Open(sealed, testVerifier(t, testOptions(t))); !errors.Is(err, ErrMalformed) {
		t.Errorf("opened as a large object: %v", err)
	}
	wiped, err := SigningKeyFromSeed(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		meta Meta
		body []byte
		key  *SigningKey
		want error
	}{
		"a result":    {testResult(1), body, key, ErrMalformed},
		"an old time": {with(func(m *Meta) { m.Start = -1 }), body, key, ErrMalformed},
		"no stream":   {with(func(m *Meta) { m.Stream = "" }), body, key, ErrMalformed},
		"a long body": {m, make([]byte, MaxShort), key, ErrTooLarge},
		"no key":      {m, body, nil, ErrMalformed},
	} {
		if _, err := SealShort(c.meta, c.body, c.key); !errors.Is(err, c.want) {
			t.Errorf("seal, %s: %v", name, err)
		}
	}
	if _, err := SealShort(m, body, wiped); err == nil {
		t.Error("a wiped key signs")
	}
}

// shortVector is a short object of the key of messages.json.
type shortVector struct {
	Name   string     `json:"name"`
	Meta   vectorMeta `json:"header"`
	Body   string     `json:"body"`
	Signed string     `json:"sig_structure"`
	Sealed string     `json:"sealed"`
}

// TestShortVectors compares with docs/vectors/short.json.
func TestShortVectors(t *testing.T) {
	file := struct {
		Public string        `json:"public"`
		Short  []shortVector `json:"short"`
		Bad    []vectorBad   `json:"refused"`
	}{Public: hex.EncodeToString(testKey(t, "board-7").Public())}
	placed := testReading(1 << 40)
	placed.Place, placed.End = 3, placed.Start
	for i, m := range []Meta{testReading(7), placed} {
		body, context := testrig.Pattern(30), must(shortHeader(&m))
		sealed := mustSealShort(t, m, body, testKey(t, "board-7"))
		f := must(cutSign1("short", sealed))
		file.Short = append(file.Short, shortVector{[]string{"reading", "placed"}[i], toVector(m),
			hex.EncodeToString(body), hex.EncodeToString(f.signed(context)), hex.EncodeToString(sealed)})
	}
	m := testReading(7)
	sealed := mustSealShort(t, m, testrig.Pattern(30), testKey(t, "board-7"))
	altered := bytes.Clone(sealed)
	altered[len(altered)-1] ^= 1
	long := bytes.Replace(sealed, []byte{0x03, 0x0c, 0x07}, []byte{0x18, 0x03, 0x0c, 0x07}, 1)
	long = bytes.Replace(long, []byte{0xa0, 0x58, 0x39}, []byte{0xa0, 0x58, 0x3a}, 1)
	for _, b := range []vectorBad{
		{"cut", "short", hex.EncodeToString(sealed[:len(sealed)-1]), "truncated"},
		{"longer", "short", hex.EncodeToString(append(bytes.Clone(sealed), 0)), "malformed"},
		{"tagged", "short", hex.EncodeToString(append([]byte{0xd2}, sealed...)), "malformed"},
		{"an altered signature", "short", hex.EncodeToString(altered), "bad_signature"},
		{"a large object", "short", hex.EncodeToString(mustSeal(t, m, nil, testKey(t, "board-7"))), "malformed"},
		{"a signature without the header", "short", hex.EncodeToString(shortWithout(t, m)), "bad_signature"},
		{"a long integer", "short", hex.EncodeToString(long), "malformed"},
	} {
		if _, err := testVerifier(t, testOptions(t)).OpenShort(knownOf(m), unhex(t, b.Bytes)); Reason(err) != b.Reason {
			t.Errorf("%s: %v, want %s", b.Name, err, b.Reason)
		}
		file.Bad = append(file.Bad, b)
	}
	vectors.Check(t, "short.json", file)
}

// shortWithout is a short object whose signature has no header as external data.
func shortWithout(t *testing.T, m Meta) []byte {
	t.Helper()
	f, err := cutSign1("short", mustSealShort(t, m, testrig.Pattern(30), testKey(t, "board-7")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := sign(f.payload, testKey(t, "board-7"), algEd25519, shortContext)
	if err != nil {
		t.Fatal(err)
	}
	return b[1:]
}

// FuzzShort: no input panics, every refusal has a label, and what is accepted is what SealShort makes.
func FuzzShort(f *testing.F) {
	m, key := testReading(1), testKey(f, "board-7")
	good := mustSealShort(f, m, testrig.Pattern(20), key)
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte{0x84, 0x4e})
	o := testOptions(f)
	o.NoReplay = true
	v := testVerifier(f, o)
	f.Fuzz(func(t *testing.T, b []byte) {
		peek, peeked := PeekShort(b)
		if epoch, err := ShortEpoch(b); epoch != peek.KeyEpoch || (err == nil) != (peeked == nil) {
			t.Fatalf("%x: %v, but epoch %d: %v", b, peeked, epoch, err)
		}
		obj, err := v.OpenShort(knownOf(m), b)
		if err != nil {
			refused(t, err)
			return
		}
		if peeked != nil || peek.Sequence != obj.Meta.Sequence {
			t.Fatalf("%x is accepted, at first sight it is %+v: %v", b, peek, peeked)
		}
		if again := mustSealShort(t, obj.Meta, obj.Body, key); !bytes.Equal(again, b) {
			t.Fatalf("%x is accepted, the same object is %x", b, again)
		}
	})
}

// TestShortIsSent: a short object is one message, its own bytes, where it fits into one; else it travels in chunks. A
// receiver puts both together.
func TestShortIsSent(t *testing.T) {
	m := testReading(9)
	if peek, err := PeekShort(mustSealShort(t, m, testrig.Pattern(158), testKey(t, "board-7"))); err != nil ||
		peek.BootEpoch != m.BootEpoch || peek.Sequence != 9 || peek.Samples != m.Samples || peek.Device != "" {
		t.Errorf("%+v: %v", peek, err)
	}
	for body, messages := range map[int]int{158: 1, 11_000: 11} {
		sealed := mustSealShort(t, m, testrig.Pattern(body), testKey(t, "board-7"))
		c := &keepingClient{}
		s, err := NewSender(c, MinChunkSize+64)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context(), "up/b/s", sealed); err != nil {
			t.Fatal(err)
		}
		if len(c.payloads) != messages || s.Stats().Chunks != uint64(messages) {
			t.Fatalf("%d bytes in %d messages, want %d", len(sealed), len(c.payloads), messages)
		}
		if messages == 1 {
			equalBytes(t, "the message", c.payloads[0], sealed)
			if &c.payloads[0][0] == &sealed[0] {
				t.Error("the message is no copy")
			}
		}
		var got []byte
		r := NewReceiver(Limits{}, func(s Staged) error {
			got = s.Sealed
			s.Done()
			return nil
		})
		for _, p := range c.payloads {
			if err := r.Feed("up/b/s", p); err != nil {
				t.Fatal(err)
			}
		}
		equalBytes(t, "received", got, sealed)
	}
}

// keepingClient keeps what is published.
type keepingClient struct {
	countingClient
	payloads [][]byte
}

func (c *keepingClient) Publish(_ context.Context, _ string, payload []byte, _ bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.payloads = append(c.payloads, payload)
	return nil
}

// TestShortIsFed: a receiver takes short objects as they are, once, within its bounds.
func TestShortIsFed(t *testing.T) {
	key, m := testKey(t, "board-7"), testReading(1)
	sealed := mustSealShort(t, m, testrig.Pattern(158), key)
	if epoch, err := ShortEpoch(sealed); err != nil || epoch != m.KeyEpoch || !IsShort(sealed) || IsShort(nil) {
		t.Fatalf("epoch %d, %v", epoch, err)
	}
	var got []Staged
	r := NewReceiver(Limits{MaxObject: 1 << 20}, func(s Staged) error {
		got = append(got, s)
		s.Done()
		return nil
	})
	for _, want := range []error{nil, ErrReplayed} {
		if err := r.Feed("p/up/board-7/s", sealed); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	if len(got) != 1 || got[0].ID != ObjectID(sealed) || !bytes.Equal(got[0].Sealed, sealed) {
		t.Fatalf("%d objects: %+v", len(got), got)
	}
	long := append([]byte{shortStart}, make([]byte, MaxShort)...)
	if err := r.Feed("p/up/board-7/s", long); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d bytes: %v", len(long), err)
	}
	for n := range sealed {
		if _, err := ShortEpoch(sealed[:n]); err == nil {
			t.Fatalf("%d of %d bytes have an epoch", n, len(sealed))
		}
	}
}
