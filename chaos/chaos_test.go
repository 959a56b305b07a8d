package chaos

import (
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A fault lasts for a round. It gives what ends it, or nil when it had nothing
// to work on.
type fault struct {
	name string
	do   func(r *rig, rng *mathrand.Rand) (end func())
}

func down(p func(*rig) *process) func(*rig, *mathrand.Rand) func() {
	return func(r *rig, rng *mathrand.Rand) func() {
		p(r).kill()
		return func() { r.start(p(r)) }
	}
}

func link(r *rig, rng *mathrand.Rand) *proxy {
	return []*proxy{r.toAgent, r.toAgent, r.toEvaluator, r.toHolder}[rng.IntN(4)]
}

func network(change func(f *testrig.Faults, rng *mathrand.Rand)) func(*rig, *mathrand.Rand) func() {
	return func(r *rig, rng *mathrand.Rand) func() {
		p := link(r, rng)
		p.Change(func(f *testrig.Faults) { change(f, rng) })
		return p.calm
	}
}

var faults = []fault{
	{"kill agent", down(func(r *rig) *process { return r.agent })},
	{"kill evaluator", down(func(r *rig) *process { return r.evaluator })},
	{"kill broker", down(func(r *rig) *process { return r.broker })},
	{"cut connections", func(r *rig, rng *mathrand.Rand) func() {
		link(r, rng).Cut()
		return func() {}
	}},
	{"cut mid-message", network(func(f *testrig.Faults, rng *mathrand.Rand) { f.CutAfter = 1 + rng.IntN(200_000) })},
	{"slow link", network(func(f *testrig.Faults, rng *mathrand.Rand) { f.Rate = 20_000 + rng.IntN(200_000) })},
	{"delay", network(func(f *testrig.Faults,
		rng *mathrand.Rand) {
		f.Delay = time.Duration(rng.IntN(50)) * time.Millisecond
	})},
	{"stall", network(func(f *testrig.Faults, rng *mathrand.Rand) { f.Stall = true })},
	{"agent's disk full", fillDisk(func(r *rig) string { return r.spool })},
	{"evaluator's disk full", fillDisk(func(r *rig) string { return r.store })},
	{"both disks full", func(r *rig, rng *mathrand.Rand) func() {
		agent := fillDisk(func(r *rig) string { return r.spool })(r, rng)
		evaluator := fillDisk(func(r *rig) string { return r.store })(r, rng)
		if agent == nil || evaluator == nil {
			return nil
		}
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		return func() { agent(); evaluator() }
	}},
	{"lose the agent's state", func(r *rig, _ *mathrand.Rand) func() {
		r.agent.kill()
		if err := os.Remove(filepath.Join(r.dir, "board/disk/agent.state")); err != nil {
			return func() { r.start(r.agent) }
		}
		return func() { r.start(r.agent) }
	}},
	{"reload agent", reload(func(r *rig) *process { return r.agent })},
	{"reload evaluator", reload(func(r *rig) *process { return r.evaluator })},
	{"flip a bit", func(r *rig, rng *mathrand.Rand) func() {
		return damage(r, rng, func(f *os.File, size int64) error {
			at, b := rng.Int64N(size), make([]byte, 1)
			if _, err := f.ReadAt(b, at); err != nil {
				return err
			}
			b[0] ^= 1 << rng.IntN(8)
			_, err := f.WriteAt(b, at)
			return err
		})
	}},
	{"truncate a file", func(r *rig, rng *mathrand.Rand) func() {
		return damage(r, rng, func(f *os.File, size int64) error { return f.Truncate(rng.Int64N(size)) })
	}},
	{"step the clock", func(r *rig, rng *mathrand.Rand) func() {
		step := time.Duration(rng.Int64N(int64(96*time.Hour))) - 48*time.Hour
		if err := os.WriteFile(filepath.Join(r.dir, "clock"), []byte(step.String()), 0o600); err != nil {
			r.t.Fatal(err)
		}
		return func() {} // the clock stays there until the next step
	}},
}

// reload lets a process read its configuration again, which ends its role in good order
// and begins it anew.
func reload(p func(*rig) *process) func(*rig, *mathrand.Rand) func() {
	return func(r *rig, _ *mathrand.Rand) func() {
		if !p(r).signal(syscall.SIGHUP) {
			return nil
		}
		return func() {}
	}
}

// fillDisk leaves no room on a file system.
func fillDisk(where func(*rig) string) func(*rig, *mathrand.Rand) func() {
	return func(r *rig, _ *mathrand.Rand) func() {
		if !r.mounted {
			return nil
		}
		name := filepath.Join(where(r), "ballast")
		f, err := os.Create(name)
		if err != nil {
			return nil // full already
		}
		defer f.Close()
		block := make([]byte, 4096)
		for err == nil {
			_, err = f.Write(block)
		}
		return func() { _ = os.Remove(name) }
	}
}

// damage hurts one copy of one file of the spool: the first copy of those with
// an odd number, the mirror of the others, so that never both are hurt.
func damage(r *rig, rng *mathrand.Rand, hurt func(f *os.File, size int64) error) func() {
	list, _ := filepath.Glob(filepath.Join(r.spool, "spool", "*.obj"))
	if len(list) == 0 {
		return nil
	}
	name := list[rng.IntN(len(list))]
	var number uint64
	if _, err := fmt.Sscanf(filepath.Base(name), "%016x.obj", &number); err != nil {
		r.t.Fatal(err)
	}
	if number%2 == 0 {
		name = filepath.Join(r.dir, "board/mirror/spool", filepath.Base(name))
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil // delivered meanwhile
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || hurt(f, info.Size()) != nil {
		return nil
	}
	return func() {}
}

// count is the outcome of a leg.
type count struct {
	rounds                       int
	faults                       map[string]int
	samples, results             int
	lost, doubled, disordered    int
	wrong                        int
	largest, flying              int64
	agents, evaluators, restarts int
	took, drain                  time.Duration
}

// TestChaos is the test of docs/delivery.md. HENCEDGE_CHAOS_ROUNDS says how many
// rounds; HENCEDGE_CHAOS_SEED repeats a run's choices (not its timing).
func TestChaos(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("HENCEDGE_CHAOS_ROUNDS"))
	long := rounds > 0
	if !long {
		rounds = 24
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("HENCEDGE_CHAOS_SEED"), 10, 64); err == nil {
		seed = s
	}
	legs := shortLegs(t)
	if long {
		legs = withRealBroker(t, []leg{{"mosquitto", 128 << 10, "8KiB", roomy, small},
			{"embedded", 128 << 10, "112KiB", "", medium}, {"mosquitto", 256 << 10, "240KiB", tight, medium},
			{"mosquitto", 1 << 20, "1000KiB", roomy, large}})
	}
	binary := build(t)
	total := count{faults: map[string]int{}}
	for i, l := range legs {
		n := rounds/len(legs) + min(1, max(0, rounds%len(legs)-i))
		t.Run(fmt.Sprintf("%s-%dKiB", l.broker, l.limit>>10), func(t *testing.T) {
			c := runLeg(t, binary, l, n, seed+uint64(i))
			report(t, fmt.Sprintf("%s, limit %d KiB, %s, chunks of %s", l.broker, l.limit>>10, l.size.params, l.chunk),
				c)
			total.add(c)
		})
	}
	report(t, fmt.Sprintf("in all, seed %d", seed), &total)
}

func shortLegs(t *testing.T) []leg {
	t.Helper()
	return withRealBroker(t, []leg{{"mosquitto", 128 << 10, "8KiB", roomy, small},
		{"embedded", 256 << 10, "16KiB", "", small}})
}

// withRealBroker takes the embedded broker where there is no mosquitto.
func withRealBroker(t *testing.T, legs []leg) []leg {
	t.Helper()
	if _, err := testenv.Find("mosquitto"); err != nil {
		testenv.Without(t, "mosquitto", "no mosquitto: the embedded broker only")
		for i := range legs {
			legs[i].broker = "embedded"
		}
	}
	return legs
}

// program is the built program, made once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hencedge-chaos")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "hencedge")
	out, err := exec.Command("go", "build", "-tags", "nogpu,chaos", "-o", binary,
		"github.com/hencedge/hencedge/cmd/hencedge").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, err
})

func build(t *testing.T) string {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func (c *count) add(o *count) {
	c.rounds += o.rounds
	for k, v := range o.faults {
		c.faults[k] += v
	}
	c.samples, c.results, c.lost, c.doubled, c.disordered, c.wrong = c.samples+o.samples, c.results+o.results,
		c.lost+o.lost, c.doubled+o.doubled, c.disordered+o.disordered, c.wrong+o.wrong
	c.agents, c.evaluators, c.restarts = c.agents+o.agents, c.evaluators+o.evaluators, c.restarts+o.restarts
	c.largest, c.flying = max(c.largest, o.largest), max(c.flying, o.flying)
	c.took, c.drain = c.took+o.took, c.drain+o.drain
}

func report(t *testing.T, name string, c *count) {
	var kinds []string
	for k, n := range c.faults {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, n))
	}
	sort.Strings(kinds)
	t.Logf("%s:\n  rounds %d in %v, then drained in %v; starts: agent %d, evaluator %d, broker %d\n  faults: %s\n  "+
		"samples read %d, results %d, lost %d, doubled %d, out of order %d, wrong value %d; largest message %d "+
		"bytes, the agent had at most %d unacknowledged",
		name, c.rounds, c.took.Round(time.Second), c.drain.Round(time.Second), c.agents, c.evaluators, c.restarts,
		strings.Join(kinds, ", "),
		c.samples, c.results, c.lost, c.doubled, c.disordered, c.wrong, c.largest, c.flying)
}

func runLeg(t *testing.T, binary string, l leg, rounds int, seed uint64) *count {
	rng := mathrand.New(mathrand.NewPCG(seed, 1))
	r := newRig(t, binary, l, 16*100+rounds*90)
	r.start(r.broker, r.holder, r.evaluator)
	c := &count{faults: map[string]int{}, samples: r.samples}
	began := time.Now()
	time.Sleep(300 * time.Millisecond)
	r.start(r.agent)
	for ; c.rounds < rounds && !t.Failed(); c.rounds++ {
		var ends []func()
		for n := 1 + rng.IntN(2); n > 0; n-- {
			f := faults[rng.IntN(len(faults))]
			if end := f.do(r, rng); end != nil {
				c.faults[f.name]++
				ends = append(ends, end)
			}
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		for _, end := range ends {
			end()
		}
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		for _, p := range []*process{r.evaluator, r.holder, r.broker} {
			if ok, err := p.alive(); !ok {
				t.Errorf("round %d: %s ended by itself: %v", c.rounds, p.name, err)
			}
		}
		if ok, err := r.agent.alive(); !ok {
			if err != nil {
				t.Errorf("round %d: the agent ended by itself: %v", c.rounds, err)
			} else {
				r.start(r.agent) // it was through; it looks once more
			}
		}
	}
	c.took = time.Since(began)
	for _, p := range []*proxy{r.toAgent, r.toEvaluator, r.toHolder} {
		p.calm()
		c.largest = max(c.largest, p.largest.Load())
		if n := p.oversized.Load(); n > 0 {
			t.Errorf("%d messages were above the limit of %d bytes", n, l.limit)
		}
		if n := p.crowded.Load(); n > 0 {
			t.Errorf("%d connections had more than %d messages unacknowledged", n, p.window)
		}
	}
	c.flying = r.toAgent.most.Load()
	began = time.Now()
	r.agent.kill()
	r.hurry()
	r.start(r.agent)
	if err := r.agent.wait(time.Duration(rounds)*time.Second + 2*time.Minute); err != nil {
		t.Errorf("the agent did not drain: %v", err)
	}
	last, quiet := -1, time.Now()
	for time.Since(quiet) < time.Minute {
		n := len(r.results())
		if n != last {
			last, quiet = n, time.Now()
		}
		if r.complete() {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond) // for what comes twice
	c.drain = time.Since(began)
	c.agents, c.evaluators, c.restarts = r.agent.starts, r.evaluator.starts, r.broker.starts
	r.judge(c)
	if t.Failed() {
		t.Logf("%s", r.logs())
		if keep := os.Getenv("HENCEDGE_CHAOS_KEEP"); keep != "" {
			_ = exec.Command("cp", "-r", r.dir, keep).Run()
		}
	}
	return c
}

// complete reports whether as many samples arrived as there are.
func (r *rig) complete() bool {
	n := 0
	for _, x := range r.results() {
		n += x.Samples
	}
	return n >= 2*r.samples
}

// judge is weigh, and fails the test for all that is not as promised.
func (r *rig) judge(c *count) {
	r.t.Helper()
	for _, text := range r.weigh(c) {
		r.t.Error(text)
	}
}

// weigh counts, for each of the two programs, how often every sample is in a result, and
// whether results came in order. It returns what is not as promised.
func (r *rig) weigh(c *count) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	seen := map[string][]int{"lo": make([]int, r.samples), "hi": make([]int, r.samples)}
	last := map[string]int{"lo": -1, "hi": -1}
	for _, x := range r.results() {
		c.results++
		first := int(x.Start.Sub(origin) / time.Second)
		if first < 0 || x.Samples < 1 || first+x.Samples > r.samples || seen[x.Program] == nil ||
			len(x.Values) < x.Samples {
			fault("a result that nobody asked for: %+v", x)
			continue
		}
		if first <= last[x.Program] {
			c.disordered++
			fault("%s: window of sample %d after %d", x.Program, first, last[x.Program])
		}
		last[x.Program] = first
		for i := range x.Samples {
			n := first + i
			seen[x.Program][n]++
			want := float64(n % modulus)
			if x.Program == "hi" {
				want = float64(n / modulus % modulus)
			}
			if got := (x.Values[i] - 1) / 2; math.Abs(got-want) > 0.4 {
				c.wrong++
				fault("%s: sample %d decrypts to %.3f, want %v", x.Program, n, got, want)
			}
		}
	}
	for program, list := range seen {
		for n, times := range list {
			switch {
			case times == 0:
				if c.lost++; c.lost < 10 {
					fault("%s: sample %d is in no result", program, n)
				}
			case times > 1:
				if c.doubled++; c.doubled < 10 {
					fault("%s: sample %d is in %d results", program, n, times)
				}
			}
		}
	}
	return faults
}
