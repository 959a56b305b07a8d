package chaos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// settle waits until n results more than before have come.
func (r *rig) settle(n int) {
	r.t.Helper()
	want := len(r.results()) + n
	for deadline := time.Now().Add(time.Minute); len(r.results()) < want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%d results, want %d\n%s", len(r.results()), want, r.logs())
		}
	}
}

// stop ends the agent in good order.
func (r *rig) stop() {
	r.t.Helper()
	if err := r.agent.end(syscall.SIGTERM, time.Minute); err != nil {
		r.t.Fatalf("the agent's stop: %v\n%s", err, r.logs())
	}
}

// A board whose state is an old copy, and whose clock is wrong besides, uses numbers
// again. It notices, leaves them, and nothing is lost or doubled.
func TestOldState(t *testing.T) {
	binary := build(t, false)
	l := shortLegs(t)[0]
	r := newRig(t, binary, l, 16*60)
	state, clock := filepath.Join(r.dir, "board/disk/agent.state"), filepath.Join(r.dir, "clock")
	r.start(r.broker, r.holder, r.evaluator, r.agent)
	r.settle(6)
	r.stop()
	old, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	boot := func() (n uint64) {
		t.Helper()
		b, err := os.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Boot uint64 `json:"boot_epoch"`
		}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		return f.Boot
	}
	first := boot()
	// The next start is that of a board without a clock, and so the one after it.
	if err := os.WriteFile(clock, []byte("-48h"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start(r.agent)
	r.settle(6)
	r.stop()
	if boot() != first+1 {
		t.Fatalf("boot epoch %d after %d", boot(), first)
	}
	if err := os.WriteFile(state, old, 0o600); err != nil {
		t.Fatal(err)
	}
	r.hurry()
	r.start(r.agent)
	if err := r.agent.wait(2 * time.Minute); err != nil {
		t.Errorf("the agent did not drain: %v", err)
	}
	for deadline := time.Now().Add(time.Minute); !r.complete() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	c := &count{samples: r.samples}
	r.judge(c)
	if boot() <= first+1 {
		t.Errorf("boot epoch %d, and %d was used", boot(), first+1)
	}
	text, err := os.ReadFile(r.agent.log)
	if err != nil || !strings.Contains(string(text), "another board uses this device's identity") {
		t.Errorf("nobody was told: %v", err)
	}
	if t.Failed() {
		t.Logf("%+v\n%s", c, r.logs())
	}
}
