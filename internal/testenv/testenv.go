// Package testenv is what tests need of the machine beyond Go: programs, devices,
// small file systems, addresses. A test whose need is not met is skipped and says why; it fails
// instead where HENCEDGE_TEST_REQUIRE or CUTRANTT_TEST_REQUIRE, lists with commas,
// name the need. CONTRIBUTING.md says how to meet each. Only tests import it.
package testenv

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// names are what each variable may hold.
var names = map[string][]string{
	"HENCEDGE_TEST_REQUIRE": {"alertmanager", "axe", "binaries", "chromium", "deep", "g++", "gcc", "groff",
		"influxdb", "mkfs.ext4", "mosquitto",
		"mutate", "native",
		"openssl", "postgres", "proc", "prometheus", "pty", "python3",
		"root", "rounds", "skopeo", "systemd-analyze", "systemd-boot", "timescaledb", "timing", "vcan"},
	"CUTRANTT_TEST_REQUIRE": {"avx2", "avx512", "cpu", "cuda", "cuda-built", "cuda-fill", "cuda-fused",
		"cuda-graphs", "cuda-onekey", "generic", "neon", "reference"},
}

// required tells whether one of the variables names the need. A name that is none of
// the known ones is an error: a typing mistake would require nothing.
func required(need string) (is bool, err error) {
	for variable, known := range names {
		for name := range strings.SplitSeq(os.Getenv(variable), ",") {
			name = strings.TrimSpace(name)
			if name != "" && !slices.Contains(known, name) {
				err = fmt.Errorf("%s: there is no %q, only %q", variable, name, known)
			}
			is = is || name == need
		}
	}
	return is, err
}

// Without goes on with a test whose need is not met, and fails it where that is
// required: why says what is not there.
func Without(t testing.TB, need string, why ...any) {
	t.Helper()
	is, err := required(need)
	if err != nil {
		t.Fatal(err)
	}
	if is {
		t.Fatal(need + " is required: " + fmt.Sprint(why...))
	}
	t.Log(fmt.Sprint(why...))
}

// Missing skips a test whose need is not met, and fails it where that is required.
func Missing(t testing.TB, need string, why ...any) {
	t.Helper()
	Without(t, need, why...)
	t.SkipNow()
}

// Find returns where a program is. It also looks into sbin, which is not on the PATH of
// every user.
func Find(program string) (path string, err error) {
	for _, name := range []string{program, "/usr/sbin/" + program, "/usr/local/sbin/" + program} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is neither on PATH nor in /usr/sbin", program)
}

// Program returns where the program is that the need stands for.
func Program(t testing.TB, need, program string) string {
	t.Helper()
	path, err := Find(program)
	if err != nil {
		Missing(t, need, err)
	}
	return path
}

// QuickDir returns a directory, in memory where possible, for tests that flush thousands of
// small files and is not about flushing.
func QuickDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "hencedge")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Fill writes into the file until its disk has no byte left.
func Fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// Must returns what turns a value and an error into the value: Must(f())(t) fails the test if f does.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Unpack returns the content of a file that gzip packed.
func Unpack(t testing.TB, path string) []byte {
	t.Helper()
	r := Must(gzip.NewReader(bytes.NewReader(Must(os.ReadFile(path))(t))))(t)
	return Must(io.ReadAll(r))(t)
}
