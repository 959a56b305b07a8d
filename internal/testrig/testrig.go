// Package testrig holds what the tests of several packages build on: a broker, a bad
// network, a clock that jumps, logs, and waiting for a condition. Only tests import it.
package testrig

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"
)

// Patience bounds waits that end at once when everything works.
const Patience = 60 * time.Second

// Context returns a context that ends with the test, or after Patience.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Eventually waits until f returns true. After Patience the test fails and names what
// it waited for.
func Eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	if !Poll(f) {
		t.Fatalf("waited in vain for: %s", what)
	}
}

// Poll waits until f returns true and reports whether it did within Patience. Tests
// that have no testing.TB, such as scripts, use it instead of Eventually.
func Poll(f func() bool) bool {
	for end := time.Now().Add(Patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Receive returns the next value of c. After Patience the test fails and names what it
// waited for.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	select {
	case v := <-c:
		return v
	case <-timeout.C:
		t.Fatalf("waited in vain for: %s", what)
		panic("unreachable")
	}
}

// Pattern returns n bytes that do not repeat and are the same on every call.
func Pattern(n int) []byte {
	b := make([]byte, n)
	s := sha256.Sum256([]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	for i := range b {
		if i%32 == 0 {
			s = sha256.Sum256(s[:])
		}
		b[i] = s[i%32]
	}
	return b
}
