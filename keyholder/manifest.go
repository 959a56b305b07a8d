package keyholder

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	manifestName    = "keyset.json"
	manifestVersion = 1
	maxManifest     = 1 << 20
	maxEpochs       = 10000
)

// Names of the files of an epoch.
const (
	SecretFile     = "secret.key"
	PublicFile     = "public.key"
	EvaluationFile = "evaluation.key"
)

// Manifest is keyset.json: all that may be known of a key set.
type Manifest struct {
	Version    int       `json:"version"`
	Params     string    `json:"params"`      // named parameter set
	ParamsHash string    `json:"params_hash"` // SHA-256, hex
	Signer     string    `json:"signer"`      // Ed25519 public key of the holder, "ed25519:..."
	Created    time.Time `json:"created"`
	Epochs     []Epoch   `json:"epochs"` // ascending; the last one is current
}

// Epoch is one generation of keys of a set.
type Epoch struct {
	Epoch   uint32    `json:"epoch"` // from 1
	KeyID   string    `json:"key_id"`
	Created time.Time `json:"created"`
	// AcceptUntil ends the overlap after a rotation: results computed on
	// later readings under this epoch are refused. Zero means no end.
	AcceptUntil time.Time `json:"accept_until,omitzero"`
	// Rotations that the evaluation key serves, in slots, ascending; and
	// whether it can conjugate and relinearise.
	Rotations       []int `json:"rotations"`
	Conjugation     bool  `json:"conjugation"`
	Relinearise     bool  `json:"relinearise"`
	PublicBytes     int64 `json:"public_bytes"`
	EvaluationBytes int64 `json:"evaluation_bytes"`
	// Files holds the SHA-256 (hex) of every public file of the epoch.
	Files map[string]string `json:"files"`
}

// Dir is the epoch's directory inside the key set.
func (e Epoch) Dir() string { return fmt.Sprintf("epoch-%04d", e.Epoch) }

// ID is the key id as 16 bytes.
func (e Epoch) ID() ([16]byte, error) {
	var id [16]byte
	b, err := hex.DecodeString(e.KeyID)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%w: key id %q of epoch %d is not 32 hexadecimal digits", ErrCorrupt, e.KeyID, e.Epoch)
	}
	copy(id[:], b)
	return id, nil
}

// Current is the newest epoch, the one that agents should encrypt under.
func (m *Manifest) Current() Epoch { return m.Epochs[len(m.Epochs)-1] }

func (m *Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode key set: %w", err)
	}
	return append(b, '\n'), nil
}

// parseManifest reads keyset.json strictly: no unknown fields, no trailing
// data, epochs ascending and complete.
func parseManifest(b []byte) (*Manifest, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	m := new(Manifest)
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, manifestName, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s has data after the object", ErrCorrupt, manifestName)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("%w: %s has version %d, this program reads %d", ErrCorrupt, manifestName, m.Version, manifestVersion)
	}
	if len(m.Epochs) == 0 || len(m.Epochs) > maxEpochs {
		return nil, fmt.Errorf("%w: %s lists %d epochs, must be 1 to %d", ErrCorrupt, manifestName, len(m.Epochs), maxEpochs)
	}
	if h, err := hex.DecodeString(m.ParamsHash); err != nil || len(h) != 32 {
		return nil, fmt.Errorf("%w: %s: params_hash is not 64 hexadecimal digits", ErrCorrupt, manifestName)
	}
	last := uint32(0)
	seen := map[string]bool{}
	for _, e := range m.Epochs {
		if e.Epoch <= last {
			return nil, fmt.Errorf("%w: %s: epoch %d follows epoch %d", ErrCorrupt, manifestName, e.Epoch, last)
		}
		last = e.Epoch
		if _, err := e.ID(); err != nil {
			return nil, err
		}
		if seen[e.KeyID] {
			return nil, fmt.Errorf("%w: %s: key id %s stands in two epochs", ErrCorrupt, manifestName, e.KeyID)
		}
		seen[e.KeyID] = true
	}
	return m, nil
}
