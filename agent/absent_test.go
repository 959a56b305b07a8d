package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// What may appear later is told apart from what only a change of the
// configuration mends.
func TestAbsentIsToldApart(t *testing.T) {
	s := newSite(t)
	text, err := os.ReadFile(filepath.Join(s.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change []string // from, to, ...
		absent bool
	}{
		"public key":         {[]string{"public.key", "none.key"}, true},
		"password":           {[]string{"file:password", "cred:broker"}, true},
		"roots":              {[]string{"ca.pem", "none.pem"}, true},
		"client certificate": {[]string{"client.pem", "none.pem"}, true},
		"state directory":    {[]string{"agent.state", "none/agent.state"}, true},
		"sensor": {[]string{"source: {type: load}",
			"source: {type: thermal, zone: reactor}, on_missing: skip", `unit: "1"`, "unit: degC"}, true},
		"two":                     {[]string{"public.key", "none.key", "ca.pem", "none.pem"}, true},
		"not a key":               {[]string{"public.key", "ca.pem"}, false},
		"level":                   {[]string{"level: 0", "level: 2"}, false},
		"password and level":      {[]string{"file:password", "file:none", "level: 0", "level: 2"}, false},
		"roots that are no roots": {[]string{"ca: ca.pem", "ca: password"}, false},
	} {
		path := filepath.Join(s.dir, "changed.yaml")
		changed := strings.NewReplacer(c.change...).Replace(string(text))
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.LoadAgent(path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = plan.Check(cfg, Deps{Logger: testrig.Quiet()}.options())
		var list *config.Errors
		if !errors.Is(err, config.ErrInvalid) || !errors.As(err, &list) || errors.Is(err, plan.ErrAbsent) != c.absent {
			t.Errorf("%s: absent %v\n%v", name, errors.Is(err, plan.ErrAbsent), err)
		}
		// Of all these only the level can be seen without looking at files.
		if alone := plan.CheckAlone(cfg); (alone != nil) != strings.Contains(name, "level") {
			t.Errorf("%s: alone: %v", name, alone)
		}
	}
}

// A secret that every user of the machine can read works, and is warned of.
func TestExposedSecretsAreWarnedOf(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(t)
	password, key := filepath.Join(dir, "password"), filepath.Join(dir, "tls.key")
	for _, path := range []string{password, key} {
		if err := os.WriteFile(path, []byte("sesame"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Broker.Password, cfg.Broker.Key = config.Secret("file:"+password), key
	said := func() string { return strings.Join(plan.Warnings(cfg), "\n") }
	if got := said(); strings.Contains(got, dir) {
		t.Errorf("private: %q", got)
	}
	for _, path := range []string{password, key} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := said(); !strings.Contains(got, "every user of this machine may read or change "+path) ||
			strings.Contains(got, "sesame") {
			t.Errorf("%s: %q", path, got)
		}
	}
}
