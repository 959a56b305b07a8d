package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// A Difference is a field in which two descriptions of one stream differ.
type Difference struct {
	Path        string // below the stream, such as "channels[2].range"
	Ours, Other string // the two values, as a file has them
}

// Compare returns the fields in which other differs from s, of those that the two ends
// of a stream must agree on: what LayoutHash covers. It is empty exactly when the
// hashes are equal.
func (s Stream) Compare(other Stream) []Difference {
	var out []Difference
	differ := func(path, ours, theirs string) {
		if ours != theirs {
			out = append(out, Difference{path, ours, theirs})
		}
	}
	mode := func(s Stream) string {
		switch s.Packing {
		case "", PackingReal:
			return string(ModeSamples)
		}
		return s.Packing
	}
	given := func(n int) string {
		if n == 0 {
			return "none"
		}
		return strconv.Itoa(n)
	}
	every := func(d Duration) string {
		if d == 0 {
			return "none"
		}
		return yamlx.ShowDuration(d)
	}
	differ("name", s.Name, other.Name)
	differ("params", s.Params, other.Params)
	differ("log_scale", given(s.LogScale), given(other.LogScale))
	differ("mode", mode(s), mode(other))
	differ("places", given(s.Places), given(other.Places))
	differ("window.samples", strconv.Itoa(s.Window.Samples), strconv.Itoa(other.Window.Samples))
	differ("window.every", every(s.Window.Every), every(other.Window.Every))
	if a, b := channelNames(s), channelNames(other); !slices.Equal(a, b) {
		differ("channels", list(a), list(b))
		return out
	}
	for i, c := range s.Channels {
		at, o := fmt.Sprintf("channels[%d]", i), other.Channels[i]
		differ(at+".unit", c.Unit, o.Unit)
		differ(at+".range", showRange(c.Range), showRange(o.Range))
		if s.Histogram() && other.Histogram() || s.Whole() && other.Whole() {
			differ(at+".resolution", FormatNumber(c.Resolution), FormatNumber(o.Resolution))
		}
	}
	return out
}

func channelNames(s Stream) []string {
	names := make([]string, len(s.Channels))
	for i, c := range s.Channels {
		names[i] = c.Name
	}
	return names
}

// mostNames bounds the names that a list shows.
const mostNames = 12

func list(names []string) string {
	if len(names) > mostNames {
		return fmt.Sprintf("[%s, ... %d in all]", strings.Join(names[:mostNames], ", "), len(names))
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// showRange writes a range so that two that differ look different; -0 is 0.
func showRange(r [2]float64) string {
	num := func(x float64) string { return strconv.FormatFloat(x+0, 'g', -1, 64) }
	return "[" + num(r[0]) + ", " + num(r[1]) + "]"
}
