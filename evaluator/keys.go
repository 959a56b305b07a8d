package evaluator

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// ErrKeys: a key set cannot be used; the message says why.
var ErrKeys = errors.New("evaluation keys")

// Keys are the evaluation keys of one epoch of one key set.
type Keys struct {
	Context    *henc.Context
	Evaluation *henc.EvaluationKeys
	// AcceptUntil ends the overlap after a rotation: readings whose window ends
	// later are refused under this epoch. Zero means no end.
	AcceptUntil time.Time
	// Holder is the key that the key holder signs with; nil when unknown.
	Holder ed25519.PublicKey
}

// ref names the keys.
func (k Keys) ref() transport.KeyRef {
	return transport.KeyRef{ID: k.Evaluation.KeyID, Epoch: k.Evaluation.Epoch}
}

// Limits of what is read of a key set directory.
const (
	maxManifest  = 1 << 20
	maxEpochs    = 64
	maxKeyFile   = 16 << 30
	manifestFile = "keyset.json"
	sealedFile   = "keyset.cose"
	keyFile      = "evaluation.key"
	holderDevice = "keyholder" // sender of the sealed manifest
)

// manifest is the part of keyset.json that an evaluator needs. The key holder
// may add fields.
type manifest struct {
	Version    int    `json:"version"`
	Params     string `json:"params"`
	ParamsHash string `json:"params_hash"`
	Signer     string `json:"signer"`
	Epochs     []struct {
		Epoch       uint32            `json:"epoch"`
		KeyID       string            `json:"key_id"`
		AcceptUntil time.Time         `json:"accept_until"`
		Files       map[string]string `json:"files"`
	} `json:"epochs"`
}

// LoadKeys reads a directory that `hencedge keys export --role evaluator` wrote:
// keyset.json, its signature keyset.cose, and epoch-NNNN/evaluation.key. It
// checks the signature by the key that the manifest names, the digests of the
// files, and that the parameters are the ones known by that name. context makes
// the context for the parameters. It fails with ErrKeys.
func LoadKeys(dir string, context func(henc.Parameters) (*henc.Context, error)) ([]Keys, error) {
	fail := func(err error) ([]Keys, error) { return nil, fmt.Errorf("%w: %s: %w", ErrKeys, dir, err) }
	raw, err := readCapped(filepath.Join(dir, manifestFile), maxManifest)
	if err != nil {
		return fail(err)
	}
	m, params, err := parseManifest(raw)
	if err != nil {
		return fail(err)
	}
	if err := checkSeal(dir, raw, m, params); err != nil {
		return fail(err)
	}
	ctx, err := context(params)
	if err != nil {
		return fail(err)
	}
	holder, err := transport.ParsePublicKey(m.Signer)
	if err != nil {
		return fail(err)
	}
	var out []Keys
	for _, e := range m.Epochs {
		name := filepath.Join(fmt.Sprintf("epoch-%04d", e.Epoch), keyFile)
		b, err := readCapped(filepath.Join(dir, name), maxKeyFile)
		if err != nil {
			return fail(err)
		}
		if sum := sha256.Sum256(b); e.Files[keyFile] != hex.EncodeToString(sum[:]) {
			return fail(fmt.Errorf("%s is not the file that was signed", name))
		}
		ev, err := ctx.UnmarshalEvaluationKeys(b)
		if err != nil {
			return fail(fmt.Errorf("%s: %w", name, err))
		}
		if ev.Epoch != e.Epoch || hex.EncodeToString(ev.KeyID[:]) != e.KeyID {
			return fail(fmt.Errorf("%s holds epoch %d of key set %x, the manifest says epoch %d of %s", name, ev.Epoch, ev.KeyID, e.Epoch, e.KeyID))
		}
		out = append(out, Keys{Context: ctx, Evaluation: ev, AcceptUntil: e.AcceptUntil, Holder: holder})
	}
	return out, nil
}

// parseManifest reads keyset.json and finds its parameters.
func parseManifest(raw []byte) (*manifest, henc.Parameters, error) {
	fail := func(format string, args ...any) (*manifest, henc.Parameters, error) {
		return nil, henc.Parameters{}, fmt.Errorf(manifestFile+": "+format, args...)
	}
	m := new(manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		return fail("%w", err)
	}
	if m.Version != 1 {
		return fail("version %d, this program reads 1", m.Version)
	}
	if len(m.Epochs) == 0 || len(m.Epochs) > maxEpochs {
		return fail("%d epochs, want 1 to %d", len(m.Epochs), maxEpochs)
	}
	params, err := henc.Named(m.Params)
	if err != nil {
		return fail("%w", err)
	}
	if hash := params.Hash(); m.ParamsHash != hex.EncodeToString(hash[:]) {
		return fail("its parameters %s are not the ones that this program knows by that name", m.Params)
	}
	return m, params, nil
}

// checkSeal verifies the holder's signature over the manifest.
func checkSeal(dir string, raw []byte, m *manifest, p henc.Parameters) error {
	sealed, err := readCapped(filepath.Join(dir, sealedFile), 2*maxManifest)
	if err != nil {
		return err
	}
	pub, err := transport.ParsePublicKey(m.Signer)
	if err != nil {
		return fmt.Errorf("%s: signer: %w", manifestFile, err)
	}
	trust := transport.NewTrustStore()
	if err := trust.AddDevice(holderDevice, pub); err != nil {
		return err
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, Kinds: []transport.Kind{transport.KindStatus}, AnyKey: true, AnyParams: true})
	if err != nil {
		return err
	}
	obj, err := transport.Open(sealed, v)
	if err != nil {
		return fmt.Errorf("%s: %w", sealedFile, err)
	}
	if string(obj.Body) != string(raw) || obj.Meta.Params != p.Hash() {
		return fmt.Errorf("%s is not what %s signs", manifestFile, sealedFile)
	}
	return nil
}

// readCapped reads a regular file of at most limit bytes.
func readCapped(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", path, limit)
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}
