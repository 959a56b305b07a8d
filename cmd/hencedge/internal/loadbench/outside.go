package loadbench

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// outside is the processor time that this process spends on other things than the service,
// in nanoseconds.
type outside struct{ feeding, checking atomic.Int64 }

// spend runs f, which must not block, and adds its processor time to ns.
func spend(ns *atomic.Int64, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	f()
	ns.Add(threadTime() - start)
}

// threadTime returns the processor time of this thread in nanoseconds, or 0 if it is unknown.
func threadTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}

// processTime returns the processor time of this process.
func processTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
