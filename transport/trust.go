package transport

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// TrustStore says whose signature counts for what. A device key signs the
// readings, status, asks and receipts of its own device only; an evaluator key signs
// results, whatever evaluator name they carry. Several keys per name allow
// rotation with overlap. It is safe for concurrent use, so a service can swap
// keys on reload.
type TrustStore struct {
	mu         sync.RWMutex
	devices    map[string][]ed25519.PublicKey
	evaluators []ed25519.PublicKey
	hints      map[[8]byte][]ed25519.PublicKey // all of them by key id, each once
}

// NewTrustStore returns an empty store: it trusts nobody.
func NewTrustStore() *TrustStore {
	return &TrustStore{devices: make(map[string][]ed25519.PublicKey), hints: make(map[[8]byte][]ed25519.PublicKey)}
}

// TrustKeys returns a store of one key per device and any number of evaluator keys.
func TrustKeys(devices map[string]ed25519.PublicKey, evaluators ...ed25519.PublicKey) (*TrustStore, error) {
	t := NewTrustStore()
	for name, pub := range devices {
		if err := t.AddDevice(name, pub); err != nil {
			return nil, err
		}
	}
	for _, pub := range evaluators {
		if err := t.AddEvaluator(pub); err != nil {
			return nil, err
		}
	}
	return t, nil
}

var errPublicKey = errors.New("want an Ed25519 public key of 32 bytes")

// AddDevice trusts pub for what the sender called name signs: readings, status
// and receipts. Evaluators that publish status are added here as well.
func (t *TrustStore) AddDevice(name string, pub ed25519.PublicKey) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("trust device: %w", err)
	}
	if len(pub) != ed25519.PublicKeySize {
		return fmt.Errorf("trust device %q: %w, got %d", name, errPublicKey, len(pub))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !holds(t.devices[name], pub) {
		t.devices[name] = append(t.devices[name], slices.Clone(pub))
	}
	t.hint(pub)
	return nil
}

// SetDevices trusts these keys, one for each name, in place of all that AddDevice added. If
// it fails nothing changes.
func (t *TrustStore) SetDevices(devices map[string]ed25519.PublicKey) error {
	now := make(map[string][]ed25519.PublicKey, len(devices))
	for name, pub := range devices {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("trust device: %w", err)
		}
		if len(pub) != ed25519.PublicKeySize {
			return fmt.Errorf("trust device %q: %w, got %d", name, errPublicKey, len(pub))
		}
		now[name] = []ed25519.PublicKey{slices.Clone(pub)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.devices = now
	clear(t.hints)
	t.hint(t.evaluators...)
	for _, keys := range now {
		t.hint(keys...)
	}
	return nil
}

// AddEvaluator trusts pub for results.
func (t *TrustStore) AddEvaluator(pub ed25519.PublicKey) error {
	if len(pub) != ed25519.PublicKeySize {
		return fmt.Errorf("trust evaluator: %w, got %d", errPublicKey, len(pub))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evaluators = append(t.evaluators, slices.Clone(pub))
	t.hint(pub)
	return nil
}

// hint notes keys by their ids. The caller holds mu.
func (t *TrustStore) hint(keys ...ed25519.PublicKey) {
	for _, pub := range keys {
		if id := keyHint(pub); !holds(t.hints[id], pub) {
			t.hints[id] = append(t.hints[id], slices.Clone(pub))
		}
	}
}

func holds(keys []ed25519.PublicKey, pub ed25519.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return k.Equal(pub) })
}

// signers returns the keys with an id that are trusted for anything.
func (t *TrustStore) signers(kid [8]byte) []ed25519.PublicKey {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.hints[kid])
}

// trusts reports whether pub may sign m.
func (t *TrustStore) trusts(m *Meta, pub ed25519.PublicKey) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return holds(t.trusted(m), pub)
}

// trusted returns the keys that may sign m. The caller holds t.mu.
func (t *TrustStore) trusted(m *Meta) []ed25519.PublicKey {
	if m.Kind == KindResult {
		return t.evaluators
	}
	return t.devices[m.Device]
}

// keysFor returns the keys that may sign m.
func (t *TrustStore) keysFor(m *Meta) []ed25519.PublicKey {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.trusted(m))
}
