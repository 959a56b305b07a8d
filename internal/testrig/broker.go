package testrig

import (
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
