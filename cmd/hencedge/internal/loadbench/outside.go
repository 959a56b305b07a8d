package loadbench

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// outside is the processor time of this process that is not the service's.
type outside struct{ feeding, checking atomic.Int64 } // nanoseconds

// spend adds the processor time of f, which must not block, to ns.
func spend(ns *atomic.Int64, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	f()
	ns.Add(threadTime() - start)
}

// threadTime is the processor time of this thread.
func threadTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}

// processTime is the processor time of this process.
func processTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
