//go:build chaos

package role

import (
	"os"
	"strings"
	"time"
)

// wallClock is the machine's wall time plus what the file says that
// HENCEDGE_CHAOS_CLOCK names: the chaos test steps the clock with it. It exists
// in builds with the tag chaos only.
func wallClock() time.Time {
	b, err := os.ReadFile(os.Getenv("HENCEDGE_CHAOS_CLOCK"))
	if err != nil {
		return time.Now()
	}
	step, err := time.ParseDuration(strings.TrimSpace(string(b)))
	if err != nil {
		return time.Now()
	}
	return time.Now().Add(step)
}
