package spool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A real file system that is full: objects stay in memory within the bound, the
// spool says so, and they are on disk once there is room.
func TestDiskFull(t *testing.T) {
	dir := testenv.Disk(t, "272k") // four objects, and the page of the newest that left
	s := open(t, Options{Dir: dir, Memory: 300 << 10, Default: Limit{Full: DropNewest}})
	const size = 60 << 10
	for i := range 8 {
		put(t, s, item("a", i, size))
	}
	st := s.Stats()
	if err := s.Health(); err == nil || !errors.Is(err, unix.ENOSPC) || Cause(err) != "full" ||
		!strings.Contains(err.Error(), "memory") {
		t.Errorf("health: %v", err)
	}
	if st.MemoryObjects < 4 || st.Objects != 8 || st.WriteErrors == 0 {
		t.Fatalf("%+v", st)
	}
	if err := s.Put(t.Context(), item("a", 9, 200<<10)); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the bound of the memory: %v", err)
	}
	for range 8 - st.MemoryObjects { // what is on disk is delivered
		l := s.TryLease(Oldest, 0)
		if _, err := l.Sealed(); err != nil {
			t.Fatal(err)
		}
		l.Done()
	}
	testrig.Eventually(t, "the spool to use a disk that has room again", func() bool {
		s.Tick()
		return s.Health() == nil
	})
	again := open(t, Options{Dir: dir})
	if got := drain(t, again); len(got) < 3 || !slices.IsSorted(got) {
		t.Errorf("on disk: %q", got)
	}
}

// An input that can be read again waits for the disk.
func TestDiskFullWithCursor(t *testing.T) {
	dir := testenv.Disk(t, "256k")
	s := open(t, Options{Dir: dir})
	for i := range 3 {
		it := item("in", i, 70<<10)
		it.Cursor = []byte{byte(i)}
		put(t, s, it)
	}
	it := item("in", 3, 70<<10)
	it.Cursor = []byte{3}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Put(ctx, it); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if st := s.Stats(); st.MemoryObjects != 0 || s.Cursor("in")[0] != 2 {
		t.Fatalf("%+v, cursor %v", st, s.Cursor("in"))
	}
	done := make(chan error, 1)
	go func() { done <- s.Put(t.Context(), it) }()
	s.TryLease(Oldest, 0).Done()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want(t, drain(t, s), "1", "2", "3")
}

// A read-only disk: objects are kept in memory, delivered ones disappear as soon
// as the disk lets them.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	put(t, s, item("a", 0, 10))
	writable := testenv.ReadOnly(t, dir)
	put(t, s, item("a", 1, 10))
	if err := s.Health(); Cause(err) != "read_only" {
		t.Fatalf("health: %v", err)
	}
	l := s.TryLease(Oldest, 0)
	if _, err := l.Sealed(); err != nil {
		t.Fatal(err)
	}
	l.Done()
	if l = s.TryLease(Oldest, 0); l == nil || l.Topic != "1" {
		t.Fatalf("%+v", l)
	}
	l.Return(0)
	writable()
	testrig.Eventually(t, "the spool to use a disk that can be written again", func() bool {
		s.Tick()
		return s.Health() == nil
	})
	want(t, drain(t, open(t, Options{Dir: dir})), "1")
}

// child marks a process that one of the tests below starts.
const child = "HENCEDGE_SPOOL_CHILD"

func TestMain(m *testing.M) {
	switch dir := os.Getenv("HENCEDGE_SPOOL_DIR"); os.Getenv(child) {
	case "":
		os.Exit(m.Run())
	case "limit":
		os.Exit(limited(dir))
	case "kill":
		os.Exit(victim(dir))
	}
}

func runChild(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"="+what, "HENCEDGE_SPOOL_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// limited puts objects while RLIMIT_FSIZE cuts files short.
func limited(dir string) int {
	s, err := Open(Options{Dir: dir, Logger: testrig.Quiet()})
	if err == nil {
		err = s.Put(context.Background(), item("a", 0, 1000))
	}
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: unix.RLIM_INFINITY})
	}
	if err == nil {
		err = s.Put(context.Background(), item("a", 1, 10000))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if st := s.Stats(); Cause(s.Health()) != "too_large" || st.MemoryObjects != 1 {
		fmt.Fprintln(os.Stderr, s.Health(), st)
		return 1
	}
	if err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY,
		Max: unix.RLIM_INFINITY}); err == nil {
		time.Sleep(2 * firstRetry)
		s.Tick()
	}
	if s.Health() != nil || s.Stats().MemoryObjects != 0 {
		fmt.Fprintln(os.Stderr, s.Health(), s.Stats())
		return 1
	}
	return 0
}

func TestFileSizeLimit(t *testing.T) {
	dir := t.TempDir()
	if err := runChild(t, "limit", dir).Run(); err != nil {
		t.Fatal(err)
	}
	want(t, drain(t, open(t, Options{Dir: dir})), "0", "1")
}

// victim puts and delivers until it is killed, saying what it did.
func victim(dir string) int {
	s, err := Open(Options{Dir: dir, Logger: testrig.Quiet()})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	n := 0
	if c := s.Cursor("in"); c != nil {
		fmt.Sscan(string(c), &n)
	}
	for {
		n++
		it := item("in", n, 5000)
		it.Cursor = fmt.Append(nil, n)
		if err := s.Put(context.Background(), it); err != nil {
			fmt.Println("error", err)
			return 1
		}
		fmt.Println("put", n)
		if n%3 == 0 {
			l := s.TryLease(Oldest, 0)
			if _, err := l.Sealed(); err != nil {
				fmt.Println("error", err)
				return 1
			}
			fmt.Println("done", l.Topic)
			l.Done()
		}
	}
}

// TestKill kills a process that uses the spool, again and again at points that
// differ. Nothing that was put and not delivered may be missing, nothing may be
// there twice, and the input must go on where it was.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	delivered, promised := map[string]bool{}, 0
	for round := range 12 {
		cmd := runChild(t, "kill", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for seen := 0; lines.Scan(); seen++ {
			verb, what, _ := strings.Cut(lines.Text(), " ")
			switch verb {
			case "put":
				var n int
				fmt.Sscan(what, &n)
				if n > promised+2 { // one object may be safe and not yet announced
					t.Errorf("round %d: the input jumped from %d to %d", round, promised, n)
				}
				promised = max(promised, n)
			case "done":
				delivered[what] = true
			default:
				t.Errorf("round %d: %s", round, lines.Text())
			}
			if seen == 5+7*round { // the lines that it still wrote are read on
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
	}
	s := open(t, Options{Dir: dir})
	if st := s.Stats(); st.Damaged != 0 {
		t.Errorf("%+v", st)
	}
	got := map[string]bool{}
	for _, topic := range drain(t, s) {
		if got[topic] {
			t.Errorf("object %s is there twice", topic)
		}
		got[topic] = true
	}
	for n := 1; n <= promised; n++ {
		if k := fmt.Sprint(n); !got[k] && !delivered[k] {
			t.Errorf("object %d of %d is lost", n, promised)
		}
	}
	t.Logf("%d objects put, %d delivered, %d left", promised, len(delivered), len(got))
}

// flip changes one bit of a file, cut shortens it.
func flip(t *testing.T, name string, at int64) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[(at+int64(len(b)))%int64(len(b))] ^= 4
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(dir + "/*" + objectSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Damage without a mirror: exactly the damaged objects are lost, counted and set
// aside, before or after a start.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	for i := range 7 {
		put(t, s, item("a", i, 500))
	}
	list := files(t, dir)
	flip(t, list[1], -20) // body
	flip(t, list[2], 20)  // header
	if err := os.Truncate(list[3], 300); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(list[4]); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(list[5], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "rubbish")
	f.Close()
	s = open(t, Options{Dir: dir})
	if st := s.Stats(); st.Damaged != 2 || st.Repaired != 1 || st.Objects != 4 {
		t.Errorf("at the start: %+v", st)
	}
	want(t, drain(t, s), "0", "5", "6")
	if st := s.Stats(); st.Damaged != 3 || st.Objects != 0 || st.Bytes != 0 {
		t.Errorf("after reading: %+v", st)
	}
	if aside, _ := filepath.Glob(dir + "/damaged/*"); len(aside) != 3 {
		t.Errorf("set aside: %q", aside)
	}
}

// With a mirror nothing is lost, whichever copy is damaged.
func TestMirror(t *testing.T) {
	dir, mirror := t.TempDir(), t.TempDir()
	o := Options{Dir: dir, Mirror: mirror}
	s := open(t, o)
	for i := range 6 {
		put(t, s, item("a", i, 500))
	}
	list, second := files(t, dir), files(t, mirror)
	if len(second) != 6 {
		t.Fatalf("%d copies", len(second))
	}
	flip(t, list[0], -9)
	flip(t, list[1], 30)
	flip(t, second[2], -9)
	if err := os.Truncate(list[3], 10); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(list[4]); err != nil {
		t.Fatal(err)
	}
	l := s.TryLease(Oldest, 0) // damaged under a running spool
	b, err := l.Sealed()
	if err != nil || !bytes.HasPrefix(b, []byte("a-0")) {
		t.Fatalf("%q, %v", b, err)
	}
	l.Return(0)
	if file, err := os.ReadFile(list[0]); err != nil {
		t.Errorf("the first copy is not restored: %v", err)
	} else if _, object, _, err := Decode(file); err != nil || !bytes.HasPrefix(object, []byte("a-0")) ||
		s.Stats().Repaired != 1 {
		t.Errorf("the first copy: %v; %+v", err, s.Stats())
	}
	s = open(t, o)
	want(t, drain(t, s), "0", "1", "2", "3", "4", "5")
	if st := s.Stats(); st.Damaged != 0 || st.Repaired < 3 {
		t.Errorf("%+v", st)
	}
	if left := append(files(t, dir), files(t, mirror)...); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// badBlock fails to read a file for so many times.
type badBlock struct {
	disk
	name string
	left *int
}

func (b badBlock) Open(name string) (file, error) {
	f, err := b.disk.Open(name)
	if err == nil && filepath.Base(name) == b.name {
		return failingFile{f, b.left}, nil
	}
	return f, err
}

type failingFile struct {
	file
	left *int
}

func (f failingFile) Read(b []byte) (int, error) {
	if *f.left--; *f.left >= 0 {
		return 0, unix.EIO
	}
	return f.file.Read(b)
}

// A file that cannot be read is tried again, and is damaged when that does not help.
func TestRead(t *testing.T) {
	for failures, lost := range map[int]bool{0: false, 3: false, 1000: true} {
		left := 0
		s := open(t, Options{Dir: t.TempDir(), fs: badBlock{name: objectName(1), left: &left}})
		put(t, s, item("a", 0, 100))
		put(t, s, item("a", 1, 100))
		left = failures
		e := s.Entries()[0]
		l, sealed, err := s.Read(e)
		if lost != errors.Is(err, ErrDamaged) || !lost && (err != nil || !bytes.HasPrefix(sealed, []byte("a-0"))) {
			t.Errorf("%d failures: %q, %v", failures, sealed, err)
		}
		if st := s.Stats(); !lost {
			l.Return(0)
		} else if st.Damaged != 1 || st.Objects != 1 {
			t.Errorf("%d failures: %+v", failures, st)
		}
		if _, _, err := s.Read(Entry{Stream: "a", Number: 99}); err == nil {
			t.Error("what is not there was read")
		}
	}
}

// A start makes second copies that are missing or damaged again, so that the first may
// be damaged next.
func TestMirrorIsMadeAgain(t *testing.T) {
	dir, mirror := t.TempDir(), t.TempDir()
	o := Options{Dir: dir, Mirror: mirror}
	s := open(t, o)
	for i := range 3 {
		put(t, s, item("a", i, 500))
	}
	second := files(t, mirror)
	if err := errors.Join(os.Remove(second[0]), os.Truncate(second[1], 10)); err != nil {
		t.Fatal(err)
	}
	if s = open(t, o); s.Stats().Repaired != 2 || len(files(t, mirror)) != 3 {
		t.Errorf("%+v, %d copies", s.Stats(), len(files(t, mirror)))
	}
	for _, name := range files(t, dir) {
		flip(t, name, -9)
	}
	want(t, drain(t, s), "0", "1", "2")
	// A mirror that takes nothing does not keep the spool from opening.
	put(t, s, item("a", 3, 500))
	put(t, s, item("a", 4, 500))
	for _, name := range files(t, mirror) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	o.fs = noMirror{at: mirror}
	s = open(t, o)
	if st := s.Stats(); st.Objects != 2 || st.WriteErrors != 1 {
		t.Errorf("%+v", st)
	}
	want(t, drain(t, s), "3", "4")
}

// noMirror takes no file in a directory.
type noMirror struct {
	disk
	at string
}

func (n noMirror) Create(name string) (file, error) {
	if filepath.Dir(name) == n.at {
		return nil, unix.ENOSPC
	}
	return n.disk.Create(name)
}

// The quarantine is bounded.
func TestQuarantineBound(t *testing.T) {
	dir := t.TempDir()
	own(t, dir)
	for i := range 5 {
		if err := os.WriteFile(filepath.Join(dir, objectName(uint64(i))), []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, Options{Dir: dir, KeepDamaged: 2})
	if st := s.Stats(); st.Damaged != 5 {
		t.Errorf("%+v", st)
	}
	if aside, _ := filepath.Glob(dir + "/damaged/*"); len(aside) != 2 {
		t.Errorf("%d are kept", len(aside))
	}
}
