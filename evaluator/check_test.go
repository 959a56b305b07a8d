package evaluator

import (
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
)

// TestWarnsOfUnusedInputs: an input that an expression does not mention is a mistake
// more often than not.
func TestWarnsOfUnusedInputs(t *testing.T) {
	inputs := map[string]string{"x": "d1/count/temp", "y": "d1/count/load"}
	for expr, want := range map[string]string{
		"mean(x)":                            "programs[0].inputs.y",
		"mean(x*y)":                          "",
		"let m = mean(x); y - m":             "",
		"let d = x - prev(x); mean(d)":       "programs[0].inputs.y",
		"mean(lag(y, 2)) + poly(x, [1, 2])":  "",
		"sum(y) + 0*2 // x is not used here": "programs[0].inputs.x",
	} {
		got := Warnings(&config.Evaluator{Programs: []config.Program{{Name: "p", Expr: expr, Inputs: inputs}}})
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want+":")) {
			t.Errorf("%s: %q", expr, got)
		}
	}
	if got := Warnings(&config.Evaluator{Programs: []config.Program{{Expr: "mean(", Inputs: inputs}}}); len(got) > 0 {
		t.Errorf("an expression that is none: %q", got)
	}
	got := Warnings(&config.Evaluator{Keys: config.EvaluatorKeys{Holder: []string{config.HolderNone}}})
	if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "keys.holder is none") }) {
		t.Errorf("no holder: %q", got)
	}
}
