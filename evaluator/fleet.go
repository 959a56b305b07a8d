package evaluator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/interval"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// Programs across the devices of a class have one result for each interval and key:
//
//   - A window is added to the sum of its interval as it arrives, by a job of its own. Of the
//     window only its id, device and number of samples stay.
//   - Once the interval is closed (package interval) and its last window was added, the result
//     is made of the sum, on a goroutine of its own: jobs of windows never wait for it.
//   - With a store the windows stay on disk until the result is in the outbox. After a
//     restart, and when a device was lost, they are added again. The sums themselves are not
//     stored: each would have to be written anew with every window, in one step with what says
//     that the window is in it, and the windows are on disk anyway, since devices have receipts.

// fleetRun is a program across the devices of a class, in service.
type fleetRun struct {
	*runnable // of no device
	parts     program.Routine
	book      *interval.Book
}

// part is the addition of a window to a sum.
type part struct {
	run    *fleetRun
	sum    *interval.Sum
	window interval.Window
}

// addFleet adds a program across devices.
func (p *pipeline) addFleet(planned *Planned) {
	c := planned.Circuit
	class := c.Class()
	run := &fleetRun{runnable: &runnable{served: &served{planned: planned}}, parts: c.Parts()}
	run.book = &interval.Book{Every: planned.Join.Every, Timeout: p.cfg.Join.Timeout, Most: p.cfg.Join.Windows,
		Capacity: c.Capacity(),
		Complete: func(devices map[string]bool) bool { return p.roster.covers(class, devices) }}
	id := classStream{class, c.Inputs()[0].Stream}
	p.fleets[id] = append(p.fleets[id], run)
}

// fleetsOf returns the programs across devices that read a stream.
func (p *pipeline) fleetsOf(id streamID) []*fleetRun {
	if len(p.fleets) == 0 {
		return nil
	}
	return p.fleets[classStream{p.roster.class(id.device), id.stream}]
}

// addTo returns the job that adds a window to its sum, and the sums that the window has closed.
func (p *pipeline) addTo(run *fleetRun, w *window) (*job, []*interval.Sum, error) {
	in := run.planned.Circuit.Inputs()[0]
	of := interval.Window{Device: w.stream.device, ID: w.id,
		Key: transport.KeyRef{ID: w.meta.KeyID, Epoch: w.meta.KeyEpoch}, Number: w.place.n,
		Samples: int(w.meta.Samples), Full: run.planned.sourceOf(in).Window.Samples, At: w.at}
	sum, ready, err := run.book.Join(of, func() any { return new(engine.Sum) })
	if errors.Is(err, interval.ErrTwice) {
		err = fmt.Errorf("%w: %w", ErrDuplicate, err)
	}
	if err != nil {
		return nil, ready, err
	}
	return &job{prog: &runnable{served: run.served, device: w.stream.device}, place: w.place,
		inputs: map[program.Input]*window{in: w}, part: &part{run, sum, of}}, ready, nil
}

// leftOut reports a window that is not in the result of its interval.
func (p *pipeline) leftOut(run *fleetRun, err error) {
	name := run.planned.Name
	p.unmade.note(name, Reason(err), p.now())
	p.refuse(name, err)
}

// addPart adds a window to its sum.
func (s *Service) addPart(ctx context.Context, j *job) {
	err := ctx.Err()
	if err == nil {
		done := s.working.Begin(j.part.run.planned.Name)
		err = s.engine.Add(sumOf(j.part.sum), j.part.run.parts, j.part.sum.Key, j.ciphertexts())
		done()
	}
	if goesOn := s.custody.added(j, err); err != nil {
		s.failed(j, err)
		if !goesOn {
			return
		}
	} else {
		s.log.Debug("window added", "program", j.prog.planned.Name, "interval", j.place.n,
			"device", j.part.window.Device, "id", fmt.Sprintf("%x", j.part.window.ID))
	}
	s.ready(j.part.run, j.part.run.book.Done(j.part.sum, j.part.window, err == nil))
}

// closeIntervals closes the intervals that have waited long enough.
func (s *Service) closeIntervals(now time.Time) {
	for _, runs := range s.fleets {
		for _, run := range runs {
			s.ready(run, run.book.Due(now))
		}
	}
}

// makeResult makes the result of a sum.
func (s *Service) makeResult(ctx context.Context, run *fleetRun, sum *interval.Sum) {
	j := &job{prog: run.runnable, place: place{n: sum.Number}, queued: time.Now(), sum: sum}
	defer sumOf(sum).Free()
	if !s.custody.admitSum(j) {
		return
	}
	if err := s.work(ctx, j); err != nil {
		s.failed(j, err)
	}
}

// finishSum computes a result from a sum. If a device was lost that had a part of it, its
// windows are added again, once.
func (s *Service) finishSum(j *job, c *program.Circuit) (engine.Result, error) {
	defer s.working.Begin(c.Name())()
	r, err := s.engine.Finish(sumOf(j.sum), c, j.sum.Key)
	if !errors.Is(err, engine.ErrLost) {
		return r, err
	}
	s.log.Warn("a device was lost with a sum; its windows are added again", "program", c.Name(), "windows",
		len(j.sum.Windows), "error", err)
	again, err := s.custody.addAgain(j)
	if err != nil {
		return r, err
	}
	defer again.Free()
	return s.engine.Finish(again, c, j.sum.Key)
}

// addWindow adds a window that was read again.
func (p *pipeline) addWindow(sum *engine.Sum, j *job, obj *transport.Object) error {
	w, err := p.window(obj)
	if err != nil {
		return err
	}
	c := j.prog.planned.Circuit
	return p.engine.Add(sum, c.Parts(), j.sum.Key, map[program.Input]*engine.Ciphertext{c.Inputs()[0]: w.data})
}

func sumOf(s *interval.Sum) *engine.Sum { return s.Parts.(*engine.Sum) }

// circuit returns the circuit of a job.
func (j *job) circuit() (*program.Circuit, error) {
	if j.sum != nil {
		return j.prog.planned.Circuit.Across(len(j.sum.Windows), j.sum.Samples())
	}
	return j.prog.circuit(j.present())
}

// describeSum completes the header of a result across devices.
func (j *job) describeSum(m *transport.Meta) {
	every := int64(j.prog.planned.Join.Every)
	m.Start, m.End = j.sum.Number*every, (j.sum.Number+1)*every
	m.Samples = uint32(j.sum.Windows[0].Samples)
	for _, w := range j.sum.Windows {
		m.Samples = min(m.Samples, uint32(w.Samples))
	}
	m.SetFleet(j.ids(), j.sum.Devices(), uint64(j.sum.Samples()))
}
