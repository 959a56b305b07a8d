//go:build !evaluatoronly

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// secretPackages are those that no evaluator may hold: the one with secret keys, and all
// that links it.
var secretPackages = []string{module + "/henc/secret", module + "/keyholder", module + "/agent"}

// TestEvaluatorBuild: the program that evaluators run (build tag evaluatoronly) links no
// package with secret keys, and none of their functions is in its table of functions, which
// a stripped program has too. The full program, as a control, has them.
func TestEvaluatorBuild(t *testing.T) {
	dir := t.TempDir()
	for _, tags := range []string{"evaluatoronly", "evaluatoronly,nogpu"} {
		out, err := exec.Command("go", "list", "-deps", "-tags", tags, module+"/cmd/hencedge").Output()
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.Lines(string(out)) {
			if slices.ContainsFunc(secretPackages, func(p string) bool { return liesIn(strings.TrimSpace(name), p) }) {
				t.Errorf("-tags %s links %s", tags, strings.TrimSpace(name))
			}
		}
	}
	for tags, want := range map[string]bool{"evaluatoronly,nogpu": false, "nogpu": true} {
		file := filepath.Join(dir, tags)
		cmd := exec.Command("go", "build", "-tags", tags, "-trimpath", "-ldflags", "-s -w", "-o", file,
			module+"/cmd/hencedge")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range secretPackages {
			if got := bytes.Contains(b, []byte(p+".")); got != want {
				t.Errorf("-tags %s: functions of %s are in the program: %t", tags, p, got)
			}
		}
		if !bytes.Contains(b, []byte(module+"/evaluator.")) {
			t.Errorf("-tags %s: no function of the evaluator is found: mend this test", tags)
		}
	}
}

// TestBoardBuild: the program for boards (build tags nobroker and nostore) links no broker, no
// database, no page and nothing that makes passkeys and QR codes. The one with them, as a control, does.
func TestBoardBuild(t *testing.T) {
	const webauthn = "github.com/go-webauthn/webauthn/webauthn"
	for _, c := range []struct {
		tags, dep string
		want      bool
	}{
		{"nobroker", module + "/transport/broker", false},
		{"nobroker,nogpu", module + "/transport/broker", false},
		{"", module + "/transport/broker", true},
		{"nostore", module + "/keyholder/store", false}, {"nostore", module + "/keyholder/console", false},
		{"nostore", "modernc.org/sqlite", false}, {"nostore", webauthn, false}, {"", webauthn, true},
		{"nostore", "rsc.io/qr/coding", false}, {"", "rsc.io/qr/coding", true},
		{"evaluatoronly", "modernc.org/sqlite", false}, {"nostore", "github.com/jackc/pgx/v5", false},
		{"", module + "/keyholder/store", true}, {"", "modernc.org/sqlite", true},
		{"", "github.com/jackc/pgx/v5", true}, {"", module + "/keyholder/store/postgres", false},
	} {
		out, err := exec.Command("go", "list", "-deps", "-tags", c.tags, module+"/cmd/hencedge").Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains("\n"+string(out), "\n"+c.dep+"\n"); got != c.want {
			t.Errorf("-tags %q: the program links %s: %t", c.tags, c.dep, got)
		}
	}
}

// liesIn reports whether a package is p or lies below it.
func liesIn(name, p string) bool { return name == p || strings.HasPrefix(name, p+"/") }
