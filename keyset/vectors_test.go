package keyset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/vectors"
	"github.com/hencedge/hencedge/transport"
)

// TestManifestVectors: keyset.json and keyset.cose of a key set with two epochs.
func TestManifestVectors(t *testing.T) {
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := transport.SigningKeyFromSeed(vectors.Seed()[:])
	if err != nil {
		t.Fatal(err)
	}
	hash := p.Hash()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := &Manifest{Version: Version, Params: p.Name(), ParamsHash: hex.EncodeToString(hash[:]),
		Signer: signer.PublicText(), Created: at, Epochs: []Epoch{
			{Epoch: 1, KeyID: "d9948b9ac76a820d9abfc194b53a0fb0", Created: at, AcceptUntil: at.Add(48 * time.Hour),
				Rotations: []int{1, 2}, Conjugation: true, Relinearise: true,
				PublicBytes: 44126, EvaluationBytes: 352486,
				Files: map[string]string{EvaluationFile: fileSum("the evaluation keys of epoch 1")}},
			{Epoch: 2, KeyID: "00112233445566778899aabbccddeeff", Created: at.Add(24 * time.Hour), Rotations: []int{},
				PublicBytes: 44126, EvaluationBytes: 57,
				Files: map[string]string{EvaluationFile: fileSum("the evaluation keys of epoch 2")}},
		}}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := Seal(b, p, signer)
	if err != nil {
		t.Fatal(err)
	}
	vectors.Check(t, "keyset.json", struct {
		Comment  string `json:"comment"`
		Manifest string `json:"keyset_json"`
		Sealed   string `json:"keyset_cose"`
	}{"keyset.json as text, and keyset.cose, which is over exactly these bytes, signed by the key of messages.json.",
		string(b), hex.EncodeToString(sealed)})
	if err := checkSeal(sealed, b, signer.Public(), p); err != nil {
		t.Error(err)
	}
}

func fileSum(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }
