package inputtest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// Broker is a mosquitto with TLS; it can be restarted.
type Broker struct {
	Address string // host:port
	CA      string // file of its authority
	conf    string
	path    string
	user    string
	secret  string
	cmd     *exec.Cmd
}

// find gives a program, or skips the test, or fails it where HENCEDGE_TEST_REQUIRE
// names mosquitto.
func find(t *testing.T, program string) string {
	t.Helper()
	for _, name := range []string{program, "/usr/sbin/" + program, "/usr/local/sbin/" + program} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	why := program + " is neither on PATH nor in /usr/sbin; install mosquitto to test against a real broker"
	if strings.Contains(os.Getenv("HENCEDGE_TEST_REQUIRE"), "mosquitto") {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// Mosquitto starts a broker that everybody may use.
func Mosquitto(t *testing.T) *Broker { return MosquittoFor(t, "", "") }

// MosquittoFor starts a broker for one user.
func MosquittoFor(t *testing.T, name, password string) *Broker {
	t.Helper()
	path := find(t, "mosquitto")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := &Broker{path: path, conf: filepath.Join(dir, "mosquitto.conf"), Address: l.Addr().String(), CA: filepath.Join(dir, "ca.pem"), user: name, secret: password}
	l.Close()
	authority, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := tlsutil.PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(b.Address)
	conf := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous %t\ncafile %[3]s/ca.pem\ncertfile %[3]s/server.pem\nkeyfile %[3]s/server.key\n", port, name == "", dir)
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		conf += "user root\n"
	}
	if name != "" {
		file := filepath.Join(dir, "passwords")
		if out, err := exec.Command(find(t, "mosquitto_passwd"), "-b", "-c", file, name, password).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		conf += "password_file " + file + "\n"
	}
	for file, data := range map[string][]byte{"server.pem": certPEM, "server.key": keyPEM, "ca.pem": authority.PEM(), "mosquitto.conf": []byte(conf)} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.Start(t)
	t.Cleanup(b.Stop)
	return b
}

// Start starts the broker and waits until it answers.
func (b *Broker) Start(t *testing.T) {
	t.Helper()
	b.cmd = exec.Command(b.path, "-c", b.conf)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if c, err := net.Dial("tcp", b.Address); err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("mosquitto does not answer")
}

// Stop kills the broker.
func (b *Broker) Stop() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// MQTT is how an input connects.
func (b *Broker) MQTT(id string) config.MQTT {
	return config.MQTT{URL: "tls://" + b.Address, CA: b.CA, ClientID: id}
}

// Publisher is a client that sends readings.
func (b *Broker) Publisher(t *testing.T) func(topic, payload string, retain bool) {
	t.Helper()
	tls, err := tlsutil.Files{CA: b.CA}.Config()
	if err != nil {
		t.Fatal(err)
	}
	o := transport.Options{URL: "tls://" + b.Address, ClientID: "device", TLS: tls, Logger: slog.New(slog.DiscardHandler)}
	if b.user != "" {
		o.Username, o.Password = b.user, func() (string, error) { return b.secret, nil }
	}
	c, err := transport.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return func(topic, payload string, retain bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := c.Publish(ctx, topic, []byte(payload), retain); err != nil {
			t.Error(err)
		}
	}
}
