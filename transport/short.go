package transport

import (
	"fmt"
	"math"
)

// A short object is a COSE_Sign1 without a tag. Its payload is the array
//
//	[body, key epoch, boot epoch, sequence, start, duration, samples]
//
// and its external_aad is shortContext and the whole header, as Seal writes it. So the signature
// binds every field of the header, although most do not travel. It is for bodies of a few hundred
// bytes: Ed25519 hashes what it signs twice.

// shortContext begins the external_aad of every short object.
var shortContext = []byte("hencedge short v1")

// MaxShort bounds a short object in bytes.
const MaxShort = 16 << 10

// shortItems are the elements of a payload.
const shortItems = 7

// IsShort reports whether a message is a short object, which travels without the frame of a chunk.
func IsShort(payload []byte) bool { return len(payload) > 0 && payload[0] == shortStart }

// shortStart begins a short object: the head of an array of four. A chunk is an array of six.
const shortStart = 0x84

// ShortEpoch returns the key epoch that a short object names, before anything of it is verified: the receiver
// needs it to know which key set the header names. It fails with ErrMalformed or ErrTruncated.
func ShortEpoch(sealed []byte) (uint32, error) {
	m, err := PeekShort(sealed)
	return m.KeyEpoch, err
}

// PeekShort returns the fields of the header that travel with a short object, before anything of it is verified. It
// fails with ErrMalformed or ErrTruncated.
func PeekShort(sealed []byte) (Meta, error) {
	f, err := cutSign1("short object", sealed)
	if err != nil {
		return Meta{}, err
	}
	m, _, err := readShort(Meta{}, f.payload)
	if err != nil {
		return Meta{}, err
	}
	return *m, nil
}

// SealShort signs a reading that travels without most of its header: the receiver knows device and
// stream, key set, parameters, layout, level, scale and place. It adds at most 133 bytes to the body: 113
// for a board whose epochs, sequence and samples are below 2^16 and whose windows last less than 4 s. It fails with
// ErrMalformed where meta is no valid reading or begins before 1970, and with ErrTooLarge.
func SealShort(meta Meta, body []byte, key *SigningKey) ([]byte, error) {
	sealed, err := sealShort(meta, body, key)
	if err != nil {
		return nil, fmt.Errorf("seal short: %w", err)
	}
	return sealed, nil
}

func sealShort(meta Meta, body []byte, key *SigningKey) ([]byte, error) {
	if key == nil {
		return nil, fmt.Errorf("%w: no signing key", ErrMalformed)
	}
	context, err := shortHeader(&meta)
	if err != nil {
		return nil, err
	}
	payload := appendHead([]byte{0x80 | shortItems}, majorBytes, len(body))
	payload = append(payload, body...)
	for _, n := range []uint64{uint64(meta.KeyEpoch), meta.BootEpoch, meta.Sequence, uint64(meta.Start),
		uint64(meta.End - meta.Start), uint64(meta.Samples)} {
		payload = appendUint(payload, n)
	}
	sealed, err := sign(payload, key, algEd25519, context)
	if err != nil {
		return nil, err
	}
	if sealed = sealed[1:]; len(sealed) > MaxShort { // the tag
		return nil, fmt.Errorf("%w: short object of %d bytes, want at most %d", ErrTooLarge, len(sealed), MaxShort)
	}
	return sealed, nil
}

// shortHeader returns the external_aad of a reading.
func shortHeader(m *Meta) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Kind != KindReading || m.Start < 0 {
		return nil, fmt.Errorf("%w: a %v that starts at %d is no short object", ErrMalformed, m.Kind, m.Start)
	}
	header, err := marshalMeta(m, Version)
	if err != nil {
		return nil, err
	}
	return append(append([]byte(nil), shortContext...), header...), nil
}

// OpenShort is Open for what SealShort made. known has the fields of the header that do not
// travel; its other fields are not read. Whoever signed for another header than known is refused with
// ErrSignature. The object's ID is the SHA-256 of sealed. Only the seven elements of the payload are taken
// apart before the signature holds.
func (v *Verifier) OpenShort(known Meta, sealed []byte) (*Object, error) {
	obj, err := v.checkShort(known, sealed)
	if err != nil {
		v.opts.Counters.Refuse(err)
		return nil, err
	}
	v.opts.Counters.Accept()
	return obj, nil
}

func (v *Verifier) checkShort(known Meta, sealed []byte) (*Object, error) {
	if len(sealed) > min(MaxShort, v.opts.MaxObject) {
		return nil, fmt.Errorf("%w: short object of %d bytes", ErrTooLarge, len(sealed))
	}
	f, err := cutSign1("short object", sealed)
	if err != nil {
		return nil, err
	}
	m, body, err := readShort(known, f.payload)
	if err != nil {
		return nil, err
	}
	context, err := shortHeader(m)
	if err != nil {
		return nil, err
	}
	keys := v.opts.Trust.signers(f.kid)
	if len(keys) == 0 {
		return nil, v.unknownSigner(m, f.kid)
	}
	covered := f.signed(context)
	for _, pub := range keys {
		if v.keys.Verify(pub, covered, f.signature) {
			return v.admit(m, body, ObjectID(sealed), [32]byte(pub), f.kid, "")
		}
	}
	return nil, fmt.Errorf("%w: of key %x, or for another device, stream, key set, layout or parameters", ErrSignature,
		f.kid)
}

// readShort returns known with the fields of the payload, and the body, which shares its memory.
func readShort(known Meta, payload []byte) (*Meta, []byte, error) {
	if len(payload) == 0 {
		return nil, nil, fmt.Errorf("%w: short object without a payload", ErrTruncated)
	}
	if payload[0] != 0x80|shortItems {
		return nil, nil, fmt.Errorf("%w: the payload is not an array of %d", ErrMalformed, shortItems)
	}
	body, rest, err := cutBytes(payload[1:])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: short object: body", err)
	}
	var n [shortItems - 1]uint64
	for i := range n {
		if n[i], rest, err = cutUint(rest); err != nil {
			return nil, nil, fmt.Errorf("%w: short object: element %d", err, i+1)
		}
	}
	if len(rest) > 0 {
		return nil, nil, fmt.Errorf("%w: short object: %d bytes after its payload", ErrMalformed, len(rest))
	}
	if n[0] > math.MaxUint32 || n[3] > math.MaxInt64 || n[4] > math.MaxInt64-n[3] || n[5] > MaxSamples {
		return nil, nil, fmt.Errorf("%w: short object: key epoch %d, start %d, duration %d, samples %d", ErrMalformed,
			n[0], n[3], n[4], n[5])
	}
	m := known
	m.Kind, m.KeyEpoch, m.BootEpoch, m.Sequence = KindReading, uint32(n[0]), n[1], n[2]
	m.Start, m.End, m.Samples = int64(n[3]), int64(n[3]+n[4]), uint32(n[5])
	return &m, body, nil
}

// appendUint appends an unsigned integer in its shortest form.
func appendUint(b []byte, n uint64) []byte {
	if n <= math.MaxInt64 {
		return appendHead(b, majorUint, int(n))
	}
	b = append(b, majorUint<<5|27)
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(n>>shift))
	}
	return b
}
