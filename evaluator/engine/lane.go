package engine

import (
	"errors"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/role"
)

// lane holds the devices of one parameter set, which share the load. If all of them fail,
// the processor takes over.
type lane struct {
	o      *Options
	params henc.Parameters
	// kept is set if a device can fail. Ciphertexts then keep their bytes, so that they can
	// be read onto another device.
	kept bool

	mu       sync.Mutex
	devices  []*device // in use, at least one
	turns    map[Turn]uint
	ties     int     // of nearest; if both counted one turn, every window could go to one device
	spare    *device // on the processor; nil until it is needed
	fallback role.Fallback[*device]
}

// Turn names windows with which the devices take turns: those of one layout at one place. Windows at different places
// are added up, and an item is as full as its device has windows at every place.
//
//   - With one turn for all windows a device would get more of one place and fewer of another.
//   - With one for all layouts at a place, boards that send two streams in turn would have one of them on the first
//     device from half of the places and on the second from the others.
type Turn struct {
	Layout [32]byte
	Place  int
}

// packing is the turn of packs.
var packing = Turn{Place: -1}

// maxAttempts bounds how often a job is tried when devices fail.
const maxAttempts = 4

// receive reads a ciphertext, which lies in pieces, onto the device whose turn it is.
func (l *lane) receive(body [][]byte, turn Turn) (*Ciphertext, error) {
	ct := &Ciphertext{body: body, lies: map[*device]*henc.Ciphertext{}}
	err := l.attempt(l.next(turn), func(d *device) error {
		_, err := ct.on(d, false)
		return err
	})
	if !l.kept {
		ct.body = nil
	}
	return ct, err
}

// next returns the device whose turn it is. Turns at neighbouring places begin with different devices, and those of
// all layouts at a place with the same one, since programs read windows of several streams together.
func (l *lane) next(turn Turn) *device {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns == nil {
		l.turns = map[Turn]uint{}
	}
	l.turns[turn]++
	return l.devices[(l.turns[turn]+uint(turn.Place))%uint(len(l.devices))]
}

// nearest returns the device that holds most of the inputs. Among equals it takes turns.
func (l *lane) nearest(inputs map[program.Input]*Ciphertext) *device {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ties++
	best, most := l.devices[0], -1
	for i := range l.devices {
		d, n := l.devices[(l.ties+i)%len(l.devices)], 0
		for _, ct := range inputs {
			if ct.liesOn(d) {
				n++
			}
		}
		if n > most {
			best, most = d, n
		}
	}
	return best
}

// attempt runs f on d. If the device fails, it tries again on the replacement.
func (l *lane) attempt(d *device, f func(d *device) error) error {
	if !l.kept {
		return f(d)
	}
	return role.Attempt(maxAttempts, d, f, l.replace)
}

// replace returns the device that continues after d failed with cause. If only the memory
// of d was exhausted, this one job moves to the processor. A failed device is taken out of
// use as backend_fallback says.
func (l *lane) replace(d *device, cause error) (*device, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.devices, d)
	switch {
	case !errors.Is(cause, cutrantt.ErrDevice):
		l.o.Logger.Warn("device memory is exhausted; the processor takes this job", "device", d.name(), "error", cause)
		l.o.OnFallback()
		return l.processor()
	case at < 0: // another job noticed it first
		l.ties++
		return l.devices[l.ties%len(l.devices)], nil
	}
	l.o.OnFallback()
	put := func(next *device, err error) (*device, error) {
		if err == nil {
			l.devices[at] = next
		}
		return next, err
	}
	to := role.Replacements[*device]{Processor: func() (*device, error) { return put(l.processor()) }}
	if l.o.Reopen != nil {
		to.Reopen = func() (*device, error) { return put(l.reopen(d)) }
	}
	if len(l.devices) > 1 {
		to.Others = func() (*device, int) {
			l.devices = slices.Delete(slices.Clone(l.devices), at, at+1)
			return l.devices[0], len(l.devices)
		}
	}
	return l.fallback.Replace(d.name(), cause, to)
}

// processor returns the processor as a device of the lane. The caller holds the lock.
func (l *lane) processor() (*device, error) {
	if l.spare != nil {
		return l.spare, nil
	}
	ctx, err := henc.NewContext(l.params, henc.WithFastestN2())
	if err != nil {
		return nil, err
	}
	l.spare, err = l.load(ctx)
	return l.spare, err
}

// reopen opens a failed device again.
func (l *lane) reopen(failed *device) (*device, error) {
	ctx, err := l.o.Reopen(failed.ctx)
	if err != nil {
		return nil, err
	}
	return l.load(ctx)
}

// load returns the device of a context, with the keys on it.
func (l *lane) load(ctx *henc.Context) (*device, error) {
	keys, err := l.o.ReadKeys(ctx)
	if err != nil {
		return nil, err
	}
	return newDevice(ctx, keys, l.o), nil
}

func (l *lane) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range append(l.devices, l.spare) {
		if d != nil {
			clear(d.keys)
			d.boots.forget()
			d.compacts.forget()
			d.models.forget()
			d.gather.replays.forget()
		}
	}
}
