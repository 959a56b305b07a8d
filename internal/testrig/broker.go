package testrig

import (
	"net"
	"testing"

	"github.com/hencedge/hencedge/transport/broker"
)

// Broker starts an embedded broker, which ends with the test.
func Broker(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	b, _, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// FreeAddress returns an address of this machine at which nobody listens. The kernel
// may give its port to another program before the test uses it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
