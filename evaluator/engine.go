package evaluator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// engine is the arithmetic for one parameter set on one device, with the keys
// that lie there.
type engine struct {
	ctx  *henc.Context
	keys map[transport.KeyRef]*henc.Evaluator
}

func newEngine(ctx *henc.Context, keys []Keys) *engine {
	e := &engine{ctx: ctx, keys: map[transport.KeyRef]*henc.Evaluator{}}
	for _, k := range keys {
		if k.Context == ctx {
			e.keys[k.ref()] = henc.NewEvaluator(ctx, k.Evaluation)
		}
	}
	return e
}

// device is the engine's device in words.
func (e *engine) device() string { return e.ctx.Ring().Backend().Device() }

// lane is the arithmetic for one parameter set: one engine for each device, used
// in turn, and in need another one on the processor.
type lane struct {
	params henc.Parameters
	// kept: a device can fail, so that windows keep their bytes until they are
	// used, for another engine to read.
	kept bool

	mu       sync.Mutex
	engines  []*engine // at least one
	turn     int
	spare    *engine // on the processor; nil until it is needed
	fallback role.Fallback[*engine]
}

// pick is the next engine.
func (l *lane) pick() *engine {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	return l.engines[l.turn%len(l.engines)]
}

// at is the place of e; it needs the lock.
func (l *lane) at(e *engine) int {
	for i := range l.engines {
		if l.engines[i] == e {
			return i
		}
	}
	return -1
}

// received is a ciphertext that arrived: where it lies, and its bytes where a
// device can fail.
type received struct {
	mu   sync.Mutex
	body []byte
	held map[*engine]*henc.Ciphertext
}

// on is the ciphertext on e, read again if it is not there yet.
func (r *received) on(e *engine) (*henc.Ciphertext, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ct := r.held[e]; ct != nil {
		return ct, nil
	}
	ct, err := e.ctx.UnmarshalCiphertext(r.body)
	if err == nil {
		r.held[e] = ct
	}
	return ct, err
}

// has reports whether the ciphertext lies on e.
func (r *received) has(e *engine) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[e] != nil
}

// maxAttempts bounds how often a job is begun again after failures of devices.
const maxAttempts = 4

// attempt runs f on e, and again on whatever replaces it while a device fails.
func (s *Service) attempt(l *lane, e *engine, f func(e *engine) error) error {
	if !l.kept {
		return f(e)
	}
	return role.Attempt(maxAttempts, e, f, func(failed *engine, cause error) (*engine, error) { return s.replace(l, failed, cause) })
}

// receive reads a ciphertext onto a device.
func (s *Service) receive(l *lane, body []byte) (*received, error) {
	r := &received{body: body, held: map[*engine]*henc.Ciphertext{}}
	err := s.attempt(l, l.pick(), func(e *engine) error {
		_, err := r.on(e)
		return err
	})
	if !l.kept {
		r.body = nil
	}
	return r, err
}

// evaluate runs the circuit of a job on the device where most of its inputs lie.
// Evaluated is the time of the attempt that succeeded.
func (s *Service) evaluate(j *job, circuit *program.Circuit, key transport.KeyRef) (body []byte, out program.Output, evaluated time.Duration, err error) {
	defer s.working.Begin(circuit.Name())()
	l := s.lanes[circuit.Parameters().Hash()]
	err = s.attempt(l, l.nearest(j), func(e *engine) (err error) {
		inputs := make(map[program.Input]*henc.Ciphertext, len(j.inputs))
		for in, w := range j.inputs {
			if inputs[in], err = w.data.on(e); err != nil {
				return err
			}
		}
		start := time.Now()
		ct, o, err := circuit.Run(e.keys[key], inputs)
		if err != nil {
			return err
		}
		out, evaluated = o, time.Since(start)
		body, err = e.ctx.MarshalCiphertext(ct)
		e.ctx.Ring().Free(ct.Value)
		if err != nil {
			return fmt.Errorf("program %s: result: %w", circuit.Name(), err)
		}
		return nil
	})
	return body, out, evaluated, err
}

// nearest is the engine in use that holds most inputs of a job; of several, each
// in turn.
func (l *lane) nearest(j *job) *engine {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	best, most := l.engines[0], -1
	for i := range l.engines {
		e, n := l.engines[(l.turn+i)%len(l.engines)], 0
		for _, w := range j.inputs {
			if w.data.has(e) {
				n++
			}
		}
		if n > most {
			best, most = e, n
		}
	}
	return best
}

// replace returns where to go on after e failed with cause. Exhausted memory moves this
// one job to the processor. A device that failed is taken out of use, as backend_fallback
// says.
func (s *Service) replace(l *lane, e *engine, cause error) (*engine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.at(e)
	switch {
	case !errors.Is(cause, cutrantt.ErrDevice):
		s.log.Warn("device memory is exhausted; the processor takes this job", "device", e.device(), "error", cause)
		s.tally.change(func(t *Stats) { t.Fallbacks++ })
		return s.onProcessor(l)
	case at < 0: // another job saw it first
		l.turn++
		return l.engines[l.turn%len(l.engines)], nil
	}
	s.tally.change(func(t *Stats) { t.Fallbacks++ })
	put := func(next *engine, err error) (*engine, error) {
		if err == nil {
			l.engines[at] = next
		}
		return next, err
	}
	to := role.Replacements[*engine]{Processor: func() (*engine, error) { return put(s.onProcessor(l)) }}
	if s.deps.Reopen != nil {
		to.Reopen = func() (*engine, error) { return put(s.reopened(e)) }
	}
	if len(l.engines) > 1 {
		to.Others = func() (*engine, int) {
			l.engines = append(l.engines[:at:at], l.engines[at+1:]...)
			return l.engines[0], len(l.engines)
		}
	}
	return l.fallback.Replace(e.device(), cause, to)
}

// fallback returns what replaces the devices of a lane.
func (s *Service) fallback() role.Fallback[*engine] {
	start := s.now()
	return role.Fallback[*engine]{Policy: s.cfg.BackendFallback, Mono: func() time.Duration { return s.now().Sub(start) }, Log: s.log, Stop: s.broken}
}

// onProcessor is the lane's engine on the processor. It needs the lane's lock.
func (s *Service) onProcessor(l *lane) (*engine, error) {
	if l.spare != nil {
		return l.spare, nil
	}
	ctx, err := henc.NewContext(l.params, henc.WithFastestN2())
	if err != nil {
		return nil, err
	}
	keys, err := s.loadKeys(ctx)
	if err != nil {
		return nil, err
	}
	l.spare = newEngine(ctx, keys)
	return l.spare, nil
}

// reopened is an engine on the device of e, opened anew.
func (s *Service) reopened(e *engine) (*engine, error) {
	ctx, err := s.deps.Reopen(e.ctx)
	if err != nil {
		return nil, err
	}
	keys, err := s.loadKeys(ctx)
	if err != nil {
		return nil, err
	}
	return newEngine(ctx, keys), nil
}

var errOtherParams = errors.New("keys for other parameters")

// loadKeys reads the evaluation keys for ctx's parameters into ctx.
func (s *Service) loadKeys(ctx *henc.Context) ([]Keys, error) {
	if s.deps.ReadKeys != nil {
		return s.deps.ReadKeys(ctx)
	}
	hash := ctx.Parameters().Hash()
	trust, err := trusted(s.cfg)
	if err != nil {
		return nil, err
	}
	var all []Keys
	for _, dir := range s.cfg.KeySets {
		keys, err := LoadKeys(dir, trust, func(p henc.Parameters) (*henc.Context, error) {
			if p.Hash() != hash {
				return nil, errOtherParams
			}
			return ctx, nil
		})
		if err != nil && !errors.Is(err, errOtherParams) {
			return nil, fmt.Errorf("read the keys again: %w", err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// makeLanes makes the engines from the keys that were loaded: their own
// contexts, and those of further devices.
func (s *Service) makeLanes(all []Keys) error {
	for _, k := range all {
		p := k.Context.Parameters()
		if s.lanes[p.Hash()] != nil {
			continue
		}
		l := &lane{params: p, engines: []*engine{newEngine(k.Context, all)}, fallback: s.fallback()}
		var more []*henc.Context
		movable := s.deps.Keys == nil || s.deps.ReadKeys != nil
		if s.deps.More != nil && movable {
			var err error
			if more, err = s.deps.More(p); err != nil {
				return err
			}
		}
		for _, ctx := range more {
			keys, err := s.loadKeys(ctx)
			if err != nil {
				return err
			}
			l.engines = append(l.engines, newEngine(ctx, keys))
		}
		_, fails := k.Context.Ring().(cutrantt.Health)
		l.kept = (fails || len(l.engines) > 1) && movable
		s.lanes[p.Hash()] = l
	}
	return nil
}

// forgetKeys drops the evaluation keys once nothing computes any more, whoever still
// holds the service: another one may follow that needs the room.
func (s *Service) forgetKeys() {
	s.deps.Keys = nil
	for _, l := range s.lanes {
		l.mu.Lock()
		for _, e := range append(l.engines, l.spare) {
			if e != nil {
				clear(e.keys)
			}
		}
		l.mu.Unlock()
	}
}

// broken makes Run end with err.
func (s *Service) broken(err error) {
	select {
	case s.fatal <- err:
	default: // it ends already
	}
}

// ended waits for the end of ctx, or for what makes the service end before.
func (s *Service) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.fatal:
		return err
	}
}
