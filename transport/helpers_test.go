package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"testing"
)

var (
	testParams = sha256.Sum256([]byte("params"))
	testLayout = sha256.Sum256([]byte("layout"))
	testKeyID  = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

// testKey returns a fixed signing key per name.
func testKey(t testing.TB, name string) *SigningKey {
	t.Helper()
	seed := sha256.Sum256([]byte("seed of " + name))
	k, err := SigningKeyFromSeed(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func testReading(seq uint64) Meta {
	return Meta{
		Kind: KindReading, Device: "board-7", Stream: "vibration", KeyID: testKeyID, KeyEpoch: 3,
		BootEpoch: 12, Sequence: seq, Params: testParams, Layout: testLayout, Level: 1, Scale: 1 << 26,
		Start: 1_700_000_000_000_000_000, End: 1_700_000_010_000_000_000, Samples: 256,
	}
}

func testResult(seq uint64) Meta {
	return Meta{
		Kind: KindResult, Device: "cloud-1", Program: "mean-power", KeyID: testKeyID, KeyEpoch: 3,
		BootEpoch: 2, Sequence: seq, Params: testParams, Level: 0, Scale: 0x1.8p27,
		Start: -5, End: 7, Samples: 256, Inputs: [][32]byte{{1}, {2}},
		Post: &Post{A: 0.25, B: -3.5, Sqrt: true, Slot: 4, Count: 2, Bound: 1e-3},
	}
}

// testOptions trust board-7 and the evaluator cloud-1 for everything that
// testReading and testResult carry.
func testOptions(t testing.TB) VerifierOptions {
	t.Helper()
	trust, err := TrustKeys(map[string]ed25519.PublicKey{"board-7": testKey(t, "board-7").Public()},
		testKey(t, "cloud-1").Public())
	if err != nil {
		t.Fatal(err)
	}
	return VerifierOptions{
		Trust: trust, Params: [][32]byte{testParams}, Keys: []KeyRef{{testKeyID, 3}},
		Layout: func(device, stream string) ([32]byte, bool) {
			return testLayout, device == "board-7" && stream == "vibration"
		},
		Counters: &Counters{},
	}
}

func testVerifier(t testing.TB, o VerifierOptions) *Verifier {
	t.Helper()
	v, err := NewVerifier(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustSeal(t testing.TB, m Meta, body []byte, k *SigningKey) []byte {
	t.Helper()
	b, err := Seal(m, body, k)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sealRaw seals an encoded header, which may be one that no encoder writes.
func sealRaw(meta, body []byte, key *SigningKey, alg int64) ([]byte, error) {
	o, err := sealAt(meta, body, 0, key, alg)
	return o.Bytes, err
}

func equalBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got %d bytes, want %d other ones", what, len(got), len(want))
	}
}
