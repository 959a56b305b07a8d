package tlsutil

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Files name the PEM files of a client connection. All are optional: without
// CA the system's roots are used, without Cert and Key no certificate is shown.
type Files struct {
	CA, Cert, Key string
	ServerName    string // expected name of the server; empty: the URL's host
}

// Config makes a client configuration (TLS 1.2 or later). The files are read
// once now, so that a mistake shows at start; certificate and key are read again
// for every connection after they change, so that rotating them needs no
// restart. While a replacement is half written the previous pair stays in use.
func (f Files) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read CA certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA certificates: %s holds no PEM certificate", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("client certificate: name both the certificate and the key file, or neither")
	}
	if f.Cert == "" {
		return c, nil
	}
	p := &pair{cert: f.Cert, key: f.Key}
	if _, err := p.load(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.load() }
	return c, nil
}

// Source makes client configurations that follow the files: of the roots too,
// which one tls.Config holds for good.
type Source struct {
	files Files

	mu      sync.Mutex
	ca      stamp
	current *tls.Config
}

// Source reads the files once, so that a mistake shows at start.
func (f Files) Source() (*Source, error) {
	s := &Source{files: f, ca: stampOf(f.CA)}
	var err error
	s.current, err = f.Config()
	return s, err
}

// Config is the configuration for one more connection: with the roots as they are
// now, or, while their file is not good, as they were. The caller must not change
// it.
func (s *Source) Config() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := stampOf(s.files.CA)
	if now == s.ca {
		return s.current
	}
	if c, err := s.files.Config(); err == nil {
		s.current, s.ca = c, now
	}
	return s.current
}

// stampOf is the zero stamp for a file that is not there.
func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// pair caches a certificate until one of its files changes.
type pair struct {
	cert, key string

	mu     sync.Mutex
	stamps [2]stamp
	loaded *tls.Certificate
}

type stamp struct {
	mod  time.Time
	size int64
}

func (p *pair) load() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var now [2]stamp
	var err error
	for i, path := range []string{p.cert, p.key} {
		info, serr := os.Stat(path)
		if serr != nil {
			err = serr
			continue
		}
		now[i] = stamp{info.ModTime(), info.Size()}
	}
	if err == nil && p.loaded != nil && now == p.stamps {
		return p.loaded, nil
	}
	if err == nil {
		var c tls.Certificate
		if c, err = tls.LoadX509KeyPair(p.cert, p.key); err == nil {
			p.loaded, p.stamps = &c, now
			return p.loaded, nil
		}
	}
	if p.loaded != nil {
		return p.loaded, nil
	}
	return nil, fmt.Errorf("load client certificate: %w", err)
}
