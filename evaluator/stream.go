package evaluator

import (
	"cmp"

	"github.com/hencedge/hencedge/config"
)

// streamID names a stream of a device.
type streamID struct{ device, stream string }

func compareStreams(a, b streamID) int {
	return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.stream, b.stream))
}

func findStream(cfg *config.Evaluator, device, stream string) *config.DeviceStream {
	for i := range cfg.Streams {
		if s := &cfg.Streams[i]; s.Device == device && s.Name == stream {
			return s
		}
	}
	return nil
}
