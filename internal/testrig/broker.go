package testrig

import (
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
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

// FreeAddress returns an address of this machine at which nobody listens (testenv.FreeAddress).
func FreeAddress(t testing.TB) string {
	t.Helper()
	return testenv.FreeAddress(t)
}
