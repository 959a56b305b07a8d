package sensor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/agent/input"
)

// ErrSlow: a sensor has been asked and has not answered yet.
var ErrSlow = errors.New("the sensor does not answer")

// Bounds on how long one sensor may delay the others of its stream.
const (
	leastPatience = time.Second
	mostPatience  = 5 * time.Second
	// If a round takes longer than the interval, its slowest sensor is read in the
	// background, provided that it took at least slowRead. It rejoins the rounds when it
	// answers within quickRead.
	slowRead  = 100 * time.Millisecond
	quickRead = 50 * time.Millisecond
)

// rounds reads all sensors of a stream, one after the other. It does so on a goroutine of
// its own, because a read of a bus or of a file in /sys cannot be interrupted: a device
// that hangs must delay neither the other channels nor a stop.
//
// If a sensor does not answer within patience, that goroutine is left waiting for it, and
// a new one reads the sensors after it. The slow sensor is then read in the background
// ("aside"): each round takes its newest value if that is younger than maxAge, and starts
// the next read if none is under way. The slowest sensor of a round that takes longer
// than the interval is treated alike. A sensor never has two reads under way.
//
// Times are real, whatever the agent's clock is, since they bound real waits.
type rounds struct {
	sensors  []Sensor
	interval time.Duration
	patience time.Duration // for one sensor
	maxAge   time.Duration // of a value that was read aside

	mu    sync.Mutex
	slots []slot
	desk  *desk       // nil: none is free
	timer *time.Timer // of pass
	local bool        // there are sensors that do not answer at once
}

// slot is what is known of one sensor.
type slot struct {
	busy  bool // it is being read
	aside bool // rounds do not wait for it
	begun time.Time
	// The last read that ended; asked is zero before the first.
	value float64
	err   error
	asked time.Time
	took  time.Duration
}

// desk is a goroutine that reads sensors for rounds.
type desk struct {
	jobs chan context.Context // each one: read all sensors, starting at from
	done chan struct{}        // capacity 1: the job has ended
	from int
	at   int  // the sensor at hand
	gone bool // abandoned
}

func newRounds(sensors []Sensor, interval time.Duration) *rounds {
	patience := min(max(interval/2, leastPatience), mostPatience)
	r := &rounds{sensors: sensors, interval: interval, patience: patience, maxAge: 3*interval + patience,
		slots: make([]slot, len(sensors)),
		timer: time.NewTimer(patience)}
	for _, s := range sensors {
		r.local = r.local || !prompt(s)
	}
	return r
}

// prompt reports whether a sensor answers at once, with a value that it has received.
func prompt(s Sensor) bool {
	_, ok := s.(input.Started)
	return ok
}

// read asks every sensor, and calls put with each answer in the order of the sensors. It
// returns ctx's error as soon as ctx ends.
func (r *rounds) read(ctx context.Context, put func(i int, v float64, err error)) error {
	begun := time.Now()
	r.askAside(ctx)
	for from := 0; r.local && from < len(r.sensors); {
		var err error
		if from, err = r.pass(ctx, from); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.sensors {
		if prompt(s) {
			v, _, err := s.Read(ctx)
			put(i, v, err)
			continue
		}
		v, err := r.slots[i].answer(r.maxAge)
		put(i, v, err)
	}
	r.slowest(time.Since(begun))
	return ctx.Err()
}

// askAside starts the next read of the sensors that are read aside. This round takes
// their previous answers. Sensors that have become quick rejoin the rounds.
func (r *rounds) askAside(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.slots {
		s := &r.slots[i]
		switch {
		case !s.aside || s.busy:
		case !s.asked.IsZero() && s.took < min(quickRead, r.interval/4):
			s.aside = false
		default:
			s.busy, s.begun = true, time.Now()
			go func() {
				v, _, err := r.sensors[i].Read(context.WithoutCancel(ctx))
				r.mu.Lock()
				defer r.mu.Unlock()
				s.ended(v, err)
			}()
		}
	}
}

// pass has a desk read the sensors, starting at index from. If one does not answer, it
// returns the index after it, where the next pass starts.
func (r *rounds) pass(ctx context.Context, from int) (next int, err error) {
	d := r.desk
	if d == nil {
		d = &desk{jobs: make(chan context.Context, 1), done: make(chan struct{}, 1)}
		r.desk = d
		go r.serve(d)
	}
	d.from, d.at = from, -1
	d.jobs <- ctx
	t := r.timer
	t.Reset(r.patience)
	defer t.Stop()
	for {
		select {
		case <-d.done:
			return len(r.sensors), ctx.Err()
		case <-ctx.Done():
			r.leave(d)
			return 0, ctx.Err()
		case <-t.C:
			r.mu.Lock()
			stuck := d.at
			wait := r.patience
			if stuck >= 0 && r.slots[stuck].busy {
				wait -= time.Since(r.slots[stuck].begun)
			}
			if wait > 0 { // it has moved on
				r.mu.Unlock()
				t.Reset(wait)
				continue
			}
			r.slots[stuck].aside = true
			r.mu.Unlock()
			r.leave(d)
			return stuck + 1, nil
		}
	}
}

// leave abandons a desk, which ends after the read that is under way.
func (r *rounds) leave(d *desk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.gone, r.desk = true, nil
	close(d.jobs)
}

// serve reads sensors for a desk until it is abandoned.
func (r *rounds) serve(d *desk) {
	for ctx := range d.jobs {
		for i := d.from; i < len(r.sensors); i++ {
			if prompt(r.sensors[i]) {
				continue
			}
			s := &r.slots[i]
			r.mu.Lock()
			if d.gone {
				r.mu.Unlock()
				return
			}
			if s.aside || s.busy {
				r.mu.Unlock()
				continue
			}
			d.at, s.busy, s.begun = i, true, time.Now()
			r.mu.Unlock()
			v, _, err := r.sensors[i].Read(ctx)
			r.mu.Lock()
			s.ended(v, err)
			r.mu.Unlock()
		}
		d.done <- struct{}{}
	}
}

// ended records the outcome of a read. A sensor that is backing off was not really read,
// so that its time is not recorded. The caller holds the lock.
func (s *slot) ended(v float64, err error) {
	s.busy = false
	s.value, s.err, s.asked = v, err, s.begun
	if !errors.Is(err, input.ErrWaiting) {
		s.took = time.Since(s.begun)
	}
}

// answer returns what a round takes from the sensor. The caller holds the lock.
func (s *slot) answer(maxAge time.Duration) (float64, error) {
	if !s.asked.IsZero() && (!s.aside || time.Since(s.asked) <= maxAge) {
		return s.value, s.err
	}
	if s.busy {
		return 0, fmt.Errorf("%w: it was asked %v ago", ErrSlow, time.Since(s.begun).Round(time.Millisecond))
	}
	return 0, ErrSlow
}

// slowest has the slowest sensor read aside if a round took longer than the interval. The
// caller holds the lock.
func (r *rounds) slowest(took time.Duration) {
	if took <= r.interval {
		return
	}
	worst := -1
	for i, s := range r.slots {
		if !s.aside && s.took >= slowRead && (worst < 0 || s.took > r.slots[worst].took) {
			worst = i
		}
	}
	if worst >= 0 {
		r.slots[worst].aside = true
	}
}

// close abandons the goroutine. Reads that are under way end by themselves.
func (r *rounds) close() {
	if r.desk != nil {
		r.leave(r.desk)
	}
}
