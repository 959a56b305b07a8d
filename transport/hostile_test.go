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
	envelope := func(protected, unprotected, payload []byte) []byte {
		b := append(append([]byte{0xd2, 0x84}, protected...), unprotected...)
		b = append(append(b, appendHead(nil, 2, len(payload))...), payload...)
		return append(append(b, 0x58, 64), make([]byte, 64)...)
	}
	bytesOf := func(b []byte) []byte { return append(appendHead(nil, 2, len(b)), b...) }
	deep := nested(n)
	inMap := append([]byte{0xa1, 0x61, 'a'}, deep...)
	withKey := append([]byte{0xa3, 0x01, 0x32, 0x04, 0x48}, board.kid[:]...)
	withKey = append(append(withKey, 0x61, 'a'), deep...)
	unknown := protectedHeader(algEd25519, [8]byte{1})
	return map[string][]byte{
		"nested unprotected header": envelope(protected, inMap, nil),
		"nested protected header":   envelope(bytesOf(withKey), []byte{0xa0}, nil),
		"nested header of a reading": envelope(protected, []byte{0xa0},
			append(append([]byte{0x82}, inMap...), 0x40)),
		"nested payload":      envelope(protected, []byte{0xa0}, deep),
		"nested frame":        append([]byte{0xd2}, deep...),
		"unknown signer":      envelope(unknown, []byte{0xa0}, deep),
		"header of one array": envelope(protected, []byte{0xa0}, append(append([]byte{0x82}, deep...), 0x40)),
	}
}

// TestHostileEnvelopeCost: what anybody can publish costs memory in proportion to its
// size only, and nothing like its size where its signer is unknown.
func TestHostileEnvelopeCost(t *testing.T) {
	const size = 4 << 20
	v := testVerifier(t, testOptions(t))
	for name, sealed := range hostileEnvelopes(t, size) {
		var err error
		if len(sealed) < size*9/10 {
			t.Fatalf("%s: %d bytes", name, len(sealed))
		}
		n := testrig.Allocated(func() { _, err = Open(sealed, v) })
		if Reason(err) == ReasonOther || err == nil {
			t.Errorf("%s: %v", name, err)
		}
		// One copy is the message that Ed25519 verifies.
		if limit := uint64(len(sealed)) + 64<<10; n > limit {
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
