package tlsutil

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
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
		"client certificate: open":      {Cert: at("missing.pem"), Key: at("key.pem")},
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
	var said []string
	s, err := Files{CA: path, ServerName: "localhost"}.Source(func(err error) { said = append(said, err.Error()) })
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
	_ = s.Config()
	if len(said) != 1 || !strings.Contains(said[0], path) || !strings.Contains(said[0], "stay in use") {
		t.Errorf("said of a half written file: %q", said)
	}
	put(fresh.PEM(), time.Minute)
	if err := try(freshServer); err != nil {
		t.Errorf("the new roots are not used: %v", err)
	}
	if try(oldServer) == nil {
		t.Error("the old roots are still trusted")
	}
	if len(said) != 1 {
		t.Errorf("said of good files: %q", said[1:])
	}
	if c := s.Config(); c.MinVersion != tls.VersionTLS12 || c.MaxVersion != 0 {
		t.Errorf("TLS versions %x to %x", c.MinVersion, c.MaxVersion)
	}
	if _, err := (Files{CA: path + "x"}).Source(nil); err == nil {
		t.Error("a missing file was accepted")
	}
}

// A certificate that takes the place of another with its time and length is seen,
// one that is not good is told once, and the end of its validity is known.
func TestRotation(t *testing.T) {
	ca, err := NewDevCA("dev")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.ServerConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	at := time.Now().Add(-time.Hour)
	replace := func(path string, text []byte) {
		t.Helper()
		text = append(slices.Clone(text), make([]byte, 4096-len(text))...) // the same length for all
		for i := len(text) - 1; text[i] == 0; i-- {
			text[i] = '\n'
		}
		if err := os.WriteFile(path+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path+".new", at, at); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	var end time.Time
	issue := func(name string) {
		t.Helper()
		c, err := ca.Client(name)
		if err != nil {
			t.Fatal(err)
		}
		certPEM, keyPEM, err := PEM(c)
		if err != nil {
			t.Fatal(err)
		}
		end = c.Leaf.NotAfter
		replace(cert, certPEM)
		replace(key, keyPEM)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	issue("first")
	files := Files{CA: filepath.Join(dir, "ca.pem"), Cert: cert, Key: key}
	var said []string
	s, err := files.Source(func(err error) { said = append(said, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	see := func(want string) {
		t.Helper()
		if got, err := handshake(t, server, s.Config()); err != nil || got != want {
			t.Errorf("server saw %q, %v, want %q", got, err, want)
		}
	}
	see("first")
	issue("second")
	see("second")
	if got, err := files.CertificateEnd(); err != nil || !got.Equal(end) {
		t.Errorf("it ends %v, %v, want %v", got, err, end)
	}
	replace(cert, []byte("no certificate"))
	see("second")
	see("second")
	if len(said) != 1 || !strings.Contains(said[0], "the one before stays in use") {
		t.Errorf("said %q", said)
	}
	if _, err := files.CertificateEnd(); err == nil {
		t.Error("the end of no certificate")
	}
	if got, err := (Files{}).CertificateEnd(); err != nil || !got.IsZero() {
		t.Errorf("without a certificate: %v, %v", got, err)
	}
}

// The field at fault is named by which file is not good, whatever the files are called:
// here the name of the roots begins those of certificate and key.
func TestCheckNamesTheField(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	ca, err := NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Client("board1")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls": ca.PEM(), "tls.cert": certPEM, "tls.key": keyPEM,
		"tls.junk": []byte("not PEM")} {
		if err := os.WriteFile(at(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, all := range map[string][]Files{
		"":   {{}, {CA: at("tls")}, {CA: at("tls"), Cert: at("tls.cert"), Key: at("tls.key")}},
		"ca": {{CA: at("tls.none")}, {CA: at("tls.junk"), Cert: at("tls.cert"), Key: at("tls.key")}},
		"cert": {{CA: at("tls"), Cert: at("tls.none"), Key: at("tls.key")},
			{CA: at("tls"), Cert: at("tls.cert"), Key: at("tls.junk")}, {CA: at("tls"), Cert: at("tls.cert")}},
	} {
		for _, files := range all {
			if got, err := files.Check(); got != want || (err == nil) != (want == "") {
				t.Errorf("%+v: %q, %v, want %q", files, got, err, want)
			}
		}
	}
}
