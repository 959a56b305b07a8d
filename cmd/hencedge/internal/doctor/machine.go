package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/cutrantt/cuda"
)

// machine examines what no configuration is needed for.
func machine(proc string, now time.Time) []Check {
	return []Check{
		platform(), cpuFeatures(), gpu(cuda.New), memory(proc), clock(now, clockState),
		entropy(proc, getrandom), swap(proc, "/sys"), coreDumps(proc, coreLimit),
		lockedMemory(memlockLimit), tracing(proc),
	}
}

func platform() Check {
	detail := fmt.Sprintf("%s/%s, %s, %d CPUs, GOMAXPROCS %d", runtime.GOOS, runtime.GOARCH, runtime.Version(),
		runtime.NumCPU(), runtime.GOMAXPROCS(0))
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		detail += ", kernel " + unix.ByteSliceToString(u.Release[:])
	}
	return Check{Name: "platform", Status: Info, Detail: detail}
}

func cpuFeatures() Check {
	var have []string
	add := func(ok bool, name string) {
		if ok {
			have = append(have, name)
		}
	}
	switch runtime.GOARCH {
	case "amd64":
		add(cpu.X86.HasAVX2, "avx2")
		add(cpu.X86.HasBMI2, "bmi2")
		add(cpu.X86.HasAVX512F, "avx512f")
		add(cpu.X86.HasAVX512DQ, "avx512dq")
		add(cpu.X86.HasAVX512IFMA, "avx512ifma")
	case "arm64":
		add(cpu.ARM64.HasASIMD, "asimd")
		add(cpu.ARM64.HasSVE, "sve")
		add(cpu.ARM64.HasSVE2, "sve2")
	}
	if len(have) == 0 {
		have = []string{"none of those that matter"}
	}
	return Check{Name: "cpu features", Status: Info, Detail: strings.Join(have, " ")}
}

// memory warns below 256 MiB available, where the larger sets do not fit.
func memory(proc string) Check {
	c := Check{Name: "memory", Status: Info}
	b, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		c.Detail = "unknown: " + err.Error()
		return c
	}
	var total, avail int64
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = kib >> 10
		case "MemAvailable:":
			avail = kib >> 10
		}
	}
	c.Status, c.Detail = OK, fmt.Sprintf("%d MiB available of %d MiB", avail, total)
	if avail < 256 {
		c.Status, c.Remedy = Warn, "use a small parameter set (edge12-d1, edge13-d3) or free memory"
	}
	return c
}

// earliest is before the first release; a clock before it was never set.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clockState asks the kernel whether the clock is disciplined (NTP, PTP, GPS)
// and for its estimated maximum error.
func clockState() (synced bool, maxError time.Duration, err error) {
	var tx unix.Timex
	state, err := unix.Adjtimex(&tx)
	if err != nil {
		return false, 0, err
	}
	const timeError = 5 // TIME_ERROR of adjtimex(2)
	return tx.Status&unix.STA_UNSYNC == 0 && state != timeError, time.Duration(tx.Maxerror) * time.Microsecond, nil
}

// clock checks the clock. Windows of several devices are joined by their start times, and
// TLS certificates have a validity: a wrong clock breaks both.
func clock(now time.Time, state func() (bool, time.Duration, error)) Check {
	c := Check{Name: "clock", Detail: now.UTC().Format(time.RFC3339)}
	if now.Before(earliest) {
		c.Status, c.Remedy = Fail, "the clock was never set: enable systemd-timesyncd or chrony, or set the date"
		return c
	}
	synced, maxError, err := state()
	switch {
	case err != nil:
		c.Status, c.Detail = Info, c.Detail+", synchronisation unknown: "+err.Error()
	case !synced:
		c.Status, c.Detail = Warn, c.Detail+", not synchronised"
		c.Remedy = "enable systemd-timesyncd or chrony, otherwise windows of several devices will not line up"
	default:
		c.Status, c.Detail = OK, fmt.Sprintf("%s, synchronised within %v", c.Detail, maxError)
	}
	return c
}

// swap checks for swap devices, to which key material in memory could be written. One that
// device-mapper encrypts (its UUID begins with CRYPT-) is fine.
func swap(proc, sys string) Check {
	c := Check{Name: "swap"}
	b, err := os.ReadFile(filepath.Join(proc, "swaps"))
	if err != nil {
		c.Status, c.Detail = Info, "unknown: "+err.Error()
		return c
	}
	var disks []string
	encrypted := 0
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, line := range lines[1:] {
		// zram lives in memory and is no disk.
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "/dev/zram") {
			continue
		}
		// only device-mapper has one
		uuid, _ := os.ReadFile(filepath.Join(sys, "class/block", filepath.Base(f[0]), "dm/uuid"))
		if strings.HasPrefix(string(uuid), "CRYPT-") {
			encrypted++
			continue
		}
		disks = append(disks, f[0])
	}
	switch {
	case len(disks) == 0 && encrypted > 0:
		c.Status, c.Detail = OK, "encrypted"
		return c
	case len(disks) == 0:
		c.Status, c.Detail = OK, "none on disk"
		return c
	}
	c.Status, c.Detail = Warn, "on "+strings.Join(disks, ", ")
	c.Remedy = "encrypt it or turn it off (swapoff) where secret keys are used"
	return c
}

// startLimit is what the process was started with: it lowers its own limit at once.
var startLimit, errStartLimit = func() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &l)
	return l.Cur, err
}()

func coreLimit() (uint64, error) { return startLimit, errStartLimit }

// coreDumps checks for core dumps, which copy the keys of a process to disk.
func coreDumps(proc string, limit func() (uint64, error)) Check {
	c := Check{Name: "core dumps"}
	most, err := limit()
	if err != nil {
		c.Status, c.Detail = Info, "unknown: "+err.Error()
		return c
	}
	pattern := "core"
	if b, err := os.ReadFile(filepath.Join(proc, "sys/kernel/core_pattern")); err == nil {
		pattern = strings.TrimSpace(string(b))
	}
	// A pattern that pipes into a program ignores a limit of zero or more
	// than one; the kernel documents one as "do not dump".
	piped := strings.HasPrefix(pattern, "|")
	if most == 0 && !piped {
		c.Status, c.Detail = OK, "off"
		return c
	}
	c.Status, c.Detail = Warn, fmt.Sprintf("possible, pattern %q", pattern)
	c.Remedy = "ulimit -c 0 (LimitCORE=0 in a unit); with systemd-coredump also Storage=none"
	return c
}
