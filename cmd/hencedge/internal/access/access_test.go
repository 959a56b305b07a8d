package access

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
)

func TestMayRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d", "file")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for p := dir; p != filepath.Dir(p); p = filepath.Dir(p) { // the way there must be open
		if info, err := os.Stat(p); err != nil || info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(p, 0o755); err != nil {
				testenv.Missing(t, "root", p, " is closed to others and cannot be opened: ", err)
			}
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	const other = 4_000_000
	for _, c := range []struct {
		file, dir os.FileMode
		uid       uint32
		gids      []uint32
		want      bool
	}{
		{0o600, 0o755, st.Uid, nil, true},
		{0o200, 0o755, st.Uid, []uint32{st.Gid}, false},
		{0o600, 0o755, other, []uint32{st.Gid}, false},
		{0o640, 0o755, other, []uint32{other, st.Gid}, true},
		{0o640, 0o755, other, []uint32{other}, false},
		{0o604, 0o755, other, nil, true},
		{0o604, 0o755, other, []uint32{st.Gid}, false}, // the group's bits count for its members
		{0o644, 0o750, other, []uint32{other}, false},
		{0o644, 0o750, other, []uint32{st.Gid}, true},
	} {
		if err := os.Chmod(path, c.file); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(path), c.dir); err != nil {
			t.Fatal(err)
		}
		if got := mayRead(path, c.uid, c.gids); got != c.want {
			t.Errorf("file %o in directory %o, user %d of %v: %v", c.file, c.dir, c.uid, c.gids, got)
		}
	}
	if !mayRead(filepath.Join(dir, "d", "absent"), other, []uint32{st.Gid}) {
		t.Error("what is not there was called unreadable")
	}
}

func TestBelow(t *testing.T) {
	dirs := []string{"/var/lib/hencedge/agent", "-/mnt/ssd/", "+/data"}
	for path, want := range map[string]bool{
		"/var/lib/hencedge/agent/state": true, "/var/lib/hencedge/agent": true, "/var/lib/hencedge/agent.state": false,
		"/var/lib/hencedge": false,
		"/mnt/ssd/spool":    true, "/mnt/ssd2/spool": false, "/data/x/y": true, "/etc/hencedge/signing.key": false,
	} {
		if below(path, dirs) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
	if !below("/anything", []string{"/"}) {
		t.Error("nothing is below /")
	}
}
