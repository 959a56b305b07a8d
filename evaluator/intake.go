package evaluator

import (
	"fmt"
	"math"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// source is a stream that readings are taken from.
type source struct {
	stream config.Stream
	params henc.Parameters
	hash   [32]byte
	layout [32]byte
	users  []*runnable
}

// accepted counts a window that passed every check.
func (s *Service) accepted(w *window, results int) {
	s.tally.change(func(t *Stats) { t.Accepted++ })
	s.devices.note(w.stream, nil, s.now())
	if twin, news := s.duplicates.note(w.signer, &w.meta, s.now()); twin {
		s.tally.change(func(t *Stats) { t.Twins++ })
		if news {
			s.toldTwice(&w.meta)
		}
	}
	s.log.Debug("window accepted", "device", w.meta.Device, "stream", w.meta.Stream, "sequence", w.meta.Sequence,
		"samples", w.meta.Samples, "results", results)
}

// window checks what the header and the body of a verified object say, and
// decodes it.
func (s *Service) window(obj *transport.Object) (*window, error) {
	m := &obj.Meta
	id := streamID{m.Device, m.Stream}
	src := s.sources[id]
	if src == nil {
		return nil, fmt.Errorf("%w: stream %s/%s is not configured", transport.ErrWrongLayout, m.Device, m.Stream)
	}
	if m.Params != src.hash {
		return nil, fmt.Errorf("%w: stream %s/%s is configured for %s", transport.ErrWrongParams, m.Device, m.Stream,
			src.params.Name())
	}
	if err := s.inTime(m); err != nil {
		return nil, err
	}
	at, err := src.place(m)
	if err != nil {
		return nil, err
	}
	h, err := henc.PeekCiphertext(obj.Body)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", m.Device, m.Stream, err)
	}
	if err := m.CheckBody(h.Params, h.Level, h.Scale); err != nil {
		return nil, err
	}
	for _, p := range src.users {
		if err := p.accepts(id, h.Level, h.Scale); err != nil {
			return nil, err
		}
	}
	data, err := s.engine.Receive(src.hash, obj.Body)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", m.Device, m.Stream, err)
	}
	return &window{stream: id, place: at, byTime: src.stream.Window.ByTime(), data: data, meta: *m, id: obj.ID,
		signer: obj.Signer, at: s.now()}, nil
}

// inTime refuses readings that were made after their epoch's overlap ended.
func (s *Service) inTime(m *transport.Meta) error {
	k, known := s.keys[transport.KeyRef{ID: m.KeyID, Epoch: m.KeyEpoch}]
	if !known {
		return fmt.Errorf("%w: epoch %d of key set %x", transport.ErrWrongKey, m.KeyEpoch, m.KeyID)
	}
	if !k.until.IsZero() && m.End > k.until.UnixNano() {
		return fmt.Errorf("%w: epoch %d is accepted for readings until %s, this window ends %s", transport.ErrWrongEpoch,
			m.KeyEpoch,
			k.until.Format(time.RFC3339), time.Unix(0, m.End).UTC().Format(time.RFC3339))
	}
	if k.params.Hash() != m.Params {
		return fmt.Errorf("%w: key set %x is for %s", transport.ErrWrongParams, m.KeyID, k.params.Name())
	}
	return nil
}

// place checks what the header says of the window and finds its place.
func (src *source) place(m *transport.Meta) (place, error) {
	w := src.stream.Window
	if m.Samples < 1 || int64(m.Samples) > int64(w.Samples) {
		return place{}, fmt.Errorf("%w: %d samples in a window of %s/%s, want 1 to %d", ErrSamples, m.Samples, m.Device,
			m.Stream, w.Samples)
	}
	if !w.ByTime() {
		if m.Sequence > math.MaxInt64/2 {
			return place{}, fmt.Errorf("%w: sequence number %d", transport.ErrMalformed, m.Sequence)
		}
		return place{boot: m.BootEpoch, n: int64(m.Sequence)}, nil
	}
	every := int64(w.Every)
	n := m.Start / every
	if m.Start%every != 0 || m.End-m.Start != every {
		return place{}, fmt.Errorf("%w: window of %s/%s from %s to %s, want a multiple of %v", ErrWindow, m.Device, m.Stream,
			time.Unix(0, m.Start).UTC().Format(time.RFC3339Nano), time.Unix(0, m.End).UTC().Format(time.RFC3339Nano), w.Every)
	}
	return place{n: n}, nil
}

// accepts checks level and scale for every input of p that is of the stream.
func (p *runnable) accepts(id streamID, level int, scale float64) error {
	for _, in := range p.planned.Circuit.Inputs() {
		if in.Device == id.device && in.Stream == id.stream {
			if err := p.planned.Circuit.CheckInput(in, level, scale); err != nil {
				return err
			}
		}
	}
	return nil
}

// present says which inputs of a job are not full.
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

// sourceOf is the stream of an input.
func (p *Planned) sourceOf(in program.Input) config.Stream {
	for _, v := range p.source.Vars {
		if v.Device == in.Device && v.Stream.Name == in.Stream {
			return v.Stream
		}
	}
	return config.Stream{}
}
