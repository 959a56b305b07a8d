package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

func TestEntropy(t *testing.T) {
	proc := t.TempDir()
	write(t, filepath.Join(proc, "sys/kernel/random/entropy_avail"), "256\n", 0o644)
	for err, want := range map[error]Status{nil: OK, unix.EAGAIN: Fail, unix.ENOSYS: Info} {
		if got := entropy(proc, func() error { return err }); got.Status != want || got.Detail == "" {
			t.Errorf("%v: %+v, want %s", err, got, want)
		}
	}
	if got := entropy("/proc", getrandom); got.Status != OK {
		t.Errorf("this machine: %+v", got)
	}
}

func TestDisk(t *testing.T) {
	fake := func(free, total uint64, flags int64, err error) statfs {
		return func(_ string, s *unix.Statfs_t) error {
			s.Bsize, s.Blocks, s.Bavail, s.Flags, s.Files, s.Ffree = 4096, total/4096, free/4096, flags, 10, 5
			return err
		}
	}
	for i, c := range []struct {
		stat statfs
		want Status
	}{
		{fake(8<<30, 16<<30, 0, nil), OK},
		{fake(32<<20, 64<<20, 0, nil), Warn},
		{fake(1<<30, 64<<30, 0, nil), Warn},
		{fake(8<<30, 16<<30, unix.ST_RDONLY, nil), Fail},
		{fake(0, 0, 0, errors.New("no")), Info},
	} {
		if got := disk("x", "/d", c.stat); got.Status != c.want {
			t.Errorf("%d: %+v, want %s", i, got, c.want)
		}
	}
	if got := disk("x", t.TempDir(), unix.Statfs); got.Status == Info || got.Status == Fail {
		t.Errorf("this machine: %+v", got)
	}
}

func TestLimitsOfMemory(t *testing.T) {
	for n, want := range map[uint64]Status{unix.RLIM_INFINITY: OK, 8 << 20: Info} {
		if got := lockedMemory(func() (uint64, error) { return n, nil }); got.Status != want {
			t.Errorf("%d: %+v", n, got)
		}
	}
	proc := t.TempDir()
	for text, want := range map[string]Status{"0\n": Info, "1\n": OK} {
		write(t, filepath.Join(proc, "sys/kernel/yama/ptrace_scope"), text, 0o644)
		if got := tracing(proc); got.Status != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A secret key is found wherever this user can read, under whatever name; the
// device's own signing key is its own.
func TestNothingToSteal(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "var/lib/signing.key")
	key, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := key.Save(own); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "etc/secret.key"), "no key", 0o644)
	write(t, filepath.Join(dir, "etc/empty"), "", 0o644)
	write(t, filepath.Join(dir, "etc/almost"), "\x86\x01\x04\x58\x20 and nothing more", 0o644)
	if err := os.Symlink("/", filepath.Join(dir, "etc/root")); err != nil {
		t.Fatal(err)
	}
	got := nothingToSteal(Options{Roots: []string{dir, filepath.Join(dir, "etc")}}, own)
	if got.Status != OK || !strings.Contains(got.Detail, "in the 4 files") {
		t.Errorf("%+v", got)
	}
	if got := nothingToSteal(Options{Roots: []string{dir}}, filepath.Join(dir, "etc/other.key")); got.Status != Warn ||
		!strings.Contains(got.Detail, own) {
		t.Errorf("somebody else's signing key: %+v", got)
	}

	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	set, err := keyholder.Create(filepath.Join(t.TempDir(), "keys"), keyholder.CreateOptions{Params: p})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(set.Dir(), "epoch-0001", keyholder.SecretFile))
	if err != nil {
		t.Fatal(err)
	}
	hidden := write(t, filepath.Join(dir, "home/a/b/c/d/e/f/photo.jpg"), string(b), 0o600)
	if got := nothingToSteal(Options{Roots: []string{dir}}, own); got.Status != Fail ||
		!strings.Contains(got.Detail, hidden) {
		t.Errorf("%+v", got)
	}
	b[1]-- // a key that an earlier version wrote
	if write(t, hidden, string(b), 0o600); nothingToSteal(Options{Roots: []string{dir}}, own).Status != Fail {
		t.Error("the key of an earlier version was not found")
	}
	// A bound that is reached is said.
	clock := time.Unix(0, 0)
	later := func() time.Time { clock = clock.Add(time.Minute); return clock }
	if w := walk(Options{Roots: []string{dir}}, []string{own}, later); !w.cut {
		t.Error("a walk without end")
	}
	// Whoever is told how far it is may end it.
	told := 0
	stop := Options{Roots: []string{dir}, Progress: func(what string, done, total int64) error {
		told++
		if what != "files" || done != 1 || total != 0 {
			t.Errorf("told of %d of %d %s", done, total, what)
		}
		return context.Canceled
	}}
	if w := walk(stop, nil, time.Now); !w.cut || told != 1 || w.files > 0 {
		t.Errorf("a walk that was interrupted found %+v and told of it %d times", w, told)
	}
}
