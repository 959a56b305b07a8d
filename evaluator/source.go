package evaluator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/transport"
)

// streamID names a stream of a device.
type streamID struct{ device, stream string }

func compareStreams(a, b streamID) int {
	return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.stream, b.stream))
}

// source is a stream that readings are taken from.
type source struct {
	stream config.Stream
	params henc.Parameters
	hash   [32]byte
	layout [32]byte
	users  []*served
	// scale is that of the bodies of whole numbers, in whose headers stands their modulus; 0 for others.
	scale float64
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
			id := prog.stream(in)
			p.sources[id] = p.sources[id].readBy(prog.served, in)
			p.roster.single[id] = true
		}
	}
	for class, programs := range p.ofClass {
		for _, prog := range programs {
			for _, in := range prog.planned.Circuit.Inputs() {
				id := classStream{class, in.Stream}
				p.shared[id] = p.shared[id].readBy(prog, in)
				p.roster.shared[id] = true
			}
		}
	}
	for id, runs := range p.fleets {
		for _, run := range runs {
			p.shared[id] = p.shared[id].readBy(run.served, run.planned.Circuit.Inputs()[0])
			p.roster.shared[id] = true
		}
	}
	for _, st := range p.cfg.Streams {
		if p.sources[streamID{st.Device, st.Name}] == nil {
			p.log.Info("no program reads this stream", "device", st.Device, "stream", st.Name)
		}
	}
	for _, c := range p.cfg.Classes {
		for _, st := range c.Streams {
			if p.shared[classStream{c.Name, st.Name}] == nil {
				p.log.Info("no program reads this stream", "class", c.Name, "stream", st.Name)
			}
		}
	}
}

// readBy returns the source with one more reader; src may be nil.
func (src *source) readBy(prog *served, in program.Input) *source {
	if src == nil {
		st, params := prog.planned.sourceOf(in), prog.planned.params
		src = &source{stream: st, params: params, hash: params.Hash(), layout: st.LayoutHash()}
		if st.Whole() {
			src.scale = wholeScale(params)
		}
	}
	if !slices.Contains(src.users, prog) {
		src.users = append(src.users, prog)
	}
	return src
}

// wholeScale is the scale of ciphertexts of whole numbers.
func wholeScale(params henc.Parameters) float64 {
	p, err := bfv.NewParameters(params, henc.DefaultT)
	if err != nil {
		return -1 // which no ciphertext has
	}
	return p.Scale()
}

// source returns a stream that programs read, else nil.
func (p *pipeline) source(id streamID) *source {
	if src := p.sources[id]; src != nil || len(p.shared) == 0 {
		return src
	}
	return p.shared[classStream{p.roster.class(id.device), id.stream}]
}

// place checks what the header says of the window and finds its place.
func (src *source) place(m *transport.Meta) (place, error) {
	w := src.stream.Window
	if m.Samples < 1 || int64(m.Samples) > int64(w.Samples) {
		return place{}, fmt.Errorf("%w: %d samples in a window of %s/%s, want 1 to %d", ErrSamples, m.Samples, m.Device,
			m.Stream, w.Samples)
	}
	if places := src.stream.Places; int64(m.Place) >= int64(max(places, 1)) {
		return place{}, fmt.Errorf("%w: place %d of %s/%s, which has %d", ErrPlace, m.Place, m.Device, m.Stream, places)
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
func (p *served) accepts(id streamID, level int, scale float64) error {
	for _, in := range p.planned.Circuit.Inputs() {
		if cmp.Or(in.Device, id.device) == id.device && in.Stream == id.stream {
			if err := p.planned.Circuit.CheckInput(in, level, scale); err != nil {
				return err
			}
		}
	}
	return nil
}
