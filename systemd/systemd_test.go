package systemd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
)

// The files that the packages ship are what install writes.
func TestFilesAreRendered(t *testing.T) {
	for _, r := range Roles() {
		want, err := Unit(r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(r.Name() + ".service")
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s.service is not what the template gives: run go generate ./systemd", r.Name())
		}
	}
}

func TestPathsAreChecked(t *testing.T) {
	got, err := Unit(Agent, Options{Binary: "/opt/hencedge/bin/hencedge", Config: "/srv/a.yaml"})
	if err != nil || !strings.Contains(got, "ExecStart=/opt/hencedge/bin/hencedge agent run --config /srv/a.yaml ") ||
		!strings.Contains(got, "ConditionPathExists=/srv/a.yaml\n") || strings.Contains(got, "/usr/bin/") {
		t.Fatalf("%v\n%s", err, got)
	}
	for _, bad := range []string{"hencedge", "/a b", "/a/../b", "/a%n", "/a;b", "/a\nExecStart=/bin/sh", "/ä",
		`/"a"`, "/$HOME"} {
		if _, err := Unit(Agent, Options{Binary: bad}); !errors.Is(err, ErrPath) {
			t.Errorf("binary %q: %v", bad, err)
		}
		if _, err := Unit(Evaluator, Options{Config: bad}); !errors.Is(err, ErrPath) {
			t.Errorf("config %q: %v", bad, err)
		}
	}
	if _, err := Unit("console", Options{}); err == nil {
		t.Error("a role that is no service was rendered")
	}
}

// directives are the settings of a unit, in order.
func directives(text string) map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			out[key] = append(out[key], value)
		}
	}
	return out
}

// What the service relies on, whatever else changes.
func TestUnitKeepsItsPromises(t *testing.T) {
	for _, r := range Roles() {
		text, err := Unit(r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := directives(text)
		for key, want := range map[string]string{
			"Type": "notify", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict",
			"PrivateDevices":         "yes",
			"MemoryDenyWriteExecute": "yes", "LimitCORE": "0", "MemorySwapMax": "0", "UMask": "0077", "User": r.Name(),
			"StateDirectory": "hencedge/" + string(r), "RestartPreventExitStatus": "2", "ProtectHome": "yes",
			"Restart": "always", "StartLimitIntervalSec": "0", "NotifyAccess": "main",
		} {
			if len(d[key]) != 1 || d[key][0] != want {
				t.Errorf("%s: %s is %q, want %q", r, key, d[key], want)
			}
		}
		bounds := []string{"WatchdogSec", "MemoryHigh", "MemoryMax", "TasksMax", "SystemCallFilter", "TimeoutStopSec"}
		if r == Agent {
			bounds = append(bounds, "CPUQuota")
		}
		for _, key := range bounds {
			if len(d[key]) == 0 {
				t.Errorf("%s: no %s", r, key)
			}
		}
		for _, other := range Roles() {
			if strings.Contains(Sysusers(r), "u "+other.Name()+" ") != (other == r) {
				t.Errorf("the users of %s are %q", r, Sysusers(r))
			}
		}
	}
}

// maxExposure bounds systemd's own rating, 0 to 10 (10 is worst). Network, local
// sockets and the machine's own file system are what remains.
const maxExposure = 1.2

func TestExposure(t *testing.T) {
	tool := testenv.Program(t, "systemd-analyze", "systemd-analyze")
	rating := regexp.MustCompile(`exposure level for [^:]*: ([0-9.]+)`)
	exposure := func(dir string, r Role) float64 {
		t.Helper()
		out, err := exec.Command(tool, "security", "--offline=true", "--no-pager",
			filepath.Join(dir, r.Name()+".service")).CombinedOutput()
		m := rating.FindSubmatch(out)
		if m == nil {
			t.Fatalf("%s: %v\n%s", r, err, out)
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, r := range Roles() {
		if v := exposure(".", r); v > maxExposure {
			t.Errorf("%s is rated %.1f, at most %.1f is allowed: see systemd-analyze security --offline=true "+
				"systemd/%s.service", r, v, maxExposure, r.Name())
		}
	}
	// With the GPU open the rating may rise, within reason.
	dir := t.TempDir()
	text, err := Unit(Evaluator, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// A drop-in counts as the end of its section.
	if err := os.WriteFile(filepath.Join(dir, Evaluator.Name()+".service"),
		[]byte(strings.Replace(text, "[Install]", DropIns()["gpu.conf"]+"\n[Install]", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if v := exposure(dir, Evaluator); v > 2 || v <= exposure(".", Evaluator) {
		t.Errorf("with the GPU it is rated %.1f", v)
	}
}
