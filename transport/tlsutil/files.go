package tlsutil

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
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
func (f Files) Config() (*tls.Config, error) { return f.config(func(error) {}) }

// Check reads the files as Config does. Where that fails, field is the one to correct:
// "ca", or "cert" for certificate and key.
func (f Files) Check() (field string, err error) {
	if _, err := (Files{CA: f.CA}).Config(); err != nil {
		return "ca", err
	}
	if _, err := f.Config(); err != nil {
		return "cert", err
	}
	return "", nil
}

// config is Config; notice is told of replacements that are not good.
func (f Files) config(notice func(error)) (*tls.Config, error) {
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
	p := &pair{cert: f.Cert, key: f.Key, notice: notice}
	if _, err := p.load(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.load() }
	return c, nil
}

// Source makes client configurations that follow the files. That includes the roots, which a
// single tls.Config cannot replace.
type Source struct {
	files  Files
	notice func(error)

	mu      sync.Mutex
	ca      stamp
	bad     stamp // of the last file of roots that was not good
	current *tls.Config
}

// Source reads the files once, so that a mistake shows at start. Later, notice is called for
// each file that was replaced by an unusable one. notice may be nil.
func (f Files) Source(notice func(error)) (*Source, error) {
	if notice == nil {
		notice = func(error) {}
	}
	s := &Source{files: f, notice: notice, ca: stampOf(f.CA)}
	var err error
	s.current, err = f.config(notice)
	return s, err
}

// Config returns the configuration for one more connection. It has the roots as they are
// now, or the ones before while their file is unusable. The caller must not change it.
func (s *Source) Config() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := stampOf(s.files.CA)
	if now == s.ca {
		return s.current
	}
	c, err := s.files.config(s.notice)
	switch {
	case err == nil:
		s.current, s.ca = c, now
	case now != s.bad:
		s.bad = now
		s.notice(fmt.Errorf("%w; the roots before stay in use", err))
	}
	return s.current
}

// CertificateEnd returns the end of the validity of the client certificate, or the zero
// time without one.
func (f Files) CertificateEnd() (time.Time, error) {
	if f.Cert == "" {
		return time.Time{}, nil
	}
	text, err := os.ReadFile(f.Cert)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the client certificate: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return time.Time{}, fmt.Errorf("read the client certificate: %s holds no PEM certificate", f.Cert)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the client certificate: %s: %w", f.Cert, err)
	}
	return cert.NotAfter, nil
}

// stampOf returns the zero stamp for a file that is not there.
func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return stamp{}
	}
	s := stamp{mod: info.ModTime(), size: info.Size()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.change = st.Ino, time.Unix(st.Ctim.Unix())
	}
	return s
}

// pair caches a certificate until one of its files changes.
type pair struct {
	cert, key string
	notice    func(error)

	mu     sync.Mutex
	stamps [2]stamp
	bad    [2]stamp // of the last files that were not good
	loaded *tls.Certificate
}

// stamp tells one version of a file from another. Time and length alone do not, since a
// rotated certificate often has those of the one before.
type stamp struct {
	mod, change time.Time
	size        int64
	inode       uint64
}

func (p *pair) load() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := [2]stamp{stampOf(p.cert), stampOf(p.key)}
	if p.loaded != nil && now == p.stamps {
		return p.loaded, nil
	}
	c, err := tls.LoadX509KeyPair(p.cert, p.key)
	switch {
	case err == nil:
		p.loaded, p.stamps = &c, now
	case p.loaded == nil:
		return nil, fmt.Errorf("load client certificate: %w", err)
	case now != p.bad:
		p.bad = now
		p.notice(fmt.Errorf("load client certificate: %w; the one before stays in use", err))
	}
	return p.loaded, nil
}
