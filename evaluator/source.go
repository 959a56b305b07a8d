package evaluator

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hencedge/hencedge/config"
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

// readers names the programs that read the stream; none read one that is not configured.
func (src *source) readers() (names []string) {
	if src == nil {
		return nil
	}
	for _, p := range src.users {
		names = append(names, p.planned.Name)
	}
	return names
}

// makeSources prepares the streams that programs read.
func (p *pipeline) makeSources() {
	for _, prog := range p.programs {
		for _, in := range prog.planned.Circuit.Inputs() {
			id := streamID{in.Device, in.Stream}
			src := p.sources[id]
			if src == nil {
				st, params := findStream(p.cfg, in.Device, in.Stream), prog.planned.params
				src = &source{stream: st.Stream, params: params, hash: params.Hash(), layout: st.LayoutHash()}
				p.sources[id] = src
			}
			if !slices.Contains(src.users, prog) {
				src.users = append(src.users, prog)
			}
		}
	}
	for _, st := range p.cfg.Streams {
		if p.sources[streamID{st.Device, st.Name}] == nil {
			p.log.Info("no program reads this stream", "device", st.Device, "stream", st.Name)
		}
	}
}

// reads returns the streams that programs read.
func (p *pipeline) reads() map[streamID]bool {
	reads := map[streamID]bool{}
	for id := range p.sources {
		reads[id] = true
	}
	return reads
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
		return place{}, fmt.Errorf("%w: window of %s/%s from %s to %s, want a multiple of %v", ErrWindow,
			m.Device, m.Stream,
			time.Unix(0, m.Start).UTC().Format(time.RFC3339Nano), time.Unix(0, m.End).UTC().Format(time.RFC3339Nano),
			w.Every)
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
