package chaos

import (
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
		victim := p(r)
		victim.kill()
		return func() { r.start(victim) }
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
	{loseState, func(r *rig, _ *mathrand.Rand) func() {
		agent := r.agent
		agent.kill()
		_ = os.Remove(filepath.Join(r.spool, "agent.state"))
		return func() { r.start(agent) }
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

// loseState is left out where windows are compact: if the clock was set back too, their numbers are in use, and they
// are dropped (docs/delivery.md).
const loseState = "lose the agent's state"

// faults are those that may strike in a leg.
func (l leg) faults() []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return l.compact && f.name == loseState })
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
		name = filepath.Join(r.dir, r.struck.dir, "mirror/spool", filepath.Base(name))
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
	wrong, packed                int
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
		legs = withRealBroker(t, []leg{
			{broker: "mosquitto", limit: 128 << 10, chunk: "8KiB", conf: roomy, size: small},
			{broker: "embedded", limit: 128 << 10, chunk: "112KiB", size: medium},
			{broker: "mosquitto", limit: 256 << 10, chunk: "240KiB", conf: tight, size: medium},
			{broker: "mosquitto", limit: 1 << 20, chunk: "1000KiB", conf: roomy, size: large},
			{broker: "mosquitto", limit: 128 << 10, chunk: "112KiB", conf: roomy, size: fused, boards: 3},
			{broker: "mosquitto", limit: 128 << 10, chunk: "112KiB", conf: roomy, size: fused, boards: 3, places: 8},
			{broker: "mosquitto", limit: 128 << 10, chunk: "112KiB", conf: roomy, size: tiny, boards: 3, compact: true},
			{broker: "embedded", limit: 128 << 10, chunk: "112KiB", size: fused, boards: 3, gpus: true},
			{broker: "embedded", limit: 128 << 10, chunk: "112KiB", size: fused, boards: 3, gpus: true, places: 8},
		})
	}
	total := count{faults: map[string]int{}}
	for i, l := range legs {
		n := rounds/len(legs) + min(1, max(0, rounds%len(legs)-i))
		t.Run(l.name(), func(t *testing.T) {
			c := runLeg(t, l, n, seed+uint64(i))
			report(t, fmt.Sprintf("%s, limit %d KiB, %s, chunks of %s", l.name(), l.limit>>10, l.size.params,
				l.chunk), c)
			total.add(c)
		})
	}
	report(t, fmt.Sprintf("in all, seed %d", seed), &total)
}

func (l leg) name() string {
	name := fmt.Sprintf("%s-%dKiB", l.broker, l.limit>>10)
	if l.boards > 0 {
		name += fmt.Sprintf("-%dboards", l.boards)
	}
	if l.places > 0 {
		name += fmt.Sprintf("-%dplaces", l.places)
	}
	if l.compact {
		name += "-compact"
	}
	if l.gpus {
		name += "-2gpus"
	}
	return name
}

func shortLegs(t *testing.T) []leg {
	t.Helper()
	return withRealBroker(t, []leg{{broker: "mosquitto", limit: 128 << 10, chunk: "8KiB", conf: roomy, size: small},
		{broker: "embedded", limit: 256 << 10, chunk: "16KiB", size: small, boards: 2, places: 4},
		{broker: "mosquitto", limit: 128 << 10, chunk: "112KiB", conf: roomy, size: tiny, boards: 2, compact: true}})
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

// programs are the built programs, made once: without support for GPUs, and with it.
var programs = map[string]func() (string, error){"nogpu,chaos": builder("nogpu,chaos"), "chaos": builder("chaos")}

func builder(tags string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		binary := filepath.Join(built, strings.ReplaceAll(tags, ",", "-"))
		out, err := exec.Command("go", "build", "-tags", tags, "-o", binary,
			"github.com/hencedge/hencedge/cmd/hencedge").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("go build: %w\n%s", err, out)
		}
		return binary, err
	})
}

func build(t *testing.T, gpus bool) string {
	t.Helper()
	tags := "nogpu,chaos"
	if gpus {
		tags = "chaos"
	}
	binary, err := programs[tags]()
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
	c.packed += o.packed
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
		"samples read %d, results %d, of which %d came packed, lost %d, doubled %d, out of order %d, wrong value %d; "+
		"largest message %d bytes, the agent had at most %d unacknowledged",
		name, c.rounds, c.took.Round(time.Second), c.drain.Round(time.Second), c.agents, c.evaluators, c.restarts,
		strings.Join(kinds, ", "),
		c.samples, c.results, c.packed, c.lost, c.doubled, c.disordered, c.wrong, c.largest, c.flying)
}

func runLeg(t *testing.T, l leg, rounds int, seed uint64) *count {
	rng := mathrand.New(mathrand.NewPCG(seed, 1))
	r := newRig(t, build(t, l.gpus), l, 16*l.windows()+rounds*l.speed()*15/16)
	r.start(r.broker, r.holder, r.evaluator)
	c := &count{faults: map[string]int{}, samples: r.samples * len(r.boards)}
	for _, b := range r.boards {
		r.start(b.process)
	}
	r.begun()
	var w *witness
	if l.boards > 0 {
		w = newWitness(t, l.size.params)
		w.follow(r.toEvaluator.Target())
	}
	began := time.Now()
	for ; c.rounds < rounds && !t.Failed(); c.rounds++ {
		r.round(c, rng)
	}
	c.took = time.Since(began)
	links := []*proxy{r.toEvaluator, r.toHolder}
	for _, b := range r.boards {
		links = append(links, b.link)
		c.flying = max(c.flying, b.link.most.Load())
	}
	for _, p := range links {
		p.calm()
		c.largest = max(c.largest, p.largest.Load())
		if n := p.oversized.Load(); n > 0 {
			t.Errorf("%d messages were above the limit of %d bytes", n, l.limit)
		}
		if n := p.crowded.Load(); n > 0 {
			t.Errorf("%d connections had more than %d messages unacknowledged", n, p.window)
		}
	}
	began = time.Now()
	if l.gpus { // the rest on GPUs, whatever failed before
		r.evaluator.kill()
		r.start(r.evaluator)
	}
	for _, b := range r.boards {
		r.strike(b)
		b.kill()
		r.hurry()
		r.start(b.process)
	}
	patience := 4 * time.Minute // without any result
	if l.gpus {
		patience = 15 * time.Minute // a batch on emulated GPUs takes a while, on a busy machine minutes
	}
	for _, b := range r.boards {
		if err := r.drained(b, patience); err != nil {
			t.Errorf("%s did not drain: %v", b.name, err)
		}
		c.agents += b.starts
	}
	r.progress(patience, r.complete)
	time.Sleep(500 * time.Millisecond) // for what comes twice
	c.drain = time.Since(began)
	c.evaluators, c.restarts = r.evaluator.starts, r.broker.starts
	r.judge(c)
	if l.packs() && c.packed == 0 {
		t.Error("no results came packed")
	}
	if l.gpus {
		r.gpus.judge(r)
	}
	switch {
	case w == nil:
	case l.places > 0, l.compact:
		n := w.together()
		t.Logf("%d results are of windows that were added up or bootstrapped together", n)
		if l.gpus && n == 0 {
			t.Error("no windows were added up")
		}
	default:
		r.compare(w)
	}
	if t.Failed() {
		t.Logf("%s", r.logs())
		if keep := os.Getenv("HENCEDGE_CHAOS_KEEP"); keep != "" {
			_ = exec.Command("cp", "-r", r.dir, keep).Run()
		}
	}
	return c
}

// drained waits for the end of a board, as long as results come.
func (r *rig) drained(b *board, patience time.Duration) (err error) {
	r.progress(patience, func() bool {
		err = b.wait(100 * time.Millisecond)
		return !errors.Is(err, errRuns)
	})
	return err
}

// progress waits until done, or until no result has come for so long.
func (r *rig) progress(patience time.Duration, done func() bool) {
	last, since := -1, time.Now()
	for !done() && time.Since(since) < patience {
		if n := len(r.results()); n != last {
			last, since = n, time.Now()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// begun waits until every process that keeps a state has made it: the first start needs room
// on the disk, later ones do not.
func (r *rig) begun() {
	r.t.Helper()
	names := []string{"cloud/store/evaluator.state.spare"}
	for _, b := range r.boards {
		names = append(names, b.dir+"/disk/agent.state.spare")
	}
	for _, name := range names {
		testrig.Eventually(r.t, name, func() bool {
			_, err := os.Stat(filepath.Join(r.dir, name))
			return err == nil
		})
	}
}

// round lets one or two faults strike, ends them, and starts agents that were through.
func (r *rig) round(c *count, rng *mathrand.Rand) {
	var ends []func()
	for n := 1 + rng.IntN(2); n > 0; n-- {
		f := r.faults[rng.IntN(len(r.faults))]
		if r.gpus != nil && rng.IntN(3) == 0 {
			f = gpuFaults[rng.IntN(len(gpuFaults))]
		}
		r.strike(r.boards[rng.IntN(len(r.boards))])
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
		if ok, err := p.alive(); !ok && !r.gpus.restart(r, p) {
			r.t.Errorf("round %d: %s ended by itself: %v", c.rounds, p.name, err)
		}
	}
	if r.gpus != nil {
		r.gpus.failing = max(r.gpus.failing-1, 0)
	}
	for _, b := range r.boards {
		if ok, err := b.alive(); !ok {
			if err != nil {
				r.t.Errorf("round %d: %s ended by itself: %v", c.rounds, b.name, err)
			} else {
				r.start(b.process) // it was through; it looks once more
			}
		}
	}
}

// complete reports whether as many samples arrived as there are.
func (r *rig) complete() bool {
	n := 0
	for _, x := range r.results() {
		n += x.Samples
	}
	return n >= len(r.programs)*len(r.boards)*r.samples
}

// judge is weigh, and fails the test for all that is not as promised.
func (r *rig) judge(c *count) {
	r.t.Helper()
	for _, text := range r.weigh(c) {
		r.t.Error(text)
	}
}

// sample returns both channels of sample n of a board, by its place among the boards.
func sample(board, n int) (lo, hi int) { return (n + 31*board) % modulus, n / modulus % modulus }

// counted is a program whose results are counted.
type counted struct {
	name, expr string
	want       func(lo, hi []float64) []float64 // of the samples of a window
}

var (
	// single are the programs of boards by themselves; those of a class have them too.
	single = []counted{
		{"lo", "2*x + 1", func(lo, _ []float64) []float64 { return affine(lo) }},
		{"hi", "2*x + 1", func(_, hi []float64) []float64 { return affine(hi) }},
	}
	// centred needs key switches, and has as many values as samples: it goes out alone.
	centred = counted{"hi", "x - mean(x)", func(_, hi []float64) (out []float64) {
		m := average(hi)
		for _, v := range hi {
			out = append(out, v-m)
		}
		return out
	}}
	mean = counted{"mean", "mean(x)", func(lo, _ []float64) []float64 { return []float64{average(lo)} }}
	gap  = counted{"gap", "mean(x - y)", func(lo, hi []float64) []float64 {
		return []float64{average(lo) - average(hi)}
	}}
	cov = counted{"cov", "cov(x, y)", func(lo, hi []float64) []float64 {
		products := make([]float64, len(lo))
		for i := range lo {
			products[i] = lo[i] * hi[i]
		}
		return []float64{average(products) - average(lo)*average(hi)}
	}}
)

func affine(values []float64) (out []float64) {
	for _, v := range values {
		out = append(out, 2*v+1)
	}
	return out
}

func average(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// line is one program's results of one device.
type line struct {
	counted
	board int
	seen  []int // results that each sample is in
	last  int
}

// weigh counts, for each program and device, how often every sample is in a result, and
// whether results came in order. It returns what is not as promised.
func (r *rig) weigh(c *count) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	lines := map[string]*line{}
	for i, b := range r.boards {
		for _, p := range r.programs {
			name := p.name
			if len(r.programs) > len(single) {
				name += " of " + b.dir
			}
			lines[name] = &line{p, i, make([]int, r.samples), -1}
		}
	}
	for _, x := range r.results() {
		c.results++
		if x.Packed > 1 {
			c.packed++
		}
		name := x.Program
		if x.Device != "" {
			name += " of " + x.Device
		}
		first, l := int(x.Start.Sub(origin)/time.Second), lines[name]
		if first < 0 || x.Samples < 1 || first+x.Samples > r.samples || l == nil {
			fault("a result that nobody asked for: %+v", x)
			continue
		}
		if first <= l.last {
			c.disordered++
			fault("%s: window of sample %d after %d", name, first, l.last)
		}
		l.last = first
		var lo, hi []float64
		for n := first; n < first+x.Samples; n++ {
			l.seen[n]++
			a, b := sample(l.board, n)
			lo, hi = append(lo, float64(a)), append(hi, float64(b))
		}
		want := l.want(lo, hi)
		if len(x.Values) < len(want) {
			fault("%s: %d values of sample %d and on, want %d", name, len(x.Values), first, len(want))
			continue
		}
		for i, v := range want {
			if got := x.Values[i]; !(math.Abs(got-v) <= x.Bound) {
				c.wrong++
				fault("%s: value %d from sample %d on decrypts to %.3f, want %v within %.3g", name, i, first, got, v,
					x.Bound)
			}
		}
	}
	for name, l := range lines {
		for n, times := range l.seen {
			switch {
			case times == 0:
				if c.lost++; c.lost < 10 {
					fault("%s: sample %d is in no result", name, n)
				}
			case times > 1:
				if c.doubled++; c.doubled < 10 {
					fault("%s: sample %d is in %d results", name, n, times)
				}
			}
		}
	}
	return faults
}
