package role

import (
	mathrand "math/rand/v2"
	"time"
)

// NextBoot returns the boot epoch of a start at the time now, after the boot epoch
// before, or 0: the Unix time of the next second, because this one may belong to a start whose
// state was lost, or the next number if that is not later. A role that waits for UntilBoot
// before it numbers anything then uses no number again after its state was lost, was not
// written, or was replaced by an old copy, unless the clock is wrong too; DrawBoot puts that right.
func NextBoot(before uint64, now time.Time) uint64 {
	if t := now.Add(time.Second).Unix(); t > 0 && t < 1<<40 {
		return max(before+1, uint64(t))
	}
	return before + 1
}

// DrawBoot is NextBoot plus a random number below an hour's worth, so that two boards
// with one identity part.
func DrawBoot(before uint64, now time.Time) uint64 {
	const spread = 3600
	return NextBoot(before, now) + mathrand.Uint64N(spread)
}

// FromClock reports whether a boot epoch comes from the clock. A later one was drawn,
// or the clock is behind that of an earlier start.
func FromClock(boot uint64, now time.Time) bool {
	const ahead = 5 // starts in one second
	return ClockIsSet(now) && boot <= uint64(now.Unix())+ahead
}

// ClockIsSet reports whether a wall time can be right. A board without a battery starts
// in 1970.
func ClockIsSet(now time.Time) bool {
	return now.After(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
}

// UntilBoot returns how long after now the second of a boot epoch begins, if it comes
// from the clock. What is numbered only then has lower numbers than every later start
// whose state is lost.
func UntilBoot(boot uint64, now time.Time) time.Duration {
	if !FromClock(boot, now) {
		return 0
	}
	return max(time.Unix(int64(boot), 0).Sub(now), 0)
}

// MaxNumber is above every boot epoch and sequence number that is reached by counting.
const MaxNumber = 1<<62 - 1
