package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
)

// chmod sets modes that a umask would not let pass.
func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestTrustedFiles(t *testing.T) {
	me := os.Geteuid()
	for name, c := range map[string]struct {
		file, dir os.FileMode
		me        int
		want      Status
		holds     string
	}{
		"as it should be":       {0o644, 0o755, me, OK, "the 2"},
		"private":               {0o600, 0o700, me, OK, ""},
		"a group may change it": {0o664, 0o755, me, Warn, "ca.pem has mode 0664"},
		"everybody may":         {0o646, 0o755, me, Fail, "ca.pem has mode 0646"},
		"may replace it":        {0o644, 0o777, me, Fail, "has mode 0777"},
		"as in /tmp":            {0o644, 0o777 | os.ModeSticky, me, OK, ""},
		"somebody else's":       {0o644, 0o755, me + 4711, Warn, "belongs to user"},
	} {
		if name == "somebody else's" && me == 0 {
			continue // root's files are trusted
		}
		dir := t.TempDir()
		one, two := write(t, filepath.Join(dir, "ca.pem"), "x", 0o644),
			write(t, filepath.Join(t.TempDir(), "a.yaml"), "x", 0o644)
		chmod(t, one, c.file)
		chmod(t, dir, c.dir)
		got := trusted("agent", c.me, one, "", two)
		if got.Status != c.want || !strings.Contains(got.Detail, c.holds) || (c.want != OK) != (got.Remedy != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// its absence is told elsewhere
	if got := trusted("agent", me, filepath.Join(t.TempDir(), "absent")); got.Status != OK {
		t.Errorf("%+v", got)
	}
}

// Who can rename a directory above a file can put another file in its place, and so can
// who has the file that a link leads to.
func TestTrustedFilesAbove(t *testing.T) {
	dir := t.TempDir()
	chmod(t, dir, 0o755)
	path := write(t, filepath.Join(dir, "shared/keys/public.key"), "x", 0o644)
	chmod(t, filepath.Dir(path), 0o755)
	chmod(t, filepath.Join(dir, "shared"), 0o777)
	link := filepath.Join(t.TempDir(), "public.key")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		if got := trusted("agent", os.Geteuid(), p); got.Status != Fail ||
			!strings.Contains(got.Detail, "shared has mode 0777") {
			t.Errorf("%s: %+v", p, got)
		}
	}
	chmod(t, filepath.Join(dir, "shared"), 0o755)
	if got := trusted("agent", os.Geteuid(), path, link); got.Status != OK {
		t.Errorf("%+v", got)
	}
}

func TestTrustedFilesOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root", "only root can give files away")
	}
	dir := t.TempDir()
	chmod(t, dir, 0o755)
	path := write(t, filepath.Join(dir, "public.key"), "x", 0o644)
	if err := os.Chown(path, 4711, 4711); err != nil {
		t.Fatal(err)
	}
	if got := trusted("agent", 1000, path); got.Status != Warn ||
		!strings.Contains(got.Detail, "belongs to user 4711") {
		t.Errorf("%+v", got)
	}
	if got := trusted("agent", 0, path); got.Status != OK {
		t.Errorf("as root: %+v", got)
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "broker"), "sesame", 0o600)
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	for _, ref := range []config.Secret{config.Secret("file:" + path), "cred:broker",
		config.Secret("age:any.age@file:" + path)} {
		n := config.NamedSecret{Path: "broker.password", Secret: ref}
		for mode, want := range map[os.FileMode]Status{0o600: OK, 0o640: OK, 0o644: Fail, 0o606: Fail} {
			chmod(t, path, mode)
			got := secretFiles("agent", n)
			if len(got) != 1 || got[0].Status != want || got[0].Name != "agent broker.password" ||
				strings.Contains(got[0].Detail, "sesame") {
				t.Errorf("%s, mode %o: %+v", ref, mode, got)
			}
		}
	}
	if got := secretFiles("agent", config.NamedSecret{Secret: "env:HOME"}, config.NamedSecret{},
		config.NamedSecret{Secret: "file:" + config.Secret(dir) + "/none"}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// Links do not hide keys: neither where the walk begins, nor where a directory of
// the configuration leads.
func TestWalkFollowsItsRoots(t *testing.T) {
	disk, top := t.TempDir(), t.TempDir()
	write(t, filepath.Join(disk, "people/x/signing.key"), string(signingHead)+"...", 0o600)
	if err := os.Symlink(filepath.Join(disk, "people"), filepath.Join(top, "home")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"etc", "proc/1", "usr/bin", "usr/local", "data"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(top, "vmlinuz"), "x", 0o644)
	roots := readRoots(top)
	want := []string{"etc", "home", "usr/local", "data"} // usual places first
	for i, w := range want {
		want[i] = filepath.Join(top, w)
	}
	if !slices.Equal(roots, want) {
		t.Errorf("roots %q, want %q", roots, want)
	}
	if got := nothingToSteal(Options{Roots: roots}, "own"); got.Status != Warn ||
		!strings.Contains(got.Detail, "signing.key") {
		t.Errorf("%+v", got)
	}
	// The device's own key is its own by whatever way it is named.
	if got := nothingToSteal(Options{Roots: roots}, filepath.Join(top, "home/x/signing.key")); got.Status != OK {
		t.Errorf("%+v", got)
	}
}
