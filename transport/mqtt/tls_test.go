package mqtt

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, err := tlsutil.NewDevCA("test CA")
	if err != nil {
		t.Fatal(err)
	}
	for _, mutual := range []bool{false, true} {
		conf, err := ca.ServerConfig(mutual)
		if err != nil {
			t.Fatal(err)
		}
		conf.NextProtos = []string{"mqtt"}
		t.Run(fmt.Sprintf("embedded/mutual=%t", mutual), func(t *testing.T) {
			testTLS(t, ca, mutual,
				newEmbedded(t, conf))
		})
		t.Run(fmt.Sprintf("mosquitto/mutual=%t", mutual), func(t *testing.T) {
			testTLS(t, ca, mutual, newMosquitto(t, ca, mutual))
		})
	}
}

func testTLS(t *testing.T, ca *tlsutil.DevCA, mutual bool, b testBroker) {
	ctx := testrig.Context(t)
	good, err := ca.ClientConfig("board-7")
	if err != nil {
		t.Fatal(err)
	}
	sub := dial(t, Options{URL: b.url(), ClientID: "sub", TLS: good})
	in := newInbox()
	if err := sub.Subscribe(ctx, "q", in.take); err != nil {
		t.Fatal(err)
	}
	pub := dial(t, Options{URL: b.url(), ClientID: "pub", TLS: good, ALPN: []string{"mqtt"}})
	payload := string(testrig.Pattern(200 << 10))
	if err := pub.Publish(ctx, "q", []byte(payload), false); err != nil {
		t.Fatal(err)
	}
	in.await(t, payload)

	anonymous, err := ca.ClientConfig("")
	if err != nil {
		t.Fatal(err)
	}
	other, err := tlsutil.NewDevCA("another CA")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.ClientConfig("board-7")
	if err != nil {
		t.Fatal(err)
	}
	foreign.RootCAs = ca.Pool()
	for name, tc := range map[string]struct {
		conf *tls.Config
		ok   bool
	}{
		"no client certificate":          {anonymous, !mutual},
		"certificate of another CA":      {foreign, !mutual},
		"server not trusted":             {nil, false},
		"server name does not match":     {withName(anonymous, "other.example"), false},
		"server trusted by another root": {&tls.Config{RootCAs: other.Pool()}, false},
	} {
		c, err := Dial(ctx, Options{URL: b.url(), ClientID: "x", TLS: tc.conf, Logger: testrig.Quiet()})
		if tc.ok {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			c.Close(ctx)
		} else if !errors.Is(err, transport.ErrRefused) || strings.Contains(err.Error(), "network Error") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func withName(c *tls.Config, name string) *tls.Config {
	c = c.Clone()
	c.ServerName = name
	return c
}

func TestALPNReachesServer(t *testing.T) {
	t.Parallel()
	ca, err := tlsutil.NewDevCA("test CA")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := ca.ServerConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan []string, 10)
	inner := conf.Clone()
	conf.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		asked <- h.SupportedProtos
		return inner, nil
	}
	b := newEmbedded(t, conf)
	client, err := ca.ClientConfig("")
	if err != nil {
		t.Fatal(err)
	}
	dial(t, Options{URL: b.url(), ClientID: "a", TLS: client, ALPN: []string{"x-amzn-mqtt-ca"}})
	if got := <-asked; len(got) != 1 || got[0] != "x-amzn-mqtt-ca" {
		t.Errorf("server saw %q", got)
	}
	// A server that speaks TLS 1.1 only is not talked to.
	old := conf.Clone()
	old.GetConfigForClient, old.MinVersion, old.MaxVersion = nil, tls.VersionTLS10, tls.VersionTLS11
	b = newEmbedded(t, old)
	if _, err := Dial(testrig.Context(t), Options{URL: b.url(), ClientID: "a", TLS: client,
		Logger: testrig.Quiet()}); !errors.Is(err, transport.ErrRefused) {
		t.Errorf("TLS 1.1: %v", err)
	}
}

// TestCertificateRotation: after the files change, the next connection shows
// the new certificate, without a restart.
func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	ca, err := tlsutil.NewDevCA("test CA")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := ca.ServerConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	names := make(chan string, 10)
	conf.VerifyPeerCertificate = nil
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		names <- s.PeerCertificates[0].Subject.CommonName
		return nil
	}
	b := newEmbedded(t, conf)
	p := testrig.NewProxy(t, b.addr(), nil)
	dir := t.TempDir()
	write := func(name string, age time.Duration) {
		cert, err := ca.Client(name)
		if err != nil {
			t.Fatal(err)
		}
		certPEM, keyPEM, err := tlsutil.PEM(cert)
		if err != nil {
			t.Fatal(err)
		}
		for file, pem := range map[string][]byte{"cert.pem": certPEM, "key.pem": keyPEM, "ca.pem": ca.PEM()} {
			path := filepath.Join(dir, file)
			if err := os.WriteFile(path, pem, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("first", time.Hour)
	files := tlsutil.Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"),
		Key: filepath.Join(dir, "key.pem"), ServerName: "localhost"}
	client, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	dial(t, Options{URL: "tls://" + p.Addr(), ClientID: "a", TLS: client})
	if got := <-names; got != "first" {
		t.Fatal(got)
	}
	write("second", 0)
	p.Cut()
	if got := <-names; got != "second" {
		t.Errorf("reconnected as %q", got)
	}
}
