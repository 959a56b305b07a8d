package evaluator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/interval"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// job is one result to compute.
type job struct {
	prog   *runnable
	place  place // of the newest inputs
	inputs map[program.Input]*window
	queued time.Time

	// With a store: after is closed when the program's previous job is over, and nil if
	// there is none. over is closed when this one is.
	after, over chan struct{}
	size        int64 // of the result, once it is in the outbox

	// Programs over the same windows run together: one worker does a job and then those
	// that go with it, and the first one computes the results of all.
	with   []*job
	shared *sharedRun // nil: the program runs alone

	// Of programs across devices: what adds a window to a sum has a part, and what makes the
	// result has the sum. Such a result has no inputs.
	part *part
	sum  *interval.Sum
	// claimed: the store knows which windows the sum has.
	claimed bool
}

// all returns the job and those that go with it.
func (j *job) all() []*job { return append([]*job{j}, j.with...) }

// light returns the job without the ciphertexts of its windows, which are computed.
func (j *job) light() *job {
	out := *j
	out.with, out.shared, out.inputs = nil, nil, make(map[program.Input]*window, len(j.inputs))
	for in, w := range j.inputs {
		out.inputs[in] = &window{meta: w.meta, id: w.id}
	}
	return &out
}

// ids returns the content ids of the inputs.
func (j *job) ids() [][32]byte {
	if j.sum != nil {
		return j.sum.IDs()
	}
	var ids [][32]byte
	for _, w := range j.inputs {
		ids = append(ids, w.id)
	}
	return ids
}

// sameKey returns the keys that the inputs are under. It refuses inputs under different
// keys, which occur once after a rotation for programs that look back or join streams.
func (j *job) sameKey() (key transport.KeyRef, err error) {
	if j.sum != nil {
		return j.sum.Key, nil
	}
	if len(j.inputs) == 0 {
		return key, errors.New("job without inputs")
	}
	known := false
	for _, w := range j.inputs {
		ref := transport.KeyRef{ID: w.meta.KeyID, Epoch: w.meta.KeyEpoch}
		if known && ref.Epoch == key.Epoch && ref != key {
			return key, fmt.Errorf("%w: program %s joins windows under keys %x and %x of different key sets; give the "+
				"devices keys of one set", ErrKeyChange, j.prog.planned.Name, key.ID[:4], ref.ID[:4])
		}
		if known && ref != key {
			return key, fmt.Errorf("%w: program %s joins epochs %d and %d", ErrKeyChange,
				j.prog.planned.Name, key.Epoch,
				ref.Epoch)
		}
		key, known = ref, true
	}
	return key, nil
}

// spot returns where the inputs stand in the slots. It refuses inputs at different places, which
// occur once after a device was given another one for programs that look back.
func (j *job) spot() (int, error) {
	at, known := 0, false
	for _, w := range j.inputs {
		own := int(w.meta.Place)
		if known && own != at {
			return 0, fmt.Errorf("%w: program %s has windows at places %d and %d", ErrPlaceChange,
				j.prog.planned.Name, min(own, at), max(own, at))
		}
		at, known = own, true
	}
	return at, nil
}

func (j *job) lastArrival() (t time.Time) {
	if j.sum != nil {
		return j.sum.Windows[len(j.sum.Windows)-1].At
	}
	for _, w := range j.inputs {
		if w.at.After(t) {
			t = w.at
		}
	}
	return t
}

// present returns which inputs of a job are not full.
func (j *job) present() map[program.Input]int {
	var out map[program.Input]int
	for in, w := range j.inputs {
		full := j.prog.planned.sourceOf(in).Window.Samples
		if n := int(w.meta.Samples); n < full {
			if out == nil {
				out = map[program.Input]int{}
			}
			out[in] = n
		}
	}
	return out
}

// place is where a window lies in its stream: the interval of Unix time for
// windows by time, else boot epoch and sequence number.
type place struct {
	boot uint64
	n    int64
	// part tells windows of one interval apart: its device was stopped, reloaded, or its
	// clock was set within it. Each holds other samples.
	part int
}

// later returns the place n windows on.
func (p place) later(n int) place { return place{p.boot, p.n + int64(n), p.part} }

// window is a verified, decoded window.
type window struct {
	stream streamID
	place  place
	byTime bool // the place is an interval
	data   *engine.Ciphertext
	meta   transport.Meta
	id     [32]byte
	signer [32]byte
	at     time.Time // of arrival
	used   bool      // in at least one result
	missed []string  // programs that join streams and made no result of it, once it has left
}

func unjoined(w *window) error {
	text := ""
	if len(w.missed) > 0 {
		text = ", programs " + strings.Join(w.missed, ", ")
	}
	return fmt.Errorf("%w: %s/%s window %d%s", ErrUnjoined, w.stream.device, w.stream.stream, w.place.n, text)
}

// runnable is a program in service on the streams that it names or, for a class, on those of
// one device.
type runnable struct {
	*served
	device string        // of a program for a class; else empty
	done   *recent       // places whose results were given out; under the joiner's lock
	tail   chan struct{} // closed when the newest job is over; guarded by stored.admit
}

// stream returns the stream of an input.
func (p *runnable) stream(in program.Input) streamID {
	return streamID{cmp.Or(p.device, in.Device), in.Stream}
}

// reads reports whether the program reads a stream.
func (p *runnable) reads(id streamID) bool {
	return slices.ContainsFunc(p.planned.Circuit.Inputs(), func(in program.Input) bool { return p.stream(in) == id })
}

// served is a program in service, with its circuits for windows that are not full. Those of
// a program for a class serve all its devices.
type served struct {
	planned  *Planned
	variants program.Variants
	set      *program.Set // that it runs in when all windows are full; nil: alone
	part     int          // its place in the set
	first    *served      // of the set
}

// circuit returns the circuit for the windows of a job.
func (p *served) circuit(present map[program.Input]int) (*program.Circuit, error) {
	if len(present) == 0 {
		return p.planned.Circuit, nil
	}
	return p.variants.Circuit(present, p.planned.partial)
}

// recent is a set that forgets its oldest members. Up to fewPlaces members are searched one
// by one: that takes 1.5 KiB and a map 8 KiB, and each stream of each device has one.
type recent struct {
	limit int
	set   map[place]bool // nil: few
	order []place
}

const fewPlaces = 64

func newRecent(limit int) *recent { return &recent{limit: limit} }

func (r *recent) has(p place) bool {
	if r.set != nil {
		return r.set[p]
	}
	return slices.Contains(r.order, p)
}

// add adds p, which is not in the set.
func (r *recent) add(p place) {
	if len(r.order) >= r.limit { // at most one more: limits only grow
		if r.set != nil {
			delete(r.set, r.order[0])
			r.order = r.order[1:]
		} else {
			r.order = slices.Delete(r.order, 0, 1)
		}
	}
	r.order = append(r.order, p)
	switch {
	case r.set != nil:
		r.set[p] = true
	case len(r.order) > fewPlaces:
		r.set = make(map[place]bool, 2*len(r.order))
		for _, old := range r.order {
			r.set[old] = true
		}
	}
}
