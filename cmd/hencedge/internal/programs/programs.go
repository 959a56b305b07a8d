// Package programs compiles the programs of an evaluator's configuration, for
// the commands that explain them and that make exactly the keys they need.
package programs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
)

// Source is a program of a configuration with what its variables stand for.
// All of its inputs must have the same parameters, whose name is returned.
func Source(cfg *config.Evaluator, p config.Program) (program.Source, string, error) {
	src := program.Source{Name: p.Name, Expr: p.Expr, Vars: map[string]program.Var{}}
	params := ""
	for name, input := range p.Inputs {
		v, err := variable(cfg, input)
		if err != nil {
			return src, "", fmt.Errorf("program %s: variable %s: %w", p.Name, name, err)
		}
		if params != "" && params != v.Stream.Params {
			return src, "", fmt.Errorf("program %s: its inputs are encrypted under %s and %s; a program takes inputs of one parameter set", p.Name, params, v.Stream.Params)
		}
		params = v.Stream.Params
		src.Vars[name] = v
	}
	return src, params, nil
}

// variable finds "device/stream/channel".
func variable(cfg *config.Evaluator, input string) (program.Var, error) {
	parts := strings.Split(input, "/")
	if len(parts) != 3 {
		return program.Var{}, fmt.Errorf("input %q is not device/stream/channel", input)
	}
	for _, s := range cfg.Streams {
		if s.Device != parts[0] || s.Name != parts[1] {
			continue
		}
		k := s.ChannelIndex(parts[2])
		if k < 0 {
			return program.Var{}, fmt.Errorf("stream %s/%s has no channel %q", parts[0], parts[1], parts[2])
		}
		return program.Var{Device: s.Device, Stream: s.Stream, Channel: k}, nil
	}
	return program.Var{}, fmt.Errorf("no stream %s/%s is configured", parts[0], parts[1])
}

// Compile compiles the programs called names, or all of them. The circuits are
// in the order of the configuration.
func Compile(cfg *config.Evaluator, names ...string) ([]*program.Circuit, error) {
	for _, n := range names {
		if !slices.ContainsFunc(cfg.Programs, func(p config.Program) bool { return p.Name == n }) {
			return nil, fmt.Errorf("no program %q is configured", n)
		}
	}
	var out []*program.Circuit
	for _, p := range cfg.Programs {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		src, name, err := Source(cfg, p)
		if err != nil {
			return nil, err
		}
		params, err := henc.Named(name)
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", p.Name, err)
		}
		c, err := program.Compile(src, params)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Needs are the parameters and evaluation keys that the circuits need together.
// They must all be for one parameter set.
func Needs(circuits []*program.Circuit) (henc.Parameters, keyholder.Needs, error) {
	if len(circuits) == 0 {
		return henc.Parameters{}, keyholder.Needs{}, fmt.Errorf("no programs")
	}
	p := circuits[0].Parameters()
	n := keyholder.Needs{Rotations: []int{}, NoRelinearise: true}
	for _, c := range circuits {
		if !c.Parameters().Equal(p) {
			return p, n, fmt.Errorf("programs %s and %s are for %s and %s; make one key set for each parameter set", circuits[0].Name(), c.Name(), p.Name(), c.Parameters().Name())
		}
		n.Rotations = append(n.Rotations, c.Rotations()...)
		n.NoRelinearise = n.NoRelinearise && !c.NeedsRelin()
	}
	slices.Sort(n.Rotations)
	n.Rotations = slices.Compact(n.Rotations)
	return p, n, nil
}
