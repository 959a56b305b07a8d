package tlsutil

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// handshake connects the two configurations and returns the client's error and
// the name that the server saw.
func handshake(t *testing.T, server, client *tls.Config) (peer string, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		name string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- result{err: err}
			return
		}
		c := tls.Server(raw, server)
		defer c.Close()
		r := result{err: c.Handshake()}
		if certs := c.ConnectionState().PeerCertificates; r.err == nil && len(certs) > 0 {
			r.name = certs[0].Subject.CommonName
		}
		done <- r
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		c.Close()
	}
	r := <-done
	if err == nil {
		err = r.err
	}
	return r.name, err
}

func TestDevCA(t *testing.T) {
	ca, err := NewDevCA("dev")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewDevCA("dev") // the same name, another key
	if err != nil {
		t.Fatal(err)
	}
	conf := func(c *tls.Config, err error) *tls.Config {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	named := conf(ca.ClientConfig("board-7"))
	foreign := conf(other.ClientConfig("board-7"))
	foreign.RootCAs = ca.Pool()
	asServer := conf(ca.ServerConfig(false))
	clientCert, err := ca.Client("board-7")
	if err != nil {
		t.Fatal(err)
	}
	asServer.Certificates = []tls.Certificate{clientCert}
	for _, tc := range []struct {
		name           string
		server, client *tls.Config
		peer           string
		ok             bool
	}{
		{"TLS", conf(ca.ServerConfig(false)), conf(ca.ClientConfig("")), "", true},
		{"mutual TLS", conf(ca.ServerConfig(true)), named, "board-7", true},
		{"mutual TLS, nothing shown", conf(ca.ServerConfig(true)), conf(ca.ClientConfig("")), "", false},
		{"mutual TLS, other authority", conf(ca.ServerConfig(true)), foreign, "", false},
		{"other host", conf(ca.ServerConfig(false, "broker.example")), named, "", false},
		{"server not trusted", conf(other.ServerConfig(false)), named, "", false},
		{"client certificate as server", asServer, named, "", false},
	} {
		peer, err := handshake(t, tc.server, tc.client)
		if (err == nil) != tc.ok || peer != tc.peer {
			t.Errorf("%s: peer %q, %v", tc.name, peer, err)
		}
	}
}

func TestFiles(t *testing.T) {
	ca, err := NewDevCA("dev")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	age := 10 * time.Hour
	write := func(name string, b []byte) {
		t.Helper()
		age -= time.Minute
		if err := os.WriteFile(at(name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at(name), time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	issue := func(name string) (certPEM, keyPEM []byte) {
		t.Helper()
		cert, err := ca.Client(name)
		if err == nil {
			certPEM, keyPEM, err = PEM(cert)
		}
		if err != nil {
			t.Fatal(err)
		}
		return certPEM, keyPEM
	}
	write("ca.pem", ca.PEM())
	cert1, key1 := issue("first")
	write("cert.pem", cert1)
	write("key.pem", key1)
	write("junk.pem", []byte("not PEM"))
	server, err := ca.ServerConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	client, err := Files{CA: at("ca.pem"), Cert: at("cert.pem"), Key: at("key.pem")}.Config()
	if err != nil {
		t.Fatal(err)
	}
	if client.MinVersion != tls.VersionTLS12 {
		t.Error("TLS below 1.2")
	}
	see := func(want string) {
		t.Helper()
		if got, err := handshake(t, server, client); err != nil || got != want {
			t.Errorf("server saw %q, %v, want %q", got, err, want)
		}
	}
	see("first")
	cert2, key2 := issue("second")
	write("cert.pem", cert2) // the key does not match yet
	see("first")
	write("key.pem", key2)
	see("second")
	write("cert.pem", cert2[:100])
	see("second")
	if err := os.Remove(at("cert.pem")); err != nil {
		t.Fatal(err)
	}
	see("second")

	for want, f := range map[string]Files{
		"neither":                       {Cert: at("cert.pem")},
		"no such file":                  {CA: at("missing.pem")},
		"no PEM":                        {CA: at("junk.pem")},
		"client certificate: stat":      {Cert: at("missing.pem"), Key: at("key.pem")},
		"client certificate: tls: fail": {Cert: at("junk.pem"), Key: at("key.pem")},
	} {
		if _, err := f.Config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
	if c, err := (Files{ServerName: "x"}).Config(); err != nil || c.RootCAs != nil || c.ServerName != "x" {
		t.Errorf("no files: %v", err)
	}
}

// New roots are used for the next connection, without a restart; a file that is
// half written is not.
func TestSourceFollowsTheRoots(t *testing.T) {
	old, err := NewDevCA("dev")
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := NewDevCA("dev")
	if err != nil {
		t.Fatal(err)
	}
	oldServer, err := old.ServerConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	freshServer, err := fresh.ServerConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	put := func(pem []byte, age time.Duration) {
		if err := os.WriteFile(path, pem, 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	put(old.PEM(), time.Hour)
	s, err := Files{CA: path, ServerName: "localhost"}.Source()
	if err != nil {
		t.Fatal(err)
	}
	try := func(server *tls.Config) error { _, err := handshake(t, server, s.Config()); return err }
	if err := try(oldServer); err != nil {
		t.Fatal(err)
	}
	if try(freshServer) == nil {
		t.Fatal("a server under other roots was trusted")
	}
	put(fresh.PEM()[:100], 30*time.Minute)
	if err := try(oldServer); err != nil {
		t.Errorf("a half written file cut the connection off: %v", err)
	}
	put(fresh.PEM(), time.Minute)
	if err := try(freshServer); err != nil {
		t.Errorf("the new roots are not used: %v", err)
	}
	if try(oldServer) == nil {
		t.Error("the old roots are still trusted")
	}
	if c := s.Config(); c.MinVersion != tls.VersionTLS12 || c.MaxVersion != 0 {
		t.Errorf("TLS versions %x to %x", c.MinVersion, c.MaxVersion)
	}
	if _, err := (Files{CA: path + "x"}).Source(); err == nil {
		t.Error("a missing file was accepted")
	}
}
