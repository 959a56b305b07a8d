package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
)

// maxRequest bounds a certificate request, bytes.
const maxRequest = 16 << 10

// ErrRequest: a certificate request cannot be used to enrol a device.
var ErrRequest = errors.New("unusable certificate request")

// CertificateRequest returns a PKCS#10 request (RFC 2986) in PEM for the device called
// name: its subject's common name is the device, its key is k, and k has signed
// it, which proves that the sender holds the key.
func (k *SigningKey) CertificateRequest(name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, k.priv)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// ParseCertificateRequest reads what CertificateRequest wrote and checks its signature. It
// cannot tell whether the name belongs to the key: compare the fingerprint for that. It
// fails with ErrRequest.
func ParseCertificateRequest(text []byte) (name string, pub ed25519.PublicKey, err error) {
	if len(text) > maxRequest {
		return "", nil, fmt.Errorf("%w: %d bytes", ErrRequest, len(text))
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		return "", nil, fmt.Errorf("%w: want one PEM block CERTIFICATE REQUEST", ErrRequest)
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := req.CheckSignature(); err != nil {
		return "", nil, fmt.Errorf("%w: the signature is not that of its key", ErrRequest)
	}
	pub, ok := req.PublicKey.(ed25519.PublicKey)
	if !ok {
		return "", nil, fmt.Errorf("%w: the key is not Ed25519", ErrRequest)
	}
	if err := CheckName(req.Subject.CommonName); err != nil {
		return "", nil, fmt.Errorf("%w: common name: %w", ErrRequest, err)
	}
	return req.Subject.CommonName, pub, nil
}
