package transport

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/internal/signed"
)

// Open verifies a sealed object: size, canonical form, signature by a trusted key, digest
// of the body, version, kind, what that key is trusted for, parameter hash, key set and epoch, layout,
// and that it was not seen before. On success the object's number is spent: from then on the
// same object fails with ErrReplayed (see Forget). The error wraps one of this package's
// sentinels, and refusals are counted in the options' Counters.
//
// The caller still has to compare the header with the body: Meta.CheckBody.
func Open(sealed []byte, v *Verifier) (*Object, error) { return v.open(Staged{Sealed: sealed}) }

// Verifier holds what Open checks against. It is safe for concurrent use.
type Verifier struct {
	opts VerifierOptions
	keys *signed.Keys
}

// mostTables bounds the signers of which a Verifier keeps multiples of the key: 21 MB.
const mostTables = 1024

// NewVerifier returns a Verifier with copies of the options' lists.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	if o.Trust == nil {
		return nil, errors.New("verifier: no trust store; list the signers' public keys")
	}
	if o.MaxObject < 0 {
		return nil, fmt.Errorf("verifier: largest object of %d bytes", o.MaxObject)
	}
	if o.MaxObject == 0 {
		o.MaxObject = DefaultMaxObject
	}
	if o.TopicPrefix == "" {
		o.TopicPrefix = DefaultPrefix
	}
	if o.Replay == nil {
		o.Replay = NewReplayGuard(0)
	}
	for _, k := range o.Kinds {
		if k.String() == "invalid" {
			return nil, fmt.Errorf("verifier: no such kind %d", k)
		}
	}
	o.Kinds, o.Params = slices.Clone(o.Kinds), slices.Clone(o.Params)
	o.Keys, o.Retired = slices.Clone(o.Keys), slices.Clone(o.Retired)
	return &Verifier{opts: o, keys: signed.NewKeys(mostTables)}, nil
}

// VerifierOptions say what a Verifier takes. Trust is required. The lists
// Params and Keys fail closed: when they are empty every reading and result is
// refused, unless AnyParams or AnyKey say explicitly that they do not matter.
type VerifierOptions struct {
	Trust *TrustStore
	Kinds []Kind // kinds to take; empty: all

	Params    [][32]byte // parameter hashes to take
	AnyParams bool

	Keys    []KeyRef // key sets and epochs to take
	Retired []KeyRef // earlier epochs: refused as ErrWrongEpoch, not ErrWrongKey
	AnyKey  bool

	// Layout returns the slot layout of the readings of a stream. A reading of a stream that
	// it does not know, or that has another layout, is refused. nil: layouts are not checked.
	Layout func(device, stream string) (layout [32]byte, known bool)
	// Programs are the program hashes of results by program name. A result of a program
	// that is not in it, or with another Layout field, is refused. nil: not checked.
	Programs map[string][32]byte

	Replay      *ReplayGuard // nil: a new guard with the default window
	NoReplay    bool         // the caller itself refuses what it has had before
	MaxObject   int          // largest sealed object in bytes; 0: DefaultMaxObject
	TopicPrefix string       // for OpenFrom; empty: DefaultPrefix
	Counters    *Counters    // counts what Open accepts and refuses; may be nil
}

// KeyRef names one epoch of one key set.
type KeyRef struct {
	ID    [16]byte
	Epoch uint32
}

// OpenFrom is Open for an object that arrived under topic: a header that
// belongs to another topic is refused with ErrWrongTopic.
func (v *Verifier) OpenFrom(topic string, sealed []byte) (*Object, error) {
	if topic == "" {
		err := fmt.Errorf("%w: no topic", ErrWrongTopic)
		v.opts.Counters.Refuse(err)
		return nil, err
	}
	return v.open(Staged{Topic: topic, Sealed: sealed})
}

// OpenStaged is OpenFrom for an object that a Receiver put together. It neither hashes nor
// copies the object again: the body of one in pieces is in pieces too. Nobody may change them.
func (v *Verifier) OpenStaged(o Staged) (*Object, error) {
	if o.Topic == "" {
		return v.OpenFrom("", o.Begin())
	}
	return v.open(o)
}

func (v *Verifier) open(s Staged) (*Object, error) {
	obj, err := v.check(s)
	if err != nil {
		v.opts.Counters.Refuse(err)
		return nil, err
	}
	v.opts.Counters.Accept()
	return obj, nil
}

func (v *Verifier) check(s Staged) (*Object, error) {
	o := &v.opts
	if size := s.Size(); size > o.MaxObject {
		return nil, fmt.Errorf("%w: object of %d bytes, want at most %d", ErrTooLarge, size, o.MaxObject)
	}
	cut, err := s.cut()
	if err != nil {
		return nil, err
	}
	// Nothing is decoded before the signature holds, and no body hashed here: until then the
	// cost does not depend on the size of the object.
	signer, err := v.authenticate(&cut)
	if err != nil {
		return nil, err
	}
	// What follows, the answers to the sender among it, is about the object that was signed.
	if !s.hashed {
		s.ID, s.digest = hashObject(s.Whole())
	}
	if s.digest != cut.digest {
		return nil, fmt.Errorf("%w: the body is not the one that key %x signed", ErrSignature, cut.kid)
	}
	m, err := unmarshalMeta(cut.header)
	if err != nil {
		return nil, err
	}
	obj, err := v.admit(m, cut.body, s.ID, signer, cut.kid, s.Topic)
	if err != nil {
		return nil, err
	}
	obj.Pieces = cut.pieces
	return obj, nil
}

// admit checks all that follows the signature, and spends the object's number. topic is empty where
// it does not matter.
func (v *Verifier) admit(
	m *Meta, body []byte, id, signer [32]byte, kid [8]byte, topic string,
) (*Object, error) {
	o := &v.opts
	if len(o.Kinds) > 0 && !slices.Contains(o.Kinds, m.Kind) {
		return nil, fmt.Errorf("%w: %v of %q", ErrWrongKind, m.Kind, m.Device)
	}
	if !o.Trust.trusts(m, signer[:]) {
		return nil, v.unknownSigner(m, kid)
	}
	if topic != "" {
		if err := m.CheckTopic(o.TopicPrefix, topic); err != nil {
			return nil, err
		}
	}
	if m.Kind == KindReading || m.Kind == KindResult {
		if err := v.allow(m); err != nil {
			return nil, err
		}
	}
	if !o.NoReplay {
		if err := o.Replay.accept(replayKeyOf(signer, m), m.BootEpoch, m.Sequence); err != nil {
			return nil, err
		}
	}
	return &Object{Meta: *m, Body: body, ID: id, Signer: signer}, nil
}

// authenticate finds the trusted key that signed header and digest of o. The caller checks
// what that key is trusted for, and the digest.
func (v *Verifier) authenticate(o *object) (signer [32]byte, err error) {
	keys := v.opts.Trust.signers(o.kid)
	if len(keys) == 0 {
		m, err := unmarshalMeta(o.header) // what it says of itself, for the error only
		if err != nil {
			return signer, fmt.Errorf("%w: signed with key id %x", ErrUnknownSigner, o.kid)
		}
		return signer, v.unknownSigner(m, o.kid)
	}
	covered := o.signed(sealContext)
	for _, pub := range keys {
		if v.keys.Verify(pub, covered, o.signature) {
			return [32]byte(pub), nil
		}
	}
	return signer, fmt.Errorf("%w: of key %x", ErrSignature, o.kid)
}

// mostKeysNamed bounds the keys that an error lists.
const mostKeysNamed = 3

// unknownSigner says which key signed, and which ones are trusted instead.
func (v *Verifier) unknownSigner(m *Meta, kid [8]byte) error {
	var known []string
	for i, pub := range v.opts.Trust.keysFor(m) {
		if i == mostKeysNamed {
			known = append(known, "...")
			break
		}
		known = append(known, fmt.Sprintf("%s (key id %x)", FormatPublicKey(pub), keyHint(pub)))
	}
	if len(known) == 0 {
		return fmt.Errorf("%w: a %v of %q, signed with key id %x: no key is trusted for it here", ErrUnknownSigner,
			m.Kind, m.Device, kid)
	}
	return fmt.Errorf("%w: a %v of %q is signed with key id %x; trusted for it here: %s", ErrUnknownSigner, m.Kind,
		m.Device, kid,
		strings.Join(known, ", "))
}

// allow checks the allow-lists of an encrypted object.
func (v *Verifier) allow(m *Meta) error {
	o := &v.opts
	if !o.AnyParams && !slices.Contains(o.Params, m.Params) {
		return fmt.Errorf("%w: %v of %q uses parameters %x", ErrWrongParams, m.Kind, m.Device, m.Params[:8])
	}
	ref := KeyRef{m.KeyID, m.KeyEpoch}
	if !o.AnyKey && !slices.Contains(o.Keys, ref) {
		known := func(k KeyRef) bool { return k.ID == m.KeyID }
		if slices.ContainsFunc(o.Keys, known) || slices.ContainsFunc(o.Retired, known) {
			return fmt.Errorf("%w: %v of %q uses epoch %d of key set %x", ErrWrongEpoch, m.Kind, m.Device, m.KeyEpoch,
				m.KeyID)
		}
		return fmt.Errorf("%w: %v of %q uses key set %x, epoch %d", ErrWrongKey, m.Kind, m.Device, m.KeyID, m.KeyEpoch)
	}
	what, name := "stream", m.Device+"/"+m.Stream
	var want [32]byte
	var known bool
	switch {
	case m.Kind == KindResult && o.Programs != nil:
		what, name = "program", m.Program
		want, known = o.Programs[name]
	case m.Kind == KindReading && o.Layout != nil:
		want, known = o.Layout(m.Device, m.Stream)
	default:
		return nil
	}
	switch {
	case !known:
		return fmt.Errorf("%w: %s %q is not configured here", ErrWrongLayout, what, name)
	case want != m.Layout:
		return fmt.Errorf("%w: %s %q has layout %x, want %x", ErrWrongLayout, what, name, m.Layout[:8], want[:8])
	}
	return nil
}

// Forget makes the number of an opened object free again. It is for a receiver that could not
// finish handling the object and wants to accept it later.
func (v *Verifier) Forget(obj *Object) {
	v.opts.Replay.forget(replayKeyOf(obj.Signer, &obj.Meta), obj.Meta.BootEpoch, obj.Meta.Sequence)
}
