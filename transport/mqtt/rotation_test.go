package mqtt

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// A client whose certificate, key and roots are replaced while it runs shows the new
// certificate, and trusts the new roots, from its next connection on, without a
// restart; the connection that it has stays.
func TestCertificatesAreReloaded(t *testing.T) {
	t.Parallel()
	old, fresh := devCA(t, "old"), devCA(t, "fresh")
	dir := t.TempDir()
	roots := filepath.Join(dir, "ca.pem")
	authority := &authority{ca: old}
	b := newEmbedded(t, authority.config(t))
	way := testrig.NewProxy(t, b.addr(), nil)
	writeFile(t, roots, old.PEM())
	issue(t, old, dir, "board-old")
	source, err := tlsutil.Files{CA: roots, Cert: filepath.Join(dir, "cert.pem"),
		Key: filepath.Join(dir, "key.pem")}.Source(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, Options{URL: "tls://" + way.Addr(), ClientID: "board", TLSSource: source.Config,
		MaxReconnect: time.Second})
	if got := authority.names(); !slices.Equal(got, []string{"board-old"}) {
		t.Fatalf("the broker saw %q", got)
	}
	authority.use(fresh)
	issue(t, fresh, dir, "board-fresh")
	both, err := os.ReadFile(roots)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, roots, append(both, fresh.PEM()...))
	if err := c.Publish(testrig.Context(t), "q", []byte("x"), false); err != nil || len(authority.names()) != 1 {
		t.Errorf("the connection did not stay: %v, %q", err, authority.names())
	}
	way.Cut()
	testrig.Eventually(t, "another connection", func() bool {
		return c.Connected() && slices.Contains(authority.names(), "board-fresh")
	})
	if err := c.Publish(testrig.Context(t), "q", []byte("y"), false); err != nil {
		t.Error(err)
	}
}

// authority is what a broker trusts. It shows a certificate of the authority in use, takes
// clients of that one only, and keeps their names.
type authority struct {
	mu   sync.Mutex
	ca   *tlsutil.DevCA
	seen []string
}

func (a *authority) config(t *testing.T) *tls.Config {
	t.Helper()
	first, err := a.ca.ServerConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: first.Certificates,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			c, err := a.ca.ServerConfig(true)
			if err != nil {
				return nil, err
			}
			c.VerifyPeerCertificate = func(_ [][]byte, chains [][]*x509.Certificate) error {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.seen = append(a.seen, chains[0][0].Subject.CommonName)
				return nil
			}
			return c, nil
		}}
}

// use makes another authority the one in use.
func (a *authority) use(ca *tlsutil.DevCA) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ca = ca
}

// names returns the names of the clients that were taken.
func (a *authority) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

func devCA(t *testing.T, name string) *tlsutil.DevCA {
	t.Helper()
	ca, err := tlsutil.NewDevCA(name)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// issue writes a new certificate and its key to cert.pem and key.pem in dir.
func issue(t *testing.T, ca *tlsutil.DevCA, dir, name string) {
	t.Helper()
	cert, err := ca.Client(name)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := tlsutil.PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "cert.pem"), certPEM)
	writeFile(t, filepath.Join(dir, "key.pem"), keyPEM)
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := durable.WriteFile(path, text); err != nil {
		t.Fatal(err)
	}
}

// A broker that has TLS 1.1 at most is refused, one with 1.2 is not.
func TestLeastTLS(t *testing.T) {
	t.Parallel()
	ca, err := tlsutil.NewDevCA("test CA")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.ClientConfig("")
	if err != nil {
		t.Fatal(err)
	}
	client.MinVersion = tls.VersionTLS10 // a caller cannot ask for less
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conf, err := ca.ServerConfig(false)
		if err != nil {
			t.Fatal(err)
		}
		conf.MinVersion, conf.MaxVersion = tls.VersionTLS10, version
		b := newEmbedded(t, conf)
		c, err := Dial(testrig.Context(t), Options{URL: b.url(), ClientID: "x", TLS: client, Logger: testrig.Quiet()})
		if (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			c.Close(testrig.Context(t))
		}
	}
}
