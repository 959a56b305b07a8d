//go:build !evaluatoronly

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/internal/testrig"
)

// Every command protects its memory before it does anything, but for these.
var (
	mayBeOpen     = []string{"bench", "bench evaluator"}
	mayBeUnlocked = []string{"bench", "bench evaluator", "demo", "doctor", "evaluator run", "evaluator check",
		"evaluator explain", "evaluator levels", "evaluator enroll", "evaluator status", "evaluator reload"}
)

func TestEveryCommandIsProtected(t *testing.T) {
	var open, unlocked []string
	found := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
			if c.PersistentPreRunE != nil || c.PersistentPreRun != nil {
				t.Errorf("%s replaces what the root does before every command", c.CommandPath())
			}
		}
		if cmd.HasSubCommands() && cmd.Name() != "bench" || !cmd.Runnable() { // bench is no mere group
			return
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "hencedge ")
		found[name] = true
		harden, lock := protectionOf(cmd)
		if !harden {
			open = append(open, name)
		}
		if !lock {
			unlocked = append(unlocked, name)
		}
	}
	visit(newRoot(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}))
	for _, list := range []struct{ what, got, want string }{
		{"open", fmt.Sprint(slices.Sorted(slices.Values(open))), fmt.Sprint(slices.Sorted(slices.Values(mayBeOpen)))},
		{"not locked", fmt.Sprint(slices.Sorted(slices.Values(unlocked))),
			fmt.Sprint(slices.Sorted(slices.Values(mayBeUnlocked)))},
	} {
		if list.got != list.want {
			t.Errorf("the memory of %s is %s, expected of %s", list.got, list.what, list.want)
		}
	}
	for _, name := range []string{"keys new", "keys rotate", "keys export", "keys identity", "results watch",
		"results decrypt", "agent run", "config sign"} {
		if !found[name] {
			t.Errorf("no command %q: mend this test", name)
		}
	}
}

// probe tries to read the memory of another process of the same user.
func probe(pid int) string {
	runtime.LockOSThread()
	var out []string
	if f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err == nil {
		f.Close()
		out = append(out, "mem")
	}
	// The kernel gives the files of a process that cannot be dumped to root. This shows also
	// where a security module (Yama) forbids the rest anyway.
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/mem", pid), &st) == nil && int(st.Uid) == os.Geteuid() {
		out = append(out, "owner")
	}
	local := make([]byte, 1)
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &local[0], Len: 1}},
		[]unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
	if err == nil || err == unix.EFAULT { // allowed, whatever lies there
		out = append(out, "process_vm_readv")
	}
	if syscall.PtraceAttach(pid) == nil {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		_ = syscall.PtraceDetach(pid)
		out = append(out, "ptrace")
	}
	return "PROBE " + strings.Join(out, " ")
}

// stranger runs commands as a user that is not root, in a directory of its own.
type stranger struct {
	dir, program string
	attr         *syscall.SysProcAttr
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	s := &stranger{dir: t.TempDir()}
	if os.Geteuid() == 0 {
		const nobody = 65534
		s.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		for dir := s.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(s.dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	s.program = filepath.Join(s.dir, "hencedge")
	if err := os.WriteFile(s.program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stranger) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = s.dir, s.attr, []string{"HOME=" + s.dir, "TMPDIR=" + s.dir}
	return cmd
}

// probe is what a second process of the same user can reach of process pid.
func (s *stranger) probe(t *testing.T, pid int) string {
	t.Helper()
	cmd := s.command("-test.run=^TestSecretsOutOfReach$", "-test.v")
	cmd.Args[0] = "prober" // not the program
	cmd.Env = append(cmd.Env, "HENCEDGE_PROBE="+strconv.Itoa(pid))
	out, err := cmd.CombinedOutput()
	_, found, ok := strings.Cut(string(out), "PROBE ")
	if err != nil || !ok {
		t.Fatalf("%v\n%s", err, out)
	}
	found, _, _ = strings.Cut(found, "\n")
	return found
}

var vmLck = regexp.MustCompile(`VmLck:\s+(\d+) kB`)

// TestSecretsOutOfReach starts the commands that load secret keys and looks at them from
// another process of the same user: it can neither read their memory nor trace them, and
// their memory is locked. A process without protection can be read.
func TestSecretsOutOfReach(t *testing.T) {
	if text := os.Getenv("HENCEDGE_PROBE"); text != "" {
		pid, _ := strconv.Atoi(text)
		fmt.Println(probe(pid))
		return
	}
	s := newStranger(t)
	mayLock := allowLock(t)
	if out, err := s.command("keys", "new", "--params", "edge12-add", "--dir", "keys").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	public, err := s.command("keys", "identity", "evaluator.key").Output()
	if err != nil {
		t.Fatal(err)
	}
	signer := "cloud=" + strings.TrimSpace(string(public))
	for _, c := range []struct {
		args      []string
		reachable bool
	}{
		{args: []string{"results", "decrypt", "--dir", "keys", "--signer", signer}}, // waits for its standard input
		{args: []string{"results", "verify", "--dir", "keys", "--signer", signer}},
		{args: []string{"keys", "new", "--params", "deep16-d23", "--dir", "large"}}, // seconds
		{args: []string{"bench", "--min-time", "1m"}, reachable: true},
	} {
		name := strings.Join(c.args[:min(2, len(c.args))], " ")
		cmd := s.command(c.args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var found string
		testrig.Poll(func() bool { // while the program has not begun yet
			found = s.probe(t, cmd.Process.Pid)
			return (found != "") == c.reachable
		})
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		_ = cmd.Process.Kill()
		in.Close()
		_ = cmd.Wait()
		if c.reachable != (found != "") {
			t.Errorf("%s: another process reaches its memory by %q\n%s", name, found, &said)
		}
		m := vmLck.FindSubmatch(status)
		if m == nil {
			t.Fatalf("%s has ended:\n%s", name, &said)
		}
		if locked := string(m[1]) != "0"; locked != (mayLock && !c.reachable) {
			t.Errorf("%s: %s KiB are locked, may lock: %t", name, m[1], mayLock)
		}
	}
}

// allowLock lifts the limit on locked memory for processes that are started from now on,
// if this one may, and reports whether there is none.
func allowLock(t *testing.T) bool {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		t.Fatal(err)
	}
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited) != nil {
		return before.Cur == unix.RLIM_INFINITY
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before) })
	return true
}
