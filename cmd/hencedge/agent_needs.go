package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/evaluator/program"
)

// programNeeds compiles the programs of an evaluator's file and finds what they
// need of this agent's streams. It fails when both files describe a stream
// differently.
func programNeeds(cfg *config.Agent, file string) (*agent.ProgramNeeds, error) {
	ev, err := config.LoadEvaluator(file)
	if err != nil {
		return nil, err
	}
	plan, err := evaluator.Check(ev)
	if err != nil {
		return nil, err
	}
	for _, s := range cfg.Streams {
		for _, theirs := range ev.Streams {
			if theirs.Device != cfg.Device || theirs.Name != s.Name {
				continue
			}
			for _, d := range s.Compare(theirs.Stream) {
				return nil, fmt.Errorf("%w: stream %s is packed differently in %s: %s is %s here and %s there; `hencedge check` compares all of both files",
					config.ErrInvalid, s.Name, file, d.Path, d.Ours, d.Other)
			}
		}
	}
	return &agent.ProgramNeeds{Streams: needsOf(plan, cfg.Device), Object: int64(ev.Limits.Object), Keys: keysOf(plan, cfg.Device)}, nil
}

// keysOf are the evaluation keys that the programs need which read a device.
func keysOf(plan *evaluator.Plan, device string) agent.EvaluationKeys {
	keys, each := agent.EvaluationKeys{}, 0 // bytes of one
	for _, p := range plan.Programs {
		e := p.Circuit.Explain()
		if !slices.ContainsFunc(e.Inputs, func(in program.InputInfo) bool { return strings.HasPrefix(in.Name, device+"/") }) {
			continue
		}
		keys.Relinearise = keys.Relinearise || e.Keys.Relinearise
		keys.Rotations = append(keys.Rotations, e.Keys.Rotations...)
		if e.Keys.Count > 0 {
			each = e.Keys.Bytes / e.Keys.Count
		}
	}
	slices.Sort(keys.Rotations)
	keys.Rotations = slices.Compact(keys.Rotations)
	if keys.Count = len(keys.Rotations); keys.Relinearise {
		keys.Count++
	}
	keys.Bytes = int64(keys.Count) * int64(each)
	return keys
}

// needsOf finds what programs need of the streams of a device.
func needsOf(plan *evaluator.Plan, device string) map[string]agent.LevelNeed {
	needs := map[string]agent.LevelNeed{}
	for _, p := range plan.Programs {
		e := p.Circuit.Explain()
		for _, in := range e.Inputs {
			name, _, _ := strings.Cut(in.Name, "@") // without the lag
			stream, ours := strings.CutPrefix(name, device+"/")
			if !ours {
				continue
			}
			least := in.Level
			if e.Least != nil {
				least = e.Least.Level
			}
			n := needs[stream]
			if !slices.Contains(n.Programs, p.Name) {
				n.Programs = append(n.Programs, p.Name)
			}
			n.Level, n.Accepts = max(n.Level, least), max(n.Accepts, in.Level)
			needs[stream] = n
		}
	}
	return needs
}
