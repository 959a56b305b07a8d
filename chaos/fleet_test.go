package chaos

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
)

// interval is the time between the samples of a live stream.
const interval = 100 * time.Millisecond

// fleet is a rig of three boards with one evaluator and one key holder. Each board replays
// the numbered samples at the pace of a sensor, and samples a live stream besides.
type fleet struct {
	*rig
	boards []*board

	mu     sync.Mutex
	health map[string]string // by process: every reason that /healthz has given
	status map[string]string // by process: its address
}

type span struct{ from, to time.Time }

// down notes that the board takes no live samples from now on until up is called.
func (b *board) down() (up func()) {
	b.absent = append(b.absent, span{from: time.Now()})
	s := &b.absent[len(b.absent)-1]
	return func() { s.to = time.Now() }
}

// newFleet makes two more boards beside that of a rig.
func newFleet(t *testing.T, binary string, l leg, samples int) *fleet {
	t.Helper()
	l.size.disk = 64
	f := &fleet{rig: newRig(t, binary, l, samples), health: map[string]string{}, status: map[string]string{}}
	base, err := os.ReadFile(filepath.Join(f.dir, "board/agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var devices, streams, programs strings.Builder
	for i := range 3 {
		b := &board{process: f.agent, dir: "board", link: f.toAgent}
		if i > 0 {
			b.dir = fmt.Sprintf("board%d", i+1)
			f.copyOf("board", b.dir)
			f.remove(b.dir + "/signing.key")
			b.link = newProxy(t, f.toAgent.Target(), l.limit)
			b.link.window = receiveMaximum
			args := slices.Clone(f.agent.args)
			args[len(args)-1] = filepath.Join(f.dir, b.dir, "agent.yaml")
			b.process = &process{name: b.dir, args: args, log: filepath.Join(f.dir, b.dir+".log"), env: f.agent.env}
			t.Cleanup(b.kill)
		}
		b.name = b.dir
		f.boards = append(f.boards, b)
		text := string(base)
		for from, to := range map[string]string{
			"device: board\n":                    "device: " + b.dir + "\n",
			f.toAgent.Addr():                     b.link.Addr(),
			fmt.Sprintf("{samples: %d}", window): fmt.Sprintf("{samples: %d, every: %ds}", window, window),
			"speed: " + f.speed:                  fmt.Sprintf("speed: %dx", window), // a window a second
			"spool: {": "  - name: live\n    interval: " + interval.String() + "\n" + live(l) +
				"      - {name: load, unit: \"1\", range: [0, 100], source: {type: load}}\nspool: {",
		} {
			text = strings.Replace(text, from, to, 1)
		}
		f.write(b.dir+"/agent.yaml", text+f.serve(b.name))
		key := f.run("keys", "identity", b.dir+"/signing.key")
		fmt.Fprintf(&devices, "  - {name: %s, public_key: %q}\n", b.dir, key)
		fmt.Fprintf(&streams, "  - device: %[1]s\n    name: counter\n    window: {samples: %[2]d, every: %[2]ds}\n   "+
			" params: %[3]s\n    channels:\n"+
			"      - {name: lo, unit: \"1\", range: [0, 100]}\n      - {name: hi, unit: \"1\", range: [0, 100]}\n"+
			"  - device: %[1]s\n    name: live\n    interval: %[4]v\n%[5]s      - {name: load, unit: \"1\", range: "+
			"[0, 100]}\n",
			b.dir, window, l.size.params, interval, live(l))
		fmt.Fprintf(&programs, "  - {name: %[1]s, expr: 2*x + 1, inputs: {x: %[1]s/counter/lo}}\n"+
			"  - {name: %[1]s-live, expr: 2*x + 1, inputs: {x: %[1]s/live/load}}\n", b.dir)
	}
	programs.WriteString("  - {name: both, expr: x + y + 1, inputs: {x: board/counter/lo, y: board2/counter/lo}}\n")
	raw, err := os.ReadFile(filepath.Join(f.dir, "cloud/evaluator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)devices: .*\nstore: `).ReplaceAllLiteralString(string(raw),
		"devices:\n"+devices.String()+"streams:\n"+streams.String()+"programs:\n"+programs.String()+"store: ")
	f.write("cloud/evaluator.yaml", text+f.serve("evaluator"))
	f.run("results", "approve", "--dir", "holder/keys", "--evaluator", "cloud/evaluator.yaml", "--yes")
	return f
}

// live returns what agent and evaluator say of the live stream.
func live(l leg) string {
	return fmt.Sprintf("    window: {samples: %d}\n    params: %s\n    channels:\n", window, l.size.params)
}

// serve returns the section of a configuration that shows a role's health.
func (f *fleet) serve(name string) string {
	f.status[name] = testrig.FreeAddress(f.t)
	return "metrics: {listen: \"" + f.status[name] + "\"}\n"
}

// watch reads every role's health twice a second until the test ends.
func (f *fleet) watch() {
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		client := &http.Client{Timeout: time.Second}
		for {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Millisecond):
			}
			for name, address := range f.status {
				resp, err := client.Get("http://" + address + "/healthz")
				if err != nil {
					continue // down
				}
				var answer struct {
					Reasons []string `json:"reasons"`
				}
				err = json.NewDecoder(resp.Body).Decode(&answer)
				resp.Body.Close()
				f.mu.Lock()
				for _, line := range answer.Reasons {
					if err == nil && !strings.Contains(f.health[name], line) {
						f.health[name] += line + "\n"
					}
				}
				f.mu.Unlock()
			}
		}
	}()
	f.t.Cleanup(func() { close(stop); done.Wait() })
}

// told waits until a process has said a text, in its log or its health.
func (f *fleet) told(p *process, text string) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		log, _ := os.ReadFile(p.log)
		f.mu.Lock()
		health := f.health[p.name]
		f.mu.Unlock()
		if strings.Contains(string(log), text) || strings.Contains(health, text) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Errorf("%s does not say %q\nhealth:\n%s\nlog:\n%s", p.name, text, health, log)
			return
		}
	}
}

// advance waits for n more results of the numbered stream of each of some boards.
func (f *fleet) advance(n int, boards ...*board) {
	f.t.Helper()
	have := func() map[string]int {
		c := map[string]int{}
		for _, x := range f.results() {
			c[x.Program]++
		}
		return c
	}
	before := have()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		now := have()
		if !slices.ContainsFunc(boards, func(b *board) bool { return now[b.name] < before[b.name]+n }) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("no %d results more: %v, then %v\n%s", n, before, now, f.logs())
		}
	}
}

// rekey gives a board the new keys and lets it reload.
func (f *fleet) rekey(b *board) {
	f.t.Helper()
	up := b.down()
	f.newKeys("agent", b.dir+"/keys", b.process)
	up()
}

// tally is what became of the samples of one program.
type tally struct {
	results, lost, again, disordered, wrong int
	holes                                   []string
}

func (c tally) String() string {
	text := fmt.Sprintf("%d results, %d samples missing, %d repeated, %d out of order", c.results, c.lost, c.again,
		c.disordered)
	if len(c.holes) > 0 {
		text += ": " + strings.Join(c.holes, "; ")
	}
	return text
}

// tallies count every sample of every program.
func (f *fleet) tallies() map[string]*tally {
	f.t.Helper()
	byProgram := map[string][]result{}
	for _, x := range f.results() {
		byProgram[x.Program] = append(byProgram[x.Program], x)
	}
	out := map[string]*tally{}
	for _, b := range f.boards {
		out[b.name] = f.tally(byProgram[b.name], func(n int) float64 { return float64(2*(n%modulus) + 1) })
		out[b.name+"-live"] = liveTally(byProgram[b.name+"-live"], b.absent)
	}
	out["both"] = f.tally(byProgram["both"], func(n int) float64 { return float64(2*(n%modulus) + 1) })
	return out
}

// tally counts numbered samples.
func (f *fleet) tally(list []result, want func(n int) float64) *tally {
	c := &tally{results: len(list)}
	seen, last := make([]int, f.samples), -1
	for _, x := range list {
		first := int(x.Start.Sub(origin) / time.Second)
		if first < 0 || x.Samples < 1 || first+x.Samples > f.samples || len(x.Values) < x.Samples {
			f.t.Errorf("a result that nobody asked for: %+v", x)
			continue
		}
		// A reload within an interval leaves two windows of it: the values say which
		// samples are in which.
		part := 0
		for part < window-x.Samples && math.Abs(x.Values[0]-want(first+part)) > 0.9 {
			part++
		}
		if first+part <= last {
			c.disordered++
		}
		last = first + part
		for i := part; i < part+x.Samples; i++ {
			seen[first+i]++
			if math.Abs(x.Values[i-part]-want(first+i)) > 0.9 {
				c.wrong++
			}
		}
	}
	for n := 0; n < len(seen); n++ {
		from := n
		for n < len(seen) && seen[n] == 0 {
			n++
		}
		if n > from {
			c.lost += n - from
			c.holes = append(c.holes, fmt.Sprintf("%d to %d", from, n-1))
		}
		if n < len(seen) {
			c.again += seen[n] - 1
		}
	}
	return c
}

// liveTally counts samples of a live stream by their times. Those of the time around which
// the board was down or reloaded are not expected, and ticks that a busy machine misses are
// told apart from a window that is missing.
func liveTally(list []result, absent []span) *tally {
	c := &tally{results: len(list)}
	for i := 1; i < len(list); i++ {
		if list[i].Start.Before(list[i-1].Start) {
			c.disordered++
		}
	}
	list = slices.SortedFunc(slices.Values(list), func(a, b result) int { return a.Start.Compare(b.Start) })
	for i := 1; i < len(list); i++ {
		from, to := list[i-1].Start.Add(time.Duration(list[i-1].Samples)*interval), list[i].Start
		n := int(math.Round(float64(to.Sub(from)) / float64(interval)))
		switch {
		case n < -1:
			c.again -= n
		case n >= window && !slices.ContainsFunc(absent, func(s span) bool {
			// What was in memory at a kill is lost with it; a start takes a moment.
			return from.After(s.from.Add(-4*time.Second)) && to.Before(s.to.Add(5*time.Second))
		}):
			c.lost += n
			c.holes = append(c.holes, fmt.Sprintf("%v for %v", from.Format("15:04:05.0"), to.Sub(from)))
		}
	}
	return c
}

// fleetRow is a row of the tables in docs/operations.md, played with three boards.
type fleetRow struct {
	name string
	do   func(f *fleet)
	// lost, again and disordered are the most by program; not named: none.
	lost, again, disordered map[string]int
	told                    map[string][]string // by process: what it must say within a minute
}

func (f *fleet) rotate() { f.run("keys", "rotate", "--dir", "holder/keys", "--overlap", "24h") }

// away plays a rotation while a board is offline, with windows under the old epoch in its
// spool, and then off.
func (f *fleet) away(b *board) {
	var others []*board
	for _, o := range f.boards {
		if o != b {
			others = append(others, o)
		}
	}
	b.link.Set(testrig.Faults{Stall: true})
	b.link.Cut()
	f.advance(10, others[len(others)-1])
	up := b.down()
	b.kill()
	f.rotate()
	f.newKeys("evaluator", "cloud/keys", f.evaluator)
	f.advance(2, others[len(others)-1])
	for _, o := range others {
		f.rekey(o)
		f.advance(2, others[len(others)-1])
	}
	f.newKeys("agent", b.dir+"/keys", nil)
	b.link.calm()
	b.link.Cut()
	f.start(b.process)
	up()
}

// restore puts an old copy of names in two boards' directories in their place.
func (f *fleet) restore(names ...string) {
	two := f.boards[:2]
	for _, b := range two {
		f.copyOf(b.dir, "backup-"+b.dir)
	}
	f.advance(10, two...)
	for _, b := range two {
		up := b.down()
		b.kill()
		for _, name := range names {
			list, err := filepath.Glob(filepath.Join(f.dir, "backup-"+b.dir, name))
			if err != nil || len(list) == 0 {
				f.t.Fatalf("no %s in the copy: %v", name, err)
			}
			for _, from := range list {
				rel, err := filepath.Rel(filepath.Join(f.dir, "backup-"+b.dir), from)
				if err != nil {
					f.t.Fatal(err)
				}
				if info, err := os.Stat(from); err == nil && info.IsDir() {
					f.replace(filepath.Join(b.dir, rel), filepath.Join("backup-"+b.dir, rel))
					continue
				}
				text, err := os.ReadFile(from)
				if err != nil {
					f.t.Fatal(err)
				}
				f.write(filepath.Join(b.dir, rel), string(text))
			}
		}
		f.start(b.process)
		up()
	}
}

// What a rotation costs the program that joins two boards, and who says so.
var (
	joined   = map[string]int{"both": 16 * window}
	joinTold = map[string][]string{"evaluator": {"program both: results were not made"}, "holder": {"program=both"}}
)

var fleetRows = []fleetRow{
	{name: "rotation in its order", lost: joined, told: joinTold, do: func(f *fleet) {
		f.rotate()
		f.newKeys("evaluator", "cloud/keys", f.evaluator)
		f.advance(4, f.boards...)
		for _, b := range f.boards {
			f.rekey(b)
			f.advance(4, f.boards...)
		}
	}},
	{name: "rotation, one agent first", lost: map[string]int{"both": 32 * window}, do: func(f *fleet) {
		f.rotate()
		f.rekey(f.boards[0])
		f.says(f.boards[0].process, "the receiver refuses a window")
		f.advance(6, f.boards[1:]...)
		f.newKeys("evaluator", "cloud/keys", f.evaluator)
		f.advance(4, f.boards...)
		for _, b := range f.boards[1:] {
			f.rekey(b)
			f.advance(4, f.boards...)
		}
	}, disordered: map[string]int{"board": 60, "board-live": 60, "both": 60}, told: map[string][]string{
		"board":     {"the evaluator refuses every window of stream counter"},
		"evaluator": {"nothing of stream board/counter is taken", "program both: results were not made"},
	}},
	{name: "rotation, one agent away", lost: joined, told: joinTold, do: func(f *fleet) { f.away(f.boards[2]) }},
	{name: "rotation, an agent of a join away", lost: joined, told: joinTold,
		do: func(f *fleet) { f.away(f.boards[1]) }},
	{name: "old state of two agents", do: func(f *fleet) { f.restore("disk/agent.state*") }},
	{name: "old state and spool of two agents", again: map[string]int{"board": 20 * window, "board2": 20 * window,
		"both": 20 * window},
		disordered: map[string]int{"board": 20, "board2": 20, "both": 20},
		do:         func(f *fleet) { f.restore("disk", "mirror") },
		told: map[string][]string{
			"evaluator": {"device board, stream counter: a window of a new start begins",
				"device board2, stream counter: a window of a new start begins"},
			"holder": {`program=board device="" sequence`, `program=board2 device="" sequence`, "were sent again"},
		}},
}

func playFleet(t *testing.T, binary string, l leg, row fleetRow) {
	f := newFleet(t, binary, l, window*60)
	f.start(f.broker, f.holder, f.evaluator)
	for _, b := range f.boards {
		f.start(b.process)
	}
	f.watch()
	f.advance(5, f.boards...)
	row.do(f)
	sum := func() (lost int, text string) {
		for name, c := range f.tallies() {
			if !strings.HasSuffix(name, "-live") {
				lost += c.lost
			}
			text += fmt.Sprintf("%s: %v\n", name, c)
		}
		return lost, text
	}
	last := ""
	for quiet := time.Now(); time.Since(quiet) < 20*time.Second; time.Sleep(200 * time.Millisecond) {
		var lost, results int
		for name, c := range f.tallies() {
			if !strings.HasSuffix(name, "-live") {
				lost, results = lost+c.lost, results+c.results
			}
		}
		if now := fmt.Sprint(lost, results); now != last {
			last, quiet = now, time.Now()
		}
		if lost == 0 {
			break
		}
	}
	for _, b := range f.boards {
		if err := b.end(syscall.SIGTERM, time.Minute); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
	time.Sleep(3 * time.Second) // what comes twice or late
	_, text := sum()
	t.Logf("\n%s", text)
	for name, c := range f.tallies() {
		if c.wrong > 0 || c.lost > row.lost[name] || c.again > row.again[name] || c.disordered > row.disordered[name] {
			t.Errorf("%s: %v, %d wrong", name, c, c.wrong)
		}
	}
	processes := []*process{f.evaluator, f.holder}
	for _, b := range f.boards {
		processes = append(processes, b.process)
	}
	for _, p := range processes {
		for _, text := range row.told[p.name] {
			f.told(p, text)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, text := range f.health {
		t.Logf("health of %s:\n%s", name, text)
	}
	if t.Failed() {
		t.Log(f.logs())
		if keep := os.Getenv("HENCEDGE_CHAOS_KEEP"); keep != "" {
			_ = exec.Command("cp", "-r", f.dir, keep).Run()
		}
	}
}
