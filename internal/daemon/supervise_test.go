package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/testrig"
)

// role is a service that says what it is told to say.
type role struct {
	name   string
	online atomic.Bool
	ended  chan struct{}
	fails  error         // of Run, at once
	finish chan struct{} // closed: there is nothing more to do
	// lingers, unless nil, is how long the end takes.
	lingers chan struct{}
	stuck   atomic.Bool
	locked  sync.Mutex // what a hanging service does not give back
}

var desc = prometheus.NewDesc("hencedge_test_generation", "", []string{"name"}, nil)

func (r *role) Describe(ch chan<- *prometheus.Desc) { ch <- desc }
func (r *role) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, r.name)
}
func (r *role) Health() []string {
	if r.online.Load() {
		return nil
	}
	return []string{"offline"}
}
func (r *role) Status() any     { return map[string]string{"name": r.name} }
func (r *role) Connected() bool { return r.online.Load() }
func (r *role) Line() string {
	r.locked.Lock()
	defer r.locked.Unlock()
	return "this is " + r.name
}
func (r *role) Stalled() string {
	if r.stuck.Load() {
		return "the device hangs"
	}
	return ""
}
func (r *role) Run(ctx context.Context, ready func()) error {
	defer close(r.ended)
	if r.fails != nil {
		return r.fails
	}
	ready()
	select {
	case <-ctx.Done():
	case <-r.finish:
	}
	if r.lingers != nil {
		<-r.lingers
	}
	return nil
}

var _ Service = (*role)(nil)

// stage is a supervisor in a test. next is what Load gives; runs are the
// services in the order in which they were made.
type stage struct {
	*Supervisor
	reload   chan string
	socket   string
	messages chan string // to the service manager

	mu   sync.Mutex
	next func() (*Candidate, error)
	runs []*role
	log  strings.Builder
}

func (s *stage) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

func (s *stage) candidate(name string, change ...func(*Candidate)) {
	c := &Candidate{Hash: name, Stop: time.Second, Control: s.socket, Log: slog.New(slog.NewTextHandler(s, nil)),
		Open: func() (Service, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, r := range s.runs {
				select {
				case <-r.ended:
				default:
					return nil, fmt.Errorf("%s is opened while %s runs", name, r.name)
				}
			}
			r := &role{name: name, ended: make(chan struct{}), finish: make(chan struct{})}
			r.online.Store(name != "offline")
			if name == "broken" {
				return nil, errors.New("it does not open")
			}
			if name == "stillborn" {
				r.fails = errors.New("the port is taken")
			}
			if name == "slow" {
				r.lingers = make(chan struct{})
			}
			s.runs = append(s.runs, r)
			return r, nil
		}}
	for _, f := range change {
		f(c)
	}
	s.load(func() (*Candidate, error) { return c, nil })
}

func (s *stage) load(f func() (*Candidate, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = f
}

func (s *stage) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.runs {
		out = append(out, r.name)
	}
	return out
}

func newStage(t *testing.T) *stage {
	dir := t.TempDir()
	s := &stage{reload: make(chan string), socket: filepath.Join(dir, "control.sock"),
		messages: make(chan string, 10000)}
	go s.hear(manager(t, filepath.Join(dir, "notify")))
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "notify"))
	t.Setenv("WATCHDOG_USEC", "100000")
	t.Setenv("WATCHDOG_PID", "")
	s.Supervisor = &Supervisor{Role: "agent", Version: "v1", Notify: NewNotifier(), Reload: s.reload,
		Load: func() (*Candidate, error) {
			s.mu.Lock()
			f := s.next
			s.mu.Unlock()
			return f()
		}}
	return s
}

// start runs the supervisor; end stops it and gives its error.
func (s *stage) start(t *testing.T) (end func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() error {
		cancel()
		return testrig.Receive(t, "the end of the supervisor", done)
	}
}

// hear reads the messages at once, as a manager does. The kernel keeps only a few of them,
// and who sends another then waits.
func (s *stage) hear(c *net.UnixConn) {
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		s.messages <- string(b[:n])
	}
}

// await goes through the manager's messages until one holds text.
func (s *stage) await(t *testing.T, text string) string {
	t.Helper()
	for range 1000 {
		if m := testrig.Receive(t, text, s.messages); strings.Contains(m, text) {
			return m
		}
	}
	t.Fatalf("the manager never heard %q", text)
	return ""
}

// silence hears the manager's messages for longer than the watchdog waits and
// reports whether none of them was a sign of life.
func (s *stage) silence(t *testing.T) bool {
	t.Helper()
	end := time.After(3 * s.Notify.Watchdog())
	for {
		select {
		case m := <-s.messages:
			if strings.Contains(m, "WATCHDOG=1") {
				return false
			}
		case <-end:
			return true
		}
	}
}

// A service that hangs, in a lock or in a device, is not reported alive, so that
// the watchdog ends it; one that gets on again is.
func TestWatchdogIsNotFedByAHang(t *testing.T) {
	s := newStage(t)
	s.candidate("first")
	end := s.start(t)
	s.await(t, "WATCHDOG=1")
	r := s.runs[0]
	r.stuck.Store(true)
	if m := s.await(t, "STATUS=stalled: the device hangs"); strings.Contains(m, "WATCHDOG=1") {
		t.Errorf("it stalled, and %q", m)
	}
	if !s.silence(t) {
		t.Error("a stalled service was reported alive")
	}
	r.stuck.Store(false)
	s.await(t, "WATCHDOG=1")
	r.locked.Lock()
	for range 2 { // what was on its way
		_ = s.silence(t)
	}
	if !s.silence(t) {
		t.Error("a service that hangs in a lock was reported alive")
	}
	r.locked.Unlock()
	s.await(t, "WATCHDOG=1")
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// A service that has nothing more to do waits where a service manager would start it
// again and with it all that it has done; a reload gives it more. Without a manager
// it ends.
func TestFinishedServiceWaits(t *testing.T) {
	s := newStage(t)
	s.candidate("offline")
	end := s.start(t)
	s.await(t, "READY=1\nSTATUS=this is offline")
	close(s.runs[0].finish)
	s.await(t, "READY=1\nSTATUS=finished: this is offline")
	s.await(t, "WATCHDOG=1")
	if b, err := Ask(t.Context(), s.socket, "/healthz"); err != nil || !strings.Contains(string(b), `"ok":true`) {
		t.Errorf("%v: %s", err, b)
	}
	s.candidate("more")
	if err := Reload(t.Context(), s.socket); err != nil {
		t.Fatal(err)
	}
	s.await(t, "READY=1\nSTATUS=this is more")
	close(s.runs[1].finish)
	s.await(t, "READY=1\nSTATUS=finished: this is more")
	if err := end(); err != nil {
		t.Fatal(err)
	}
	s.await(t, "STATUS=stopped")

	s.Notify = &Notifier{}
	s.candidate("alone")
	end = s.start(t)
	testrig.Eventually(t, "the third run", func() bool { return len(s.names()) >= 3 })
	close(s.runs[2].finish)
	<-s.runs[2].ended
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if got := s.names(); !slices.Equal(got, []string{"offline", "more", "alone"}) {
		t.Errorf("services %v", got)
	}
}

// The line of systemctl status follows the connection at once, not only when it is
// due.
func TestStatusFollowsTheConnection(t *testing.T) {
	defer func(every time.Duration) { statusEvery = every }(statusEvery)
	statusEvery = time.Hour
	s := newStage(t)
	t.Setenv("NOTIFY_SOCKET", s.Notify.address)
	t.Setenv("WATCHDOG_USEC", "")
	s.Notify = NewNotifier()
	s.candidate("offline")
	end := s.start(t)
	s.await(t, "READY=1")
	s.runs[0].online.Store(true)
	s.await(t, "STATUS=this is offline")
	// After a reload the line is that of another service, which begins without one.
	s.reload <- "SIGHUP"
	s.await(t, "READY=1\nSTATUS=this is offline")
	s.runs[1].online.Store(true)
	s.await(t, "STATUS=this is offline")
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func TestPulse(t *testing.T) {
	var p Pulse
	if what, took := p.Oldest(); what != "" || took != 0 {
		t.Errorf("nothing: %q, %v", what, took)
	}
	first := p.Begin("first")
	time.Sleep(2 * time.Millisecond)
	second := p.Begin("second")
	if what, took := p.Oldest(); what != "first" || took < 2*time.Millisecond {
		t.Errorf("%q, %v", what, took)
	}
	if text := p.Stalled(time.Millisecond, "%s takes %v"); text != "first takes 0s" {
		t.Errorf("stalled: %q", text)
	}
	if text := p.Stalled(time.Hour, "%s takes %v"); text != "" {
		t.Errorf("not stalled: %q", text)
	}
	first()
	if what, _ := p.Oldest(); what != "second" {
		t.Errorf("%q", what)
	}
	second()
	if what, _ := p.Oldest(); what != "" || len(p.open) != 0 {
		t.Errorf("%q is left", what)
	}
}

func TestReload(t *testing.T) {
	s := newStage(t)
	s.candidate("one")
	end := s.start(t)
	s.await(t, "READY=1\nSTATUS=this is one")
	s.await(t, "WATCHDOG=1")

	// A bad configuration changes nothing and is told everywhere.
	s.load(func() (*Candidate, error) { return nil, errors.New("line 3 is wrong\nand more") })
	s.reload <- "SIGHUP"
	s.await(t, "RELOADING=1")
	if m := s.await(t, "READY=1"); !strings.Contains(m, "line 3 is wrong") || strings.Contains(m, "and more") {
		t.Errorf("%q", m)
	}
	var st SupervisorStatus
	b, err := Ask(t.Context(), s.socket, "/status")
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil || st.Healthy || st.State != "running" || st.Config != "one" || st.LastReload == nil ||
		st.LastReload.OK ||
		!strings.Contains(st.LastReload.Error, "and more") || !strings.Contains(fmt.Sprint(st.Service), "one") {
		t.Errorf("%v: %s", err, b)
	}
	if _, err := Ask(t.Context(), s.socket, "/healthz"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a refused reload is healthy: %v", err)
	}

	// The same when somebody asks over the socket.
	if err := Reload(t.Context(), s.socket); !errors.Is(err, ErrReload) || !strings.Contains(err.Error(),
		"line 3 is wrong\nand more") {
		t.Errorf("%v", err)
	}

	// A good one ends the old service before it starts the new one.
	s.candidate("two")
	if err := Reload(t.Context(), s.socket); err != nil {
		t.Errorf("%v", err)
	}
	s.await(t, "READY=1\nSTATUS=this is two")
	if b, err := Ask(t.Context(), s.socket, "/metrics"); err != nil || !strings.Contains(string(b),
		`hencedge_test_generation{name="two"} 1`) || strings.Contains(string(b), "one") {
		t.Errorf("%v: %s", err, b)
	}
	if b, err := Ask(t.Context(), s.socket, "/healthz"); err != nil || !strings.Contains(string(b), `"ok":true`) {
		t.Errorf("%v: %s", err, b)
	}

	// One that passes the check and does not open gives way to the one before.
	s.candidate("broken")
	if err := Reload(t.Context(), s.socket); !errors.Is(err, ErrReload) || !strings.Contains(err.Error(),
		"does not open") {
		t.Errorf("%v", err)
	}
	s.await(t, "READY=1\nSTATUS=this is two; the last reload was refused")
	if err := end(); err != nil {
		t.Error(err)
	}
	s.await(t, "STOPPING=1")
	s.await(t, "STATUS=stopped")
	if got := s.names(); !slices.Equal(got, []string{"one", "two", "two"}) {
		t.Errorf("services %v", got)
	}
	if _, err := os.Stat(s.socket); err == nil {
		t.Error("the socket is left behind")
	}
}

func TestTrial(t *testing.T) {
	s := newStage(t)
	var confirmed, failed atomic.Int32
	onTrial := func(c *Candidate) {
		c.Trial = time.Minute
		if c.Hash == "offline" {
			c.Trial = 50 * time.Millisecond
		}
		c.Confirmed = func() error { confirmed.Add(1); return nil }
		c.Failed = func(error) { failed.Add(1) }
	}
	s.candidate("one")
	end := s.start(t)
	s.await(t, "STATUS=this is one")
	s.candidate("good", onTrial)
	s.reload <- "remote"
	s.await(t, "READY=1\nSTATUS=this is good")
	testrig.Eventually(t, "a confirmation", func() bool { return confirmed.Load() > 0 })
	s.candidate("offline", onTrial)
	s.reload <- "remote"
	s.await(t, "READY=1\nSTATUS=this is offline")
	s.await(t, "READY=1\nSTATUS=this is good; the last reload was refused")
	if err := end(); err != nil {
		t.Error(err)
	}
	if confirmed.Load() != 1 || failed.Load() != 1 {
		t.Errorf("%d confirmed, %d failed", confirmed.Load(), failed.Load())
	}
	if got := s.names(); !slices.Equal(got, []string{"one", "good", "offline", "good"}) {
		t.Errorf("services %v", got)
	}
}

// A reload has succeeded when the new service works, not when it was made: one that ends
// before is undone, and who asked is told.
func TestReloadThatEndsAtOnce(t *testing.T) {
	s := newStage(t)
	s.candidate("one")
	end := s.start(t)
	s.await(t, "READY=1\nSTATUS=this is one")
	s.candidate("stillborn")
	if err := Reload(t.Context(), s.socket); !errors.Is(err, ErrReload) || !strings.Contains(err.Error(),
		"the port is taken") {
		t.Errorf("%v", err)
	}
	s.await(t, "READY=1\nSTATUS=this is one; the last reload was refused")
	if err := end(); err != nil {
		t.Error(err)
	}
	if got := s.names(); !slices.Equal(got, []string{"one", "stillborn", "one"}) {
		t.Errorf("services %v", got)
	}
}

// A reload in the middle of a trial starts the trial again. What it goes back to is not
// what was on trial.
func TestReloadDuringTrial(t *testing.T) {
	s := newStage(t)
	s.candidate("one")
	end := s.start(t)
	s.await(t, "STATUS=this is one")
	s.candidate("offline", func(c *Candidate) { c.Trial = time.Hour })
	if err := Reload(t.Context(), s.socket); err != nil {
		t.Fatal(err)
	}
	s.candidate("offline", func(c *Candidate) { c.Trial = 20 * time.Millisecond })
	if err := Reload(t.Context(), s.socket); err != nil {
		t.Fatal(err)
	}
	s.await(t, "READY=1\nSTATUS=this is one; the last reload was refused")
	if err := end(); err != nil {
		t.Error(err)
	}
	if got := s.names(); !slices.Equal(got, []string{"one", "offline", "offline", "one"}) {
		t.Errorf("services %v", got)
	}
}

// A service that has ended is not held while the next one is made, whose keys need the
// room.
func TestReloadLetsGo(t *testing.T) {
	s := newStage(t)
	var before weak.Pointer[role]
	held := false
	made := 0
	s.load(func() (*Candidate, error) {
		return &Candidate{Control: s.socket, Log: testrig.Quiet(), Open: func() (Service, error) {
			runtime.GC()
			held = held || before.Value() != nil
			made++
			r := &role{name: fmt.Sprint("number ", made), ended: make(chan struct{})}
			before = weak.Make(r)
			return r, nil
		}}, nil
	})
	end := s.start(t)
	s.await(t, "READY=1")
	for range 2 {
		if err := Reload(t.Context(), s.socket); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := Ask(t.Context(), s.socket, "/status"); err != nil || !strings.Contains(string(b), "number 3") {
		t.Errorf("%v: %s", err, b)
	}
	if err := end(); err != nil || held || made != 3 {
		t.Errorf("%v, %d made, an earlier one is held: %v", err, made, held)
	}
}

// The end that a reload begins with may take its whole stop time, and so may a stop that
// comes in the middle of it: the service manager is asked for both.
func TestReloadTakesItsTime(t *testing.T) {
	s := newStage(t)
	s.candidate("slow", func(c *Candidate) { c.Stop = 10 * time.Minute })
	end := s.start(t)
	s.await(t, "READY=1\nSTATUS=this is slow")
	asked := make(chan error, 1)
	go func() { asked <- Reload(context.Background(), s.socket) }()
	s.await(t, "RELOADING=1")
	s.await(t, "EXTEND_TIMEOUT_USEC=615000000")
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	s.await(t, "STOPPING=1\nEXTEND_TIMEOUT_USEC=615000000")
	s.runs[0].lingers <- struct{}{}
	if err := testrig.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
	if err := <-asked; !errors.Is(err, ErrReload) || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("%v", err)
	}
}

func TestFirstStartFails(t *testing.T) {
	s := newStage(t)
	s.candidate("broken")
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "does not open") {
		t.Error(err)
	}
	s.await(t, "STATUS=failed: it does not open")
	s.load(func() (*Candidate, error) { return nil, io.ErrUnexpectedEOF })
	if err := s.Run(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// A socket that a killed process left is replaced, one in use and a file are not.
func TestSocketIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	stop, err := ServeMetrics("unix:"+path, &role{name: "x"}, testrig.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := ServeMetrics("unix:"+path, &role{}, testrig.Quiet()); err == nil {
		t.Error("a socket in use was taken over")
	}
	stop()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ServeMetrics("unix:"+path, &role{}, testrig.Quiet()); err == nil {
		t.Error("a file was replaced by a socket")
	}
}

// A process that has not yet accepted those who wait is alive: its socket stays.
func TestBusySocketIsNotTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for full := false; !full; {
		c, err := net.Dial("unix", path)
		if full = err != nil; !full {
			defer c.Close()
		}
	}
	if _, err := ServeMetrics("unix:"+path, &role{}, testrig.Quiet()); err == nil ||
		!strings.Contains(err.Error(), "may be in use") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the socket was removed")
	}
}

func TestHealthOverTCP(t *testing.T) {
	address := testrig.FreeAddress(t)
	stop, err := ServeMetrics(address, &role{name: "x"}, testrig.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for page, want := range map[string]int{"/metrics": 200, "/healthz": 503, "/status": 404, "/": 404} {
		resp, err := http.Get("http://" + address + page)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", page, resp.Status, want)
		}
	}
}

// What every service exports keeps to Prometheus' conventions, and tells of a refused
// reload at every place where metrics are served.
func TestSupervisorMetrics(t *testing.T) {
	s := &Supervisor{Role: "agent", Version: "v1"}
	s.use(&Candidate{Log: testrig.Quiet()}, &role{name: "a"}, "running")
	s.setReason("SIGHUP")
	s.refused(errors.New("line 3: no"))
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(s); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(slices.DeleteFunc(slices.Clone(families),
		func(f *dto.MetricFamily) bool { return f.GetName() == "hencedge_test_generation" })).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	got := map[string]float64{}
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	if got["hencedge_info"] != 1 || got["hencedge_reload_success"] != 0 ||
		got["hencedge_reload_timestamp_seconds"] < 1e9 || got["hencedge_health_problems"] != 2 {
		t.Errorf("got %v", got)
	}
}
