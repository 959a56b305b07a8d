package alert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// manager is a real Alertmanager.
type manager struct {
	path, dir, address string
	cmd                *exec.Cmd
	log                bytes.Buffer
}

func startManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{path: testenv.Program(t, "alertmanager", "prometheus-alertmanager"), dir: t.TempDir(),
		address: testrig.FreeAddress(t)}
	const conf = "route: {receiver: none, group_wait: 1s}\nreceivers: [{name: none}]\n"
	if err := os.WriteFile(filepath.Join(m.dir, "am.yaml"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	m.start(t)
	t.Cleanup(m.kill)
	return m
}

func (m *manager) start(t *testing.T) {
	t.Helper()
	m.cmd = exec.Command(m.path, "--config.file="+filepath.Join(m.dir, "am.yaml"), "--storage.path="+m.dir,
		"--web.listen-address="+m.address, "--cluster.listen-address=")
	m.cmd.Stderr = &m.log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "an Alertmanager", func() bool {
		resp, err := http.Get("http://" + m.address + "/-/ready")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

func (m *manager) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// firing returns the active alerts as "hot/board1 critical".
func (m *manager) firing(t *testing.T) (out []string) {
	t.Helper()
	resp, err := http.Get("http://" + m.address + "/api/v2/alerts?active=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list []struct {
		Labels, Annotations map[string]string
		StartsAt            time.Time
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Annotations["summary"] == "" || a.Labels["holder"] != "home" || a.Labels["program"] != "mean" {
			t.Errorf("got %+v", a)
		}
		out = append(out, a.Labels["alertname"]+"/"+a.Labels["device"]+" "+a.Labels["severity"])
	}
	return out
}

// A real Alertmanager shows the alarms that fire, and after its restart too. What it has not
// heard while it was away comes afterwards.
func TestRealAlertmanager(t *testing.T) {
	m := startManager(t)
	cfg := configured(t, "  rules: [{name: hot, program: mean, when: value > 80, severity: critical}]\n"+
		"  receivers: [{name: am, alertmanager: {url: \"http://"+m.address+"\"}}]\n")
	b := newBench(t, cfg)
	b.Close()
	open := func() {
		var err error
		if b.Alarms, err = Open(Options{Config: cfg, Holder: "home", State: b.file, Logger: b.log.Logger(),
			RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	open()
	shows := func(want ...string) {
		t.Helper()
		var got []string
		if !testrig.Poll(func() bool { got = m.firing(t); return fmt.Sprint(got) == fmt.Sprint(want) }) {
			t.Fatalf("it shows %q, want %q", got, want)
		}
	}
	b.take(t, window("board1", 0, 0.25, 81.5), window("board2", 0, 0.25, 70))
	b.deliver(t)
	shows("hot/board1 critical")
	m.kill()
	m.start(t)
	shows()
	if err := b.lanes[0].to.(refresher).refresh(t.Context(), b.told("am")); err != nil {
		t.Fatal(err)
	}
	shows("hot/board1 critical")
	// While it is away, one alarm ends and another begins.
	m.kill()
	b.take(t, window("board1", 1, 0.25, 70), window("board2", 1, 0.25, 90))
	if !testrig.Poll(func() bool { b.lanes[0].deliver(t.Context(), b.queue[0]); return b.counts.failed["am"] > 0 }) ||
		len(b.queue) != 2 {
		t.Fatalf("%d events wait", len(b.queue))
	}
	b.Close()
	m.start(t)
	open()
	b.deliver(t)
	shows("hot/board2 critical")
}
