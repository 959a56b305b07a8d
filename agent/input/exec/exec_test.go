package exec

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func open(t *testing.T, command []string, timeout time.Duration) *Input {
	t.Helper()
	e, err := New(config.Input{Name: "x", Every: 10 * time.Millisecond, Timeout: timeout, MaxAge: time.Minute,
		Retry:    time.Millisecond,
		RetryMax: 2 * time.Millisecond, Exec: &config.Exec{Command: command}},
		input.Env{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func sensor(t *testing.T, e *Input, path, pattern string) input.Sensor {
	t.Helper()
	s, err := e.Sensor(config.Source{Type: config.SourceExec, Point: config.Point{Path: path, Pattern: pattern}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOutputs(t *testing.T) {
	inputtest.Until(t, sensor(t, open(t, sh("echo ' 23.5 '"), time.Minute), "", ""), nil, inputtest.Is(23.5))
	inputtest.Until(t, sensor(t, open(t, sh("printf 'a 1\\ntemp: 7\\n'"), time.Minute), "", `temp: (\d+)`), nil,
		inputtest.Is(7))
	e := open(t, sh(`echo '{"t": [1, {"v": 4.5}]}'`), time.Minute)
	good, bad := sensor(t, e, "t.1.v", ""), sensor(t, e, "t.2.v", "")
	inputtest.Until(t, good, nil, inputtest.Is(4.5))
	inputtest.Until(t, bad, nil, func(_ float64, err error) bool { return errors.Is(err, input.ErrReading) })
}

func TestFailuresAndRecovery(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "works")
	e := open(t, sh("cat "+mark+" || exit 3"), time.Minute)
	s := sensor(t, e, "", "")
	if _, _, err := s.Read(t.Context()); !errors.Is(err, input.ErrNoValue) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(mark, []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
	inputtest.Until(t, s, nil, inputtest.Is(5))
}

func TestOutput(t *testing.T) {
	for _, c := range []struct {
		script, want string
	}{
		{"exit 3", "exit status 3"},
		{"echo 'no sensor' >&2; exit 1", "no sensor"},
		{"head -c 2000000 /dev/zero", "more than"},
		{"yes", "more than 1048576 bytes and was killed"}, // would print for ever
		{"yes >&2", "more than 1048576 bytes and was killed"},
		{"kill -9 $$", "signal: killed"},
	} {
		if _, err := output(t.Context(), sh(c.script)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.script, err)
		}
	}
	t.Setenv("HENCEDGE_SECRET", "x")
	got, err := output(t.Context(), sh("pwd; env; cat"))
	if err != nil || !strings.HasPrefix(got, "/\n") || strings.Contains(got, "SECRET") ||
		!strings.Contains(got, "LANG=C") {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := output(t.Context(), []string{"/no/such/program"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// At the timeout the whole group dies, children too.
func TestTimeout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		testrig.Poll(func() bool {
			b, _ := os.ReadFile(file)
			return strings.HasSuffix(string(b), "\n")
		})
		cancel()
	}()
	if _, err := output(ctx, sh("sleep 1000 & echo $! > "+file+"; wait")); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	gone(t, file)
}

// What a command leaves behind in its group dies with it, whether or not it holds
// the output.
func TestLeftBehind(t *testing.T) {
	for _, redirect := range []string{"", ">/dev/null 2>&1"} {
		file := filepath.Join(t.TempDir(), "pid")
		got, err := output(t.Context(), sh("sleep 1000 "+redirect+" & echo $! > "+file+"; echo 5"))
		if err != nil || got != "5\n" {
			t.Fatalf("got %q, %v", got, err)
		}
		gone(t, file)
	}
}

// gone waits until the process whose number stands in a file has ended.
func gone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "a child of the command to end", func() bool {
		// init reaps the orphan, or it stays a zombie.
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return syscall.Kill(pid, 0) != nil || err != nil || strings.Contains(string(stat), ") Z ")
	})
}
