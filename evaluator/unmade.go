package evaluator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport/spool"
)

// unmade counts, by program, results that will never be made although windows for them
// came. Their samples are missing from that program, even if other programs used them.
type unmade struct {
	mu       sync.Mutex
	programs map[string]*unmadeOf
}

// Bounds of what is told.
const (
	unmadeFor = 10 * time.Minute // after the newest
	maxUnmade = 4                // programs
)

// unmadeOf is one program.
type unmadeOf struct {
	reasons map[string]int // by Reason
	newest  time.Time
}

// unmadeTexts say what the reasons mean that normal operation brings.
var unmadeTexts = map[string]string{
	"late_window":  "windows of devices that came after the result of their interval was made",
	"place_change": "inputs at different places in the slots, as once after a device was given another place",
	"key_change": "inputs under different keys, as in a rotation until every device has the new ones, or of devices " +
		"with keys of different sets",
	"partial_window": "windows of different length, as after a reload within an interval",
	"unjoined":       "windows whose partners did not come within join.windows and join.timeout",
}

// note counts a result of a program. It forgets results that health no longer reports.
func (u *unmade) note(program, reason string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.programs[program]
	if p == nil || now.Sub(p.newest) >= unmadeFor {
		if u.programs == nil {
			u.programs = map[string]*unmadeOf{}
		}
		p = &unmadeOf{reasons: map[string]int{}}
		u.programs[program] = p
	}
	p.reasons[reason]++
	p.newest = now
}

// health names the programs of which results were not made, for a while after the newest.
func (u *unmade) health(now time.Time) (out []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(u.programs)) {
		p := u.programs[name]
		if d := now.Sub(p.newest); d < 0 || d >= unmadeFor {
			continue
		}
		var reasons []string
		for _, r := range slices.Sorted(maps.Keys(p.reasons)) {
			text := fmt.Sprintf("%d %s", p.reasons[r], r)
			if more := unmadeTexts[r]; more != "" {
				text += " (" + more + ")"
			}
			reasons = append(reasons, text)
		}
		out = append(out, fmt.Sprintf("program %s: results were not made, and their samples are missing from it: %s",
			name, strings.Join(reasons, ", ")))
	}
	if more := len(out) - maxUnmade; more > 0 {
		out = append(out[:maxUnmade], fmt.Sprintf("and %d programs more; the log names them", more))
	}
	return out
}

// final reports whether a result that failed will not be made later either. After a stop,
// or after a store or device failed, the windows stay and the result can still be made.
func final(err error) bool {
	return !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrBusy) &&
		!errors.Is(err, spool.ErrClosed) && !errors.Is(err, engine.ErrLost) && !role.DeviceFailed(err)
}
