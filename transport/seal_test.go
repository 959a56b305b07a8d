package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/veraison/go-cose"
	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/testrig"
)

func TestSealOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		meta   Meta
		signer string
		body   []byte
	}{
		"reading":    {testReading(1), "board-7", testrig.Pattern(1000)},
		"result":     {testResult(1), "cloud-1", testrig.Pattern(70000)},
		"empty body": {testReading(2), "board-7", nil},
		"status":     {Meta{Kind: KindStatus, Device: "board-7"}, "board-7", []byte{1}},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			v := testVerifier(t, o)
			sealed := mustSeal(t, tc.meta, tc.body, testKey(t, tc.signer))
			if over := len(sealed) - len(tc.body); over > SealRoom+SealTail {
				t.Errorf("%d bytes around the body", over)
			}
			obj, err := Open(sealed, v)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(obj.Meta, tc.meta) {
				t.Errorf("header %+v, want %+v", obj.Meta, tc.meta)
			}
			equalBytes(t, "body", obj.Body, tc.body)
			if obj.ID != ObjectID(sealed) || !bytes.Equal(obj.Signer[:], testKey(t, tc.signer).Public()) {
				t.Error("wrong object id or signer")
			}
			if !bytes.Equal(sealed, mustSeal(t, tc.meta, tc.body, testKey(t, tc.signer))) {
				t.Error("sealing is not deterministic")
			}
			if _, err := Open(sealed, v); !errors.Is(err, ErrReplayed) {
				t.Errorf("opened twice: %v", err)
			}
			if o.Counters.accepted.Load() != 1 || o.Counters.Refused("replayed") != 1 {
				t.Errorf("counters %v", o.Counters.Snapshot())
			}
			v.Forget(obj)
			if _, err := Open(sealed, v); err != nil {
				t.Errorf("after Forget: %v", err)
			}
		})
	}
}

// TestOpenRefuses feeds every kind of bad object to one verifier: each has its
// own error, is counted under its own label, and does not disturb the good
// object that follows it.
func TestOpenRefuses(t *testing.T) {
	good, bad := refusedObjects(t)
	for _, tc := range bad {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions(t)
			o.MaxObject = 2000
			o.Kinds = []Kind{KindReading, KindResult, KindStatus}
			o.Retired = []KeyRef{{[16]byte{9}, 1}}
			o.Programs = map[string][32]byte{"other-program": {}}
			v := testVerifier(t, o)
			obj, err := Open(tc.sealed, v)
			if !errors.Is(err, tc.want) || obj != nil {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			for _, r := range reasons {
				if errors.Is(err, r.err) != (r.err == tc.want) {
					t.Errorf("%v also wraps %v", err, r.err)
				}
			}
			if n := o.Counters.Refused(Reason(tc.want)); n != 1 || o.Counters.accepted.Load() != 0 {
				t.Errorf("counted %v", o.Counters.Snapshot())
			}
			if _, err := Open(good, v); err != nil {
				t.Errorf("the good object after it: %v", err)
			}
		})
	}
}

// refusedObject is an object that a verifier refuses, and with which error.
type refusedObject struct {
	name   string
	sealed []byte
	want   error
}

// refusedObjects returns an object that every verifier of these tests accepts, and one of
// each kind that it refuses.
func refusedObjects(t *testing.T) (good []byte, bad []refusedObject) {
	t.Helper()
	board, cloud := testKey(t, "board-7"), testKey(t, "cloud-1")
	good = mustSeal(t, testReading(100), testrig.Pattern(500), board)
	edit := func(f func(*Meta)) []byte {
		m := testReading(101)
		f(&m)
		return mustSeal(t, m, testrig.Pattern(500), board)
	}
	sealAs := func(header []byte, alg int64) []byte {
		s, err := sealRaw(header, testrig.Pattern(10), board, alg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	raw := func(version uint64, alg int64) []byte {
		m := testReading(102)
		b, err := marshalMeta(&m, version)
		if err != nil {
			t.Fatal(err)
		}
		return sealAs(b, alg)
	}
	rawMeta := func(header []byte) []byte { return sealAs(header, algEd25519) }
	with := func(body, sealed []byte) []byte {
		return append(append(appendHead([]byte{0x82}, majorBytes, len(body)), body...), envelopeOf(t, sealed)...)
	}
	flip := func(b []byte, at int) []byte {
		c := bytes.Clone(b)
		c[at] ^= 1
		return c
	}
	meta, err := marshalMeta(&Meta{Kind: KindStatus, Device: "board-7"}, Version)
	if err != nil {
		t.Fatal(err)
	}
	unsorted := bytes.Clone(meta)
	copy(unsorted[1:3], meta[3:5]) // version and kind, one byte each
	copy(unsorted[3:5], meta[1:3])
	return good, []refusedObject{
		{"empty", nil, ErrTruncated},
		{"one byte", good[:1], ErrTruncated},
		{"cut in the middle", good[:len(good)/2], ErrTruncated},
		{"last byte missing", good[:len(good)-1], ErrTruncated},
		{"a byte too many", append(bytes.Clone(good), 0), ErrMalformed},
		{"not an envelope", bytes.Repeat([]byte{0x42}, 100), ErrMalformed},
		{"unsigned header", withUnprotected(t, good), ErrMalformed},
		{"keys out of order", rawMeta(unsorted), ErrMalformed},
		{"unknown key", rawMeta(append([]byte{meta[0] + 1}, append(bytes.Clone(meta[1:]), 0x18, 99, 0)...)),
			ErrMalformed},
		{"header is a number", rawMeta([]byte{0x01}), ErrMalformed},
		{"header without version", rawMeta([]byte{0xa1, 0x01, 0x01}), ErrMalformed},
		{"bit flipped in the body", flip(good, 200), ErrSignature},
		{"bit flipped in the digest", flip(good, len(good)-67), ErrSignature},
		{"body of another object", with(testrig.Pattern(501)[1:], good), ErrSignature},
		{"body cut short", with(testrig.Pattern(499), good), ErrSignature},
		{"bit flipped in the signature", flip(good, len(good)-5), ErrSignature},
		{"too large", mustSeal(t, testReading(101), testrig.Pattern(5000), board), ErrTooLarge},
		{"version 0", raw(0, algEd25519), ErrDowngraded},
		{"version 1", raw(1, algEd25519), ErrDowngraded},
		{"version 1 in its form", envelopeOf(t, good), ErrDowngraded},
		{"version 3", raw(3, algEd25519), ErrUnsupportedVersion},
		{"another algorithm", raw(Version, int64(cose.AlgorithmES256)), ErrDowngraded},
		{"unknown device", edit(func(m *Meta) { m.Device = "board-8" }), ErrUnknownSigner},
		{"other key of that name", mustSeal(t, testReading(101), nil, testKey(t, "thief")), ErrUnknownSigner},
		{"evaluator signs a reading", mustSeal(t, testReading(101), nil, cloud), ErrUnknownSigner},
		{"device signs a result", mustSeal(t, testResult(101), nil, board), ErrUnknownSigner},
		{"wrong key set", edit(func(m *Meta) { m.KeyID[0] ^= 1 }), ErrWrongKey},
		{"wrong epoch", edit(func(m *Meta) { m.KeyEpoch++ }), ErrWrongEpoch},
		{"retired epoch", edit(func(m *Meta) { m.KeyID, m.KeyEpoch = [16]byte{9}, 1 }), ErrWrongEpoch},
		{"wrong parameters", edit(func(m *Meta) { m.Params[31] ^= 1 }), ErrWrongParams},
		{"wrong layout", edit(func(m *Meta) { m.Layout[0] ^= 1 }), ErrWrongLayout},
		{"unknown stream", edit(func(m *Meta) { m.Stream = "other" }), ErrWrongLayout},
		{"unknown program", mustSeal(t, testResult(101), nil, cloud), ErrWrongLayout},
		{"wrong kind", mustSeal(t, Meta{Kind: KindReceipt, Device: "board-7"}, nil, board), ErrWrongKind},
	}
}

// withUnprotected returns a sealed object with a header that its signature does not cover.
func withUnprotected(t *testing.T, sealed []byte) []byte {
	t.Helper()
	front, _, envelope, err := cutFront(sealed)
	if err != nil {
		t.Fatal(err)
	}
	var m cose.Sign1Message
	if err := m.UnmarshalCBOR(envelope); err != nil {
		t.Fatal(err)
	}
	m.Headers.RawUnprotected = nil
	m.Headers.Unprotected = cose.UnprotectedHeader{"note": "unsigned"}
	b, err := m.MarshalCBOR()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(front), b...)
}

// coseKey is a key as go-cose, the independent judge of the envelope, wants it.
type coseKey struct {
	*SigningKey
	alg cose.Algorithm
}

func (k coseKey) Algorithm() cose.Algorithm { return k.alg }

func (k coseKey) Sign(_ io.Reader, content []byte) ([]byte, error) {
	return ed25519.Sign(k.priv, content), nil
}

func (k coseKey) Verify(content, signature []byte) error {
	if !ed25519.Verify(k.Public(), content, signature) {
		return cose.ErrVerification
	}
	return nil
}

// envelopeOf returns the COSE_Sign1 of a sealed object.
func envelopeOf(t *testing.T, sealed []byte) []byte {
	t.Helper()
	_, _, envelope, err := cutFront(sealed)
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

// TestEnvelopeIsCOSE: another implementation verifies what is sealed here, and what it
// seals has the same bytes.
func TestEnvelopeIsCOSE(t *testing.T) {
	board := testKey(t, "board-7")
	remote, err := SealRemote(RemoteConfig{Device: "board-7", Version: 3, Text: []byte("log: {level: debug}")}, board)
	if err != nil {
		t.Fatal(err)
	}
	meta := testReading(1)
	header, err := marshalMeta(&meta, Version)
	if err != nil {
		t.Fatal(err)
	}
	old, err := sealRaw(header, testrig.Pattern(10), board, algEdDSA)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		sealed  []byte
		alg     int64
		context []byte
	}{
		"object":       {envelopeOf(t, mustSeal(t, meta, testrig.Pattern(5000), board)), algEd25519, sealContext},
		"old object":   {envelopeOf(t, old), algEdDSA, sealContext},
		"remote":       {remote, algEd25519, remoteContext},
		"empty object": {envelopeOf(t, mustSeal(t, meta, nil, board)), algEd25519, sealContext},
	} {
		key := coseKey{board, cose.Algorithm(c.alg)}
		var m cose.Sign1Message
		if err := m.UnmarshalCBOR(c.sealed); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := m.Verify(c.context, key); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		again := cose.NewSign1Message()
		again.Headers.Protected[cose.HeaderLabelAlgorithm] = key.alg
		again.Headers.Protected[cose.HeaderLabelKeyID] = board.kid[:]
		again.Payload = m.Payload
		if err := again.Sign(nil, c.context, key); err != nil {
			t.Fatal(err)
		}
		b, err := again.MarshalCBOR()
		if err != nil {
			t.Fatal(err)
		}
		equalBytes(t, name, c.sealed, b)
	}
}

func TestOpenAcceptsOldAlgorithmID(t *testing.T) {
	m := testReading(1)
	b, err := marshalMeta(&m, Version)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := sealRaw(b, testrig.Pattern(10), testKey(t, "board-7"), algEdDSA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(sealed, testVerifier(t, testOptions(t))); err != nil {
		t.Fatal(err)
	}
}

// TestOpenEveryBit flips each bit of a sealed object: none may open, and none
// may disturb the object itself.
func TestOpenEveryBit(t *testing.T) {
	v := testVerifier(t, testOptions(t))
	good := mustSeal(t, testReading(1), testrig.Pattern(20), testKey(t, "board-7"))
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := Open(bad, v); err == nil {
			t.Fatalf("bit %d of byte %d flipped and opened", i%8, i/8)
		} else if Reason(err) == ReasonOther {
			t.Fatalf("bit %d of byte %d: %v has no label", i%8, i/8, err)
		}
	}
	for n := range good {
		if _, err := Open(good[:n], v); !errors.Is(err, ErrTruncated) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if _, err := Open(good, v); err != nil {
		t.Fatal(err)
	}
}

// TestOpenForeignBody: a genuine envelope before which another body stands is refused, and
// neither spends the number of the object nor says anything else of the header.
func TestOpenForeignBody(t *testing.T) {
	board := testKey(t, "board-7")
	good := mustSeal(t, testReading(1), testrig.Pattern(300), board)
	wrong := testReading(2)
	wrong.KeyEpoch++
	for name, sealed := range map[string][]byte{"good": good, "of another epoch": mustSeal(t, wrong,
		testrig.Pattern(300), board)} {
		bad := bytes.Clone(sealed)
		bad[100] ^= 1
		v := testVerifier(t, testOptions(t))
		topic := ReadingTopic(DefaultPrefix, "board-7", "vibration")
		r := NewReceiver(Limits{}, func(s Staged) error {
			defer s.Done()
			_, err := v.OpenStaged(s)
			return err
		})
		if err := r.Feed(topic, chunksOf(t, bad, 0)[0]); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: staged: %v", name, err)
		}
		if _, err := v.OpenFrom(topic, bad); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := v.OpenFrom(topic, good); err != nil {
			t.Errorf("%s: the good object after it: %v", name, err)
		}
	}
}

// TestHashObject: the digest of the front and the id, from one pass.
func TestHashObject(t *testing.T) {
	sealed := mustSeal(t, testReading(1), testrig.Pattern(70000), testKey(t, "board-7"))
	o, err := cutObject(sealed)
	if err != nil {
		t.Fatal(err)
	}
	front := sealed[:len(sealed)-len(envelopeOf(t, sealed))]
	id, digest := hashObject(sealed)
	if id != ObjectID(sealed) || digest != sha256.Sum256(front) || digest != o.digest {
		t.Errorf("id %x, digest %x, signed %x", id, digest, o.digest)
	}
	for _, b := range [][]byte{nil, {0x82}, {0x82, 0x42, 1}, testrig.Pattern(100), envelopeOf(t, sealed)} {
		if id, digest := hashObject(b); id != ObjectID(b) || digest != sha256.Sum256(nil) {
			t.Errorf("%x: id %x, digest %x", b[:min(len(b), 9)], id, digest)
		}
	}
}

func TestOpenFromChecksTopic(t *testing.T) {
	o := testOptions(t)
	v := testVerifier(t, o)
	sealed := mustSeal(t, testReading(1), nil, testKey(t, "board-7"))
	for _, topic := range []string{"", "hencedge/v1/up/board-8/vibration", "hencedge/v1/res/mean-power",
		"other/up/board-7/vibration"} {
		if _, err := v.OpenFrom(topic, sealed); !errors.Is(err, ErrWrongTopic) {
			t.Errorf("topic %q: %v", topic, err)
		}
	}
	if n := o.Counters.Refused("wrong_topic"); n != 4 {
		t.Errorf("counted %d", n)
	}
	if _, err := v.OpenFrom(ReadingTopic(DefaultPrefix, "board-7", "vibration"), sealed); err != nil {
		t.Error(err)
	}
}

func TestCheckBody(t *testing.T) {
	m := testReading(1)
	for _, tc := range []struct {
		params [32]byte
		level  int
		scale  float64
		want   error
	}{
		{testParams, 1, 1 << 26, nil},
		{testLayout, 1, 1 << 26, ErrWrongParams},
		{testParams, 2, 1 << 26, ErrBodyMismatch},
		{testParams, 1, math.Nextafter(1<<26, 0), ErrBodyMismatch},
		{testParams, 1, math.NaN(), ErrBodyMismatch},
	} {
		if err := m.CheckBody(tc.params, tc.level, tc.scale); !errors.Is(err, tc.want) ||
			(err == nil) != (tc.want == nil) {
			t.Errorf("level %d scale %g: %v, want %v", tc.level, tc.scale, err, tc.want)
		}
	}
}

func TestVerifierFailsClosed(t *testing.T) {
	if _, err := NewVerifier(VerifierOptions{}); err == nil {
		t.Error("no trust store was accepted")
	}
	sealed := mustSeal(t, testReading(1), nil, testKey(t, "board-7"))
	o := testOptions(t)
	o.Params = nil
	if _, err := Open(sealed, testVerifier(t, o)); !errors.Is(err, ErrWrongParams) {
		t.Errorf("no parameter list: %v", err)
	}
	o = testOptions(t)
	o.Keys = nil
	if _, err := Open(sealed, testVerifier(t, o)); !errors.Is(err, ErrWrongKey) {
		t.Errorf("no key list: %v", err)
	}
	o.AnyKey = true
	if _, err := Open(sealed, testVerifier(t, o)); err != nil {
		t.Errorf("any key: %v", err)
	}
	o = testOptions(t)
	o.Trust = NewTrustStore()
	if _, err := Open(sealed, testVerifier(t, o)); !errors.Is(err, ErrUnknownSigner) {
		t.Errorf("nobody trusted: %v", err)
	}
}

func TestTrustRotation(t *testing.T) {
	o := testOptions(t)
	v := testVerifier(t, o)
	next := testKey(t, "board-7 next")
	first := mustSeal(t, testReading(1), nil, next)
	if _, err := Open(first, v); !errors.Is(err, ErrUnknownSigner) {
		t.Fatalf("before it is trusted: %v", err)
	}
	if err := o.Trust.AddDevice("board-7", next.Public()); err != nil {
		t.Fatal(err)
	}
	for i, k := range []*SigningKey{next, testKey(t, "board-7")} {
		if _, err := Open(mustSeal(t, testReading(1), nil, k), v); err != nil {
			t.Errorf("key %d during overlap: %v", i, err)
		}
	}
	if err := o.Trust.AddDevice("a/b", next.Public()); err == nil {
		t.Error("a name with a slash was trusted")
	}
	if err := o.Trust.AddEvaluator(ed25519.PublicKey{1}); err == nil {
		t.Error("a short key was trusted")
	}
}

func TestMetaValidate(t *testing.T) {
	ok := testResult(1)
	for name, f := range map[string]func(*Meta){
		"kind 0":             func(m *Meta) { m.Kind = 0 },
		"kind 6":             func(m *Meta) { m.Kind = 6 },
		"no device":          func(m *Meta) { m.Device = "" },
		"device with slash":  func(m *Meta) { m.Device = "a/b" },
		"device too long":    func(m *Meta) { m.Device = string(bytes.Repeat([]byte("a"), 65)) },
		"device ..":          func(m *Meta) { m.Device = ".." },
		"no program":         func(m *Meta) { m.Program = "" },
		"wildcard stream":    func(m *Meta) { m.Stream = "+" },
		"negative level":     func(m *Meta) { m.Level = -1 },
		"level 64":           func(m *Meta) { m.Level = 64 },
		"scale 0":            func(m *Meta) { m.Scale = 0 },
		"scale NaN":          func(m *Meta) { m.Scale = math.NaN() },
		"scale Inf":          func(m *Meta) { m.Scale = math.Inf(1) },
		"start after end":    func(m *Meta) { m.Start = 8 },
		"too many samples":   func(m *Meta) { m.Samples = MaxSamples + 1 },
		"too many inputs":    func(m *Meta) { m.Inputs = make([][32]byte, MaxInputs+1) },
		"post A 0":           func(m *Meta) { m.Post.A = 0 },
		"post B NaN":         func(m *Meta) { m.Post.B = math.NaN() },
		"post bound below 0": func(m *Meta) { m.Post.Bound = -1 },
		"post count 0":       func(m *Meta) { m.Post.Count = 0 },
		"post slots":         func(m *Meta) { m.Post.Slot, m.Post.Count = MaxSlots, 1 },
		"post slot below 0":  func(m *Meta) { m.Post.Slot = -1 },
		"reading program":    func(m *Meta) { m.Kind, m.Stream, m.Inputs, m.Post = KindReading, "s", nil, nil },
		"status with post":   func(m *Meta) { m.Kind = KindStatus },
	} {
		m := ok
		p := *ok.Post
		m.Post = &p
		f(&m)
		if err := m.Validate(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Seal(m, nil, testKey(t, "cloud-1")); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: sealed with %v", name, err)
		}
	}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
}

// genMeta draws any valid header.
func genMeta(t *rapid.T) Meta {
	name := rapid.StringMatching(`[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}`)
	hash := rapid.Custom(func(t *rapid.T) (h [32]byte) {
		copy(h[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		return h
	})
	m := Meta{
		Kind: Kind(rapid.IntRange(1, 5).Draw(t, "kind")), Device: name.Draw(t, "device"),
		KeyEpoch: rapid.Uint32().Draw(t, "epoch"), BootEpoch: rapid.Uint64().Draw(t, "boot"),
		Sequence: rapid.Uint64().Draw(t, "seq"),
		Params:   hash.Draw(t, "params"), Layout: hash.Draw(t, "layout"),
		Level: rapid.IntRange(0, MaxLevel).Draw(t, "level"), Scale: rapid.Float64Range(1, MaxScale).Draw(t, "scale"),
		Start: rapid.Int64Range(math.MinInt64, 0).Draw(t, "start"), End: rapid.Int64Range(0, math.MaxInt64).Draw(t,
			"end"),
		Samples: rapid.Uint32Range(0, MaxSamples).Draw(t, "samples"),
	}
	copy(m.KeyID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "key id"))
	switch m.Kind {
	case KindReading:
		m.Stream = name.Draw(t, "stream")
	case KindResult:
		m.Program = name.Draw(t, "program")
		if rapid.Bool().Draw(t, "with post") {
			m.Post = &Post{A: rapid.Float64Range(1e-300, 1e300).Draw(t, "A"),
				B:    rapid.Float64Range(-1e300, 1e300).Draw(t, "B"),
				Sqrt: rapid.Bool().Draw(t, "sqrt"), Slot: rapid.IntRange(0, 1000).Draw(t, "slot"),
				Count: rapid.IntRange(1, 1000).Draw(t, "count"),
				Bound: rapid.Float64Range(0, 1e9).Draw(t, "bound")}
		}
		if in := rapid.SliceOfN(hash, 0, 5).Draw(t, "inputs"); len(in) > 0 {
			m.Inputs = in
		}
	}
	return m
}

func TestMetaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMeta(t)
		b, err := marshalMeta(&m, Version)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unmarshalMeta(b)
		if err != nil {
			t.Fatalf("%v\n%x", err, b)
		}
		if !reflect.DeepEqual(*got, m) {
			t.Fatalf("got %+v, want %+v", *got, m)
		}
		if len(b) > MaxMeta {
			t.Fatalf("header of %d bytes", len(b))
		}
	})
}

// TestMetaMaxFits: the largest valid header is within MaxMeta.
func TestMetaMaxFits(t *testing.T) {
	m := testResult(math.MaxUint64)
	m.Inputs = make([][32]byte, MaxInputs)
	b, err := marshalMeta(&m, Version)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > MaxMeta-256 {
		t.Errorf("header of %d bytes", len(b))
	}
	if _, err := unmarshalMeta(b); err != nil {
		t.Error(err)
	}
	if _, err := unmarshalMeta(make([]byte, MaxMeta+1)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestPeekMeta(t *testing.T) {
	m := testReading(4)
	got, err := PeekMeta(mustSeal(t, m, testrig.Pattern(9), testKey(t, "whoever")))
	if err != nil || !reflect.DeepEqual(*got, m) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := PeekMeta([]byte{1, 2, 3}); err == nil {
		t.Error("peeked into nothing")
	}
}

func TestReasonsAreDistinct(t *testing.T) {
	if len(reasons) >= maxReasons {
		t.Fatalf("%d reasons, the counters hold %d", len(reasons), maxReasons)
	}
	seen := map[string]bool{}
	var c Counters
	for _, r := range reasons {
		if seen[r.label] || Reason(r.err) != r.label {
			t.Errorf("label %q", r.label)
		}
		seen[r.label] = true
		c.Refuse(r.err)
	}
	c.Refuse(errors.New("something else"))
	c.Refuse(nil)
	for label, n := range c.Snapshot() {
		if n != 1 {
			t.Errorf("%s counted %d times", label, n)
		}
	}
	if Reason(nil) != "" || Reason(errors.New("x")) != ReasonOther || len(Reasons()) != len(reasons)+1 {
		t.Error("labels of nil and unknown errors")
	}
	var none *Counters
	none.Refuse(ErrMalformed)
	none.Accept()
	none.Duplicate()
	if none.Refused("malformed") != 0 {
		t.Error("nil counters")
	}
}

// A body sealed where it stands gives the bytes of Seal, with room or without.
func TestSealInPlace(t *testing.T) {
	key, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	meta := testReading(7)
	for _, size := range []int{0, 1, 23, 24, 255, 256, 65535, 65536, 1 << 20} {
		body := bytes.Repeat([]byte{0xa5}, size)
		want, err := Seal(meta, body, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, room := range []int{0, 1, 100, SealRoom, 2 * SealRoom} {
			for _, tail := range []int{0, SealTail, 2 * SealTail} {
				b := append(make([]byte, room, room+size+tail), body...)
				got, id, err := SealNamed(meta, b, room, key)
				if err != nil || !bytes.Equal(got, want) || id != ObjectID(want) {
					t.Fatalf("%d bytes, room %d, tail %d: %v", size, room, tail, err)
				}
				end := len(got) - len(envelopeOf(t, got)) // of the body
				if in := room >= SealRoom && tail >= SealTail; in && size > 0 && &got[end-1] != &b[room+size-1] {
					t.Errorf("%d bytes, room %d, tail %d: copied", size, room, tail)
				}
			}
		}
	}
	for _, at := range []int{-1, 2} {
		if _, err := SealInPlace(meta, []byte{1}, at, key); err == nil {
			t.Errorf("a body at %d of 1", at)
		}
	}
}

// SetDevices replaces the devices that are trusted, all of them or none, and leaves the
// evaluators.
func TestSetDevices(t *testing.T) {
	one, two, cloud := testKey(t, "one"), testKey(t, "two"), testKey(t, "cloud-1")
	trust, err := TrustKeys(map[string]ed25519.PublicKey{"a": one.Public(), "b": cloud.Public()}, cloud.Public())
	if err != nil {
		t.Fatal(err)
	}
	trusted := func(device string, k *SigningKey) bool {
		known := holds(trust.signers(k.kid), k.Public())
		m := Meta{Kind: KindReading, Device: device}
		return known && trust.trusts(&m, k.Public())
	}
	if err := trust.SetDevices(map[string]ed25519.PublicKey{"c": two.Public(), "d": two.Public()[:5]}); err == nil ||
		!trusted("a", one) || trusted("c", two) {
		t.Errorf("a bad key: %v", err)
	}
	if err := trust.SetDevices(map[string]ed25519.PublicKey{"a/b": two.Public()}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a bad name: %v", err)
	}
	if err := trust.SetDevices(map[string]ed25519.PublicKey{"c": two.Public()}); err != nil {
		t.Fatal(err)
	}
	if trusted("a", one) || !trusted("c", two) || trusted("b", cloud) || len(trust.signers(one.kid)) > 0 {
		t.Error("the devices were not replaced")
	}
	result := Meta{Kind: KindResult}
	if len(trust.signers(cloud.kid)) != 1 || !trust.trusts(&result, cloud.Public()) {
		t.Error("the evaluator went with the devices")
	}
}
