//go:build !evaluatoronly

package main

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// What a broker says of itself, in its certificate, reaches no terminal as it is.
func TestStatusDrivesNoTerminal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"role":"agent","healthy":false,"reasons":["no\u001b[8mconnection"],
			"service":{"broker":{"last_error":"valid for \u001b]0;evil\u0007, not \u009b2J",
			"last_error_at":"2026-05-01T00:00:00Z"}}}`)
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	var out strings.Builder
	if code := run([]string{"agent", "status", "--socket", socket},
		cli.Streams{Out: &out, Err: io.Discard}); code != cli.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(out.String(), "valid for ?]0;evil?, not ?2J") ||
		strings.ContainsAny(out.String(), "\x1b\x07\u009b") {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	report(&out, cli.Usagef("a.yaml:1:2: x\n\t\x1b[2J^"))
	if out.String() != "hencedge: a.yaml:1:2: x\n\t?[2J^\n" {
		t.Errorf("%q", out.String())
	}
}
