package evaluator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
)

// Warnings are properties of a configuration that work but deserve thought.
func Warnings(cfg *config.Evaluator) []string {
	var out []string
	if slices.Contains(cfg.Keys.Holder, config.HolderNone) {
		out = append(out, "keys.holder is none: nobody checks who signed the key sets; write the fingerprint that "+
			"`hencedge keys show` prints at the key holder")
	}
	for i, p := range cfg.Programs {
		for _, name := range program.Unused(p.Expr, slices.Collect(maps.Keys(p.Inputs))) {
			out = append(out, fmt.Sprintf("programs[%d].inputs.%s: the expression of %s does not use it; remove it, or "+
				"correct the expression", i, name, p.Name))
		}
	}
	return out
}
