package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/testrig"
)

// own makes a directory that of a spool.
func own(t testing.TB, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, markerName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A directory with other files is refused, as spool and as mirror, and stays as it is.
func TestForeignDirectory(t *testing.T) {
	for _, name := range []string{"report.tmp", "photo.last", "notes.mark", "0000000000000001.obj", "damaged/old.txt",
		".hidden"} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		for _, o := range []Options{{Dir: dir}, {Dir: filepath.Join(t.TempDir(), "s"), Mirror: dir}} {
			o.Logger = testrig.Quiet()
			if s, err := Open(o); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "touch "+dir) {
				t.Errorf("%s: %v, %v", name, s, err)
			}
		}
		if err := CheckDir(dir); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: check says %v", name, err)
		}
		if after := tree(t, dir); !slices.Equal(before, after) {
			t.Errorf("%q became %q", before, after)
		}
		own(t, dir) // as the message says
		s, err := Open(Options{Dir: dir, Logger: testrig.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
	}
}

// The root and home directories are nobody's spool, even where they are empty.
func TestPlaces(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, dir := range []string{"/", "//", "/tmp/..", "/root", "/home", "/home/somebody", home, home + "/"} {
		if err := CheckDir(dir); !errors.Is(err, ErrForeign) {
			t.Errorf("check of %s: %v", dir, err)
		}
		if _, err := Open(Options{Dir: dir, Logger: testrig.Quiet()}); !errors.Is(err, ErrForeign) {
			t.Errorf("open of %s: %v", dir, err)
		}
	}
	for _, dir := range []string{home + "/spool", home + "/none/spool"} {
		if err := CheckDir(dir); err != nil {
			t.Error(err)
		}
	}
	disk := t.TempDir() // the top of a file system of its own
	if err := os.Mkdir(disk+"/lost+found", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := CheckDir(disk); err != nil {
		t.Error(err)
	}
}

// In its own directory too a spool removes only what it may have written.
func TestOtherNamesStay(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, Options{Dir: dir}), item("env", 0, 10))
	others := []string{"report.tmp", "a b.mark", "photos of 2026.last", "00000000000000AB.obj",
		"0000000000000001.obj.x", "damaged/evidence.txt", "damaged/core.bad"}
	for _, name := range others {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n := range uint64(4) { // damaged windows push older ones out of the quarantine
		if err := os.WriteFile(filepath.Join(dir, objectName(100+n)), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want(t, drain(t, open(t, Options{Dir: dir, KeepDamaged: 1})), "0")
	for _, name := range others {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "mine" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if bad, _ := filepath.Glob(dir + "/damaged/0*.bad"); len(bad) != 1 {
		t.Errorf("the quarantine holds %q", bad)
	}
}

// noSpace takes nothing until there is room.
type noSpace struct {
	disk
	room *bool
}

func (n noSpace) Create(name string) (file, error) {
	if !*n.room {
		return nil, unix.ENOSPC
	}
	return n.disk.Create(name)
}

// A full disk gets the marker with its first file.
func TestMarkerOnAFullDisk(t *testing.T) {
	dir, room := t.TempDir(), false
	s := open(t, Options{Dir: dir, fs: noSpace{room: &room}})
	put(t, s, item("env", 0, 10))
	room = true
	s.Flush()
	if _, err := os.Stat(filepath.Join(dir, markerName)); err != nil {
		t.Error(err)
	}
	want(t, drain(t, open(t, Options{Dir: dir})), "0")
}
