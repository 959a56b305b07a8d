//go:build !chaos

package role

import "time"

// wallClock is the machine's wall time.
func wallClock() time.Time { return time.Now() }
