package evaluator

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// classConfig knows the class pump with the streams count and time, the listed pump p1, and
// whatever is enrolled in the directory that it returns. Device d1 is of no class.
func classConfig(t testing.TB, programs ...config.Program) (cfg *config.Evaluator, dir string) {
	t.Helper()
	cfg, dir = testConfig(t, programs...), t.TempDir()
	cfg.Classes = []config.Class{{Name: "pump", Streams: []config.Stream{stream("count", 0),
		stream("time", time.Second)}}}
	cfg.Devices = append(cfg.Devices[:1], config.Device{Name: "p1", PublicKey: signer(t, "p1").PublicText(),
		Class: "pump"})
	cfg.Streams = cfg.Streams[:2]
	cfg.Streams[0].Name = "own"
	cfg.Enrolled = []string{dir}
	return cfg, dir
}

// enroll writes the file of a device.
func enroll(t testing.TB, dir, device string) {
	t.Helper()
	text := fmt.Sprintf("- name: %s\n  public_key: %s\n  class: pump\n", device, signer(t, device).PublicText())
	if err := os.WriteFile(filepath.Join(dir, device+".yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func forPump(name, expr string, inputs map[string]string) config.Program {
	return config.Program{Name: name, For: "pump", Expr: expr, Inputs: inputs}
}

// Each device of a class has results of its own, from one circuit; their signed headers name
// the device, and the numbers go on over all devices of the program. Other programs run
// beside.
func TestClassResults(t *testing.T) {
	for _, withStore := range []bool{false, true} {
		t.Run(fmt.Sprintf("store %t", withStore), func(t *testing.T) {
			cfg, dir := classConfig(t, forPump("each", "mean(x) - mean(prev(x))", map[string]string{"x": "count/temp"}),
				prog("own", "mean(x)", map[string]string{"x": "d1/own/temp"}))
			if withStore {
				cfg.Store = &config.Store{Dir: t.TempDir()}
				cfg.SetDefaults()
			}
			enroll(t, dir, "p2")
			r := newRig(t, cfg)
			send := func(device, stream string, seq uint64, mean float64) {
				r.sendWindow(r.window(device, stream, seq, epoch.Add(time.Duration(seq)*time.Minute),
					numbers(8, mean, 0), numbers(8, 0, 0)))
			}
			send("p1", "count", 1, 20)
			send("p2", "count", 1, 50)
			send("p2", "count", 2, 53)
			first := r.expect("each", 3)
			send("p1", "count", 2, 21)
			second := r.expect("each", 1)
			send("d1", "own", 1, 30)
			r.expect("own", 30)
			hash := r.service.plan.Programs[0].Circuit.Hash()
			for i, want := range []struct {
				m      transport.Meta
				device string
			}{{first.Meta, "p2"}, {second.Meta, "p1"}} {
				if want.m.Subject != want.device || want.m.Layout != hash || want.m.Sequence != uint64(i+1) ||
					len(want.m.Inputs) != 2 {
					t.Errorf("%+v", want.m)
				}
			}
			if st := r.service.State(); len(st.Programs) != 2 || st.Programs["each"].Results != 2 ||
				len(st.Devices) != 3 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A device that is enrolled while the service runs is taken from then on, and one that is
// removed is refused. What is wrong in a file is told once, and the other devices stay.
func TestEnrolledWhileItRuns(t *testing.T) {
	log := new(testrig.Log)
	cfg, dir := classConfig(t, forPump("each", "mean(x)", map[string]string{"x": "count/temp"}))
	r := newRig(t, cfg, func(d *Deps) { d.Logger = log.Logger() })
	roster := r.service.roster
	refresh := func() {
		t.Helper()
		if err := roster.refresh(); err != nil {
			t.Fatal(err)
		}
	}
	seq := uint64(0)
	send := func(device string) {
		seq++
		r.sendWindow(r.window(device, "count", seq, epoch.Add(time.Duration(seq)*time.Minute), numbers(8, 40, 0),
			numbers(8, 0, 0)))
	}
	send("p3")
	r.expectRefusal("unknown_signer")
	enroll(t, dir, "p3")
	refresh()
	send("p3")
	if got := r.expect("each", 40); got.Meta.Subject != "p3" {
		t.Errorf("%+v", got.Meta)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("- name: p4\n  class: pumps\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refresh()
	refresh()
	if n := strings.Count(log.String(), "an enrolled device is left out"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if h := r.service.Health(); !slices.ContainsFunc(h, func(s string) bool {
		return strings.Contains(s, "bad.yaml:1: ") && strings.Contains(s, "is missing")
	}) {
		t.Errorf("%q", h)
	}
	send("p3")
	r.expect("each", 40)
	for _, name := range []string{"bad.yaml", "p3.yaml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	refresh()
	if h := r.service.Health(); len(h) > 0 {
		t.Errorf("%q", h)
	}
	send("p3")
	r.expectRefusal("unknown_signer")
	send("p1")
	r.expect("each", 40)
	r.service.join.expire(time.Now())
	if n := len(r.service.join.streams); n != 1 { // of p1
		t.Errorf("%d histories", n)
	}
}

// The windows and results of a device's former class do not mix with those of its new one.
func TestClassChanges(t *testing.T) {
	cfg, _ := classConfig(t, forPump("diff", "mean(x) - mean(prev(x))", map[string]string{"x": "count/temp"}))
	plan, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &served{planned: &plan.Programs[0]}
	class, lost := "pump", 0
	j := newJoiner(4, time.Minute, nil, func(*window) { lost++ })
	j.class = func(string) string { return class }
	j.instances = func(class, device string) []*runnable { return []*runnable{{served: p, device: device}} }
	add := func(n int64) int {
		t.Helper()
		jobs, err := j.add(&window{stream: streamID{"p1", "count"}, place: place{7, n, 0}, at: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs)
	}
	if add(1) != 0 || add(2) != 1 {
		t.Error("windows of one class are not joined")
	}
	class = "tank"
	if add(3) != 0 {
		t.Error("a window was joined with one of another class")
	}
	class = ""
	if jobs, err := j.add(&window{stream: streamID{"p1", "count"}, place: place{7, 4, 0}}); err != nil || jobs != nil ||
		len(j.streams) != 0 {
		t.Errorf("%v, %v, %d histories", jobs, err, len(j.streams))
	}
	if lost == 0 {
		t.Error("nobody learns of the windows that were not used")
	}
}

// fleetOf enrolls n devices in one file and returns a configuration with three programs.
func fleetOf(t testing.TB, n int) *config.Evaluator {
	t.Helper()
	cfg, dir := classConfig(t, forPump("mean", "mean(x)", map[string]string{"x": "count/temp"}),
		forPump("var", "var(x)", map[string]string{"x": "count/temp"}),
		forPump("cov", "cov(x, y)", map[string]string{"x": "time/temp", "y": "time/load"}))
	for i := range cfg.Classes[0].Streams {
		cfg.Classes[0].Streams[i].Params = "edge13-d3"
	}
	cfg.Limits.Object = config.MiB
	var list strings.Builder
	for i := range n {
		key, err := transport.SigningKeyFromSeed(fmt.Appendf(nil, "%032d", i))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&list, "- name: pump%d\n  public_key: %s\n  class: pump\n", i, key.PublicText())
	}
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(list.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// A program for a class is compiled once, however many devices the class has, and serving
// all of them compiles nothing.
func TestOneCircuitForAClass(t *testing.T) {
	n := 0
	compileProgram = func(src program.Source, params henc.Parameters) (*program.Circuit, error) {
		n++
		return program.Compile(src, params)
	}
	t.Cleanup(func() { compileProgram = program.Compile })
	cfg := fleetOf(t, 2000)
	if err := CheckFiles(cfg, false); !strings.Contains(fmt.Sprint(err), "signing_key") {
		t.Fatal(err) // of these there are none
	}
	if n != 3 {
		t.Errorf("%d compilations of 3 programs", n)
	}
	plan, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	deps := &Deps{}
	p := newPipeline(cfg, plan, deps)
	if p.roster, err = newRoster(cfg, p.reporter); err != nil {
		t.Fatal(err)
	}
	p.makeSources()
	for i := range 2000 {
		w := &window{stream: streamID{fmt.Sprintf("pump%d", i), "count"}, place: place{1, 1, 0}, at: time.Now()}
		if jobs, err := p.join.add(w); err != nil || len(jobs) != 2 {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
	}
	if n != 6 {
		t.Errorf("%d compilations after 2000 devices, want 6", n)
	}
	for _, id := range []streamID{{"pump0", "count"}, {"pump1999", "time"}, {"p1", "count"}} {
		if src := p.source(id); src == nil || !p.roster.reads(id) {
			t.Errorf("%v is not read", id)
		}
	}
	if got := p.roster.readings(); !slices.Equal(got, []string{"hencedge/v1/up/+/count", "hencedge/v1/up/+/time"}) {
		t.Errorf("%q", got)
	}
	states, more := (&devices{roster: p.roster, said: map[string]*said{}}).deviceStates()
	if len(states) != maxStates || more != 2001-maxStates {
		t.Errorf("%d states and %d more", len(states), more)
	}
}

// Mistakes in the files of enrolled devices are faults of a check, and do not keep a service
// from starting.
func TestCheckEnrolled(t *testing.T) {
	cfg, dir := classConfig(t, forPump("each", "mean(x)", map[string]string{"x": "count/temp"}))
	enroll(t, dir, "p2")
	text := "- name: p1\n  public_key: " + signer(t, "p9").PublicText() + "\n  class: pump\n"
	if err := os.WriteFile(filepath.Join(dir, "q.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	err := CheckFiles(cfg, true)
	if !strings.Contains(fmt.Sprint(err), "q.yaml:1:1: the device \"p1\" is already listed") {
		t.Errorf("%v", err)
	}
	if err := CheckFiles(cfg, false); strings.Contains(fmt.Sprint(err), "q.yaml") {
		t.Errorf("%v", err)
	}
	cfg.Enrolled = []string{filepath.Join(dir, "absent")}
	if err := CheckFiles(cfg, false); !strings.Contains(fmt.Sprint(err), "enrolled[0]: stat ") {
		t.Errorf("%v", err)
	}
}

// BenchmarkCheck checks a configuration with 10,000 enrolled devices and three programs, as
// `evaluator check` does but for keys and files of its own.
func BenchmarkCheck(b *testing.B) {
	cfg := fleetOf(b, 10000)
	b.ResetTimer()
	for b.Loop() {
		faults := new(CheckError)
		compile(cfg, faults)
		checkEnrolled(cfg, true, faults)
		if err := faults.err(); err != nil {
			b.Fatal(err)
		}
	}
}
