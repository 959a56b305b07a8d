package keyholder

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// Tally counts results by program and refusals by class. The zero value is
// ready; it is safe for concurrent use.
type Tally struct {
	mu      sync.Mutex
	read    map[string]uint64
	refused map[string]uint64
	damaged uint64
	orders  map[series]*order
}

// series is what the results of a program are about: one device of a class, or nothing else.
type series struct{ program, device string }

// maxSeries bounds the series whose times are followed: an evaluator names the devices.
const maxSeries = 1 << 16

// Damage counts n lost records of the state.
func (t *Tally) Damage(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.damaged += uint64(n)
}

// Damaged returns the number of lost records of the state.
func (t *Tally) Damaged() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.damaged
}

// Result counts a result that was read. It returns what is wrong with its time compared
// with the earlier results of the program, or "".
func (t *Tally) Result(r *Result) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read == nil {
		t.read, t.orders = map[string]uint64{}, map[series]*order{}
	}
	t.read[r.Program]++
	id := series{r.Program, r.Device}
	o := t.orders[id]
	if o == nil {
		for other := range t.orders {
			if len(t.orders) < maxSeries {
				break
			}
			delete(t.orders, other)
		}
		o = new(order)
		t.orders[id] = o
	}
	return o.note(r)
}

// Loss is what a series lacks, since the start.
type Loss struct {
	Gaps    uint64        // in the times of its results
	Missing time.Duration // how long they are together
	Late    uint64        // results that begin before one that was read earlier
}

// Loss returns what the results of a program about a device lack; device is empty for programs
// without a class.
func (t *Tally) Loss(program, device string) Loss {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.orders[series{program, device}]
	if o == nil {
		return Loss{}
	}
	return Loss{o.gaps, o.missing, o.backward}
}

// Refuse counts a refusal under its class and returns the class.
func (t *Tally) Refuse(err error) string {
	class := Class(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused == nil {
		t.refused = map[string]uint64{}
	}
	t.refused[class]++
	return class
}

// Counts returns the results read by program, and the refusals by class.
func (t *Tally) Counts() (read, refused map[string]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	read, refused = make(map[string]uint64, len(t.read)), make(map[string]uint64, len(t.refused))
	maps.Copy(read, t.read)
	maps.Copy(refused, t.refused)
	return read, refused
}

var classes = []struct {
	err  error
	name string
}{
	{ErrUnread, "unread"}, {ErrNotApproved, "not_approved"}, {ErrWrongProgram, "wrong_program"},
	{ErrWrongKey, "wrong_key"}, {ErrWrongEpoch, "wrong_epoch"}, {ErrTampered, "tampered"},
	{ErrUnknownSigner, "unknown_signer"}, {ErrWrongParams, "wrong_params"}, {ErrNotResult, "not_result"},
	{transport.ErrReplayed, "replayed"}, {ErrRepeated, "repeated"},
}

// Class returns the short name of a refusal: "wrong_key", "wrong_epoch", "tampered",
// "unknown_signer", "wrong_params", "not_result", "replayed", "repeated", "unread", "not_approved",
// "wrong_program", or transport's reason for anything else.
func Class(err error) string {
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return transport.Reason(err)
}

// Classes returns every name that Class can return, sorted.
func Classes() []string {
	out := transport.Reasons()
	for _, c := range classes {
		out = append(out, c.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
