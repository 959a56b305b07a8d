package config

import (
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// lookup finds the stream of "device/stream/channel", or says what to write.
func (e *Evaluator) lookup(ref string) (*DeviceStream, string) {
	var all []string
	for i := range e.Streams {
		s := &e.Streams[i]
		for _, ch := range s.Channels {
			id := s.Device + "/" + s.Name + "/" + ch.Name
			if id == ref {
				return s, ""
			}
			all = append(all, id)
		}
	}
	if strings.Count(ref, "/") != 2 {
		return nil, "write device/stream/channel, such as " + firstOf(all, "board1/env/cpu")
	}
	if len(all) > 8 {
		if near := yamlx.Nearest(ref, all); near == "" {
			return nil, "list the channel under streams first"
		}
	}
	return nil, yamlx.SuggestValue(ref, all)
}

func firstOf(list []string, otherwise string) string {
	if len(list) > 0 {
		return list[0]
	}
	return otherwise
}

// Input finds the stream and the channel index that ref
// ("device/stream/channel") names.
func (e *Evaluator) Input(ref string) (*DeviceStream, int, error) {
	s, remedy := e.lookup(ref)
	if s == nil {
		return nil, 0, fmt.Errorf("%w: %q is no known channel: %s", ErrInvalid, ref, remedy)
	}
	return s, s.ChannelIndex(ref[strings.LastIndexByte(ref, '/')+1:]), nil
}
