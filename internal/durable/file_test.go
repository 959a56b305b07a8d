package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
)

// A file is replaced as a whole, for its owner only, and its directory is flushed
// after the new name is there; a flush that fails is a failure.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	var flushed []string
	defer durable.SetSyncDir(nil)
	durable.SetSyncDir(func(name string) error {
		b, err := os.ReadFile(path)
		flushed = append(flushed, name+":"+string(b))
		return err
	})
	write := map[string]func(string) error{
		"WriteFile":       func(s string) error { return durable.WriteFile(path, []byte(s)) },
		"FileReplayStore": func(s string) error { return transport.FileReplayStore(path).Save([]byte(s)) },
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
		_ = os.Remove(path + ".spare")
		if list, _ := os.ReadDir(dir); err != nil || info.Mode() != 0o600 || len(list) != 1 {
			t.Errorf("%s: %v, %v, %v", name, info.Mode(), list, err)
		}
	}
	bad := errors.New("the disk fails")
	durable.SetSyncDir(func(string) error { return bad })
	for name, write := range write {
		if err := write("x"); !errors.Is(err, bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := durable.WriteFile(filepath.Join(dir, "none", "state"), nil); err == nil {
		t.Error("a directory that does not exist")
	}
}

// What a killed process left is removed, and nothing else.
func TestSweepTemporary(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	var left []string
	for range 2 {
		f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir)) // as WriteFile does, and no further
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		left = append(left, f.Name())
	}
	others := []string{path, path + ".spare"}
	for _, name := range []string{".state", ".state12x", "state12"} {
		others = append(others, filepath.Join(dir, name))
	}
	for _, name := range others {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range append(others, left[0]) {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	durable.SweepTemporary(path)
	if _, err := os.Stat(left[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one is there: %v", err)
	}
	for _, name := range append(others, left[1]) { // the young one may be in use
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	durable.SweepTemporary(filepath.Join(dir, "none", "state"))
}

// On a disk without a free byte a state is still written, again and again, as long as it
// does not grow beyond the room that was kept. A real, small file system, filled.
func TestWriteStateOnAFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "64k")
	path := filepath.Join(dir, "state")
	if err := durable.WriteState(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	fill := func() {
		t.Helper()
		testenv.Fill(t, filepath.Join(dir, "ballast"))
	}
	fill()
	if err := durable.WriteFile(path, []byte("x")); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for i := range 5 {
		want := strings.Repeat("s", 10+i)
		if err := durable.WriteState(path, []byte(want)); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("write %d: %q, %v", i, got, err)
		}
	}
	if err := durable.WriteState(path, make([]byte, 40<<10)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("more than there is room for: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || len(got) != 14 {
		t.Errorf("the failure left %d bytes, %v", len(got), err)
	}
	// What comes free with the old state may be taken by others: then it is the end.
	fill()
	for i := 0; ; i++ {
		if err := durable.WriteState(path, []byte("last")); err != nil {
			if got, rerr := os.ReadFile(path); rerr != nil || len(got) == 0 || !errors.Is(err, unix.ENOSPC) {
				t.Errorf("%q, %v, %v", got, rerr, err)
			}
			break
		}
		if fill(); i == 20 {
			break // somebody keeps the room
		}
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteState(path, []byte("room again")); err != nil {
		t.Fatal(err)
	}
}

// A file system that cannot flush directories, as /proc cannot, is not one that fails.
func TestNoDirectoryFlush(t *testing.T) {
	d, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Sync(); !errors.Is(err, unix.EINVAL) {
		testenv.Missing(t, "proc", "/proc flushes directories here: ", err)
	}
	if err := durable.SyncDir("/proc"); err != nil {
		t.Error(err)
	}
	if err := durable.SyncDir("/proc/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
