package transport

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math"
)

// COSE algorithm identifiers that an envelope may carry.
const (
	algEd25519 int64 = -19 // fully specified Ed25519 (RFC 9864); written
	algEdDSA   int64 = -8  // EdDSA (RFC 9053), taken to mean Ed25519; accepted
)

// Major types of CBOR (RFC 8949, section 3.1).
const (
	majorUint  = 0
	majorNint  = 1
	majorBytes = 2
	majorMap   = 5
)

// frame is a tagged COSE_Sign1 (RFC 9052, section 4.2) taken apart by offsets. It has
// exactly one form here, so no part of it is decoded, and it shares the memory that it
// was cut from. Nothing in it is trustworthy before its signature was verified.
type frame struct {
	alg       int64
	kid       [8]byte
	protected []byte // the byte string with its head
	payload   []byte
	signature []byte // ed25519.SignatureSize bytes
}

// protectedHeader returns the only protected header, in bytes, for an algorithm and
// key id: the map {1: alg, 4: kid} inside a byte string.
func protectedHeader(alg int64, kid [8]byte) []byte {
	const size = 5 + len(kid)
	m := make([]byte, 0, 1+size)
	m = append(m, byte(majorBytes<<5|size), 0xa2, 0x01, byte(-1-alg)|majorNint<<5, 0x04, 0x48)
	return append(m, kid[:]...)
}

// signed returns what the signature of f covers, a copy of the payload among it: the Sig_structure
// ["Signature1", protected, external_aad, payload] of RFC 9052, section 4.4.
func (f *frame) signed(context []byte) []byte {
	const name = "Signature1"
	b := make([]byte, 0, 2+len(name)+len(f.protected)+2*mostHead+len(context)+len(f.payload))
	b = append(append(b, 0x84, 0x60|byte(len(name))), name...)
	b = append(b, f.protected...)
	b = append(appendHead(b, majorBytes, len(context)), context...)
	return append(appendHead(b, majorBytes, len(f.payload)), f.payload...)
}

// cutFrame takes b apart. It fails with ErrTruncated, ErrMalformed or, for an algorithm
// other than Ed25519, ErrDowngraded; what names b in errors.
func cutFrame(what string, b []byte) (f frame, err error) {
	switch {
	case len(b) == 0:
		return f, fmt.Errorf("%w: %s of 0 bytes", ErrTruncated, what)
	case b[0] != 0xd2:
		return f, fmt.Errorf("%w: %s is not a tagged COSE_Sign1", ErrMalformed, what)
	}
	return cutSign1(what, b[1:])
}

// cutSign1 is cutFrame for a COSE_Sign1 without its tag.
func cutSign1(what string, b []byte) (f frame, err error) {
	switch {
	case len(b) == 0:
		return f, fmt.Errorf("%w: %s without an array", ErrTruncated, what)
	case b[0] != 0x84:
		return f, fmt.Errorf("%w: %s is not a COSE_Sign1", ErrMalformed, what)
	}
	header, rest, err := cutBytes(b[1:])
	if err != nil {
		return f, fmt.Errorf("%w: %s: protected header", err, what)
	}
	f.protected = b[1 : len(b)-len(rest)]
	if f.alg, f.kid, err = readProtected(header); err != nil {
		return f, fmt.Errorf("%w of the %s", err, what)
	}
	switch {
	case len(rest) == 0:
		return f, fmt.Errorf("%w: %s: no unprotected header", ErrTruncated, what)
	case rest[0] != 0xa0:
		return f, fmt.Errorf("%w: %s is not in canonical form: its unprotected header is not empty", ErrMalformed, what)
	}
	if f.payload, rest, err = cutBytes(rest[1:]); err != nil {
		return f, fmt.Errorf("%w: %s: payload", err, what)
	}
	if f.signature, rest, err = cutBytes(rest); err != nil {
		return f, fmt.Errorf("%w: %s: signature", err, what)
	}
	switch {
	case len(f.signature) != ed25519.SignatureSize:
		return f, fmt.Errorf("%w: %s: signature of %d bytes, want %d", ErrMalformed, what, len(f.signature),
			ed25519.SignatureSize)
	case len(rest) > 0:
		return f, fmt.Errorf("%w: %s: %d bytes after its end", ErrMalformed, what, len(rest))
	}
	return f, nil
}

// readProtected reads the protected header {1: alg, 4: kid}.
func readProtected(h []byte) (alg int64, kid [8]byte, err error) {
	if len(h) > 2 && h[0]>>5 == majorMap && h[1] == 0x01 { // a map that begins with an algorithm
		major, n, _, err := cutHead(h[2:])
		if err == nil && (major == majorUint || major == majorNint) && n <= math.MaxInt32 {
			if alg = int64(n); major == majorNint {
				alg = -1 - alg
			}
			if alg != algEd25519 && alg != algEdDSA {
				return alg, kid, fmt.Errorf("%w: algorithm %d, want Ed25519 (-19), in the protected header",
					ErrDowngraded, alg)
			}
		}
	}
	if len(h) >= len(kid) {
		kid = [8]byte(h[len(h)-len(kid):])
	}
	if alg == 0 || !bytes.Equal(protectedHeader(alg, kid)[1:], h) {
		return alg, kid,
			fmt.Errorf("%w: want an algorithm and a key id of 8 bytes in canonical form in the protected header",
				ErrMalformed)
	}
	return alg, kid, nil
}

// mostHead bounds the bytes of a head.
const mostHead = 9

// appendHead appends the shortest head of a CBOR item of the major type with n
// as its argument (RFC 8949, section 3).
func appendHead(b []byte, major byte, n int) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), uint64(n))
}

// cutHead reads the head of a CBOR item, which has to be the shortest one. It fails with
// ErrTruncated or ErrMalformed.
func cutHead(b []byte) (major byte, n uint64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, 0, nil, ErrTruncated
	}
	major, n = b[0]>>5, uint64(b[0]&0x1f)
	if n < 24 {
		return major, n, b[1:], nil
	}
	if n > 27 { // reserved, or of indefinite length
		return 0, 0, nil, ErrMalformed
	}
	size := 1 << (n - 24)
	if len(b) < 1+size {
		return 0, 0, nil, ErrTruncated
	}
	var wide [8]byte
	copy(wide[8-size:], b[1:1+size])
	n = binary.BigEndian.Uint64(wide[:])
	if least := [...]uint64{1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}; n < least[size] {
		return 0, 0, nil, ErrMalformed
	}
	return major, n, b[1+size:], nil
}

// cutUint reads an unsigned integer.
func cutUint(b []byte) (n uint64, rest []byte, err error) {
	major, n, rest, err := cutHead(b)
	if err == nil && major != majorUint {
		err = ErrMalformed
	}
	return n, rest, err
}

// cutBytes reads a byte string; it shares the memory of b.
func cutBytes(b []byte) (s, rest []byte, err error) {
	major, n, rest, err := cutHead(b)
	switch {
	case err != nil:
		return nil, nil, err
	case major != majorBytes:
		return nil, nil, ErrMalformed
	case n > uint64(len(rest)):
		return nil, nil, ErrTruncated
	}
	return rest[:n:n], rest[n:], nil
}
