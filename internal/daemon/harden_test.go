package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain is also the process that TestHarden hardens: Harden is for good.
func TestMain(m *testing.M) {
	if limit := os.Getenv("HENCEDGE_HARDEN"); limit != "" {
		if err := hardenHere(limit); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hardenHere hardens this process and prints what came of it. A limit in bytes bounds what
// may be locked; "all" leaves the bound as it is.
func hardenHere(limit string) error {
	if n, err := strconv.ParseUint(limit, 10, 64); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
		// Without the capability, as a service of its own user.
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&head, &data[0]); err != nil {
			return err
		}
		data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
		if err := unix.Capset(&head, &data[0]); err != nil {
			return err
		}
	}
	p, failure := Harden(true)
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	var core unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &core)
	before, err := locked()
	if err != nil {
		return err
	}
	b := make([]byte, 32<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	after, err := locked()
	if err != nil {
		return err
	}
	fmt.Printf("HARDENED dumpable %d core %d grown %d error %v\n", dumpable, core.Cur, after-before, failure)
	if p.Locked != (failure == nil) || p.Dumpable {
		return fmt.Errorf("protection %+v after %v", p, failure)
	}
	if b[4096] != 1 {
		return errors.New("memory that forgets")
	}
	return nil
}

// locked returns how much of this process's memory is locked and there, in KiB.
func locked() (total int, err error) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Locked:"); ok {
			var n int
			if _, err := fmt.Sscanf(rest, "%d kB", &n); err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

var hardened = regexp.MustCompile(`HARDENED dumpable (\d+) core (\d+) grown (-?\d+) error (.*)`)

// A hardened process leaves no core dump, cannot be read by others, and its memory is
// locked as it is touched; where the limit does not allow that, it says so and works.
func TestHarden(t *testing.T) {
	for _, limit := range []string{"all", "65536"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HENCEDGE_HARDEN="+limit)
		out, err := cmd.CombinedOutput()
		m := hardened.FindStringSubmatch(string(out))
		if err != nil || m == nil {
			t.Fatalf("%s: %v\n%s", limit, err, out)
		}
		if m[1] != "0" || m[2] != "0" {
			t.Errorf("%s: dumpable %s, core files of %s bytes", limit, m[1], m[2])
		}
		grown, _ := strconv.Atoi(m[3])
		var now unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_MEMLOCK, &now)
		switch may := limit == "all" && (now.Cur == unix.RLIM_INFINITY || mayLock()); {
		case may && (grown < 32<<10 || m[4] != "<nil>"):
			t.Errorf("%s: of 32 MiB that were touched %d KiB are locked, error %s", limit, grown, m[4])
		case !may && (grown != 0 || !strings.Contains(m[4], "LimitMEMLOCK=infinity")):
			t.Errorf("%s: %d KiB are locked, error %s", limit, grown, m[4])
		}
	}
}
