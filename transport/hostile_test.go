package transport

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/hencedge/hencedge/internal/testrig"
)

// nested returns a well-formed CBOR array of about n bytes that is dear to decode: arrays of
// empty arrays.
func nested(n int) []byte {
	const width = 100_000
	count := max(n/(width+5), 1)
	inner := append([]byte{0x9a, 0, 1, 0x86, 0xa0}, bytes.Repeat([]byte{0x80}, width)...)
	return append([]byte{0x9a, 0, 0, byte(count >> 8), byte(count)}, bytes.Repeat(inner, count)...)
}

// hostileEnvelopes returns objects of about n bytes that anybody can make: none is signed by
// a trusted key.
func hostileEnvelopes(t testing.TB, n int) map[string][]byte {
	t.Helper()
	board := testKey(t, "board-7")
	protected := protectedHeader(algEd25519, board.kid)
	bytesOf := func(b []byte) []byte { return append(appendHead(nil, 2, len(b)), b...) }
	object := func(body, protected, unprotected, payload []byte) []byte {
		b := append(append([]byte{0x82}, bytesOf(body)...), 0xd2, 0x84)
		b = append(append(append(b, protected...), unprotected...), bytesOf(payload)...)
		return append(append(b, 0x58, 64), make([]byte, 64)...)
	}
	payload := func(header []byte) []byte { return appendPayload(header, make([]byte, 32)) }
	deep := nested(n)
	inMap := append([]byte{0xa1, 0x61, 'a'}, deep...)
	withKey := append([]byte{0xa3, 0x01, 0x32, 0x04, 0x48}, board.kid[:]...)
	withKey = append(append(withKey, 0x61, 'a'), deep...)
	unknown := protectedHeader(algEd25519, [8]byte{1})
	none, small := []byte{0xa0}, nested(1)[:MaxMeta]
	return map[string][]byte{
		"nested unprotected header": object(nil, protected, inMap, nil),
		"nested protected header":   object(nil, bytesOf(withKey), none, nil),
		"nested header":             object(nil, protected, none, payload(inMap)),
		"nested header that fits":   object(deep, protected, none, payload(small)),
		"nested payload":            object(nil, protected, none, deep),
		"nested object":             append([]byte{0x82}, deep...),
		"nested envelope":           append([]byte{0x82, 0x40}, deep...),
		"nested body":               object(deep, protected, none, payload([]byte{0xa0})),
		"format version 1":          append([]byte{0xd2}, deep...),
		"unknown signer":            object(deep, unknown, none, payload(small)),
	}
}

// TestHostileEnvelopeCost: what anybody can publish costs memory that does not depend on its
// size, and hardly any where its signer is unknown.
func TestHostileEnvelopeCost(t *testing.T) {
	const size = 4 << 20
	v := testVerifier(t, testOptions(t))
	for range 3 { // makes the tables of the only known key, once
		v.keys.Verify(testKey(t, "board-7").Public(), nil, make([]byte, 64))
	}
	for name, sealed := range hostileEnvelopes(t, size) {
		var err error
		if len(sealed) < size*9/10 {
			t.Fatalf("%s: %d bytes", name, len(sealed))
		}
		n := testrig.Allocated(func() { _, err = Open(sealed, v) })
		if Reason(err) == ReasonOther || err == nil {
			t.Errorf("%s: %v", name, err)
		}
		if n > 64<<10 {
			t.Errorf("%s: %d bytes allocated for %d (%v)", name, n, len(sealed), err)
		}
		if n := testrig.Allocated(func() { _, err = PeekMeta(sealed) }); n > 256<<10 || err == nil {
			t.Errorf("%s: a peek allocated %d bytes: %v", name, n, err)
		}
		if n := testrig.Allocated(func() {
			_, err = OpenRemote(sealed[:min(len(sealed), maxRemote)], ed25519.PublicKey(testKey(t, "board-7").Public()),
				"a")
		}); n > 256<<10 || err == nil {
			t.Errorf("%s: a remote configuration allocated %d bytes: %v", name, n, err)
		}
	}
	sealed := hostileEnvelopes(t, size)["unknown signer"]
	var err error
	if n := testrig.Allocated(func() { _, err = Open(sealed, v) }); n > 16<<10 || !errors.Is(err, ErrUnknownSigner) {
		t.Errorf("an unknown signer cost %d bytes: %v", n, err)
	}
}
