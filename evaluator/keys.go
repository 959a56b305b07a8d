package evaluator

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyset"
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
	maxEpochs    = 64
	keyFile      = keyset.EvaluationFile
	holderDevice = keyset.HolderName
)

// trusted are the key holders whose keys the configuration accepts.
func trusted(cfg *config.Evaluator) (keyset.Trust, error) {
	trust, err := keyset.Trusted(cfg.Keys.Holder...)
	if err != nil {
		err = fmt.Errorf("%w: keys.holder: %w", ErrKeys, err)
	}
	return trust, err
}

// keysRemedy says what to do about evaluation keys that cannot be used.
func keysRemedy(err error) string {
	switch {
	case errors.Is(err, keyset.ErrNoHolder):
		return "add \"keys: {holder: ...}\" with the fingerprint that `hencedge keys show` prints at the key holder, got over another way than the keys; \"holder: none\" takes the keys of anyone"
	case errors.Is(err, keyset.ErrHolder):
		return "compare the fingerprint with the key holder: if it is not theirs, somebody changed the keys on their way"
	case errors.Is(err, keyset.ErrSecret):
		return "do as the message says; secret keys belong at the key holder alone"
	case errors.Is(err, fs.ErrPermission):
		return "let the user that the evaluator runs as read all of it; nothing there is secret"
	}
	return "put there what `hencedge keys export --role evaluator --out DIR` wrote, all of it"
}

// LoadKeys reads a directory that `hencedge keys export --role evaluator` wrote. It
// checks that a trusted holder signed it, the digests of the files, and that the
// parameters are the ones known by that name. context makes the context for the
// parameters. It fails with ErrKeys.
func LoadKeys(dir string, trust keyset.Trust, context func(henc.Parameters) (*henc.Context, error)) ([]Keys, error) {
	fail := func(err error) ([]Keys, error) { return nil, fmt.Errorf("%w: %s: %w", ErrKeys, dir, err) }
	export, err := keyset.OpenExport(dir, trust)
	if err != nil {
		return fail(err)
	}
	if secrets := keyset.Secrets(dir); len(secrets) > 0 {
		return fail(fmt.Errorf("%w: %s lies at an evaluator, who could read everything with it: remove it, and make a new key set if others could read it", keyset.ErrSecret, secrets[0]))
	}
	if n := len(export.Manifest.Epochs); n > maxEpochs {
		return fail(fmt.Errorf("%d epochs, want 1 to %d", n, maxEpochs))
	}
	ctx, err := context(export.Params)
	if err != nil {
		return fail(err)
	}
	var out []Keys
	for _, e := range export.Manifest.Epochs {
		b, err := export.Read(e, keyFile)
		if err != nil {
			return fail(err)
		}
		ev, err := ctx.UnmarshalEvaluationKeys(b)
		if err != nil {
			return fail(fmt.Errorf("%s: %w", export.Path(e, keyFile), err))
		}
		if ev.Epoch != e.Epoch || hex.EncodeToString(ev.KeyID[:]) != e.KeyID {
			return fail(fmt.Errorf("%s holds epoch %d of key set %x, the manifest says epoch %d of %s", export.Path(e, keyFile), ev.Epoch, ev.KeyID, e.Epoch, e.KeyID))
		}
		out = append(out, Keys{Context: ctx, Evaluation: ev, AcceptUntil: e.AcceptUntil, Holder: export.Holder})
	}
	return out, nil
}
