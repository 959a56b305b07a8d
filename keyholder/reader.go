package keyholder

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/transport"
)

// Reader verifies and decrypts results with the keys of one set. Load loads the secret
// keys; otherwise each is loaded for the first result of its epoch. They stay in memory
// until Close. A Reader is safe for concurrent use.
type Reader struct {
	o   ReaderOptions
	ctx *henc.Context
	// integers is ctx for whole numbers; nil for parameters of real ones.
	integers *bfv.Context
	view     atomic.Pointer[view]
	// approved are the programs whose results are decrypted.
	approved approvals

	reading sync.Mutex   // of the directory of the key set
	mu      sync.RWMutex // held for reading while a key is in use
	closed  bool
	keys    map[[16]byte]*secret.Key
}

// ReaderOptions say which results a Reader takes. Signers is required.
type ReaderOptions struct {
	// Signers are the trusted evaluators: public keys by evaluator name.
	// Results under a name must be signed by one of its keys.
	Signers map[string][]ed25519.PublicKey
	// Archive is for stored results: in any order, each as often as it comes.
	// Without it a result that was read before is refused as replayed.
	Archive bool
	// Replay refuses results that were read before; nil means a new guard.
	Replay *transport.ReplayGuard
	// Units are the units of results by program name, for display.
	Units       map[string]string
	MaxObject   int // largest sealed result in bytes; 0: transport's default
	TopicPrefix string
	Counters    *transport.Counters
	Context     []henc.Option
}

// view is a key set as it was last read, with its verifiers.
type view struct {
	set    *Set
	live   *transport.Verifier // accepts each result once; with Archive the same as stored
	stored *transport.Verifier // accepts each result as often as it comes
}

// NewReader returns a Reader of set. When a result comes from an epoch that is not in set,
// the Reader opens the directory again, since the keys may have been rotated.
func NewReader(set *Set, o ReaderOptions) (*Reader, error) {
	ctx, err := henc.NewContext(set.params, o.Context...)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if o.Replay == nil {
		o.Replay = transport.NewReplayGuard(0)
	}
	r := &Reader{o: o, ctx: ctx, keys: map[[16]byte]*secret.Key{}}
	if set.params.Integers() {
		if r.integers, err = bfv.ContextOf(ctx); err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
	}
	v, err := r.look(set)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	r.view.Store(v)
	return r, nil
}

// look returns a view of set.
func (r *Reader) look(set *Set) (*view, error) {
	stored, err := r.verifier(set, nil)
	if err != nil || r.o.Archive {
		return &view{set, stored, stored}, err
	}
	live, err := r.verifier(set, r.o.Replay)
	return &view{set, live, stored}, err
}

// refresh reads the directory of the key set again. It returns the new view, or nil if
// nothing has changed since old.
func (r *Reader) refresh(old *view) (*view, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	if now := r.view.Load(); now != old {
		return now, nil
	}
	set, err := Open(old.set.dir)
	if err != nil {
		return nil, err
	}
	m := set.Manifest()
	switch {
	case reflect.DeepEqual(m, old.set.Manifest()):
		return nil, nil
	case m.Signer != old.set.manifest.Signer || m.ParamsHash != old.set.manifest.ParamsHash:
		return nil, fmt.Errorf("%w: %s holds another key set than at the start", ErrWrongKey, set.dir)
	}
	if !r.o.Archive {
		if err := r.load(set); err != nil {
			return nil, err
		}
	}
	v, err := r.look(set)
	if err == nil {
		r.view.Store(v)
	}
	return v, err
}

// verifier returns a verifier with the keys of set. With a nil guard it accepts results
// again.
func (r *Reader) verifier(set *Set, guard *transport.ReplayGuard) (*transport.Verifier, error) {
	if len(r.o.Signers) == 0 {
		return nil, errors.New("no evaluator is trusted; name its public key")
	}
	trust := transport.NewTrustStore()
	for name, keys := range r.o.Signers {
		if err := transport.CheckName(name); err != nil {
			return nil, fmt.Errorf("evaluator: %w", err)
		}
		for _, pub := range keys {
			if err := trust.AddEvaluator(pub); err != nil {
				return nil, fmt.Errorf("evaluator %s: %w", name, err)
			}
		}
	}
	var refs []transport.KeyRef
	for _, e := range set.manifest.Epochs {
		id, err := e.ID()
		if err != nil {
			return nil, err
		}
		refs = append(refs, transport.KeyRef{ID: id, Epoch: e.Epoch})
	}
	return transport.NewVerifier(transport.VerifierOptions{
		Trust: trust, Kinds: []transport.Kind{transport.KindResult},
		Params: [][32]byte{set.params.Hash()}, Keys: refs,
		Replay: guard, NoReplay: guard == nil, MaxObject: r.o.MaxObject, TopicPrefix: r.o.TopicPrefix,
		Counters: r.o.Counters,
	})
}

// Verify checks a sealed result without decrypting it: signature, signer, key,
// epoch and parameters, and that header and ciphertext agree. topic is where the result
// arrived, or "". Each class of refusal has its own error.
func (r *Reader) Verify(topic string, sealed []byte) (*transport.Object, error) {
	v := r.view.Load()
	obj, err := r.verify(v, v.live, topic, sealed)
	if errors.Is(err, ErrWrongEpoch) || errors.Is(err, ErrWrongKey) {
		now, rerr := r.refresh(v)
		switch {
		case rerr != nil:
			return nil, fmt.Errorf("%w; the key set was read again: %w", err, rerr)
		case now != nil:
			return r.verify(now, now.live, topic, sealed)
		}
	}
	return obj, err
}

func (r *Reader) verify(by *view, v *transport.Verifier, topic string, sealed []byte) (*transport.Object, error) {
	var obj *transport.Object
	var err error
	if topic == "" {
		obj, err = transport.Open(sealed, v)
	} else {
		obj, err = v.OpenFrom(topic, sealed)
	}
	if err != nil {
		return nil, by.set.classify(err, sealed)
	}
	if err := r.check(by.set, obj); err != nil {
		r.o.Counters.Refuse(err)
		r.giveBack(obj)
		return nil, err
	}
	return obj, nil
}

// take verifies an object and makes sure that it can be decrypted; of a pack, a result of one
// of programs. Nothing else decides whether its number is used up and its evaluator gets a
// receipt.
func (r *Reader) take(topic string, sealed []byte, programs []string) (*transport.Object, *parts, error) {
	obj, err := r.Verify(topic, sealed)
	if err != nil {
		return nil, nil, err
	}
	p, err := r.admit(obj)
	if err == nil && obj.Meta.Packed > 0 {
		err = p.only(programs)
	}
	if err != nil {
		r.giveBack(obj)
		return nil, nil, err
	}
	return obj, p, nil
}

// giveBack frees the number of a result that was not taken after all. The result can then
// be taken when the reason is gone: an old key set, or a key file that could not be read.
func (r *Reader) giveBack(obj *transport.Object) {
	if !r.o.Archive {
		r.view.Load().live.Forget(obj)
	}
}

// check checks what the verifier does not know: the names of signers, the end of an
// epoch's overlap, and the body.
func (r *Reader) check(set *Set, obj *transport.Object) error {
	m := &obj.Meta
	signed := func(pub ed25519.PublicKey) bool { return pub.Equal(ed25519.PublicKey(obj.Signer[:])) }
	if !slices.ContainsFunc(r.o.Signers[m.Device], signed) {
		return fmt.Errorf("%w: %w: the key that signed is not one of evaluator %q", ErrUnknownSigner,
			transport.ErrUnknownSigner, m.Device)
	}
	if e, ok := set.manifest.ByID(m.KeyID); ok && !e.AcceptUntil.IsZero() && m.End > e.AcceptUntil.UnixNano() {
		return fmt.Errorf("%w: %w: epoch %d is accepted for readings until %s, this window ends %s", ErrWrongEpoch,
			transport.ErrWrongEpoch,
			e.Epoch, e.AcceptUntil.Format(time.RFC3339), time.Unix(0, m.End).UTC().Format(time.RFC3339))
	}
	_, ciphertext, err := m.Results(obj.Body)
	if err != nil {
		return fmt.Errorf("%w: body: %w", ErrTampered, err)
	}
	h, err := r.peek(ciphertext)
	if err != nil {
		return fmt.Errorf("%w: body: %w", ErrTampered, err)
	}
	if err := m.CheckBody(h.Params, h.Level, h.Scale); err != nil {
		return set.classify(err, nil)
	}
	if m.Post == nil && m.Packed == 0 {
		return fmt.Errorf("%w: its header does not say how to read the values", ErrNotResult)
	}
	return nil
}

func (r *Reader) decrypt(obj *transport.Object, ciphertext []byte, magnitude float64) ([]float64, error) {
	ct, err := r.ctx.UnmarshalCiphertext(ciphertext)
	if err != nil {
		return nil, fmt.Errorf("%w: body: %w", ErrTampered, err)
	}
	defer r.ctx.Ring().Free(ct.Value)
	key, release, err := r.use(obj.Meta.KeyID)
	if err != nil {
		return nil, err
	}
	defer release()
	slots, err := secret.NewDecryptor(r.ctx, key).DecryptRealBounded(ct, magnitude)
	if err != nil {
		return nil, fmt.Errorf("decrypt result of %s: %w", obj.Meta.Program, err)
	}
	return slots, nil
}

// Load loads the secret keys of all epochs. Call it before reading results that come only
// once: a verified result counts as seen, so it would be lost if its key could not be
// read. Keys of epochs whose overlap has ended may be missing.
func (r *Reader) Load() error { return r.load(r.view.Load().set) }

// load loads the secret keys of set.
func (r *Reader) load(set *Set) error {
	for _, e := range set.Manifest().Epochs {
		id, err := e.ID()
		if err == nil {
			_, err = r.key(set, id)
		}
		over := !e.AcceptUntil.IsZero() && e.AcceptUntil.Before(time.Now())
		if err != nil && !(over && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// use returns a secret key, which is loaded if necessary and stays valid until release is
// called. Keys may be used concurrently, so nobody waits for a decryption.
func (r *Reader) use(id [16]byte) (k *secret.Key, release func(), err error) {
	r.mu.RLock()
	if k := r.keys[id]; k != nil && !r.closed {
		return k, r.mu.RUnlock, nil
	}
	r.mu.RUnlock()
	if _, err := r.key(r.view.Load().set, id); err != nil {
		return nil, nil, err
	}
	r.mu.RLock()
	if k = r.keys[id]; k == nil || r.closed {
		r.mu.RUnlock()
		return nil, nil, errClosed
	}
	return k, r.mu.RUnlock, nil
}

var errClosed = errors.New("keyholder: reader is closed")

// key returns the secret key of an epoch, and loads it the first time.
func (r *Reader) key(set *Set, id [16]byte) (*secret.Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if k, ok := r.keys[id]; ok {
		return k, nil
	}
	e, ok := set.manifest.ByID(id)
	if !ok {
		return nil, fmt.Errorf("%w: key %x", ErrWrongKey, id)
	}
	k, err := set.loadSecret(r.ctx, e)
	if err != nil {
		return nil, err
	}
	r.keys[id] = k
	return k, nil
}

// loadSecret reads the secret key of an epoch and checks that it is the one
// that the manifest names.
func (s *Set) loadSecret(ctx *henc.Context, e Epoch) (*secret.Key, error) {
	path := filepath.Join(s.dir, e.Dir(), SecretFile)
	b, err := readSecret(path, maxSecretFile)
	if err != nil {
		return nil, fmt.Errorf("load secret key: %w", err)
	}
	defer clear(b)
	k, err := secret.Unmarshal(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	}
	pub, err := k.PublicKey()
	if err != nil {
		k.Wipe()
		return nil, fmt.Errorf("load secret key: %w", err)
	}
	defer ctx.Ring().Free(pub.Value)
	if id, _ := e.ID(); pub.KeyID != id || k.Epoch() != e.Epoch {
		k.Wipe()
		return nil, fmt.Errorf("%w: %s holds key %x of epoch %d, the manifest says %s of epoch %d", ErrCorrupt, path,
			pub.KeyID, k.Epoch(), e.KeyID, e.Epoch)
	}
	return k, nil
}

// Close wipes the secret keys.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var err error
	for id, k := range r.keys {
		err = errors.Join(err, k.Wipe())
		delete(r.keys, id)
	}
	return err
}

// classify wraps an error of package transport in the holder's class of refusal. The
// transport error stays in the chain.
func (s *Set) classify(err error, sealed []byte) error {
	for _, c := range []struct{ from, to error }{
		{transport.ErrUnknownSigner, ErrUnknownSigner},
		{transport.ErrWrongParams, ErrWrongParams},
		{transport.ErrWrongEpoch, ErrWrongEpoch},
		{transport.ErrWrongKind, ErrNotResult},
		{transport.ErrSignature, ErrTampered},
		{transport.ErrBodyMismatch, ErrTampered},
		{transport.ErrWrongTopic, ErrTampered},
		{transport.ErrMalformed, ErrTampered},
		{transport.ErrTruncated, ErrTampered},
		{transport.ErrDowngraded, ErrTampered},
	} {
		if errors.Is(err, c.from) {
			return fmt.Errorf("%w: %w", c.to, err)
		}
	}
	if !errors.Is(err, transport.ErrWrongKey) {
		return err
	}
	// A key that the set has never seen, in an epoch after its last one, most
	// likely comes from a rotation that this copy of the set missed.
	last := s.manifest.Current().Epoch
	if m, perr := transport.PeekMeta(sealed); perr == nil && m.KeyEpoch > last {
		return fmt.Errorf("%w: it is for epoch %d, the newest of the key set in %s is %d; was it rotated elsewhere? %w",
			ErrWrongEpoch, m.KeyEpoch, filepath.Base(s.dir), last, err)
	}
	return fmt.Errorf("%w: %w", ErrWrongKey, err)
}
