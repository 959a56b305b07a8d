package plan

import (
	"fmt"
	"math"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// ModeOutlook is what a window of a stream takes in a mode, under the parameters and at the
// level with the fewest bytes that hold it. Programs may need more of samples: exact counts
// need no more of a histogram.
type ModeOutlook struct {
	Mode   string `json:"mode"`
	Params string `json:"params"`
	Level  int    `json:"level"`
	Bytes  int    `json:"bytes"` // of the ciphertext
	// Bins are those of each channel of a histogram: the configured ones, or as many as fit.
	Bins int `json:"bins,omitempty"`
}

// modes compares the modes of a stream, and recommends one.
func (o *StreamOutlook) modes(s config.Stream, seeded bool) {
	samples, counts := s, s
	samples.Packing, counts.Packing = config.PackingReal, config.PackingHistogram
	if plain, ok := smallest(samples, samples.Slots(), 0, seeded); ok {
		plain.Mode = string(config.ModeSamples)
		o.Modes = append(o.Modes, plain)
	}
	if !s.Histogram() {
		counts.LogScale = config.HistogramLogScale
	}
	slots := counts.Slots()
	if !s.Histogram() { // without a resolution: the smallest set says how many bins fit
		slots = len(s.Channels) * 2 * fewBins
	}
	if binned, ok := smallest(counts, slots, 4*math.Ldexp(1, counts.LogScale), seeded); ok {
		binned.Mode, binned.Bins = string(config.ModeHistogram), binsOf(s, binned.Params)
		o.Modes = append(o.Modes, binned)
	}
	o.Advice = o.advice(s)
}

// fewBins is the least number of bins for which a histogram is proposed.
const fewBins = 64

// binsOf returns the most bins of a channel of a histogram, or how many fit into the slots of
// parameters.
func binsOf(s config.Stream, params string) int {
	bins := 0
	if s.Histogram() {
		for _, c := range s.Channels {
			if g, err := c.Grid(); err == nil {
				bins = max(bins, g.Bins)
			}
		}
		return bins
	}
	for n := 1; 2*n*len(s.Channels)*max(s.Places, 1) <= config.SlotsOf(params); n *= 2 {
		bins = n
	}
	return bins
}

// smallest returns the parameters and the level with the fewest bytes that have the slots and
// hold a scale; 0 is the parameters' own.
func smallest(s config.Stream, slots int, scale float64, seeded bool) (best ModeOutlook, ok bool) {
	for _, name := range henc.Names() {
		p, err := henc.Named(name)
		if err != nil || slots > p.Slots()/max(s.Places, 1) {
			continue
		}
		for level := range p.MaxLevel() + 1 {
			bytes := p.CiphertextBytes(level, seeded)
			if scale > 0 && p.CheckScale(level, scale) != nil || ok && bytes >= best.Bytes {
				continue
			}
			best, ok = ModeOutlook{Params: name, Level: level, Bytes: bytes}, true
		}
	}
	return best, ok
}

// advice says which mode has clearly fewer bytes, if that is not the one in use.
func (o *StreamOutlook) advice(s config.Stream) string {
	if len(o.Modes) < 2 {
		return ""
	}
	plain, binned := o.Modes[0], o.Modes[1]
	less := func(m ModeOutlook) bool { return 10*m.Bytes < 9*o.BodyBytes } // by a tenth or more
	switch {
	case !s.Histogram() && less(binned):
		return fmt.Sprintf("where counts, quantiles, minima and maxima are enough, mode: histogram with up to %d bins "+
			"under %s takes %d instead of %d bytes a window", binned.Bins, binned.Params, binned.Bytes, o.BodyBytes)
	case s.Histogram() && less(binned):
		return fmt.Sprintf("%s at level %d holds the %d bins in %d instead of %d bytes a window, exactly as well",
			binned.Params, binned.Level, binned.Bins, binned.Bytes, o.BodyBytes)
	case s.Histogram() && less(plain):
		return fmt.Sprintf("mode: samples under %s takes %d instead of %d bytes a window, but has no exact counts; "+
			"a coarser resolution may do with fewer", plain.Params, plain.Bytes, o.BodyBytes)
	}
	return ""
}
