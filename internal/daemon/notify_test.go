package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hencedge/hencedge/internal/testrig"
)

// manager is a service manager's side of sd_notify: a datagram socket.
func manager(t *testing.T, address string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func hear(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 4096)
	if err := c.SetReadDeadline(time.Now().Add(testrig.Patience)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestNotify(t *testing.T) {
	for _, address := range []string{filepath.Join(t.TempDir(), "notify"),
		"@hencedge-test-" + strconv.Itoa(os.Getpid())} {
		c := manager(t, address)
		t.Setenv("NOTIFY_SOCKET", address)
		t.Setenv("WATCHDOG_USEC", "20000000")
		t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
		n := NewNotifier()
		if n.Watchdog() != 20*time.Second {
			t.Errorf("watchdog %v", n.Watchdog())
		}
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
			if _, set := os.LookupEnv(name); set {
				t.Errorf("%s is left for children", name)
			}
		}
		if err := n.Ready("all\nis well"); err != nil {
			t.Fatal(err)
		}
		if got := hear(t, c); got != "READY=1\nSTATUS=all is well" {
			t.Errorf("%q", got)
		}
		if err := n.Reloading(); err != nil {
			t.Fatal(err)
		}
		if got := hear(t, c); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
			t.Errorf("%q", got)
		}
		if err := n.Stopping(45 * time.Second); err != nil {
			t.Fatal(err)
		}
		if got := hear(t, c); !strings.HasPrefix(got, "STOPPING=1\nEXTEND_TIMEOUT_USEC=45000000\n") {
			t.Errorf("%q", got)
		}
	}
}

// systemd ignores a message of more than 4096 bytes as a whole, and a status that is no
// UTF-8.
func TestNotifyShortensLines(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	c := manager(t, address)
	t.Setenv("NOTIFY_SOCKET", address)
	n := NewNotifier()
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("ü", 5000), "x" + strings.Repeat("ü", 5000),
		"\xff" + strings.Repeat("\x80", 4000)} {
		if err := n.Send("STATUS="+text, "WATCHDOG=1"); err != nil {
			t.Fatal(err)
		}
		got := hear(t, c)
		if len(got) > 2000 || !strings.HasSuffix(got, "...\nWATCHDOG=1") || !utf8.ValidString(got) {
			t.Errorf("%d bytes, %.20q to %q", len(got), got, got[max(0, len(got)-20):])
		}
	}
}

func TestNotifyWithoutManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()+1)) // somebody else's
	n := NewNotifier()
	if err := n.Ready("x"); err != nil || n.Watchdog() != 0 {
		t.Errorf("%v, watchdog %v", err, n.Watchdog())
	}
	t.Setenv("NOTIFY_SOCKET", "vsock:2:1")
	if err := NewNotifier().Ready("x"); err == nil {
		t.Error("an unknown kind of socket was taken")
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	if err := NewNotifier().Ready("x"); err == nil {
		t.Error("a socket without a listener was taken")
	}
}

// A manager that reads nothing does not hold the service up.
func TestNotifyWhoDoesNotRead(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	manager(t, address)
	t.Setenv("NOTIFY_SOCKET", address)
	n := NewNotifier()
	n.patience = 10 * time.Millisecond
	for range 100_000 { // more than the kernel keeps
		if err := n.Alive(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v, want that the time is over", err)
			}
			return
		}
	}
	t.Error("a manager that reads nothing took every message")
}
