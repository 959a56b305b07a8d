package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

// lowestPort is the first port that FreeAddress tries; services with known ports lie below.
const lowestPort = 10000

// FreeAddress returns an address of this machine, 127.0.0.1 and a port, at which nobody listens,
// for a program that is told where to listen, or is away for a while. It is the test's until the
// test ends: the kernel gives such a port neither to a listener without one nor to a connection, and
// other tests that ask for an address, in any process, get another. A proxy that got the port of the
// broker behind it connects to itself until no file descriptor is left.
func FreeAddress(t testing.TB) string {
	t.Helper()
	end := ephemeral()
	for range 1000 {
		if end < lowestPort+1000 {
			break
		}
		port := lowestPort + rand.IntN(end-lowestPort)
		claim, err := net.Listen("unix", fmt.Sprint("@hencedge-test-port-", port))
		if err != nil {
			continue // another test's
		}
		address := fmt.Sprint("127.0.0.1:", port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = claim.Close() })
		return address
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel may give it away
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ephemeral returns the first port that the kernel gives away by itself; 0: any.
func ephemeral() (first int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &first); err != nil {
		return 0
	}
	return first
}
