package input

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, size := range []int{0, 1, 8<<10 - 1, 8 << 10, 8<<10 + 1, 100_000, maxFile} {
		want := strings.Repeat("7", size)
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadText(path); err != nil || got != want {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadText(path); !errors.Is(err, ErrReading) {
		t.Errorf("too large: %v", err)
	}
	if text, err := ReadText("/proc/self/status"); err != nil || !strings.Contains(text, "VmRSS") {
		t.Errorf("got %q, %v", Clip(text), err)
	}
	if _, err := ReadText(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
}

func TestReadNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for text, ok := range map[string]bool{"23850\n": true, "-4.5": true, "": false, "N/A\n": false, "0x10": false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadNumber(path); (err == nil) != ok || err != nil && !errors.Is(err, ErrReading) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestByNumber(t *testing.T) {
	if ByNumber("hwmon2", "hwmon10") >= 0 || ByNumber("b1", "a1") <= 0 || ByNumber("x", "x") != 0 {
		t.Error("order")
	}
}
