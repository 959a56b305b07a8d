// Package mosquitto runs the real broker of that name for tests.
package mosquitto

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// patience bounds the start; it decides nothing but when a broken test ends.
const patience = time.Minute

// Broker is a mosquitto on a port of this machine. It can be ended and started again;
// the end of the test ends it.
type Broker struct {
	Address string // host:port
	URL     string
	CA      string // file of the authority, where there is one
	path    string
	conf    string
	cmd     *exec.Cmd
	log     *bytes.Buffer
}

// Start starts a broker with the lines conf, to which it adds the listener, and TLS
// with a certificate of ca unless that is nil. Without mosquitto the test is skipped,
// or fails (package testenv).
func Start(t testing.TB, ca *tlsutil.DevCA, conf string) *Broker {
	t.Helper()
	dir := t.TempDir()
	b := &Broker{path: testenv.Program(t, "mosquitto", "mosquitto"), conf: filepath.Join(dir, "mosquitto.conf")}
	b.Address = testenv.FreeAddress(t)
	b.URL = "tcp://" + b.Address
	_, port, _ := net.SplitHostPort(b.Address)
	// Where root starts it, it would give up its rights to the directory otherwise.
	text := fmt.Sprintf("listener %s 127.0.0.1\nuser root\n", port)
	files := make(map[string][]byte)
	if ca != nil {
		cert, err := ca.Server("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if files["server.pem"], files["server.key"], err = tlsutil.PEM(cert); err != nil {
			t.Fatal(err)
		}
		files["ca.pem"] = ca.PEM()
		text += fmt.Sprintf("cafile %[1]s/ca.pem\ncertfile %[1]s/server.pem\nkeyfile %[1]s/server.key\n", dir)
		b.CA, b.URL = filepath.Join(dir, "ca.pem"), "tls://"+b.Address
	}
	files["mosquitto.conf"] = []byte(text + conf)
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.Start(t)
	t.Cleanup(b.Kill)
	return b
}

// Start starts the broker again and waits until it answers.
func (b *Broker) Start(t testing.TB) {
	t.Helper()
	b.log = &bytes.Buffer{} // exec copies into it; it is read after Wait only
	b.cmd = exec.Command(b.path, "-c", b.conf)
	b.cmd.Stderr = b.log
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", b.Address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			b.Kill()
			t.Fatalf("mosquitto does not listen on %s: %v\n%s", b.Address, err, b.log)
		}
	}
}

// Stop ends the broker in the orderly way, which writes its store.
func (b *Broker) Stop() { b.end(syscall.SIGTERM) }

// Kill ends it at once: what it had not stored is gone.
func (b *Broker) Kill() { b.end(syscall.SIGKILL) }

// ProcessorTime returns the processor time that the broker has used since it was started.
func (b *Broker) ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var user, system int64 // fields 14 and 15; the name, which may have spaces, ends with the last bracket
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		t.Fatalf("%q", text)
	}
	if _, err := fmt.Sscan(string(fields[11])+" "+string(fields[12]), &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / 100 // USER_HZ
}

func (b *Broker) end(sig syscall.Signal) {
	_ = b.cmd.Process.Signal(sig) // an error where it has ended already
	_ = b.cmd.Wait()
}
