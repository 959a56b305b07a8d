//go:build !evaluatoronly

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

const prometheusExamples = "../../config/examples/prometheus"

// TestRules: promtool takes the alert rules and the configuration, and each rule raises its
// alert when it should (hencedge.test.yml).
func TestRules(t *testing.T) {
	promtool := testenv.Program(t, "prometheus", "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"}, {"check", "rules", "hencedge.rules.yml"},
		{"test", "rules", "hencedge.test.yml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = prometheusExamples
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	var rules, tests string
	for name, text := range map[string]*string{"hencedge.rules.yml": &rules, "hencedge.test.yml": &tests} {
		b, err := os.ReadFile(filepath.Join(prometheusExamples, name))
		if err != nil {
			t.Fatal(err)
		}
		*text = string(b)
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	for _, a := range alerts {
		if !strings.Contains(tests, `alertname="`+a[1]+`"`) {
			t.Errorf("hencedge.test.yml does not try %s", a[1])
		}
	}
	if len(alerts) < 20 {
		t.Errorf("%d rules", len(alerts))
	}
}

// TestDashboards runs testdata/prometheus.
func TestDashboards(t *testing.T) {
	p := &promServer{program: testenv.Program(t, "prometheus", "prometheus"), address: testrig.FreeAddress(t)}
	cmds := (&services{all: map[string]*service{}}).commands()
	cmds["dashboards"] = p.checkDashboards
	testscript.Run(t, testscript.Params{Dir: "testdata/prometheus", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: cmds})
}

// promServer is a real Prometheus.
type promServer struct {
	program, address string
}

// checkDashboards is "dashboards AGENT EVALUATOR KEYHOLDER", the names of the roles that run:
// starts Prometheus for them and asks it what the rules and the dashboards ask.
func (p *promServer) checkDashboards(ts *testscript.TestScript, _ bool, args []string) {
	p.start(ts, args)
	p.await(ts, "rules", func() error { return p.rules() })
	for _, expr := range []string{`hencedge_result_value{program="mean", device="", unit!=""}`,
		`hencedge_result_bound{program="mean"} > 0`, `time() - hencedge_result_end_seconds{program="mean"} < 3600`} {
		p.await(ts, "last values", func() error { return p.hasData(expr) })
	}
	files, err := filepath.Glob("../../config/examples/grafana/*.json")
	ts.Check(err)
	files = slices.DeleteFunc(files, func(f string) bool { // that of a database, which keyholder/store tests
		return filepath.Base(f) == "results.json"
	})
	if len(files) != 3 {
		ts.Fatalf("dashboards: %q", files)
	}
	uids := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		ts.Check(err)
		var d dashboard
		ts.Check(json.Unmarshal(raw, &d))
		if d.UID == "" || d.Title == "" || uids[d.UID] || len(d.Panels) < 10 {
			ts.Fatalf("%s: uid %q, title %q, %d panels", file, d.UID, d.Title, len(d.Panels))
		}
		uids[d.UID] = true
		for _, panel := range d.Panels {
			if panel.Type != "row" && (panel.Description == "" || len(panel.Targets) == 0) {
				ts.Fatalf("%s: %q has no description or asks nothing", file, panel.Title)
			}
			for _, target := range panel.Targets {
				// An hour and a day are of no matter here, where Prometheus has run for seconds.
				expr := strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*", "[1h]", "[10s]",
					"[1d]", "[10s]").Replace(target.Expr)
				p.await(ts, d.Title+", "+panel.Title, func() error { return p.hasData(expr) })
			}
		}
	}
}

// dashboard is what the test reads of a dashboard of Grafana.
type dashboard struct {
	UID, Title string
	Panels     []struct {
		Type, Title, Description string
		Targets                  []struct{ Expr string }
	}
}

// start starts Prometheus with the example's configuration and the addresses of the roles, which
// their logs tell.
func (p *promServer) start(ts *testscript.TestScript, roles []string) {
	raw, err := os.ReadFile(filepath.Join(prometheusExamples, "prometheus.yml"))
	ts.Check(err)
	conf := strings.ReplaceAll(string(raw), "15s", "1s")
	rules, err := filepath.Abs(filepath.Join(prometheusExamples, "hencedge.rules.yml"))
	ts.Check(err)
	conf = strings.Replace(conf, "hencedge.rules.yml", rules, 1)
	targets := regexp.MustCompile(`targets: \["[a-z1-2.]*(example|127\.0\.0\.1):\d+".*?\]`)
	served := regexp.MustCompile(`metrics: served.* address=(\S+)`)
	i := 0
	lines := strings.Split(conf, "\n")
	for n, line := range lines {
		if strings.HasPrefix(line, "#") || !targets.MatchString(line) {
			continue
		}
		var at []string
		if !testrig.Poll(func() bool {
			at = served.FindStringSubmatch(readFile(ts, roles[i]+".stderr"))
			return at != nil
		}) {
			ts.Fatalf("%s does not say where its metrics are", roles[i])
		}
		lines[n] = targets.ReplaceAllString(line, fmt.Sprintf("targets: [%q]", at[1]))
		i++
	}
	if i != len(roles) {
		ts.Fatalf("prometheus.yml has targets for %d roles, want %d", i, len(roles))
	}
	ts.Check(os.WriteFile(ts.MkAbs("prometheus.yml"), []byte(strings.Join(lines, "\n")), 0o644))
	log, err := os.Create(ts.MkAbs("prometheus.log"))
	ts.Check(err)
	cmd := exec.Command(p.program, "--config.file="+ts.MkAbs("prometheus.yml"),
		"--storage.tsdb.path="+ts.MkAbs("tsdb"), "--web.listen-address="+p.address)
	cmd.Stdout, cmd.Stderr = log, log
	ts.Check(cmd.Start())
	ts.Defer(func() { cmd.Process.Kill(); cmd.Wait(); log.Close() })
	p.await(ts, "targets", func() error {
		var r struct {
			ActiveTargets []struct{ Health, LastError string }
		}
		if err := p.get("targets", &r); err != nil {
			return err
		}
		for _, target := range r.ActiveTargets {
			if target.Health != "up" {
				return fmt.Errorf("a target is %s: %s", target.Health, target.LastError)
			}
		}
		if len(r.ActiveTargets) != len(roles) {
			return fmt.Errorf("%d targets", len(r.ActiveTargets))
		}
		return nil
	})
}

// await waits until f succeeds.
func (p *promServer) await(ts *testscript.TestScript, what string, f func() error) {
	var err error
	if !testrig.Poll(func() bool { err = f(); return err == nil }) {
		ts.Fatalf("%s: %v", what, err)
	}
}

// rules fails unless Prometheus evaluates all rules.
func (p *promServer) rules() error {
	var r struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get("rules", &r); err != nil {
		return err
	}
	count := 0
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			count++
			if rule.Health != "ok" {
				return fmt.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if count < 20 {
		return fmt.Errorf("%d rules", count)
	}
	return nil
}

// hasData fails unless expr has a value.
func (p *promServer) hasData(expr string) error {
	var r struct{ Result []json.RawMessage }
	if err := p.get("query?query="+url.QueryEscape(expr), &r); err != nil {
		return fmt.Errorf("%s: %w", expr, err)
	}
	if len(r.Result) == 0 {
		return fmt.Errorf("%s has no data", expr)
	}
	return nil
}

// get asks Prometheus.
func (p *promServer) get(path string, data any) error {
	resp, err := http.Get("http://" + p.address + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return nil
}
