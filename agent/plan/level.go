package plan

import (
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/henc"
)

// Needs puts what programs need beside what the streams are encrypted at: a
// level that the evaluator does not take is a refusal, one that is higher than
// necessary a warning with the bytes that it costs. Streams that no program
// reads need level 0.
func (p *Prediction) Needs(needs ProgramNeeds) error {
	params, err := henc.Named(p.Params)
	if err != nil {
		return err
	}
	seeded := p.KeyMode == "symmetric"
	p.EvaluationKeys = &needs.Keys
	for i := range p.Streams {
		s := &p.Streams[i]
		n := needs.Streams[s.Name]
		s.Programs, s.ProgramLevel = n.Programs, &n.Level
		if int64(s.ObjectBytes) > needs.Object {
			p.Refusals = append(p.Refusals,
				fmt.Sprintf("a window of stream %s has %d bytes, and the evaluator takes no more than %d; raise "+
					"limits.object there, or use a lower level or smaller parameters",
					s.Name, s.ObjectBytes, needs.Object))
		}
		if s.Precision > 0 {
			continue // compact windows have no level
		}
		who := "no program reads it"
		if len(n.Programs) > 0 {
			who = "that is enough for " + strings.Join(n.Programs, ", ")
		}
		switch {
		case len(n.Programs) > 0 && s.Level != n.Accepts:
			p.Refusals = append(p.Refusals,
				fmt.Sprintf("stream %s is encrypted at level %d, and its programs are compiled for level %d; write "+
					"\"level: %d\" here and in the evaluator's file (%s)",
					s.Name, s.Level, n.Accepts, n.Level, who))
		case s.Level > n.Level:
			have, want := params.CiphertextBytes(s.Level, seeded), params.CiphertextBytes(n.Level, seeded)
			p.Warnings = append(p.Warnings,
				fmt.Sprintf("stream %s: write \"level: %d\" here and in the evaluator's file (%s): %d instead of %d "+
					"bytes a window",
					s.Name, n.Level, who, want, have))
		}
	}
	return nil
}

// ProgramNeeds is what the programs of an evaluator need of an agent.
type ProgramNeeds struct {
	Streams map[string]LevelNeed // by name
	// Object is the largest sealed window that the evaluator takes, in bytes.
	Object int64
	Keys   EvaluationKeys
}

// A LevelNeed is what the programs of an evaluator need of a stream.
type LevelNeed struct {
	Programs []string
	// Level is the lowest at which the stream can be encrypted without doubling
	// the promised error of any of them; Accepts the one that the evaluator takes
	// as it is configured now.
	Level, Accepts int
}
