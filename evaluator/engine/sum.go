package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// ErrLost: a device failed that had a part of a sum. Its windows must be added again.
var ErrLost = errors.New("a part of a sum was lost with its device")

// Sum is the sum of what windows contribute to a program across devices. It has a part on
// each device that took windows, so that its memory does not grow with their number. The
// zero value is empty. It is safe for concurrent use.
type Sum struct {
	mu    sync.Mutex
	parts map[*device][]*henc.Ciphertext
}

// Add runs r, which is program.Circuit.Parts, on a window and adds its results to s, or
// nothing if it fails. Compact windows that come at the same time for s are bootstrapped and added together.
func (e *Engine) Add(s *Sum, r program.Routine, key transport.KeyRef, inputs map[program.Input]*Ciphertext) error {
	l := e.lanes[r.Parameters().Hash()]
	return l.attempt(l.nearest(inputs), func(d *device) error {
		own, err := d.runOn(r, key, inputs, 0, s)
		if err != nil {
			return err
		}
		defer own.done()
		own.of.into.Do(func() { own.of.add = s.take(d, key, own) })
		return own.of.add
	})
}

// take adds the results of a share, which are those of all jobs of its item.
func (s *Sum) take(d *device, key transport.KeyRef, own share) error {
	cts := make([]*henc.Ciphertext, own.results())
	for k := range cts {
		cts[k] = own.result(k)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(d, d.keys[key], cts)
}

// Finish runs r, which is program.Circuit.Across, on the sums that are the inputs
// program.SumInput(0) and so on. It fails with ErrLost if a part cannot be read. s stays as
// it is.
func (e *Engine) Finish(s *Sum, r program.Routine, key transport.KeyRef) (out Result, err error) {
	l := e.lanes[r.Parameters().Hash()]
	s.mu.Lock()
	defer s.mu.Unlock()
	err = l.attempt(l.holder(s), func(d *device) error {
		whole, err := s.on(d, key)
		if err != nil {
			return err
		}
		defer whole.Free()
		inputs := map[program.Input]*henc.Ciphertext{}
		for k, ct := range whole.parts[d] {
			inputs[program.SumInput(k)] = ct
		}
		it, err := d.item(r, key, inputs)
		if err != nil {
			return err
		}
		own, err := d.gather.run(it, 0)
		if err != nil {
			return err
		}
		defer own.done()
		out.Took = own.took
		rooms, err := d.writer.ask(own.result(0))
		if err != nil {
			return fmt.Errorf("result: %w", err)
		}
		out.room, out.Body = rooms[0], rooms[0][transport.SealRoom:]
		return nil
	})
	return out, err
}

// runOn runs a routine on windows at a place. The share must be ended. sum is what the windows are for, or nil.
func (d *device) runOn(r program.Routine, key transport.KeyRef, inputs map[program.Input]*Ciphertext,
	place int, sum *Sum) (share, error) {
	if r.Compact() > 0 {
		it, err := d.item(r, key, nil)
		if err != nil {
			return share{}, err
		}
		windows := make(map[program.Input]*compactWindow, len(inputs))
		for in, ct := range inputs {
			if windows[in] = ct.compact; ct.compact == nil {
				return share{}, fmt.Errorf("%w: %s is not a compact window", program.ErrInput, in)
			}
		}
		return d.gather.queue(&ticket{item: it, compact: windows, key: key, sum: sum})
	}
	local := make(map[program.Input]*henc.Ciphertext, len(inputs))
	for in, ct := range inputs {
		var err error
		if local[in], err = ct.on(d, r.Places() == 1); err != nil {
			return share{}, err
		}
	}
	it, err := d.item(r, key, local)
	if err != nil {
		return share{}, err
	}
	return d.gather.run(it, place)
}

// holder returns the device in use that has a part of s, or another one if none has.
func (l *lane) holder(s *Sum) *device {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.devices {
		if s.parts[d] != nil {
			return d
		}
	}
	return l.devices[0]
}

// on returns a copy of the whole sum on d. The caller frees it and holds the lock of s.
func (s *Sum) on(d *device, key transport.KeyRef) (*Sum, error) {
	whole := new(Sum)
	for from, cts := range s.parts {
		if err := cutrantt.Broken(from.ctx.Ring()); err != nil {
			whole.Free()
			return nil, fmt.Errorf("%w: %s: %v", ErrLost, from.name(), err)
		}
		here := cts
		if from != d {
			var err error
			if here, err = move(cts, from, d); err != nil {
				whole.Free()
				return nil, err
			}
		}
		err := whole.add(d, d.keys[key], here)
		if from != d {
			free(d, here)
		}
		if err != nil {
			whole.Free()
			return nil, err
		}
	}
	return whole, nil
}

// move copies ciphertexts to another device.
func move(cts []*henc.Ciphertext, from, to *device) ([]*henc.Ciphertext, error) {
	var out []*henc.Ciphertext
	for _, ct := range cts {
		body, err := from.ctx.MarshalCiphertext(ct)
		if err != nil {
			free(to, out)
			return nil, fmt.Errorf("%w: %s: %v", ErrLost, from.name(), err)
		}
		moved, err := to.read([][]byte{body})
		if err == nil {
			moved, err = to.own(moved)
		}
		if err != nil {
			free(to, out)
			return nil, err
		}
		out = append(out, moved)
	}
	return out, nil
}

// add adds ciphertexts on d, which stay as they are: all or none. It needs the lock.
func (s *Sum) add(d *device, ev *henc.Evaluator, cts []*henc.Ciphertext) error {
	before := s.parts[d]
	after := make([]*henc.Ciphertext, 0, len(cts))
	for k, ct := range cts {
		var sum *henc.Ciphertext
		var err error
		if before == nil {
			sum, err = ct.Clone(d.ctx)
		} else {
			sum, err = ev.Add(before[k], ct)
		}
		if err != nil {
			free(d, after)
			return err
		}
		after = append(after, sum)
	}
	free(d, before)
	if s.parts == nil {
		s.parts = map[*device][]*henc.Ciphertext{}
	}
	s.parts[d] = after
	return nil
}

// Free gives the memory of s back. s is empty then.
func (s *Sum) Free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, cts := range s.parts {
		free(d, cts)
	}
	s.parts = nil
}

func free(d *device, cts []*henc.Ciphertext) {
	for _, ct := range slices.Backward(cts) {
		d.ctx.Ring().Free(ct.Value)
	}
}
