package transport

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file is replaced as a whole, for its owner only, and its directory is flushed
// after the new name is there; a flush that fails is a failure.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	real := syncDir
	defer func() { syncDir = real }()
	var flushed []string
	syncDir = func(name string) error {
		b, err := os.ReadFile(path)
		flushed = append(flushed, name+":"+string(b))
		return errors.Join(err, real(name))
	}
	write := map[string]func(string) error{
		"WriteFile":       func(s string) error { return WriteFile(path, []byte(s)) },
		"FileReplayStore": func(s string) error { return FileReplayStore(path).Save([]byte(s)) },
	}
	for name, write := range write {
		flushed = nil
		for _, text := range []string{"one", "a longer two"} {
			if err := write(text); err != nil {
				t.Fatal(err)
			}
		}
		if len(flushed) != 2 || flushed[0] != dir+":one" || flushed[1] != dir+":a longer two" {
			t.Errorf("%s: flushed %q", name, flushed)
		}
		info, err := os.Stat(path)
		if list, _ := os.ReadDir(dir); err != nil || info.Mode() != 0o600 || len(list) != 1 {
			t.Errorf("%s: %v, %v, %v", name, info.Mode(), list, err)
		}
	}
	bad := errors.New("the disk fails")
	syncDir = func(string) error { return bad }
	for name, write := range write {
		if err := write("x"); !errors.Is(err, bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := WriteFile(filepath.Join(dir, "none", "state"), nil); err == nil {
		t.Error("a directory that does not exist")
	}
}
