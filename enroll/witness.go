package enroll

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
)

// A Witness remembers the certificates that a broker showed before its authority was known.
// A board knows the authority by its Print only, and gets the certificate with the answer:
// nothing that it says before needs TLS to stay secret, except the guests' password.
type Witness struct {
	name  string
	mu    sync.Mutex
	chain []*x509.Certificate
}

// NewWitness returns a Witness of a broker whose certificate must have a name: a host name or
// an IP address.
func NewWitness(name string) *Witness { return &Witness{name: name} }

// TLS returns the configuration for connections that are witnessed. It accepts every
// certificate.
func (w *Witness) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: w.name, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.chain = s.PeerCertificates
			return nil
		}}
}

// Check compares what the broker showed last with the authority: authority must be the one
// that the token names, and must have issued the broker's certificate for its name. It fails
// with ErrForged, or with ErrMalformed for bytes that are no authority.
func (w *Witness) Check(authority []byte, want Print) error {
	got, err := Authority(authority)
	if err != nil {
		return err
	}
	if !bytes.Equal(got[:], want[:]) {
		return fmt.Errorf("%w: the authority in the answer is not the one that the token names", ErrForged)
	}
	list, err := certificates(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	for _, c := range list {
		roots.AddCert(c)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.chain) == 0 {
		return errors.New("the broker showed no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range w.chain[1:] {
		between.AddCert(c)
	}
	_, err = w.chain[0].Verify(x509.VerifyOptions{DNSName: w.name, Roots: roots, Intermediates: between})
	if err != nil {
		return fmt.Errorf("%w: the broker's certificate is not of the authority that the token names: %w", ErrForged,
			err)
	}
	return nil
}
