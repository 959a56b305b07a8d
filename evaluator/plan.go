package evaluator

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/model/encrypted"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/transport"
)

// Plan is a checked configuration: every program compiled.
type Plan struct {
	Programs []Planned
}

// Planned is one program of a plan.
type Planned struct {
	Name    string
	Topic   string // where results go; empty: the default topic
	Unit    string
	Circuit *program.Circuit // for full windows
	Join    JoinRule

	// Alone says why the results of a program are not packed although that is configured;
	// empty: they are, or it is not.
	Alone string

	source program.Source
	params henc.Parameters
}

// JoinRule says which windows of a program's inputs belong together.
type JoinRule struct {
	// Every is the common length of windows by time. With 0 there is only one
	// stream, and earlier windows are found by boot epoch and sequence number.
	Every time.Duration
}

// String returns the rule in words.
func (j JoinRule) String() string {
	if j.Every > 0 {
		return fmt.Sprintf("windows of the same %v", j.Every)
	}
	return "windows by sequence number"
}

// Needs returns, for each parameter set that programs use, what its evaluation keys must
// be able to do, so that the key holder can make exactly these keys.
func (p *Plan) Needs() []Need {
	by := map[string]*Need{}
	var order []string
	for _, pr := range p.Programs {
		name := pr.params.Name()
		n := by[name]
		if n == nil {
			n = &Need{Params: name}
			by[name] = n
			order = append(order, name)
		}
		n.Relinearise = n.Relinearise || pr.Circuit.NeedsRelin()
		n.Bootstrap = n.Bootstrap || pr.Circuit.Bootstraps() > 0 || pr.Circuit.Compact() > 0
		for _, k := range pr.Circuit.Rotations() {
			if !slices.Contains(n.Rotations, k) {
				n.Rotations = append(n.Rotations, k)
			}
		}
	}
	slices.Sort(order)
	out := make([]Need, 0, len(order))
	for _, name := range order {
		slices.Sort(by[name].Rotations)
		out = append(out, *by[name])
	}
	return out
}

// places returns the most windows that programs can add up before they run.
func (p *Plan) places() int {
	n := 1
	for i := range p.Programs {
		n = max(n, p.Programs[i].Circuit.Places())
	}
	return n
}

// Need is what the evaluation keys for some parameters must be able to do.
type Need struct {
	Params      string
	Relinearise bool
	Rotations   []int // ascending
	Bootstrap   bool  // also what bootstrapping needs
}

// Check compiles every program of cfg, without keys and without a broker. The
// error is a *CheckError with the faults of all programs.
func Check(cfg *config.Evaluator) (*Plan, error) {
	faults := new(CheckError)
	plan := compile(cfg, faults)
	return plan, faults.err()
}

// compile compiles every program, or notes what is wrong and gives nil.
func compile(cfg *config.Evaluator, faults *CheckError) *Plan {
	plan := &Plan{}
	for i := range cfg.Programs {
		p, err := planProgram(cfg, &cfg.Programs[i])
		if err != nil {
			faults.add(cfg, i, err)
			continue
		}
		plan.Programs = append(plan.Programs, *p)
	}
	if len(cfg.Programs) == 0 {
		faults.add(cfg, -1, errors.New("no programs are declared"))
	}
	if faults.err() != nil {
		return nil
	}
	return plan
}

// Explain describes the named programs of cfg, or all when none is named. It
// returns those that it can describe even when it fails with a *CheckError for
// others.
func Explain(cfg *config.Evaluator, names ...string) ([]program.Explanation, error) {
	var out []program.Explanation
	faults := new(CheckError)
	for _, n := range names {
		if !slices.Contains(programNames(cfg), n) {
			faults.add(cfg, -1, fmt.Errorf("there is no program %q; there are %s", n,
				strings.Join(programNames(cfg), ", ")))
		}
	}
	for i := range cfg.Programs {
		if len(names) > 0 && !slices.Contains(names, cfg.Programs[i].Name) {
			continue
		}
		p, err := planProgram(cfg, &cfg.Programs[i])
		if err != nil {
			faults.add(cfg, i, err)
			continue
		}
		out = append(out, p.Circuit.Explain())
	}
	return out, faults.err()
}

// ExplainPacks says which results of cfg go out together, and of the others why they do not.
// It says nothing if results are not packed. It fails with a *CheckError.
func ExplainPacks(cfg *config.Evaluator) (packs, alone []string, err error) {
	if cfg.Results == nil {
		return nil, nil, nil
	}
	plan, err := Check(cfg)
	if err != nil {
		return nil, nil, err
	}
	packs, alone = plan.packing(cfg.Results)
	return packs, alone, nil
}

func programNames(cfg *config.Evaluator) []string {
	names := make([]string, len(cfg.Programs))
	for i, p := range cfg.Programs {
		names[i] = p.Name
	}
	return names
}

// planProgram resolves the inputs of a program and compiles it.
func planProgram(cfg *config.Evaluator, p *config.Program) (*Planned, error) {
	src := program.Source{Name: p.Name, Expr: p.Expr, Class: p.For, Resolution: p.Resolution,
		Vars: map[string]program.Var{}}
	var first *config.DeviceStream
	for name, ref := range p.Inputs {
		s, channel, err := cfg.Input(p, ref)
		if err != nil {
			return nil, fmt.Errorf("program %q: input %s: %w", p.Name, name, err)
		}
		if first != nil && s.Params != first.Params {
			return nil, fmt.Errorf("program %q: its inputs are under parameters %s and %s; they must be under the same",
				p.Name,
				first.Params, s.Params)
		}
		first = s
		src.Vars[name] = program.Var{Device: s.Device, Stream: s.Stream, Channel: channel}
	}
	if first == nil {
		return nil, fmt.Errorf("program %q has no inputs", p.Name)
	}
	params, err := namedParams(first.Params)
	if err != nil {
		return nil, fmt.Errorf("program %q: %w", p.Name, err)
	}
	if p.Model != nil {
		if err := readModel(&src, p.Model, params); err != nil {
			return nil, fmt.Errorf("program %q: %w", p.Name, err)
		}
	}
	planned := &Planned{Name: p.Name, Topic: p.Topic, Unit: p.Unit, source: src, params: params}
	if err := planned.compile(cfg.Results != nil); err != nil {
		return nil, err
	}
	if planned.Join, err = planned.joinRule(); err != nil {
		return nil, err
	}
	if err := planned.fitsLimits(cfg); err != nil {
		return nil, err
	}
	return planned, nil
}

// readModel reads the model of a program whose inputs are resolved, and plans it.
func readModel(src *program.Source, m *config.ProgramModel, params henc.Parameters) error {
	if !params.Integers() {
		return fmt.Errorf("model: its inputs are under %s; a model reads streams of mode steps, with params: %s",
			params.Name(), strings.Join(henc.IntegerNames(), " or "))
	}
	f, err := os.Open(m.File)
	if err != nil {
		return fmt.Errorf("model.file: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, model.MaxFile+1))
	if err != nil {
		return fmt.Errorf("model.file: %w", err)
	}
	o := answer.Options{File: filepath.Base(m.File), Answer: m.Answer, Scale: m.Scale, Features: m.Features,
		Columns: map[string]int{}, Slots: params.N(), T: henc.DefaultT}
	var first config.Stream
	for name, v := range src.Vars {
		o.Columns[name], first = v.Channel, v.Stream
	}
	for _, ch := range first.Channels {
		steps, err := ch.StepGrid()
		if err != nil {
			return fmt.Errorf("model: channel %s of stream %s: %w", ch.Name, first.Name, err)
		}
		grid, err := model.NewGrid(ch.Range[0], ch.Resolution, steps.Bins)
		if err != nil {
			return fmt.Errorf("model: channel %s of stream %s: %w", ch.Name, first.Name, err)
		}
		o.Channels, o.Grids = append(o.Channels, ch.Name), append(o.Grids, grid)
	}
	if src.Model, src.Plan, err = answer.Read(content, o); err != nil {
		return fmt.Errorf("model %s: %w", m.File, err)
	}
	src.Expr = src.Model.Text()
	p, err := bfv.NewParameters(params, henc.DefaultT)
	if err != nil {
		return err
	}
	if budget := encrypted.Budget(p, src.Plan); budget < 0 {
		return fmt.Errorf("model %s: %.1f bits too much noise under %s; use larger parameters", m.File, -budget,
			params.Name())
	}
	return nil
}

// namedParams is henc.Named; tests have insecure parameters too.
var namedParams = henc.Named

// compile compiles the program for full windows, for packs if pack is set and it can be.
func (p *Planned) compile(pack bool) (err error) {
	switch {
	case !pack:
	case p.params.Integers():
		p.Alone = "it is of whole numbers: a model, or a comparison"
	case p.Topic != "":
		p.Alone = "it has a topic of its own"
	default:
		p.source.Packed = true
		if p.Circuit, err = compileProgram(p.source, p.params); err == nil {
			return nil
		}
		p.source.Packed = false
		p.Alone = err.Error()
		var refused *program.Error
		if errors.As(err, &refused) {
			p.Alone = refused.Message
		}
	}
	p.Circuit, err = compileProgram(p.source, p.params)
	return err
}

// partial compiles the program for windows that are not full.
func (p *Planned) partial(present map[program.Input]int) (*program.Circuit, error) {
	src := p.source
	src.Present = present
	c, err := compileProgram(src, p.params)
	if err != nil && src.Packed {
		src.Packed = false
		return compileProgram(src, p.params)
	}
	return c, err
}

// compileProgram is program.Compile; tests count its calls.
var compileProgram = program.Compile

// fitsLimits refuses inputs whose windows would all be refused as too large. It also
// refuses a store that cannot hold all windows of one result: it would fill with windows
// that wait for each other forever.
func (p *Planned) fitsLimits(cfg *config.Evaluator) error {
	c := p.Circuit
	held := map[streamID]int64{} // bytes of the windows that a result needs, by stream
	for _, in := range c.Inputs() {
		st := p.sourceOf(in)
		need := wireBytes(c.Parameters(), st) + transport.MaxMeta
		if limit := int64(cfg.Limits.Object); limit > 0 && need > limit {
			return fmt.Errorf("program %q: windows of %s have up to %d KiB, limits.object is %d KiB; raise it",
				c.Name(), in, (need+1023)>>10, limit>>10)
		}
		id := streamID{in.Device, in.Stream}
		held[id] = max(held[id], int64(in.Lag+1)*need)
	}
	if n := c.ResultBytes(); c.Model() != nil && n+transport.MaxMeta > transport.DefaultMaxObject {
		return fmt.Errorf("program %q: a result has %d ciphertexts, together %d MiB, and at most %d MiB can be sent; "+
			"train fewer or smaller trees, or use a coarser scale", c.Name(), c.Plan().Count().Results, n>>20,
			transport.DefaultMaxObject>>20)
	}
	if cfg.Store == nil {
		return nil
	}
	total := int64(0)
	for _, n := range held {
		total += n
	}
	if room := int64(cfg.Store.Bytes); total > room {
		return fmt.Errorf("program %q: the windows of one result have up to %d KiB, and they wait in the store until "+
			"all are there; store.bytes is %d KiB; raise it",
			c.Name(), (total+1023)>>10, room>>10)
	}
	return nil
}

// wireBytes is the length of a window of a stream at most, without its header.
func wireBytes(p henc.Parameters, st config.Stream) int64 {
	if st.Compact() > 0 {
		return int64(program.CompactBytes(st))
	}
	return int64(p.CiphertextBytes(st.LevelAt(p.Depth()), false))
}

// joinRule decides how the inputs of the circuit are joined.
func (p *Planned) joinRule() (JoinRule, error) {
	var rule JoinRule
	c := p.Circuit
	ins := c.Inputs()
	if c.Capacity() > 0 && p.sourceOf(ins[0]).Window.Every == 0 {
		return rule, fmt.Errorf("program %q is across the devices of a class, and the windows of %s end after a "+
			"number of samples and so do not line up; give the stream an every:", c.Name(), ins[0])
	}
	for i, in := range ins {
		every := p.sourceOf(in).Window.Every
		if i == 0 {
			rule.Every = every
			continue
		}
		if every != rule.Every {
			return rule, fmt.Errorf("program %q joins %s and %s, whose windows end differently (every: %v and %v); "+
				"give them the same window",
				c.Name(), ins[0], in, rule.Every, every)
		}
		if every == 0 && (in.Device != ins[0].Device || in.Stream != ins[0].Stream) {
			return rule, fmt.Errorf("program %q joins %s and %s, whose windows end after a number of samples and so "+
				"do not line up; give both the same every:",
				c.Name(), ins[0], in)
		}
	}
	return rule, nil
}

// sourceOf returns the stream of an input.
func (p *Planned) sourceOf(in program.Input) config.Stream {
	for _, v := range p.source.Vars {
		if v.Device == in.Device && v.Stream.Name == in.Stream {
			return v.Stream
		}
	}
	return config.Stream{}
}

// packing says how results go out together: one line for each parameter set, and one for
// each reason that keeps programs out of packs.
func (p *Plan) packing(o *config.Results) (packs, alone []string) {
	if o == nil {
		return nil, nil
	}
	programs, reasons := map[string][]string{}, map[string][]string{}
	params := map[string]henc.Parameters{}
	for i := range p.Programs {
		pr := &p.Programs[i]
		if pr.Circuit.Packed() {
			params[pr.params.Name()] = pr.params
			programs[pr.params.Name()] = append(programs[pr.params.Name()], pr.Name)
			continue
		}
		reasons[pr.Alone] = append(reasons[pr.Alone], pr.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		size := params[name].CiphertextBytes(0, false)
		packs = append(packs, fmt.Sprintf("results of %d programs under %s go out together: up to %d in %d KiB; those "+
			"that wait take up to %d MiB for each key set", len(programs[name]), name, o.Pack, (size+1023)>>10,
			(o.Pack*size+1<<20-1)>>20))
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		names := reasons[reason]
		text := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		alone = append(alone, fmt.Sprintf("results: those of %s go out one by one: %s", text, reason))
	}
	return packs, alone
}

// maxNamed is how many programs a line about packs names.
const maxNamed = 4

// warnUseless points out programs whose results say little.
func (p *Plan) warnUseless(log *slog.Logger) {
	for i := range p.Programs {
		if c := p.Programs[i].Circuit; !c.Useful() {
			log.Warn("the promised error is more than a hundredth of the range of results; see evaluator explain",
				"program", c.Name(), "promise", c.Output().Bound, "params", c.Parameters().Name())
		}
	}
}
