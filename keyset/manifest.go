package keyset

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// ManifestFile is the file of a Manifest.
const ManifestFile = "keyset.json"

const (
	// Version of the manifest that this program writes and reads.
	Version = 1
	// MaxManifest bounds a manifest, in bytes.
	MaxManifest = 16 << 20
	// MaxEpochs bounds the epochs of a key set.
	MaxEpochs = 10000
)

// Errors of key sets and exports; test with errors.Is.
var (
	// ErrCorrupt: a file of the key set is damaged or does not belong to it.
	ErrCorrupt = errors.New("key set is damaged")
	// ErrHolder: the keys are not signed by the key holder that is trusted.
	ErrHolder = errors.New("keys of another key holder")
	// ErrNoHolder: it is not said which key holder is trusted.
	ErrNoHolder = errors.New("no key holder is named")
)

// ErrSecret: a directory holds secret keys where none belong.
var ErrSecret = errors.New("SECRET KEYS WHERE NONE BELONG")

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
	Rotations   []int `json:"rotations"`
	Conjugation bool  `json:"conjugation"`
	Relinearise bool  `json:"relinearise"`
	// Bootstrap says with which keys it can bootstrap; their rotations are in Rotations.
	Bootstrap       Bootstrap `json:"bootstrap,omitempty"`
	PublicBytes     int64     `json:"public_bytes"`
	EvaluationBytes int64     `json:"evaluation_bytes"`
	// Files holds the SHA-256 (hex) of every public file of the epoch, but for those of Compact's devices.
	Files map[string]string `json:"files"`
	// Compact is nil where no device has keys of compact windows.
	Compact *Compact `json:"compact,omitempty"`
}

// Bootstrap says with which keys an evaluator bootstraps.
type Bootstrap string

// The keys of bootstrapping. Both kinds have those of the sparse secret.
const (
	// BootstrapNone are no keys.
	BootstrapNone Bootstrap = ""
	// BootstrapFast are keys for every baby step.
	BootstrapFast Bootstrap = "fast"
	// BootstrapSmall are the fewest keys, with more key switches.
	BootstrapSmall Bootstrap = "small"
)

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

// Encode is the text of keyset.json.
func (m *Manifest) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode key set: %w", err)
	}
	return append(b, '\n'), nil
}

// ParseManifest reads keyset.json strictly: no unknown fields, no trailing
// data, epochs ascending and complete. It fails with ErrCorrupt.
func ParseManifest(b []byte) (*Manifest, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	m := new(Manifest)
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, ManifestFile, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s has data after the object", ErrCorrupt, ManifestFile)
	}
	if m.Version != Version {
		return nil, fmt.Errorf("%w: %s has version %d, this program reads %d", ErrCorrupt, ManifestFile,
			m.Version, Version)
	}
	if len(m.Epochs) == 0 || len(m.Epochs) > MaxEpochs {
		return nil, fmt.Errorf("%w: %s lists %d epochs, must be 1 to %d", ErrCorrupt, ManifestFile,
			len(m.Epochs), MaxEpochs)
	}
	if h, err := hex.DecodeString(m.ParamsHash); err != nil || len(h) != 32 {
		return nil, fmt.Errorf("%w: %s: params_hash is not 64 hexadecimal digits", ErrCorrupt, ManifestFile)
	}
	last := uint32(0)
	seen := map[string]bool{}
	for _, e := range m.Epochs {
		if e.Epoch <= last {
			return nil, fmt.Errorf("%w: %s: epoch %d follows epoch %d", ErrCorrupt, ManifestFile, e.Epoch, last)
		}
		last = e.Epoch
		if _, err := e.ID(); err != nil {
			return nil, err
		}
		if !slices.Contains([]Bootstrap{BootstrapNone, BootstrapFast, BootstrapSmall}, e.Bootstrap) {
			return nil, fmt.Errorf("%w: %s: epoch %d bootstraps %q", ErrCorrupt, ManifestFile, e.Epoch, e.Bootstrap)
		}
		if e.Compact != nil {
			if err := e.Compact.check(e.Epoch); err != nil {
				return nil, err
			}
		}
		if seen[e.KeyID] {
			return nil, fmt.Errorf("%w: %s: key id %s stands in two epochs", ErrCorrupt, ManifestFile, e.KeyID)
		}
		seen[e.KeyID] = true
	}
	return m, nil
}

// Parameters are the parameters that m names, if they still are what they were when
// the keys were made. It fails with ErrCorrupt.
func (m *Manifest) Parameters() (henc.Parameters, error) {
	p, err := henc.Named(m.Params)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := p.CheckKeys(); err != nil {
		return p, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if hash := p.Hash(); hex.EncodeToString(hash[:]) != m.ParamsHash {
		return p, fmt.Errorf("%w: parameters %s have hash %x here, the key set was made for %s", ErrCorrupt, m.Params,
			hash[:8], m.ParamsHash[:16])
	}
	return p, nil
}

// Fingerprint is that of the holder's key, "" if that is none.
func (m *Manifest) Fingerprint() string {
	pub, err := transport.ParsePublicKey(m.Signer)
	if err != nil {
		return ""
	}
	return transport.Fingerprint(pub)
}

// ByID finds the epoch with a key id.
func (m *Manifest) ByID(id [16]byte) (Epoch, bool) {
	text := hex.EncodeToString(id[:])
	i := slices.IndexFunc(m.Epochs, func(e Epoch) bool { return strings.EqualFold(e.KeyID, text) })
	if i < 0 {
		return Epoch{}, false
	}
	return m.Epochs[i], true
}

// Remedy returns what to do about an error of a key set or an export, or "". field is
// where a configuration names the key holder.
func Remedy(err error, field string) string {
	switch {
	case errors.Is(err, ErrNoHolder):
		return "add \"" + field + "\" with the fingerprint that `hencedge keys show` prints at the key holder, got " +
			"over another way than the keys; \"holder: none\" takes the keys of anyone"
	case errors.Is(err, ErrHolder):
		return "compare the fingerprint with the key holder: if it is not theirs, somebody changed the " +
			"keys on their way"
	case errors.Is(err, ErrSecret):
		return "do as the message says; secret keys belong at the key holder alone"
	}
	return ""
}
