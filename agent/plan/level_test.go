package plan

import (
	"slices"
	"strings"
	"testing"
)

func TestNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		level             int
		need              LevelNeed
		refusals, warning string
	}{
		"exact": {1, LevelNeed{[]string{"mean"}, 1, 1}, "", ""},
		"higher": {3, LevelNeed{[]string{"mean", "rms"}, 1, 3}, "",
			`write "level: 1" here and in the evaluator's file (that is enough for mean, rms)`},
		"not as theirs": {1, LevelNeed{[]string{"mean"}, 1, 3},
			"encrypted at level 1, and its programs are compiled for level 3", ""},
		"nobody reads": {2, LevelNeed{}, "",
			`write "level: 0" here and in the evaluator's file (no program reads it)`},
	} {
		p := &Prediction{Params: "edge13-d3", KeyMode: "public", Streams: []StreamOutlook{{Name: "s", Level: c.level}}}
		if err := p.Needs(ProgramNeeds{Streams: map[string]LevelNeed{"s": c.need}, Object: 1 << 20,
			Keys: EvaluationKeys{Count: 3}}); err != nil {
			t.Fatal(err)
		}
		has := func(list []string, text string) bool {
			if text == "" {
				return len(list) == 0
			}
			return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, text) })
		}
		if !has(p.Refusals, c.refusals) || !has(p.Warnings, c.warning) || *p.Streams[0].ProgramLevel != c.need.Level ||
			p.EvaluationKeys.Count != 3 {
			t.Errorf("%s: refusals %q, warnings %q", name, p.Refusals, p.Warnings)
		}
	}
	// A window that the evaluator's limits do not let in.
	p := &Prediction{Params: "edge13-d3", Streams: []StreamOutlook{{Name: "s", Level: 1, ObjectBytes: 5000}}}
	if err := p.Needs(ProgramNeeds{Streams: map[string]LevelNeed{"s": {[]string{"mean"}, 1, 1}},
		Object: 4096}); err != nil {
		t.Fatal(err)
	}
	if len(p.Refusals) != 1 ||
		!strings.Contains(p.Refusals[0], "5000 bytes, and the evaluator takes no more than 4096") {
		t.Errorf("got %q", p.Refusals)
	}
}
