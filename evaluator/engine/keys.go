package engine

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
	// Compact is what devices with compact windows need; nil: there are none.
	Compact *CompactKeys
	// AcceptUntil ends the overlap after a rotation: readings whose window ends
	// later are refused under this epoch. Zero means no end.
	AcceptUntil time.Time
	// Holder is the key that the key holder signs with; nil when unknown.
	Holder ed25519.PublicKey
}

// Ref returns the name of the keys.
func (k Keys) Ref() transport.KeyRef {
	return transport.KeyRef{ID: k.Evaluation.KeyID, Epoch: k.Evaluation.Epoch}
}

// maxEpochs bounds what is read of a key set.
const maxEpochs = 64

// KeySets are the key sets that a configuration names.
type KeySets struct {
	dirs  []string
	trust keyset.Trust
}

// ConfiguredKeySets returns the key sets of a configuration. It reads none of them yet.
func ConfiguredKeySets(cfg *config.Evaluator) (KeySets, error) {
	trust, err := Trusted(cfg)
	return KeySets{cfg.KeySets, trust}, err
}

// Trusted returns the key holders whose keys a configuration accepts.
func Trusted(cfg *config.Evaluator) (keyset.Trust, error) {
	trust, err := keyset.Trusted(cfg.Keys.Holder...)
	if err != nil {
		err = fmt.Errorf("%w: keys.holder: %w", ErrKeys, err)
	}
	return trust, err
}

// Load reads all keys. newContext makes the contexts, one for each parameter set.
func (k KeySets) Load(newContext NewContext) (all []Keys, err error) {
	shared := newContext.Shared()
	for _, dir := range k.dirs {
		keys, err := LoadKeys(dir, k.trust, shared)
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	return all, nil
}

// Read reads the keys for the parameters of a context into it.
func (k KeySets) Read(ctx *henc.Context) (all []Keys, err error) {
	errOther := errors.New("keys for other parameters")
	hash := ctx.Parameters().Hash()
	for _, dir := range k.dirs {
		keys, err := LoadKeys(dir, k.trust, func(p henc.Parameters) (*henc.Context, error) {
			if p.Hash() != hash {
				return nil, errOther
			}
			return ctx, nil
		})
		if err != nil && !errors.Is(err, errOther) {
			return nil, fmt.Errorf("read the keys again: %w", err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// NewContext makes the context for parameters, and so chooses the backend. Nil makes
// contexts on the processor.
type NewContext func(henc.Parameters) (*henc.Context, error)

// Shared returns a NewContext that makes one context for each parameter set.
func (n NewContext) Shared() NewContext {
	if n == nil {
		n = func(p henc.Parameters) (*henc.Context, error) { return henc.NewContext(p, henc.WithFastestN2()) }
	}
	made := map[[32]byte]*henc.Context{}
	return func(p henc.Parameters) (*henc.Context, error) {
		if c := made[p.Hash()]; c != nil {
			return c, nil
		}
		c, err := n(p)
		if err == nil {
			made[p.Hash()] = c
		}
		return c, err
	}
}

// LoadKeys reads a directory that `hencedge keys export --role evaluator` wrote. It
// checks that a trusted holder signed it, the digests of the files, and that the
// parameters are the ones known by that name. It fails with ErrKeys.
func LoadKeys(dir string, trust keyset.Trust, newContext NewContext) ([]Keys, error) {
	fail := func(err error) ([]Keys, error) { return nil, fmt.Errorf("%w: %s: %w", ErrKeys, dir, err) }
	export, err := keyset.OpenExport(dir, trust)
	if err != nil {
		return fail(err)
	}
	if secrets := keyset.Secrets(dir); len(secrets) > 0 {
		return fail(fmt.Errorf("%w: %s lies at an evaluator, who could read everything with it: remove it, and make a "+
			"new key set if others could read it", keyset.ErrSecret, secrets[0]))
	}
	if n := len(export.Manifest.Epochs); n > maxEpochs {
		return fail(fmt.Errorf("%d epochs, want 1 to %d", n, maxEpochs))
	}
	ctx, err := newContext(export.Params)
	if err != nil {
		return fail(err)
	}
	var out []Keys
	for _, e := range export.Manifest.Epochs {
		var ev *henc.EvaluationKeys
		if err := export.Stream(e, keyset.EvaluationFile, func(r io.Reader) (err error) {
			if ev, err = ctx.ReadEvaluationKeys(r); err != nil {
				err = fmt.Errorf("%s: %w", export.Path(e, keyset.EvaluationFile), err)
			}
			return err
		}); err != nil {
			return fail(err)
		}
		if ev.Epoch != e.Epoch || hex.EncodeToString(ev.KeyID[:]) != e.KeyID {
			return fail(fmt.Errorf("%s holds epoch %d of key set %x, the manifest says epoch %d of %s",
				export.Path(e, keyset.EvaluationFile), ev.Epoch, ev.KeyID, e.Epoch, e.KeyID))
		}
		own, err := readCompact(dir, trust, export, e, ctx)
		if err != nil {
			return fail(err)
		}
		out = append(out, Keys{Context: ctx, Evaluation: ev, Compact: own, AcceptUntil: e.AcceptUntil,
			Holder: export.Holder})
	}
	return out, nil
}
