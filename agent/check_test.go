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
	"github.com/hencedge/hencedge/transport"
)

// Every mistake is told with its place, by the check and at the start.
func TestCheckNamesThePlace(t *testing.T) {
	s := newSite(t)
	text, err := os.ReadFile(filepath.Join(s.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	spoilSite(t, s.dir)
	for name, c := range misplaced {
		path := filepath.Join(s.dir, "changed.yaml")
		if err := os.WriteFile(path, []byte(c.text(t, name, string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.LoadAgent(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = plan.Check(cfg, Deps{Logger: testrig.Quiet()}.options())
		var all *config.Errors
		if !errors.As(err, &all) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in\n%v", name, want, err)
			}
		}
		if a, err := New(cfg, Deps{Logger: testrig.Quiet()}); err == nil {
			a.Close()
			t.Errorf("%s: New accepts what Check refuses", name)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "agent.state")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state file was made: %v", err)
	}
}

// mistake changes the text or the files of a working site, and names the errors that must
// come, as "line: text".
type mistake struct {
	from, to string
	want     []string
}

var misplaced = map[string]mistake{
	"parameters": {"edge12-d1", "edge12-d9", []string{"10:13: streams[0].params", "use one of edge12-add"}},
	"insecure":   {"edge12-d1", "bench-paper16-insecure", []string{"10:13: streams[0].params"}},
	"slots": {"samples: 8", "samples: 1024",
		[]string{"12:7: streams[0].channels", "3072 slots", "edge12-d1 has 2048", "at most 512 samples"}},
	"level":      {"level: 0", "level: 2", []string{"19:12: streams[1].level", "no level 2", "from 0 to 1"}},
	"scale":      {"level: 0", "level: 0\n    log_scale: 40", []string{"20:16: streams[1].log_scale"}},
	"public key": {"public.key", "none.key", []string{"3:20: keys.public_key", "no such file"}},
	"not a key":  {"public.key", "ca.pem", []string{"3:20: keys.public_key", "ca.pem"}},
	"key of other set": {"edge12-d1", "edge13-d3",
		[]string{"3:20: keys.public_key", "the public key is for edge12-d1, not for edge13-d3",
			"write the key's parameters into the streams"}},
	"directory": {"public.key", ".",
		[]string{"3:20: keys.public_key", "it is a directory", "name the file in it"}},
	"loose public key": {"public.key", "loose.public",
		[]string{"3:20: keys.public_key", "can change it", "chmod go-w "}},
	"loose secret": {"{public_key: public.key", "{mode: symmetric, secret_key: loose.secret",
		[]string{"3:37: keys.secret_key", "chmod go-rwx"}},
	"odd secret": {"{public_key: public.key", "{mode: symmetric, secret_key: odd.secret",
		[]string{"3:37: keys.secret_key", "chmod go-rwx"}},
	"loose signing key": {"signing_key: signing.key", "signing_key: loose.key", []string{"4:14: signing_key"}},
	"no signing key": {"signing_key: signing.key", "signing_key: gone/none.key",
		[]string{"4:14: signing_key", "does not exist; make it"}},
	"ca":              {"ca: ca.pem", "ca: password", []string{"broker.ca", "password"}},
	"client cert":     {"cert: client.pem", "cert: none.pem", []string{"broker.cert", "none.pem"}},
	"password":        {"file:password", "file:nothing", []string{"broker.password", "nothing"}},
	"state":           {"agent.state", "foreign.state", []string{"5:8: state", `belongs to the device "x"`}},
	"state directory": {"agent.state", "none/agent.state", []string{"5:8: state", "does not exist"}},
	"sensor": {"source: {type: load}", "source: {type: thermal, zone: reactor}, on_missing: skip", []string{
		"14:60: streams[0].channels[2].source", "reactor", "agent discover"}},
	"replay file": {"interval: 30ms", "replay: {file: none.csv, time: t}",
		[]string{"streams[0].replay.file", "none.csv"}},
	"replay column": {"interval: 30ms", "replay: {file: bad.csv, time: t}",
		[]string{"8:13: streams[0].replay", `no column "v2"; there are "t", "v"`}},
}

// text returns the text of a site with the mistake.
func (m mistake) text(t *testing.T, name, text string) string {
	t.Helper()
	changed := strings.ReplaceAll(text, m.from, m.to)
	if changed == text {
		t.Fatalf("%s: nothing to change", name)
	}
	if strings.HasPrefix(name, "replay") {
		for _, src := range []string{"{type: cpu}", "{type: memory}", "{type: load}"} {
			changed = strings.Replace(changed, src, "{type: replay, column: v2}", 1)
		}
	}
	if name == "sensor" {
		changed = strings.Replace(changed, `unit: "1"`, "unit: degC", 1)
	}
	return changed
}

// spoilSite adds files with wrong modes or contents, which mistakes name.
func spoilSite(t *testing.T, dir string) {
	t.Helper()
	other, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	_ = other.Save(filepath.Join(dir, "loose.key"))
	for name, mode := range map[string]os.FileMode{"loose.key": 0o644, "loose.secret": 0o640, "odd.secret": 0o610,
		"loose.public": 0o666} {
		if name != "loose.key" {
			_ = os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.WriteFile(filepath.Join(dir, "foreign.state"), []byte(`{"version":1,"device":"x","boot_epoch":1}`), 0o600)
	_ = os.WriteFile(filepath.Join(dir, "bad.csv"), []byte("t,v\n"), 0o600)
}

// Mistakes of several kinds come together.
func TestCheckReportsAll(t *testing.T) {
	cfg := testConfig(t)
	cfg.Streams[0].Level = new(9)
	cfg.State = filepath.Join(t.TempDir(), "none", "state")
	cfg.SigningKey = filepath.Join(t.TempDir(), "none", "signing.key")
	cfg.Broker.CA = "none.pem"
	cfg.Broker.URL = "tls://h"
	err := plan.Check(cfg, Deps{Logger: testrig.Quiet(), Root: "testdata/board"}.options())
	var all *config.Errors
	if !errors.As(err, &all) || len(all.List) != 5 {
		t.Fatalf("got %v", err)
	}
	for i, want := range []string{"keys.public_key", "signing_key", "streams[0].level", "broker.ca", "state"} {
		if all.List[i].Path != want || all.List[i].Remedy == "" {
			t.Errorf("error %d is %v, want %s", i, all.List[i], want)
		}
	}
}

// One mistake does not hide another: with unknown parameters, or a window that does not
// fit, keys, sensors, secrets and directories are looked at all the same.
func TestCheckFindsAllAtOnce(t *testing.T) {
	s := newSite(t)
	text, err := os.ReadFile(filepath.Join(s.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string][2]string{"parameters": {"edge12-d1", "edge12-d9"},
		"slots": {"samples: 8", "samples: 1024"}} {
		t.Setenv("HENCEDGE_TEST_NO_SECRET", "")
		changed := strings.NewReplacer(first[0], first[1], "public.key", "none.key", "source: {type: load}",
			"source: {type: disk, device: reactor, field: reads}, on_missing: skip",
			`unit: "1"`, "unit: 1/s", "file:password", "env:HENCEDGE_TEST_NO_SECRET", "agent.state",
			"none/agent.state").Replace(string(text))
		path := filepath.Join(s.dir, "changed.yaml")
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.LoadAgent(path)
		if err != nil {
			t.Fatal(err)
		}
		err = plan.Check(cfg, Deps{Logger: testrig.Quiet()}.options())
		if err == nil {
			t.Fatal("nothing found")
		}
		for _, want := range []string{first[1][len("samples: "):], "keys.public_key", "reactor",
			"set HENCEDGE_TEST_NO_SECRET in the environment", "the directory"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in\n%v", name, want, err)
			}
		}
	}
}
