package daemon

import (
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Protection says how well the memory of a process is protected.
type Protection struct {
	Dumpable bool   `json:"dumpable"`         // core dumps and ptrace by the same user are possible
	Locked   bool   `json:"memory_locked"`    // never on a swap device
	Detail   string `json:"detail,omitempty"` // what could not be done
}

// String returns the protection in a few words.
func (p Protection) String() string {
	out := "no core dumps, no ptrace"
	if p.Dumpable {
		out = "core dumps and ptrace are possible"
	}
	if p.Locked {
		return out + ", locked"
	}
	return out + ", not locked"
}

// Harden protects the memory of this process: no core dumps and no reading by other
// processes of the same user. With lock, and where the limit allows it, every page is
// locked in memory when it is first touched. Harden returns the protection that it
// reached, and an error for each measure that failed.
//
// It also makes a fatal error of the Go runtime end in SIGABRT. Otherwise the exit
// code would be 2, which says "invalid configuration, do not start again".
func Harden(lock bool) (Protection, error) {
	debug.SetTraceback("crash")
	var p Protection
	var errs []error
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		p.Dumpable = true
		errs = append(errs, fmt.Errorf("switch off core dumps: %w", err))
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil && !errors.Is(err, unix.EPERM) {
		errs = append(errs, fmt.Errorf("switch off core dumps: %w", err))
	}
	if lock {
		if err := lockMemory(); err != nil {
			errs = append(errs, fmt.Errorf("keep memory off the swap device: %w", err))
		} else {
			p.Locked = true
		}
	}
	err := errors.Join(errs...)
	if err != nil {
		p.Detail = firstLine(err)
	}
	return p, err
}

// lockMemory locks pages when they are first touched. The limit counts address
// space, of which Go reserves far more than it uses, so that anything but an
// unlimited one would make allocations fail later.
func lockMemory() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return err
	}
	if l.Cur != unix.RLIM_INFINITY && !mayLock() {
		return fmt.Errorf("the limit on locked memory is %d bytes; set LimitMEMLOCK=infinity, as hencedge's units do",
			l.Cur)
	}
	return unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT)
}

// mayLock reports whether this process may lock memory regardless of the limit.
func mayLock() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}
