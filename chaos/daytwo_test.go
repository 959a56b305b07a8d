package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dayTwo is a row of the table in docs/operations.md: what a loss, a move or an old copy
// of a directory costs, and who says so.
type dayTwo struct {
	name  string
	short bool // played by every go test
	do    func(r *rig)
	// lost and again are the most samples of each program that may be in no result, and in
	// several: what the table says.
	lost, again int
	disordered  bool
	told        map[string]string // by process: what its log says
	agent       map[string]string // what is written otherwise in its configuration
}

// copyOf copies a directory, with what is in it now.
func (r *rig) copyOf(from, to string) {
	r.t.Helper()
	to = filepath.Join(r.dir, to)
	err := os.MkdirAll(to, 0o700)
	if err == nil { // with modes, which os.CopyFS leaves out
		err = exec.Command("cp", "-a", filepath.Join(r.dir, from)+"/.", to).Run()
	}
	if err != nil {
		r.t.Fatalf("copy %s to %s: %v", from, to, err)
	}
}

// replace puts an earlier copy of a directory in its place; "" leaves it empty. The
// directory itself may be a mount point.
func (r *rig) replace(dir, by string) {
	r.t.Helper()
	list, err := os.ReadDir(filepath.Join(r.dir, dir))
	for _, e := range list {
		if err == nil {
			err = os.RemoveAll(filepath.Join(r.dir, dir, e.Name()))
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if by != "" {
		r.copyOf(by, dir)
	}
}

func (r *rig) remove(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// refusedToStart waits for a process that must end by itself.
func (r *rig) refusedToStart(p *process, why string) {
	r.t.Helper()
	r.start(p)
	if err := p.wait(time.Minute); err == nil {
		r.t.Errorf("%s ended without an error", p.name)
	}
	if text, _ := os.ReadFile(p.log); !strings.Contains(string(text), why) {
		r.t.Errorf("%s does not say %q\n%s", p.name, why, r.logs())
	}
}

const window = 16 // samples, of size small

var dayTwoRows = []dayTwo{
	{name: "evaluator moved with everything", do: func(r *rig) {
		r.evaluator.kill()
		r.copyOf("cloud/store", "moved")
		r.replace("cloud/store", "moved")
		r.start(r.evaluator)
	}},
	{name: "evaluator without its store, which is then put back", short: true, do: func(r *rig) {
		r.holder.kill() // so that there is something in it
		r.settleStore(4)
		r.evaluator.kill()
		r.copyOf("cloud/store", "real")
		state, err := os.ReadFile(filepath.Join(r.dir, "real/evaluator.state"))
		if err != nil {
			r.t.Fatal(err)
		}
		r.replace("cloud/store", "")
		r.write("cloud/store/evaluator.state", string(state))
		r.refusedToStart(r.evaluator, "the store that belongs to")
		r.replace("cloud/store", "real")
		r.start(r.evaluator, r.holder)
	}},
	{name: "evaluator's store and state lost", short: true, lost: 8 * window, do: func(r *rig) {
		r.holder.kill()
		r.settleStore(4)
		r.agent.kill()
		r.evaluator.kill()
		r.replace("cloud/store", "")
		r.start(r.evaluator, r.holder, r.agent)
	}, told: map[string]string{"evaluator": "its first window here has number"}},
	{name: "an old copy of evaluator's store and state", do: func(r *rig) {
		r.evaluator.kill()
		r.copyOf("cloud/store", "backup")
		r.start(r.evaluator)
		r.settle(8)
		r.stop()
		r.settleStore(0)
		r.evaluator.kill()
		r.replace("cloud/store", "backup")
		r.start(r.evaluator, r.agent)
	}},
	{name: "key holder's state lost", again: 4 * window, disordered: true, do: func(r *rig) {
		r.holder.kill()
		r.remove("holder/holder.state", "holder/holder.state.results", "holder/holder.state.spare",
			"holder/holder.state.inbox")
		r.start(r.holder)
	}},
	{name: "an old copy of the key holder's state", again: 4 * window, disordered: true, do: func(r *rig) {
		r.holder.kill()
		r.copyOf("holder", "backup")
		r.start(r.holder)
		r.settle(8)
		r.holder.kill()
		r.replace("holder", "backup")
		r.start(r.holder)
	}},
	{name: "agent's state lost", do: func(r *rig) {
		r.agent.kill()
		r.remove("board/disk/agent.state", "board/disk/agent.state.spare")
		r.start(r.agent)
	}},
	{name: "an old copy of the agent's state and spool", again: 12 * window, disordered: true, do: func(r *rig) {
		r.agent.kill()
		r.copyOf("board/disk", "backup")
		r.copyOf("board/mirror", "backup-mirror")
		r.start(r.agent)
		r.settle(8)
		r.agent.kill()
		r.replace("board/disk", "backup")
		r.replace("board/mirror", "backup-mirror")
		r.start(r.agent)
	}, told: map[string]string{"holder": "were sent again"}},
	{name: "broker lost", do: func(r *rig) {
		r.broker.kill()
		r.start(r.broker)
	}},
	{name: "spool full, block", agent: map[string]string{"64MiB": "1MiB"}, do: outage},
	{name: "spool full, drop_oldest", agent: map[string]string{"64MiB": "1MiB", "full: block": "full: drop_oldest"},
		lost: 60 * window, do: overflow,
		told: map[string]string{"agent": "a window is dropped", "evaluator": "have not come: its spool dropped them"}},
	{name: "spool full, drop_newest", agent: map[string]string{"64MiB": "1MiB", "full: block": "full: drop_newest"},
		lost: 60 * window, do: overflow,
		told: map[string]string{"evaluator": "have not come: its spool dropped them"}},
	{name: "key rotation in its order", do: func(r *rig) {
		r.run("keys", "rotate", "--dir", "holder/keys", "--overlap", "24h")
		r.newKeys("evaluator", "cloud/keys", r.evaluator)
		r.settle(4)
		r.newKeys("agent", "board/keys", r.agent)
	}},
	{name: "key rotation, agent first", disordered: true, do: func(r *rig) {
		r.run("keys", "rotate", "--dir", "holder/keys", "--overlap", "24h")
		r.newKeys("agent", "board/keys", r.agent)
		r.says(r.agent, "the receiver refuses a window")
		r.newKeys("evaluator", "cloud/keys", r.evaluator)
	}},
	{name: "key rotation, evaluator before the agent's backlog", do: func(r *rig) {
		r.evaluator.kill()
		r.run("keys", "rotate", "--dir", "holder/keys", "--overlap", "24h")
		r.newKeys("agent", "board/keys", r.agent)
		r.newKeys("evaluator", "cloud/keys", nil)
		r.start(r.evaluator)
	}},
}

// outage keeps the evaluator away until the agent's spool is full.
func outage(r *rig) {
	r.evaluator.kill()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if list, _ := filepath.Glob(filepath.Join(r.spool, "spool", "*.obj")); len(list) >= 16 {
			break
		}
	}
	time.Sleep(2 * time.Second) // what comes then finds it full
	r.start(r.evaluator)
}

// overflow is an outage after which at least one window comes that was made after those
// dropped: the spool had 16, of each there are two results. Else the evaluator knows of no gap.
func overflow(r *rig) {
	outage(r)
	r.settle(40)
}

// newKeys exports keys of a role into the place of the present ones and lets p read them.
func (r *rig) newKeys(role, dir string, p *process) {
	r.t.Helper()
	fresh := dir + "-2"
	r.run("keys", "export", "--dir", "holder/keys", "--role", role, "--out", fresh)
	r.replace(dir, fresh)
	for deadline := time.Now().Add(time.Minute); p != nil &&
		!p.signal(syscall.SIGHUP); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s does not reload\n%s", p.name, r.logs())
		}
	}
}

// adapt replaces texts of a configuration.
func (r *rig) adapt(name string, texts map[string]string) {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	text := string(b)
	for from, to := range texts {
		text = strings.Replace(text, from, to, 1)
	}
	r.write(name, text)
}

// settleStore waits until n results wait in the evaluator's store; 0: none.
func (r *rig) settleStore(n int) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list, _ := filepath.Glob(filepath.Join(r.store, "outbox", "*.obj"))
		if n > 0 && len(list) >= n || n == 0 && len(list) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d results wait, want %d\n%s", len(list), n, r.logs())
		}
	}
}

// idle reports whether everything that the agents sent has been worked off: it moves from
// the evaluator's inbox to its outbox, the key holder's inbox and the results.
func (r *rig) idle() bool {
	for _, dir := range []string{"cloud/store/inbox", "cloud/store/outbox", "holder/holder.state.inbox"} {
		if list, _ := filepath.Glob(filepath.Join(r.dir, dir, "*.obj")); len(list) > 0 {
			return false
		}
	}
	return true
}

// TestDayTwo plays the rows of the table; without HENCEDGE_CHAOS_ROUNDS two of them, and
// none with three boards.
func TestDayTwo(t *testing.T) {
	binary := build(t, false)
	l := shortLegs(t)[0]
	if os.Getenv("HENCEDGE_CHAOS_ROUNDS") != "" {
		for _, row := range fleetRows {
			t.Run("three boards, "+row.name, func(t *testing.T) { playFleet(t, binary, l, row) })
		}
	}
	for _, row := range dayTwoRows {
		if os.Getenv("HENCEDGE_CHAOS_ROUNDS") == "" && !row.short {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, binary, l, window*60)
			r.adapt("board/agent.yaml", row.agent)
			r.start(r.broker, r.holder, r.evaluator, r.agent)
			r.settle(6)
			row.do(r)
			r.settle(4)
			if err := r.agent.end(syscall.SIGKILL, time.Minute); err == nil {
				t.Error("the agent had ended")
			}
			r.hurry()
			r.start(r.agent)
			if err := r.agent.wait(2 * time.Minute); err != nil {
				t.Errorf("the agent did not drain: %v", err)
			}
			last := -1
			for quiet := time.Now(); time.Since(quiet) < 30*time.Second && !r.idle(); {
				time.Sleep(100 * time.Millisecond)
				if n := len(r.results()); n != last {
					last, quiet = n, time.Now()
				}
			}
			time.Sleep(time.Second)
			c := &count{samples: r.samples}
			r.weigh(c)
			t.Logf("%d lost, %d in several results, %d out of order", c.lost, c.doubled, c.disordered)
			if c.wrong > 0 || c.lost > 2*row.lost || c.doubled > 2*row.again || c.disordered > 0 && !row.disordered {
				t.Errorf("of both programs %d lost, %d in several results, %d out of order, %d "+
					"wrong\n%s", c.lost, c.doubled, c.disordered, c.wrong, r.logs())
			}
			if row.lost > 0 && c.lost == 0 || row.again > 0 && c.doubled == 0 {
				t.Log("nothing was lost or doubled this time")
			}
			for _, p := range []*process{r.agent, r.evaluator, r.holder} {
				if say := row.told[p.name]; say != "" {
					r.says(p, say)
				}
			}
		})
	}
}
