package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
)

// A spool whose directory cannot be is found by Check, before anything of it is
// opened.
func TestCheckSpool(t *testing.T) {
	cfg := withSpool(t, testConfig(t), filepath.Join(t.TempDir(), "none", "spool"))
	deps, _ := testDeps(t, &fakeClient{})
	cfg.Spool.Mirror = cfg.State + "/file/mirror"
	err := plan.Check(cfg, deps.options())
	var list *config.Errors
	if !errors.As(err, &list) || len(list.List) != 2 || !strings.Contains(err.Error(), "spool.dir") ||
		!strings.Contains(err.Error(), "spool.mirror") {
		t.Errorf("got %v", err)
	}
	cfg.Spool.Dir, cfg.Spool.Mirror = filepath.Join(t.TempDir(), "spool"), ""
	if err := plan.Check(cfg, deps.options()); err != nil {
		t.Error(err)
	}
}

// Check refuses a directory of other files, which New then leaves as it is.
func TestCheckForeignSpool(t *testing.T) {
	full, free := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "thesis.tmp"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dir, mirror, path string }{{full, "", "spool.dir"}, {free, full, "spool.mirror"},
		{"/", "", "spool.dir"}, {os.Getenv("HOME"), "", "spool.dir"}} {
		cfg := withSpool(t, testConfig(t), tt.dir)
		cfg.Spool.Mirror = tt.mirror
		deps, _ := testDeps(t, &fakeClient{})
		var list *config.Errors
		if err := plan.Check(cfg, deps.options()); !errors.As(err, &list) || len(list.List) != 1 ||
			list.List[0].Path != tt.path {
			t.Errorf("%s: %v", tt.dir, err)
		}
		if a, err := New(cfg, deps); err == nil {
			t.Errorf("%s is taken", tt.dir)
			a.Close()
		}
	}
	if b, err := os.ReadFile(filepath.Join(full, "thesis.tmp")); err != nil || string(b) != "mine" {
		t.Errorf("%q, %v", b, err)
	}
}
