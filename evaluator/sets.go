package evaluator

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
)

// Programs that read the same windows run as one set, where these are full:
//
//   - Every program keeps a job of its own: its number, order, store, signature and receipts
//     are those of a program alone. Only the computation is shared.
//   - One worker does the jobs of a set, and all jobs of its programs leave the queue in their
//     order: with a store, a job waits for the one before of its program.
//   - If the set fails, each program runs alone, so that only the one at fault fails. If the
//     device failed, the jobs stay for another.

// ExplainSets describes the programs of cfg that read the same windows, for keys for all
// powers of two. It fails with a *CheckError.
func ExplainSets(cfg *config.Evaluator) ([]program.SetExplanation, error) {
	c, err := Estimate(cfg)
	return c.Sets, err
}

// Costs is what the programs of a configuration take.
type Costs struct {
	Sets  []program.SetExplanation
	Batch int64    // bytes of a GPU's memory for the values of cfg.Batch windows, at most
	Of    []string // programs that run together and take that
	// Bootstrap is for the programs that bootstrap.
	Bootstrap Bootstrapping
	// Places is the most windows that are added up, and count as one of a batch; 1: none are.
	Places int
	// Processor and GPU are what the runs on each hold, beside a batch's values and the
	// windows that wait.
	Processor, GPU Held
	// Kept is for windows that programs look back at, or that wait for those of other streams:
	// at most join.windows of each of KeptStreams, and as many as programs look back.
	Kept        int64 // bytes
	KeptStreams int
	// Garbage is what gathers on the host beside all that before it is collected, in bytes: at most that much, or a
	// 64th of the machine's memory if that is more, and no more than an eighth of it; or as much as is in use where
	// that is more.
	Garbage int64
}

// Bootstrapping is what programs that bootstrap take besides.
type Bootstrapping struct {
	Of     []string // programs
	Keys   int      // keys of the program that needs most
	Memory int64    // bytes on each device, keys included
	// Windows is how many compact windows are bootstrapped together at most; 0: there are none. DeviceMemory is what
	// the key of each device with such windows takes, in bytes.
	Windows      int
	DeviceMemory int64
}

// add counts a program.
func (b *Bootstrapping) add(e *program.Explanation) {
	b.Of, b.Keys = append(b.Of, e.Program), max(b.Keys, e.Keys.Count)
	if e.Bootstrap != nil {
		b.Memory = max(b.Memory, e.Bootstrap.Memory)
	}
	if e.Compact != nil {
		b.Memory = max(b.Memory, e.Compact.Memory)
		b.Windows, b.DeviceMemory = max(b.Windows, e.Compact.Windows), max(b.DeviceMemory, e.Compact.DeviceMemory)
	}
}

// Held is the memory of runs at a time, on one device.
type Held struct {
	Runs    int
	Windows int64 // bytes
	// Results are bytes of the host's memory. It also holds the windows of runs on a GPU.
	Results int64
}

// Estimate returns the costs of the programs of cfg. It fails with a *CheckError.
func Estimate(cfg *config.Evaluator) (c Costs, err error) {
	plan, err := Check(cfg)
	if err != nil {
		return c, err
	}
	groups := plan.together()
	c.Places, c.Garbage = plan.places(), mostGarbage(cfg)
	plan.hold(cfg, groups, &c)
	plan.keep(cfg, &c)
	take := func(r program.Routine, names ...string) {
		if n := int64(cfg.Batch) * r.Peak(); n > c.Batch {
			c.Batch, c.Of = n, names
		}
	}
	for i := range plan.Programs {
		pr := &plan.Programs[i]
		if n := pr.Circuit.Peak(); !pr.Circuit.Whole() {
			take(pr.Circuit, pr.Name)
		} else if n > c.Batch { // whole numbers are computed on one by one
			c.Batch, c.Of = n, []string{pr.Name}
		}
		if e := pr.Circuit.Explain(); e.Bootstrap != nil || e.Compact != nil {
			c.Bootstrap.add(&e)
		}
	}
	var made fusions
	for _, g := range groups {
		set, err := made.fuse(g, nil)
		if err != nil {
			return Costs{}, err
		}
		e := set.Explain()
		c.Sets = append(c.Sets, e)
		take(set, e.Programs...)
	}
	return c, nil
}

// hold finds what runs hold: as many as there can be, each of the programs that take most.
func (p *Plan) hold(cfg *config.Evaluator, groups [][]*Planned, c *Costs) {
	var windows, results, models int64
	take := func(all ...*Planned) {
		var sum int64
		for _, one := range all {
			windows = max(windows, one.windowBytes())
			sum += one.Circuit.ResultBytes()
		}
		results = max(results, 2*sum) // each is copied to be sealed
	}
	for i := range p.Programs {
		if one := &p.Programs[i]; !one.Circuit.Whole() {
			take(one)
		} else { // computed one by one: while one is sealed, the next one is
			windows, models = max(windows, one.windowBytes()), max(models, 3*one.Circuit.ResultBytes())
		}
	}
	for _, g := range groups {
		take(g...)
	}
	workers := workersOf(cfg)
	o := engine.Options{Workers: workers, Batch: cfg.Batch, Places: c.Places}
	held := func(runs int) Held {
		runs = max(runs*len(p.Needs()), workers)
		return Held{Runs: runs, Windows: int64(runs) * windows, Results: max(int64(runs)*results, models)}
	}
	processor, gpu := o.Runs()
	c.Processor, c.GPU = held(processor), held(gpu)
}

// keep finds the streams of which windows stay, and what they take.
func (p *Plan) keep(cfg *config.Evaluator, c *Costs) {
	type kept struct {
		lag    int
		window int64
		times  int64
	}
	streams := map[[3]string]*kept{} // of a class, or of a device
	var devices map[string]int64
	for i := range p.Programs {
		one := &p.Programs[i]
		ins := one.Circuit.Inputs()
		if one.Circuit.Capacity() > 0 || len(ins) == 1 && ins[0].Lag == 0 {
			continue // each window is used once, at once
		}
		times := int64(1)
		if class := one.Circuit.Class(); class != "" {
			if devices == nil {
				devices = devicesOf(cfg)
			}
			times = devices[class]
		}
		for _, in := range ins {
			id := [3]string{one.Circuit.Class(), in.Device, in.Stream}
			if streams[id] == nil {
				streams[id] = &kept{window: one.windowBytesOf(in), times: times}
			}
			streams[id].lag = max(streams[id].lag, in.Lag)
		}
	}
	for _, k := range streams {
		c.Kept += k.times * int64(max(cfg.Join.Windows, 1)+k.lag) * k.window
		c.KeptStreams += int(k.times)
	}
}

// windowBytes returns the memory of the windows of one result, or of one window that is added
// to a sum across devices.
func (p *Planned) windowBytes() (n int64) {
	for _, in := range p.Circuit.Inputs() {
		n += p.windowBytesOf(in)
	}
	return n
}

func (p *Planned) windowBytesOf(in program.Input) int64 {
	if st := p.sourceOf(in); st.Compact() > 0 {
		return 4 * int64(st.Readings())
	}
	return 8 * int64(p.params.N()) * int64(p.params.LimbsAt(p.sourceOf(in).LevelAt(p.params.Depth())))
}

// fuse plans the programs that run together, for the keys that there are.
func (p *pipeline) fuse(keys []engine.Keys) error {
	var made fusions
	rotations := map[string][]int{}
	served := map[*Planned]*served{}
	for _, r := range p.programs {
		served[r.planned] = r.served
	}
	for _, all := range p.ofClass {
		for _, s := range all {
			served[s.planned] = s
		}
	}
	for _, group := range p.plan.together() {
		params := group[0].Circuit.Parameters()
		if rotations[params.Name()] == nil {
			rotations[params.Name()] = commonRotations(params, keys)
		}
		set, err := made.fuse(group, rotations[params.Name()])
		if err != nil {
			return err
		}
		var names []string
		for i, planned := range group {
			s := served[planned]
			s.set, s.part, s.first = set, i, served[group[0]]
			names = append(names, planned.Name)
		}
		p.log.Debug("programs run together", "programs", strings.Join(names, ", "))
	}
	return nil
}

// commonRotations returns the powers of two that all keys for the parameters can rotate by.
func commonRotations(params henc.Parameters, keys []engine.Keys) []int {
	out := []int{}
	for k := 1; k < params.Slots(); k <<= 1 {
		g := henc.GaloisElement(params, k)
		if !slices.ContainsFunc(keys, func(e engine.Keys) bool {
			return e.Context.Parameters().Equal(params) && e.Evaluation.Galois[g] == nil
		}) {
			out = append(out, k)
		}
	}
	return out
}

// together returns the programs that read the same windows, in the order of the plan. Those
// that share theirs with no other program are left out.
func (p *Plan) together() [][]*Planned {
	var groups [][]*Planned
	at := map[string]int{}
	for i := range p.Programs {
		pr := &p.Programs[i]
		if pr.Circuit.Capacity() > 0 || pr.Circuit.Bootstraps() > 0 || pr.Circuit.Whole() {
			continue // it runs in parts, or takes so long that nothing is saved, or has no steps
		}
		key := fmt.Sprintf("%s %q %v", pr.Circuit.Parameters().Name(), pr.Circuit.Class(), pr.Circuit.Inputs())
		n, known := at[key]
		if !known {
			n = len(groups)
			at[key] = n
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], pr)
	}
	return slices.DeleteFunc(groups, func(g []*Planned) bool { return len(g) < 2 })
}

// fusions are sets by the expressions of their programs: those of many devices are planned
// once.
type fusions map[string]*program.Set

// fuse plans programs together; see program.Fuse.
func (f *fusions) fuse(group []*Planned, rotations []int) (*program.Set, error) {
	circuits := make([]*program.Circuit, len(group))
	exprs := make([]string, len(group))
	for i, p := range group {
		circuits[i], exprs[i] = p.Circuit, p.source.Expr
	}
	key := fmt.Sprintf("%s %q", circuits[0].Parameters().Name(), exprs)
	if like := (*f)[key]; like != nil {
		if set := like.For(circuits...); set != nil {
			return set, nil
		}
	}
	set, err := program.Fuse(rotations, circuits...)
	if err != nil {
		return nil, err
	}
	if *f == nil {
		*f = fusions{}
	}
	(*f)[key] = set
	return set, nil
}

// gather puts the jobs of a set together, if all of its programs have one over the same
// full windows. It returns the jobs to queue, in their order.
func gather(jobs []*job) []*job {
	type run struct {
		set   *program.Set
		place place
	}
	groups := map[run][]*job{}
	for _, j := range jobs {
		if j.prog.set != nil && len(j.present()) == 0 {
			r := run{j.prog.set, j.place}
			groups[r] = append(groups[r], j)
		}
	}
	followers := map[*job]bool{}
	for r, g := range groups {
		if len(g) < len(r.set.Circuits()) {
			continue
		}
		shared := newSharedRun(r.set)
		for _, j := range g {
			j.shared = shared
		}
		g[0].with = g[1:]
		for _, j := range g[1:] {
			followers[j] = true
		}
	}
	return slices.DeleteFunc(jobs, func(j *job) bool { return followers[j] })
}

// sharedRun is one run of a set.
type sharedRun struct {
	set *program.Set

	alone   bool // no other job runs, and there are processors to spare
	begun   atomic.Bool
	over    chan struct{} // closed when results and err are set
	results []engine.Result
	err     error
}

func newSharedRun(set *program.Set) *sharedRun {
	return &sharedRun{set: set, over: make(chan struct{})}
}

// result returns the result of the program at a place in the set, which is asked for once. The first call runs the
// set; the others go on together when it has run.
func (s *sharedRun) result(part int, run func(*program.Set) ([]engine.Result, error)) (engine.Result, error) {
	if s.begun.CompareAndSwap(false, true) {
		s.results, s.err = run(s.set)
		close(s.over)
	}
	s.wait()
	if s.err != nil {
		return engine.Result{}, s.err
	}
	r := s.results[part]
	s.results[part] = engine.Result{} // which its job keeps
	return r, nil
}

// awake bounds how long the jobs of a set that runs alone look for its results before they sleep. A GPU takes about
// half of that for a window, and a goroutine that sleeps goes on 80 us late where all processors are idle.
const awake = time.Millisecond

// wait returns when the set has run.
func (s *sharedRun) wait() {
	if s.alone {
		for start := time.Now(); time.Since(start) < awake; {
			select {
			case <-s.over:
				return
			default:
			}
		}
	}
	<-s.over
}
