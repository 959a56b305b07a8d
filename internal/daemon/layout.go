package daemon

import (
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
)

// DescribeStream returns a stream as its device announces it.
func DescribeStream(s config.Stream) transport.StreamStatus {
	out := transport.StreamStatus{Name: s.Name, Params: s.Params, LogScale: s.LogScale, Packing: s.Packing,
		Places: s.Places, Samples: s.Window.Samples, Every: int64(s.Window.Every)}
	if out.Packing == "" {
		out.Packing = config.PackingReal
	}
	for _, c := range s.Channels {
		out.Channels = append(out.Channels, transport.ChannelStatus{Name: c.Name, Unit: c.Unit, Min: c.Range[0],
			Max: c.Range[1]})
		if s.Histogram() || s.Whole() {
			out.Resolutions = append(out.Resolutions, c.Resolution)
		}
	}
	return out
}

// DescribedStream returns the part of a stream that its device announces. It returns false
// if the device only names the stream.
func DescribedStream(s transport.StreamStatus) (config.Stream, bool) {
	out := config.Stream{Name: s.Name, Params: s.Params, LogScale: s.LogScale, Packing: s.Packing,
		Places: s.Places, Window: config.Window{Samples: s.Samples, Every: time.Duration(s.Every)}}
	for i, c := range s.Channels {
		ch := config.Channel{Name: c.Name, Unit: c.Unit, Range: [2]float64{c.Min, c.Max}}
		if i < len(s.Resolutions) {
			ch.Resolution = s.Resolutions[i]
		}
		out.Channels = append(out.Channels, ch)
	}
	return out, len(s.Channels) > 0
}
