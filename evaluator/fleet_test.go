package evaluator

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// fleetConfig is classConfig with three pumps.
func fleetConfig(t *testing.T, programs ...config.Program) *config.Evaluator {
	t.Helper()
	cfg, dir := classConfig(t, programs...)
	enroll(t, dir, "p2")
	enroll(t, dir, "p3")
	return cfg
}

// pumps sends windows of the pumps and remembers what was in them.
type pumps struct {
	*rig
	seq uint64
	all []float64
	ids [][32]byte
}

// send sends the window of an interval, n seconds after the epoch.
func (p *pumps) send(device string, n int, temp ...float64) {
	p.t.Helper()
	p.seq++
	w := p.window(device, "time", p.seq, epoch.Add(time.Duration(n)*time.Second), temp, numbers(len(temp), 0, 0))
	p.ids = append(p.ids, p.sendWindow(w))
	p.all = append(p.all, temp...)
}

// expectFleet waits for the results of an interval by program, and compares header and value.
// It forgets what was sent.
func (p *pumps) expectFleet(devices int, want map[string]func([]float64) float64) {
	p.t.Helper()
	seen := map[string]bool{}
	for range want {
		obj, got := p.result()
		m := &obj.Meta
		f := want[m.Program]
		if f == nil || seen[m.Program] || len(got) != 1 {
			p.t.Fatalf("a result of %s with %d values", m.Program, len(got))
		}
		seen[m.Program] = true
		if truth := f(p.all); !(math.Abs(got[0]-truth) <= m.Post.Bound) {
			p.t.Errorf("%s is %g, want %g within %g", m.Program, got[0], truth, m.Post.Bound)
		}
		ids := slices.Clone(m.Inputs)
		if f := m.Fleet; f == nil || int(f.Devices) != devices || int(f.Windows) != len(p.ids) ||
			int(f.Samples) != len(p.all) || f.Digest != transport.InputsDigest(p.ids) || len(ids) != len(p.ids) ||
			m.Subject != "" || m.End-m.Start != int64(time.Second) {
			p.t.Errorf("%s has the header %+v, fleet %+v; sent were %d windows with %d samples", m.Program, m, m.Fleet,
				len(p.ids), len(p.all))
		}
	}
	p.all, p.ids = nil, nil
}

// accepted waits until so many windows were taken and added.
func (p *pumps) accepted(n uint64) {
	p.t.Helper()
	testrig.Eventually(p.t, fmt.Sprintf("%d windows are taken", n), func() bool {
		return p.service.Stats().Accepted == n
	})
}

func doubled(v []float64) float64 { return 2*average(v) + 1 }

func total(v []float64) float64 { return average(v) * float64(len(v)) }

// One result for an interval over all devices of a class, whoever has more or less samples,
// beside results for each.
func TestFleetResults(t *testing.T) {
	in := map[string]string{"x": "time/temp"}
	for _, withStore := range []bool{false, true} {
		t.Run(fmt.Sprintf("store %t", withStore), func(t *testing.T) {
			cfg := fleetConfig(t, forPump("all", "2*fleet.mean(x) + 1", in), forPump("total", "fleet.sum(x)", in))
			if withStore {
				cfg.Store = &config.Store{Dir: t.TempDir()}
				cfg.SetDefaults()
			}
			p := &pumps{rig: newRig(t, cfg)}
			want := map[string]func([]float64) float64{"all": doubled, "total": total}
			p.send("p1", 0, numbers(8, 10, 1)...)
			p.send("p2", 0, numbers(8, 30, 2)...)
			p.send("p3", 0, numbers(8, 80, 0)...)
			p.expectFleet(3, want)
			// The second interval is the third one's too: neither waits for the other.
			p.send("p1", 2, 50)
			other := *p
			other.all, other.ids = nil, nil
			other.send("p3", 1, 1, 2, 3)
			other.send("p2", 1, numbers(8, 99, 0)...)
			other.send("p1", 1, numbers(8, 0, 5)...)
			other.expectFleet(3, want)
			p.seq = other.seq
			p.send("p2", 2, 0, 100)
			p.send("p3", 2, 7)
			p.expectFleet(3, want)
			if st := p.service.Stats(); st.Results != 6 || st.Failed != 0 || len(st.Refused) != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A device that is silent holds an interval up for the timeout. What it sends later, and what
// a device sends twice, is told and is in no result.
func TestFleetMissingLateTwice(t *testing.T) {
	in := map[string]string{"x": "time/temp"}
	for _, withStore := range []bool{false, true} {
		t.Run(fmt.Sprintf("store %t", withStore), func(t *testing.T) {
			cfg := fleetConfig(t, forPump("all", "fleet.sum(x)", in))
			dir := t.TempDir()
			if withStore {
				cfg.Store = &config.Store{Dir: dir}
				cfg.SetDefaults()
			}
			p := &pumps{rig: newRig(t, cfg)}
			sum := map[string]func([]float64) float64{"all": total}
			p.send("p1", 0, numbers(8, 10, 1)...)
			p.accepted(1)
			before := *p
			p.send("p1", 0, numbers(8, 90, 1)...) // the same interval again, with other samples
			p.expectRefusal("duplicate_window")
			p.all, p.ids = before.all, before.ids
			p.send("p2", 0, numbers(5, 30, 2)...)
			p.send("p2", 0, numbers(3, 40, 2)...) // cut in two
			p.accepted(4)
			p.service.closeIntervals(p.service.now().Add(cfg.Join.Timeout - time.Minute))
			if len(p.results) != 0 {
				t.Fatal("the interval was closed before its time")
			}
			p.service.closeIntervals(p.service.now().Add(cfg.Join.Timeout + time.Second))
			p.expectFleet(2, sum)
			p.send("p3", 0, numbers(8, 1, 0)...)
			p.expectRefusal("late_window")
			if h := strings.Join(p.service.Health(), "\n"); !strings.Contains(h, "1 duplicate_window") ||
				!strings.Contains(h, "1 late_window") {
				t.Errorf("health: %s", h)
			}
			p.all, p.ids = nil, nil
			for i := 1; i <= 3; i++ {
				p.send(fmt.Sprint("p", i), 1, numbers(8, 1, float64(i))...)
			}
			p.expectFleet(3, sum)
			if withStore {
				p.stop()
				windows, err := filepath.Glob(filepath.Join(dir, "inbox", "*.obj"))
				if err != nil || len(windows) != 0 {
					t.Errorf("%d windows are in the inbox: %v", len(windows), err)
				}
			}
		})
	}
}

// A stream that is only added up does not disturb programs that wait for windows of another.
func TestFleetBesideOthers(t *testing.T) {
	cfg := fleetConfig(t, forPump("all", "fleet.mean(x)", map[string]string{"x": "time/temp"}),
		forPump("change", "mean(x) - mean(prev(x))", map[string]string{"x": "count/temp"}))
	p := &pumps{rig: newRig(t, cfg)}
	count := func(seq uint64, mean float64) {
		p.sendWindow(p.window("p1", "count", seq, epoch.Add(time.Duration(seq)*time.Minute), numbers(8, mean, 0),
			numbers(8, 0, 0)))
	}
	count(1, 20)
	p.accepted(1)
	for i := 1; i <= 3; i++ {
		p.send(fmt.Sprint("p", i), 0, numbers(8, 10, float64(i))...)
	}
	p.expectFleet(3, map[string]func([]float64) float64{"all": average})
	count(2, 25)
	p.expect("change", 5)
}

// With a store, a sum goes on after a restart with the windows that it had, and each window is
// in one result.
func TestFleetRestart(t *testing.T) {
	in := map[string]string{"x": "time/temp"}
	dir, state := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := fleetConfig(t, forPump("all", "fleet.mean(x)", in), forPump("each", "mean(x) - mean(prev(x))", in))
	cfg.Store = &config.Store{Dir: dir}
	cfg.SetDefaults()
	mean := map[string]func([]float64) float64{"all": average}
	p := &pumps{rig: newRigAt(t, cfg, state)}
	again := func() {
		t.Helper()
		p.stop()
		p.rig = newRigAt(t, cfg, state)
	}
	taken := func() { // into the store
		t.Helper()
		id := p.ids[len(p.ids)-1]
		testrig.Eventually(t, "the window is taken", func() bool {
			return p.service.custody.(*stored).store.Windows.Known(id)
		})
	}
	for n := range 3 {
		p.send("p1", 10*n, numbers(8, 10, 1)...)
		taken()
		again()
		p.send("p2", 10*n, numbers(8, float64(20*n), 2)...)
		taken()
		again()
		p.send("p3", 10*n, numbers(8, 70, 0)...)
		p.expectFleet(3, mean)
		// The windows are still there for the other program, and the interval stays closed.
		again()
		if n == 0 {
			p.send("p2", 10*n, 1)
			p.expectRefusal("late_window")
			p.all, p.ids = nil, nil
		}
	}
	if len(p.results) != 0 {
		t.Errorf("%d more results", len(p.results))
	}
}
