package transport

import (
	"testing"

	"github.com/hencedge/hencedge/config"
)

// The defaults of a receiver in docs/wire-format.md are those of transport, the ones in
// docs/configuration.md those of a configuration: they are one.
func TestDefaultLimitsAgree(t *testing.T) {
	cfg := &config.Evaluator{}
	cfg.SetDefaults()
	l := Limits{}.withDefaults()
	if int(cfg.Limits.Object) != l.MaxObject || cfg.Limits.Pending != l.MaxObjects ||
		int(cfg.Limits.Memory) != l.MaxBytes || cfg.Limits.Reassembly != l.MaxAge {
		t.Errorf("%+v in a configuration, %+v in transport", cfg.Limits, l)
	}
}
