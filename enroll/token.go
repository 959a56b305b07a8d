package enroll

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// A Print is the first 128 bits of a SHA-256, by which a token names a key or a certificate.
type Print [16]byte

// PrintOf returns the Print of a public key. Its text is that of transport.Fingerprint.
func PrintOf(pub ed25519.PublicKey) Print {
	sum := sha256.Sum256(pub)
	return Print(sum[:])
}

// String returns the first 125 bits as transport.Fingerprint writes them.
func (p Print) String() string {
	text, err := transport.ParseFingerprint(strings.ToLower(base32.StdEncoding.EncodeToString(p[:]))[:25])
	if err != nil {
		return ""
	}
	return text
}

// Authority returns the Print of the certificates in a PEM file: of their DER forms, one
// after the other. It fails unless there is at least one and nothing else.
func Authority(text []byte) (p Print, err error) {
	list, err := certificates(text)
	if err != nil {
		return p, err
	}
	sum := sha256.New()
	for _, c := range list {
		sum.Write(c.Raw)
	}
	copy(p[:], sum.Sum(nil))
	return p, nil
}

// certificates reads a PEM file of certificates.
func certificates(text []byte) (list []*x509.Certificate, err error) {
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%w: want certificates in PEM and nothing else", ErrMalformed)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		list, text = append(list, c), rest
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: no certificate", ErrMalformed)
	}
	return list, nil
}

// Secret is what the holder of a token proves to know: 128 random bits.
type Secret [16]byte

// A Token is what an operator hands to a board. Whoever reads it can ask to be let in once,
// until it expires, and learns nothing else.
type Token struct {
	Expires  time.Time // whole seconds
	Secret   Secret
	Operator Print // signs the answer
	Holder   Print // signs the keys in it
	CA       Print // of the broker's authority; zero: one of the system's
	Broker   Broker
	Device   string // that the board must be called; empty: as it likes
}

// Broker is where board and operator meet.
type Broker struct {
	URL        string // tls://host:port, or another that config.Broker takes
	Prefix     string // of all topics
	ServerName string // that the broker's certificate has; empty: the URL's host
	ALPN       string // protocol name; empty: none
	Insecure   bool   // without TLS
	// Username and Password are those of guests, who may use the topics of enrolment only.
	Username, Password string
}

// Limits of a Token, bytes.
const (
	maxURL      = 256
	maxText     = 128
	maxToken    = 1024
	tokenPrefix = "hj1-"
)

// NewSecret returns a secret from the operating system's entropy.
func NewSecret() (s Secret) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// Text returns the token as it is printed and typed: "hj1-" and base32 in lower case. The
// last four bytes are a checksum.
func (t *Token) Text() (string, error) {
	if err := t.validate(); err != nil {
		return "", err
	}
	w := wireToken{Expires: t.Expires.Unix(), Secret: t.Secret[:], Operator: t.Operator[:], Holder: t.Holder[:],
		URL: t.Broker.URL, Prefix: t.Broker.Prefix, ServerName: t.Broker.ServerName, ALPN: t.Broker.ALPN,
		Insecure: t.Broker.Insecure, Username: t.Broker.Username, Password: t.Broker.Password, Device: t.Device}
	if t.CA != (Print{}) {
		w.CA = t.CA[:]
	}
	b, err := encMode.Marshal(w)
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	return tokenPrefix + strings.ToLower(tokenText.EncodeToString(append(b, checksum(b)...))), nil
}

// ParseToken reads a token in either case, with or without spaces and line breaks. It fails
// with ErrMalformed; that a token has expired is for the caller to see.
func ParseToken(text string) (*Token, error) {
	if len(text) > 4*maxToken {
		return nil, fmt.Errorf("%w: a token of %d characters", ErrMalformed, len(text))
	}
	plain := strings.ToLower(strings.Join(strings.Fields(text), ""))
	rest, ok := strings.CutPrefix(plain, tokenPrefix)
	if !ok {
		return nil, fmt.Errorf("%w: a token begins with %q", ErrMalformed, tokenPrefix)
	}
	b, err := tokenText.DecodeString(strings.ToUpper(rest))
	n := len(b) - 4
	if err != nil || n < 1 || len(b) > maxToken || tokenText.EncodeToString(b) != strings.ToUpper(rest) ||
		!bytes.Equal(checksum(b[:n]), b[n:]) {
		return nil, fmt.Errorf("%w: the token has a typing error or is not whole", ErrMalformed)
	}
	var w wireToken
	if err := decode("token", b[:n], &w); err != nil {
		return nil, err
	}
	t := &Token{Expires: time.Unix(w.Expires, 0).UTC(), Device: w.Device,
		Broker: Broker{URL: w.URL, Prefix: w.Prefix, ServerName: w.ServerName, ALPN: w.ALPN, Insecure: w.Insecure,
			Username: w.Username, Password: w.Password}}
	for _, f := range []struct{ to, from []byte }{{t.Secret[:], w.Secret}, {t.Operator[:], w.Operator},
		{t.Holder[:], w.Holder}} {
		if copy(f.to, f.from) != len(f.from) || len(f.from) != len(f.to) {
			return nil, fmt.Errorf("%w: token: a field of %d bytes, want %d", ErrMalformed, len(f.from), len(f.to))
		}
	}
	if len(w.CA) != 0 && len(w.CA) != len(t.CA) {
		return nil, fmt.Errorf("%w: token: a field of %d bytes, want %d", ErrMalformed, len(w.CA), len(t.CA))
	}
	copy(t.CA[:], w.CA)
	return t, t.validate()
}

// Admits fails if the token is not for this device, and with ErrExpired after its time.
func (t *Token) Admits(device string, now time.Time) error {
	switch {
	case now.After(t.Expires):
		return fmt.Errorf("%w at %s, and it is %s by this machine's clock", ErrExpired, t.Expires.Format(time.RFC3339),
			now.UTC().Format(time.RFC3339))
	case t.Device != "" && t.Device != device:
		return fmt.Errorf("the token is for the device %q, not for %q", t.Device, device)
	}
	return nil
}

func (t *Token) validate() error {
	b := &t.Broker
	for _, s := range []struct {
		text  string
		limit int
	}{{b.URL, maxURL}, {b.Prefix, maxText}, {b.ServerName, maxText}, {b.ALPN, maxText}, {b.Username, maxText},
		{b.Password, maxText}} {
		if !printable(s.text, s.limit) {
			return fmt.Errorf("%w: token: a text of %d bytes, want at most %d, printable", ErrMalformed, len(s.text),
				s.limit)
		}
	}
	switch {
	case t.Device != "" && transport.CheckName(t.Device) != nil:
		return fmt.Errorf("%w: token: device %q", ErrMalformed, t.Device)
	case b.URL == "" || !transport.ValidTopic(b.Prefix) || t.Secret == (Secret{}):
		return fmt.Errorf("%w: token: no broker, topic prefix or secret", ErrMalformed)
	case t.Expires.Unix() < 1 || t.Expires.Unix() > 1<<40:
		return fmt.Errorf("%w: token: expires at %d", ErrMalformed, t.Expires.Unix())
	}
	return nil
}

// tokenText is base32 without padding: a QR code has a compact mode for capital letters and
// digits, and nobody has to type a shift key.
var tokenText = base32.StdEncoding.WithPadding(base32.NoPadding)

func checksum(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:4]
}

// printable reports whether s is at most limit bytes of printable ASCII.
func printable(s string, limit int) bool {
	return len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}

type wireToken struct {
	Expires    int64  `cbor:"0,keyasint"`
	Secret     []byte `cbor:"1,keyasint"`
	Operator   []byte `cbor:"2,keyasint"`
	Holder     []byte `cbor:"3,keyasint"`
	CA         []byte `cbor:"4,keyasint,omitempty"`
	URL        string `cbor:"5,keyasint"`
	Prefix     string `cbor:"6,keyasint"`
	ServerName string `cbor:"7,keyasint,omitempty"`
	ALPN       string `cbor:"8,keyasint,omitempty"`
	Insecure   bool   `cbor:"9,keyasint,omitempty"`
	Username   string `cbor:"10,keyasint,omitempty"`
	Password   string `cbor:"11,keyasint,omitempty"`
	Device     string `cbor:"12,keyasint,omitempty"`
}
