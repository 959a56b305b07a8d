package transport

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/veraison/go-cose"

	"github.com/hencedge/hencedge/internal/testrig"
)

// The targets share three claims: no input panics, every refusal has a label of
// this package, and what is accepted has exactly the encoding that came.

func refused(t *testing.T, err error) {
	t.Helper()
	if Reason(err) == ReasonOther {
		t.Fatalf("%v has no label", err)
	}
}

func FuzzChunk(f *testing.F) {
	for _, n := range []int{1, 100, 5000} {
		pieces, err := Split(testrig.Pattern(n), 2048)
		if err != nil {
			f.Fatal(err)
		}
		for i := range pieces {
			b, err := pieces[i].Marshal()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte{0x86, 0x18, 0x2c})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := UnmarshalChunk(b, 1<<20)
		if err != nil {
			refused(t, err)
			return
		}
		again, err := c.Marshal()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("not canonical: %v", err)
		}
		r := newReceiver(Limits{MaxObject: 1 << 20}, func(string, []byte) error { return nil })
		if err := r.Feed("t", b); err != nil {
			refused(t, err)
		}
		if _, held := r.pending(); held > len(b) {
			t.Fatalf("holds %d bytes of a chunk of %d", held, len(b))
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	good := mustSeal(f, testReading(1), testrig.Pattern(50), testKey(f, "board-7"))
	f.Add(good)
	f.Add(mustSeal(f, testResult(1), testrig.Pattern(5), testKey(f, "cloud-1")))
	f.Add(good[:len(good)-1])
	f.Add([]byte{0xd2, 0x84, 0x43, 0xa1, 0x01, 0x26, 0xa0, 0x40, 0x40})
	f.Add([]byte{0x82, 0x40, 0xd2, 0x84, 0x43, 0xa1, 0x01, 0x26, 0xa0, 0x40, 0x40})
	for _, b := range hostileEnvelopes(f, 100) {
		f.Add(b[:min(len(b), 4096)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := cutObject(b)
		if err != nil {
			refused(t, err)
		} else {
			// Another implementation sees the same in it.
			var m cose.Sign1Message
			if err := m.UnmarshalCBOR(envelopeOf(t, b)); err != nil || !bytes.Equal(m.Payload, o.payload) ||
				!bytes.Equal(m.Signature, o.signature) {
				t.Fatalf("go-cose: %v", err)
			}
		}
		if m, err := PeekMeta(b); err != nil {
			refused(t, err)
		} else {
			// An envelope that parses is what its parts make.
			key := &SigningKey{priv: testKey(t, "board-7").priv, kid: o.kid}
			meta, err := marshalMeta(m, Version)
			if err != nil {
				t.Fatal(err)
			}
			again, err := sealRaw(meta, o.body, key, o.alg)
			if err != nil {
				t.Fatal(err)
			}
			copy(again[len(again)-66-sha256.Size:], o.digest[:]) // nobody has compared it with the body
			if len(again) != len(b) || !bytes.Equal(again[:len(b)-64], b[:len(b)-64]) {
				t.Fatalf("not canonical:\n%x\n%x", b, again)
			}
		}
		v := testVerifier(t, testOptions(t))
		if obj, err := Open(b, v); err != nil {
			refused(t, err)
		} else if obj.ID != ObjectID(b) {
			t.Fatal("wrong id")
		}
	})
}

// partialResult returns a result of windows that are not full.
func partialResult() Meta {
	m := testResult(2)
	m.Present = make([]uint32, len(m.Inputs))
	for i := range m.Present {
		m.Present[i] = uint32(i) + 1
	}
	return m
}

func FuzzMeta(f *testing.F) {
	placed := testReading(3)
	placed.Place = 7
	for _, m := range []Meta{testReading(1), placed, testResult(1 << 40), {Kind: KindStatus, Device: "a"},
		{Kind: KindProgram, Device: "a", Program: "p"}, partialResult()} {
		b, err := marshalMeta(&m, Version)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := unmarshalMeta(b)
		if err != nil {
			refused(t, err)
			return
		}
		again, err := marshalMeta(m, Version)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("not canonical: %v", err)
		}
	})
}

func FuzzStatus(f *testing.F) {
	b, err := MarshalStatus(Status{Online: true, Version: "1.2", Since: 5, KeyID: [16]byte{1}, KeyEpoch: 2,
		CertificateEnd: 7, Streams: []StreamStatus{{Name: "a"},
			{Name: "b", Params: "p", LogScale: 30, Packing: "real", Samples: 8, Every: 1e9,
				Channels: []ChannelStatus{{Name: "c", Unit: "1", Max: 0.1}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := UnmarshalStatus(b)
		if err != nil {
			refused(t, err)
			return
		}
		again, err := MarshalStatus(*s)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("not canonical: %v", err)
		}
	})
}

func FuzzSigningKeyText(f *testing.F) {
	text, err := testKey(f, "a").MarshalText()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(testKey(f, "a").PublicText()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, err := ParseSigningKey(b); err != nil {
			refused(t, err)
		} else if again, _ := k.MarshalText(); !bytes.Equal(again, bytes.TrimSpace(b)) {
			t.Fatal("one key has two texts")
		}
		if pub, err := ParsePublicKey(string(b)); err != nil {
			refused(t, err)
		} else if FormatPublicKey(pub) != string(b) {
			t.Fatal("one public key has two texts")
		}
	})
}

func FuzzReplayState(f *testing.F) {
	g := NewReplayGuard(64)
	for boot := range uint64(5) {
		if err := g.accept(guardKey("a"), boot, boot*3); err != nil {
			f.Fatal(err)
		}
	}
	b, err := g.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		g := NewReplayGuard(64)
		if err := g.UnmarshalBinary(b); err != nil {
			refused(t, err)
			return
		}
		// Whatever was loaded, a number is taken at most once.
		for _, boot := range []uint64{0, 1, 1 << 63} {
			first, again := g.accept(guardKey("a"), boot, 7), g.accept(guardKey("a"), boot, 7)
			if first == nil && again == nil {
				t.Fatal("accepted twice")
			}
		}
	})
}
