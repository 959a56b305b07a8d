package demo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
)

// Names of the roles.
const (
	deviceName    = "board"
	streamName    = "sensors"
	evaluatorName = "cloud"
)

// maxChannels keeps the table readable.
const maxChannels = 4

// choose picks the sensors that show most: temperatures and the like first, then
// processor, memory and load.
func choose(found []sensor.Found) []sensor.Found {
	var out []sensor.Found
	take := func(most int, fits func(config.Source) bool) {
		for _, f := range found {
			if most > 0 && len(out) < maxChannels && fits(*f.Channel().Source) &&
				!slices.ContainsFunc(out, func(g sensor.Found) bool { return g.Name == f.Name }) {
				out = append(out, f)
				most--
			}
		}
	}
	kind := func(types ...config.SourceType) func(config.Source) bool {
		return func(s config.Source) bool { return slices.Contains(types, s.Type) }
	}
	take(2, kind(config.SourceThermal, config.SourceHwmon))
	take(1, kind(config.SourceCPU))
	take(1, kind(config.SourceMemory))
	take(1, kind(config.SourceLoad))
	// Rates have ranges of a hundred million bytes a second, which say little
	// on an idle machine; they stand in where there is nothing else.
	take(2-len(out), func(config.Source) bool { return true })
	return out
}

// candidates returns the programs to show, if the parameters allow them.
func candidates(channels []config.Channel) []config.Program {
	at := func(k int) string { return strings.Join([]string{deviceName, streamName, channels[k].Name}, "/") }
	x := channels[0]
	mid, half := x.Affine()
	var out []config.Program
	for k, c := range channels {
		out = append(out, config.Program{Name: "mean-" + c.Name, Expr: "mean(x)", Inputs: map[string]string{"x": at(k)},
			Unit: c.Unit})
	}
	one := map[string]string{"x": at(0)}
	out = append(out,
		config.Program{Name: "std-" + x.Name, Expr: "std(x)", Inputs: one, Unit: x.Unit},
		config.Program{Name: "rms-" + x.Name, Expr: "rms(x)", Inputs: one, Unit: x.Unit},
	)
	if len(channels) > 1 {
		y := channels[len(channels)-1]
		out = append(out, config.Program{Name: "cov-" + x.Name + "-" + y.Name, Expr: "cov(x, y)",
			Inputs: map[string]string{"x": at(0), "y": at(len(channels) - 1)}})
	}
	return append(out,
		config.Program{Name: "skew-" + x.Name, Expr: fmt.Sprintf("mean(((x - %g) / %g)^3)", mid, half), Inputs: one},
		// For parameters without rotations.
		config.Program{Name: "scaled-" + x.Name, Expr: "1.8*x + 32", Inputs: one},
	)
}

// fitting returns the candidates that compile under params, and why the others do not. It
// returns the last candidate only if no other fits.
func fitting(list []config.Program, stream config.Stream,
	params henc.Parameters) (keep []config.Program, left []string) {
	for i, p := range list {
		if i == len(list)-1 && len(keep) > 0 {
			break
		}
		src := program.Source{Name: p.Name, Expr: p.Expr, Vars: map[string]program.Var{}}
		for name, ref := range p.Inputs {
			src.Vars[name] = program.Var{Device: deviceName, Stream: stream,
				Channel: stream.ChannelIndex(ref[strings.LastIndexByte(ref, '/')+1:])}
		}
		c, err := program.Compile(src, params)
		if err != nil {
			left = append(left, p.Name+": "+reason(err))
			continue
		}
		if params.Alpha() == 0 && len(c.Rotations()) > 0 {
			left = append(left, p.Name+": needs rotations, for which "+params.Name()+" has no special primes")
			continue
		}
		keep = append(keep, p)
	}
	return keep, left
}

// reason returns the message of a compiler's refusal in one line.
func reason(err error) string {
	var e *program.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// channelsOf names the channels that a program reads, in their order.
func channelsOf(p config.Program, stream config.Stream) string {
	var names []string
	for _, c := range stream.Channels {
		for _, ref := range p.Inputs {
			if strings.HasSuffix(ref, "/"+c.Name) {
				names = append(names, c.Name)
				break
			}
		}
	}
	return strings.Join(names, ",")
}
