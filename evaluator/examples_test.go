package evaluator

import (
	"path/filepath"
	"testing"

	"github.com/hencedge/hencedge/config"
)

// TestExamplesFit: the programs of the example configurations, which users start
// from, fit their parameters.
func TestExamplesFit(t *testing.T) {
	files, err := filepath.Glob("../config/examples/evaluator*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		cfg, err := config.LoadEvaluator(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if _, err := Check(cfg); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
