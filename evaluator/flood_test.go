package evaluator

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/broker/mosquitto"
)

// crowd is a service without workers that serves a class of devices: the test hands windows
// over and works jobs off, one by one, so that nothing depends on speed.
type crowd struct {
	*rig
	s    *Service
	sent map[string]uint64 // windows that a device made

	mu      sync.Mutex
	results map[string]int // by device
}

// newCrowd enrolls devices of a class with two programs that run as a set, and leaves room
// for the windows of so many jobs. With places, windows of several devices are added up.
func newCrowd(t *testing.T, devices []string, room, places int) *crowd {
	t.Helper()
	cfg, dir := classConfig(t, forPump("temp", "mean(x)", map[string]string{"x": "count/temp"}),
		forPump("load", "mean(x)", map[string]string{"x": "count/load"}))
	for i := range cfg.Classes[0].Streams {
		cfg.Classes[0].Streams[i].Places = places
	}
	cfg.Store = &config.Store{Dir: t.TempDir()}
	cfg.SetDefaults()
	for _, d := range devices {
		enroll(t, dir, d)
	}
	c := &crowd{rig: newRig(t, cfg), sent: map[string]uint64{}, results: map[string]int{}} // for its keys
	cfg.Store.Dir, cfg.State = t.TempDir(), filepath.Join(t.TempDir(), "state")
	p := c.ctx.Parameters()
	cfg.Limits.Memory = config.Size(room * 8 * p.N() * p.LimbsAt(p.MaxLevel()))
	var err error
	if c.s, err = New(cfg, Deps{SigningKey: signer(t, "cloud"), Logger: testrig.Quiet(),
		Keys: []engine.Keys{{Context: c.ctx, Evaluation: c.keys}},
		OnResult: func(e Event) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.results[e.Meta.Subject]++
		}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.s.Close() })
	return c
}

// offer hands the next window of a device over and reports whether it is taken; if not, the
// device is told that the service is busy, and the window stays its next one.
func (c *crowd) offer(device string) bool {
	c.t.Helper()
	seq := c.sent[device] + 1
	sealed := c.seal(c.window(device, "count", seq, time.Unix(int64(seq), 0), numbers(8, 1, 1), numbers(8, 0, 0)))
	o := transport.Staged{Topic: transport.ReadingTopic(transport.DefaultPrefix, device, "count"), Sealed: sealed,
		ID: transport.ObjectID(sealed)}
	before := c.s.Stats()
	c.s.custody.take(c.t.Context(), o, c.s.custody.verify(o))
	after := c.s.Stats()
	if after.Accepted > before.Accepted {
		c.sent[device] = seq
		return true
	}
	if after.Refused["busy"] == before.Refused["busy"] {
		c.t.Fatalf("window %d of %s is neither taken nor told busy: %v", seq, device, after.Refused)
	}
	return false
}

// work works so many jobs off, or all that there are: so many at a time.
func (c *crowd) work(jobs, together int) {
	c.t.Helper()
	for jobs > 0 && len(c.s.jobs.turns) > 0 {
		var workers sync.WaitGroup
		for range min(jobs, together) {
			if len(c.s.jobs.turns) == 0 {
				break
			}
			jobs--
			j, _ := c.s.jobs.pop()
			workers.Go(func() {
				for _, one := range j.all() {
					if err := c.s.work(c.t.Context(), one); err != nil {
						c.t.Error(err)
					}
				}
			})
		}
		workers.Wait()
	}
}

// TestFloodOfOne: a device that sends a hundred times as much as each of 99 others, and more
// than the service can do, delays no window of theirs: each has its results after one job of
// every device. The flood gets what is left, is told busy beyond that, and loses nothing.
func TestFloodOfOne(t *testing.T) {
	t.Run("one by one", func(t *testing.T) { floodOfOne(t, 0, 1) })
	t.Run("windows added up", func(t *testing.T) { floodOfOne(t, 4, 25) })
}

func floodOfOne(t *testing.T, places, together int) {
	const flood = "flood"
	devices := []string{flood}
	for i := range 99 {
		devices = append(devices, fmt.Sprint("quiet", i))
	}
	c := newCrowd(t, devices, 256, places)
	told := 0
	for round := 1; round <= 2; round++ {
		for i, d := range devices {
			if !c.offer(flood) {
				told++
			}
			if i > 0 && !c.offer(d) {
				t.Errorf("round %d: a window of %s is refused", round, d)
			}
		}
		served := c.results[flood]
		c.work(len(devices), together)
		for _, d := range devices[1:] {
			if c.results[d] != 2*round { // of two programs
				t.Fatalf("round %d: %d results of %s after a job of every device", round, c.results[d], d)
			}
		}
		if c.results[flood] == served {
			t.Errorf("round %d: nothing of the flood is done", round)
		}
	}
	if told == 0 {
		t.Error("the flood was never told busy")
	}
	c.work(1000, together)
	if n := c.results[flood]; n != 2*int(c.sent[flood]) {
		t.Errorf("%d results of %d windows of the flood", n, c.sent[flood])
	}
	if !c.offer(flood) {
		t.Error("the flood is refused although there is room again")
	}
	s := c.s.Stats()
	if runs := s.Results / 2; places > 0 && s.Batches >= runs {
		t.Errorf("%d runs of %d windows: none were added up", s.Batches, runs)
	}
}

// TestFasterThanService: devices that send much faster than the service works, through either
// broker, find it slow: no window is refused or lost, and the memory for windows is small.
func TestFasterThanService(t *testing.T) {
	const each = 40
	for name, url := range map[string]func() string{
		"embedded":  func() string { return testrig.Broker(t, broker.Options{}).URL() },
		"mosquitto": func() string { return mosquitto.Start(t, nil, "allow_anonymous true\n").URL },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t, prog("one", "mean(x)", map[string]string{"x": "d1/count/temp"}),
				prog("two", "mean(x)", map[string]string{"x": "d2/count/temp"}))
			cfg.Limits.Memory = 2 * cfg.Limits.Object
			step := make(chan struct{})
			var first atomic.Int32
			r := newRigOn(t, cfg, url(), filepath.Join(t.TempDir(), "state.json"), func(d *Deps) {
				d.OnResult = func(Event) { first.Add(1); <-step }
			})
			var sealed [2][each][]byte
			for i, device := range []string{"d1", "d2"} {
				for n := range each {
					start := epoch.Add(time.Duration(n) * time.Minute)
					sealed[i][n] = r.seal(r.window(device, "count", uint64(n)+1, start, numbers(8, 20, 1),
						numbers(8, 0, 0.1)))
				}
			}
			var sent sync.WaitGroup
			for i, device := range []string{"d1", "d2"} {
				sent.Go(func() {
					for _, window := range sealed[i] {
						r.send(transport.ReadingTopic(transport.DefaultPrefix, device, "count"), window)
					}
				})
			}
			sent.Wait()
			testrig.Eventually(t, "the first results", func() bool { return first.Load() == int32(cfg.Workers) })
			close(step)
			for range 2 * each {
				testrig.Receive(t, "a result", r.results)
			}
			if s := r.service.Stats(); s.Accepted != 2*each || s.Failed != 0 || len(r.refused) != 0 {
				t.Errorf("%d windows accepted, %d results failed, %d refusals", s.Accepted, s.Failed, len(r.refused))
			}
		})
	}
}

// TestSessionBacklog: what the broker kept for streams that are subscribed to last does not
// hold up the others, however much it is, and none of it is refused for want of room.
func TestSessionBacklog(t *testing.T) {
	const kept = 300 // more than wait for a subscription
	cfg := testConfig(t, prog("one", "mean(x)", map[string]string{"x": "d1/count/temp"}),
		prog("two", "mean(x)", map[string]string{"x": "d2/count/temp"}))
	url, state := testrig.Broker(t, broker.Options{}).URL(), filepath.Join(t.TempDir(), "state.json")
	r := newRigOn(t, cfg, url, state)
	r.stop()
	for range kept {
		r.publish(transport.ReadingTopic(transport.DefaultPrefix, "d2", "count"), []byte("no chunk"))
	}
	r = newRigOn(t, cfg, url, state, func(d *Deps) { d.OnRefused = nil })
	testrig.Eventually(t, "all messages", func() bool { return r.service.Stats().Refused["malformed"] == kept })
	if n := r.service.Stats().Refused["limit"]; n != 0 {
		t.Errorf("%d messages refused for want of room", n)
	}
}
