package transport

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hencedge/hencedge/transport/tlsutil"
)

type mosquittoTLS struct {
	ca     *tlsutil.DevCA
	mutual bool
}

// mosquitto is a real broker process with a persistent store.
type mosquitto struct {
	path, dir, address string
	secure             bool
	cmd                *exec.Cmd
	log                *bytes.Buffer
}

// findMosquitto skips the test when there is none, unless HENCEDGE_TEST_REQUIRE
// asks for it.
func findMosquitto(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const why = "mosquitto is neither on PATH nor in /usr/sbin; install it to test against a real broker"
	if strings.Contains(os.Getenv("HENCEDGE_TEST_REQUIRE"), "mosquitto") {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

func newMosquitto(t *testing.T, secure *mosquittoTLS) *mosquitto {
	t.Helper()
	m := &mosquitto{path: findMosquitto(t), dir: t.TempDir(), secure: secure != nil, log: &bytes.Buffer{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(m.address)
	conf := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location %s/\nmax_queued_messages 10000\nlog_type all\n", port, m.dir)
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		conf += "user root\n" // it would give up its rights to the directory otherwise
	}
	if secure != nil {
		cert, err := secure.ca.Server()
		if err != nil {
			t.Fatal(err)
		}
		certPEM, keyPEM, err := tlsutil.PEM(cert)
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{"server.pem": certPEM, "server.key": keyPEM, "ca.pem": secure.ca.PEM()} {
			if err := os.WriteFile(filepath.Join(m.dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		conf += fmt.Sprintf("cafile %[1]s/ca.pem\ncertfile %[1]s/server.pem\nkeyfile %[1]s/server.key\nrequire_certificate %[2]t\n", m.dir, secure.mutual)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "mosquitto.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	m.start(t)
	t.Cleanup(func() {
		if m.cmd != nil {
			m.cmd.Process.Kill()
			m.cmd.Wait()
		}
	})
	return m
}

func (m *mosquitto) addr() string  { return m.address }
func (m *mosquitto) durable() bool { return true }
func (m *mosquitto) url() string {
	if m.secure {
		return "tls://" + m.address
	}
	return "tcp://" + m.address
}

func (m *mosquitto) start(t *testing.T) {
	t.Helper()
	m.log = &bytes.Buffer{} // exec copies into it; it is read after Wait only
	m.cmd = exec.Command(m.path, "-c", filepath.Join(m.dir, "mosquitto.conf"))
	m.cmd.Stderr = m.log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", m.address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			m.cmd.Process.Kill()
			m.cmd.Wait()
			t.Fatalf("mosquitto does not listen on %s: %v\n%s", m.address, err, m.log)
		}
	}
}

// stop ends the process in the orderly way, which writes its store.
func (m *mosquitto) stop(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.cmd.Wait()
	m.cmd = nil
}

// kill ends it at once: what it had not stored is gone.
func (m *mosquitto) kill(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	m.cmd.Wait()
	m.cmd = nil
}
