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
	old, err := tlsutil.NewDevCA("old")
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := tlsutil.NewDevCA("fresh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, text []byte) {
		t.Helper()
		if err := durable.WriteFile(at(name), text); err != nil {
			t.Fatal(err)
		}
	}
	issue := func(ca *tlsutil.DevCA, name string) {
		t.Helper()
		cert, err := ca.Client(name)
		if err != nil {
			t.Fatal(err)
		}
		certPEM, keyPEM, err := tlsutil.PEM(cert)
		if err != nil {
			t.Fatal(err)
		}
		write("cert.pem", certPEM)
		write("key.pem", keyPEM)
	}
	// The broker shows the certificate of the authority in use, and takes clients of
	// that one only.
	var mu sync.Mutex
	var seen []string
	ca := old
	use := func(to *tlsutil.DevCA) {
		mu.Lock()
		defer mu.Unlock()
		ca = to
	}
	names := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
	first, err := old.ServerConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: first.Certificates,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			c, err := ca.ServerConfig(true)
			if err != nil {
				return nil, err
			}
			c.VerifyPeerCertificate = func(_ [][]byte, chains [][]*x509.Certificate) error {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, chains[0][0].Subject.CommonName)
				return nil
			}
			return c, nil
		}}
	b := newEmbedded(t, conf)
	way := testrig.NewProxy(t, b.addr(), nil)
	write("ca.pem", old.PEM())
	issue(old, "board-old")
	source, err := tlsutil.Files{CA: at("ca.pem"), Cert: at("cert.pem"), Key: at("key.pem")}.Source(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, Options{URL: "tls://" + way.Addr(), ClientID: "board", TLSSource: source.Config,
		MaxReconnect: time.Second})
	if got := names(); !slices.Equal(got, []string{"board-old"}) {
		t.Fatalf("the broker saw %q", got)
	}
	use(fresh)
	issue(fresh, "board-fresh")
	both, err := os.ReadFile(at("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	write("ca.pem", append(both, fresh.PEM()...))
	if err := c.Publish(testrig.Context(t), "q", []byte("x"), false); err != nil || len(names()) != 1 {
		t.Errorf("the connection did not stay: %v, %q", err, names())
	}
	way.Cut()
	testrig.Eventually(t, "another connection", func() bool {
		return c.Connected() &&
			slices.Contains(names(), "board-fresh")
	})
	if err := c.Publish(testrig.Context(t), "q", []byte("y"), false); err != nil {
		t.Error(err)
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
