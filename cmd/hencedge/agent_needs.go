//go:build !evaluatoronly

package main

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/evaluator/program"
)

// programNeeds compiles the programs in an evaluator's file and returns what they need of
// this agent's streams. It fails if the two files describe a stream differently.
func programNeeds(cfg *config.Agent, file string) (*plan.ProgramNeeds, error) {
	ev, err := config.LoadEvaluator(file)
	if err != nil {
		return nil, err
	}
	compiled, err := evaluator.Check(ev)
	if err != nil {
		return nil, err
	}
	known, _ := config.FindDevice(ev, cfg.Device)
	for _, s := range cfg.Streams {
		for _, theirs := range ev.StreamsOf(cfg.Device, known.Class) {
			if theirs.Stream.Name != s.Name {
				continue
			}
			for _, d := range s.Compare(*theirs.Stream) {
				return nil, fmt.Errorf("%w: stream %s is packed differently in %s: %s is %s here and %s there; "+
					"`hencedge check` compares all of both files",
					config.ErrInvalid, s.Name, file, d.Path, d.Ours, d.Other)
			}
		}
	}
	streams := map[string]plan.LevelNeed{}
	for name, n := range needsOf(compiled, cfg.Device, known.Class) {
		streams[name] = plan.LevelNeed{Programs: n.Programs, Level: n.Level, Accepts: n.Accepts}
	}
	return &plan.ProgramNeeds{Streams: streams, Object: int64(ev.Limits.Object),
		Keys: keysOf(compiled, cfg.Device, known.Class)}, nil
}

// keysOf returns the evaluation keys of the programs that read a device of a class, or of none.
func keysOf(compiled *evaluator.Plan, device, class string) plan.EvaluationKeys {
	keys, each := plan.EvaluationKeys{}, 0 // bytes of one
	bootstrap := 0                         // keys of the largest program that bootstraps
	for _, p := range compiled.Programs {
		e := p.Circuit.Explain()
		if !slices.ContainsFunc(e.Inputs, func(in program.InputInfo) bool {
			_, ours := inputOf(&e, in, device, class)
			return ours
		}) {
			continue
		}
		keys.Relinearise = keys.Relinearise || e.Keys.Relinearise
		keys.Rotations = append(keys.Rotations, e.Keys.Rotations...)
		if e.Keys.Count > 0 {
			each = e.Keys.Bytes / e.Keys.Count
		}
		if e.Keys.Bootstrap {
			bootstrap = max(bootstrap, e.Keys.Count)
		}
	}
	slices.Sort(keys.Rotations)
	keys.Rotations = slices.Compact(keys.Rotations)
	if keys.Count = len(keys.Rotations); keys.Relinearise {
		keys.Count++
	}
	keys.Count = max(keys.Count, bootstrap)
	keys.Bytes = int64(keys.Count) * int64(each)
	return keys
}
