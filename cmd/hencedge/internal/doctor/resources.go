package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// getrandom asks for one byte without waiting.
func getrandom() error {
	_, err := unix.Getrandom(make([]byte, 1), unix.GRND_NONBLOCK)
	return err
}

// entropy checks that the kernel's generator is seeded; until then, making keys blocks.
// Boards without a hardware generator can take minutes after the first boot.
func entropy(proc string, ask func() error) Check {
	c := Check{Name: "entropy", Status: OK, Detail: "the kernel's generator is seeded"}
	switch err := ask(); {
	case errors.Is(err, unix.EAGAIN):
		c.Status, c.Detail = Fail, "the kernel's generator is not seeded yet"
		c.Remedy = "wait, or install a source of entropy (rng-tools, jitterentropy) and enable systemd-random-seed"
		return c
	case err != nil:
		c.Status, c.Detail = Info, "unknown: "+err.Error()
		return c
	}
	if b, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/entropy_avail")); err == nil {
		c.Detail += ", " + strings.TrimSpace(string(b)) + " bits available"
	}
	return c
}

// Least free space that is not worth a warning.
const (
	leastFree      = 64 << 20
	leastFreeShare = 0.05
)

// disk looks at the file system that state is written to.
func disk(name, dir string, stat statfs) Check {
	c := Check{Name: name, Status: OK}
	var s unix.Statfs_t
	if err := stat(dir, &s); err != nil {
		c.Status, c.Detail = Info, "unknown: "+err.Error()
		return c
	}
	free, total := int64(s.Bavail)*s.Bsize, int64(s.Blocks)*s.Bsize
	c.Detail = fmt.Sprintf("%d MiB free of %d MiB for %s", free>>20, total>>20, dir)
	switch {
	case s.Flags&unix.ST_RDONLY != 0:
		c.Status, c.Detail, c.Remedy = Fail, dir+" is on a read-only file system",
			"mount it writable, or put state elsewhere"
	case total > 0 && (free < leastFree || float64(free) < leastFreeShare*float64(total)):
		c.Status, c.Remedy = Warn, "free some space: a full disk stops sequence numbers, and with them the agent"
	case s.Files > 0 && s.Ffree == 0:
		c.Status, c.Detail, c.Remedy = Fail, "no inode is free for "+dir, "remove files"
	}
	return c
}

// statfs is unix.Statfs; tests replace it.
type statfs func(path string, buf *unix.Statfs_t) error

// lockedMemory tells whether a service of this user could lock its memory.
func lockedMemory(limit func() (uint64, error)) Check {
	c := Check{Name: "locked memory", Status: OK, Detail: "unlimited"}
	n, err := limit()
	switch {
	case err != nil:
		c.Status, c.Detail = Info, "unknown: "+err.Error()
	case n != unix.RLIM_INFINITY:
		c.Status, c.Detail = Info, fmt.Sprintf(
			"at most %d KiB in this shell; the units set LimitMEMLOCK=infinity and MemorySwapMax=0", n>>10)
	}
	return c
}

func memlockLimit() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l)
	return l.Cur, err
}

// tracing checks whether a process of the same user could read the memory of an
// unprotected one.
func tracing(proc string) Check {
	c := Check{Name: "ptrace", Status: OK}
	b, err := os.ReadFile(filepath.Join(proc, "sys/kernel/yama/ptrace_scope"))
	if err != nil {
		c.Status, c.Detail = Info, "no Yama on this kernel; the services forbid it themselves"
		return c
	}
	c.Detail = "scope " + strings.TrimSpace(string(b))
	if c.Detail == "scope 0" {
		c.Status, c.Detail = Info, c.Detail+": any process may look into others of its user; the services forbid it "+
			"themselves"
	}
	return c
}
