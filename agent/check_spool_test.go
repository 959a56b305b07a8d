package agent

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
)

// A spool whose directory cannot be is found by Check, before anything of it is
// opened.
func TestCheckSpool(t *testing.T) {
	cfg := durable(t, testConfig(t), filepath.Join(t.TempDir(), "none", "spool"))
	deps, _ := testDeps(t, &fakeClient{})
	cfg.Spool.Mirror = cfg.State + "/file/mirror"
	err := Check(cfg, deps)
	var list *config.Errors
	if !errors.As(err, &list) || len(list.List) != 2 || !strings.Contains(err.Error(), "spool.dir") || !strings.Contains(err.Error(), "spool.mirror") {
		t.Errorf("got %v", err)
	}
	cfg.Spool.Dir, cfg.Spool.Mirror = filepath.Join(t.TempDir(), "spool"), ""
	if err := Check(cfg, deps); err != nil {
		t.Error(err)
	}
}
