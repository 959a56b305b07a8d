package program

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// Explanation tells what a circuit does, needs and promises. Its JSON form is
// stable; Text is for people.
type Explanation struct {
	Program string `json:"program"`
	Expr    string `json:"expr"`
	Class   string `json:"class,omitempty"` // each of its devices has a result, or with Fleet all together
	Params  string `json:"params"`

	Inputs []InputInfo `json:"inputs"`
	Result ResultInfo  `json:"result"`

	Depth     int    `json:"depth"`       // multiplications one after another
	Levels    int    `json:"levels"`      // rescalings one after another
	MaxLevel  int    `json:"max_level"`   // of fresh ciphertexts, or of a bootstrapped one that is higher
	Policy    string `json:"policy"`      // how rescalings were placed
	KeySwitch int    `json:"keyswitches"` // products and rotations in all
	// LimbSwitches counts, for each key switch, digits times limbs: what the
	// time of a run is about proportional to.
	LimbSwitches int `json:"limb_switches"`

	// Bootstrap is there for a program that bootstraps. Its key switches are counted above.
	Bootstrap *BootstrapInfo `json:"bootstrap,omitempty"`

	// Compact is there for a program on compact windows.
	Compact *CompactInfo `json:"compact,omitempty"`

	// Places is how many windows, each of a device at another place, can be added up and run as
	// one; 0: none. Result.Slot is then that of place 0.
	Places int `json:"places,omitempty"`

	// Fleet is there for a program across devices. Result and Steps are then those for the
	// most windows that it takes.
	Fleet *FleetInfo `json:"fleet,omitempty"`

	// Least is the lowest level that all inputs could be encrypted at without
	// doubling the promised error, where it is below the present one.
	Least *LeastLevel `json:"least_level,omitempty"`

	// Model is there for a model, which has no Steps.
	Model *ModelInfo `json:"model,omitempty"`

	// Comparison is there for private_less, which has no Steps.
	Comparison *ComparisonInfo `json:"comparison,omitempty"`

	Keys  KeyInfo    `json:"keys"`
	Steps []StepInfo `json:"steps"`
}

// ModelInfo tells what a model is, and what evaluating it on a row costs.
type ModelInfo struct {
	answer.Model
	Learned string `json:"learned"` // what the key holder learns
	Legend  string `json:"legend"`  // what the values stand for
	// Trees without splits cost nothing. Terms are those of the range covers, RowBits those of a row.
	Terms         int `json:"terms"`
	Blocks        int `json:"blocks"`
	RowBits       int `json:"row_bits"`
	Products      int `json:"products"`
	PlainProducts int `json:"plain_products"`
	Ciphertexts   int `json:"result_ciphertexts"`
	Limbs         int `json:"limbs"` // of what is computed with; those of a result are fewer
	// Seconds is about what one row takes on one core of the machine that docs/models.md names.
	Seconds float64 `json:"core_seconds"`
}

// ComparisonInfo tells what private_less compares, and what a pair of windows costs.
type ComparisonInfo struct {
	Less       string  `json:"less"` // the answer is 1 where its sample is below that of Than
	Than       string  `json:"than"`
	Resolution float64 `json:"resolution"` // of the samples, in Unit
	Unit       string  `json:"unit"`
	Bits       int     `json:"bits"` // of a sample
	Room       int     `json:"room"` // for samples in a window, at most
	Products   int     `json:"products"`
	// Spare is how many bits of noise are left, at least.
	Spare float64 `json:"spare_bits"`
	// Seconds is about what a pair of windows takes on one core of the machine that docs/models.md names.
	Seconds float64 `json:"core_seconds"`
}

// BootstrapInfo tells what bootstrapping costs a program.
type BootstrapInfo struct {
	Count int `json:"count"` // in a run
	// Key switches and limb switches of each, about.
	KeySwitch    int `json:"keyswitches_each"`
	LimbSwitches int `json:"limb_switches_each"`
	// Memory is about how many bytes of a device's memory it takes: the keys, as they are and prepared, the
	// matrices, and those of a bootstrapping.
	Memory int64 `json:"memory"`
	// Error is the promised error that each adds at most, relative to the largest value.
	Error float64 `json:"error"`
	// Expr are the parts of the program that need them.
	Expr []string `json:"expr"`
}

// CompactInfo tells what it costs to bootstrap compact windows, besides the cost of the program.
type CompactInfo struct {
	Windows int `json:"windows"` // of devices of a class, together, for each input
	// Key switches and limb switches of them together, at most, besides one small key switch for each window.
	KeySwitch    int   `json:"keyswitches"`
	LimbSwitches int   `json:"limb_switches"`
	Memory       int64 `json:"memory"` // as BootstrapInfo has it
	// DeviceMemory is about how many bytes the key of each device takes.
	DeviceMemory int64 `json:"device_memory"`
	// Error is the promised error of a sample, relative to half its range.
	Error float64 `json:"error"`
}

// FleetInfo tells what depends on the number of devices.
type FleetInfo struct {
	Windows int `json:"windows"` // at most, in a result
	// Key switches and limb switches, as in Explanation, of each window. The others come once
	// for each result.
	KeySwitch    int `json:"keyswitches_window"`
	LimbSwitches int `json:"limb_switches_window"`
	// Exact is that of the result for the most windows.
	Exact string `json:"exact,omitempty"`
	// Promises are the promised errors for some numbers of full windows.
	Promises []FleetPromise `json:"promises"`
}

// FleetPromise is a promised error.
type FleetPromise struct {
	Windows int     `json:"windows"`
	Bound   float64 `json:"bound"`
	Noise   float64 `json:"noise,omitempty"` // of counts, before they are rounded
}

// InputInfo is a ciphertext that the program takes.
type InputInfo struct {
	Name     string  `json:"name"` // device/stream, or device/stream@lag
	Level    int     `json:"level"`
	LogScale float64 `json:"log_scale"`
	Samples  int     `json:"samples"`
	// Bins are those of the channels that the program reads, of a histogram.
	Bins int `json:"bins,omitempty"`
	// Bytes of the ciphertext on the wire, without headers; SeededBytes under
	// symmetric encryption.
	Bytes       int `json:"bytes"`
	SeededBytes int `json:"seeded_bytes"`
	// Precision and Readings are those of compact windows; 0 for others. Bytes are then the compact ones.
	Precision int `json:"precision,omitempty"`
	Readings  int `json:"readings,omitempty"`
}

// ResultInfo is what the key holder gets: value i is A*slot[Slot+i] + B, then
// its square root if Sqrt is set.
type ResultInfo struct {
	A     float64 `json:"a"`
	B     float64 `json:"b"`
	Sqrt  bool    `json:"sqrt"`
	Slot  int     `json:"slot"`
	Count int     `json:"count"`
	// Low and High bound the value for inputs within their ranges.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Exact, of a histogram, says what the key holder makes of the slots, and how exact that is;
	// Noise is the promised error of a count before it is rounded.
	Exact   string  `json:"exact,omitempty"`
	Reading string  `json:"reading,omitempty"` // how one value follows from several counts
	Noise   float64 `json:"noise,omitempty"`
	// AtLeast: the value is 1 if the rounded one is at least that, else 0; 0: it is the rounded one.
	AtLeast float64 `json:"at_least,omitempty"`
	// Undecided: nearer than that to a threshold, samples are undecided, and the promise is without them; 0: none are.
	Undecided float64 `json:"undecided,omitempty"`
	// Bound is the promised error; Bits is log2 of (High-Low)/Bound, or of the number of values
	// from Low to High if they are exact.
	Bound float64 `json:"bound"`
	Bits  float64 `json:"bits"`
	// HighBound is the promised error of a value at High: with Sqrt much smaller than
	// Bound, which then holds at Low.
	HighBound float64 `json:"high_bound"`

	Level    int     `json:"level"`
	Limbs    int     `json:"limbs"`
	LogScale float64 `json:"log_scale"`
	Bytes    int     `json:"bytes"`
}

// KeyInfo is what an evaluator must hold to run the circuit.
type KeyInfo struct {
	Relinearise bool  `json:"relinearise"`
	Rotations   []int `json:"rotations"`
	// Bootstrap says that it needs the keys of bootstrapping too; Count and Bytes are with all of them.
	Bootstrap bool `json:"bootstrap,omitempty"`
	Count     int  `json:"count"`
	Bytes     int  `json:"bytes"` // of these keys in a file, with seeds
}

// StepInfo is one operation on ciphertexts.
type StepInfo struct {
	ID       int     `json:"id"`
	Op       string  `json:"op"`
	Text     string  `json:"text"` // operation and operands
	Expr     string  `json:"expr"` // the part of the program that it serves
	Level    int     `json:"level"`
	Limbs    int     `json:"limbs"`
	Depth    int     `json:"depth"`
	LogScale float64 `json:"log_scale"`
	// LogMag bounds log2 of any slot, LogError log2 of its error.
	LogMag   float64 `json:"log_magnitude"`
	LogError float64 `json:"log_error"`
	// Room is how many bits are left below half the modulus.
	Room float64 `json:"room"`
}

// LeastLevel is a lower level for the inputs that would do.
type LeastLevel struct {
	Level int     `json:"level"`
	Bytes int     `json:"bytes"` // of one input
	Bound float64 `json:"bound"`
}

// least looks for a lower level for the inputs.
func (c *Circuit) least() *LeastLevel {
	if c.compact > 0 {
		return nil // their level follows from bootstrapping
	}
	present := 0
	for i := range c.steps {
		if c.steps[i].op == stepInput {
			present = max(present, c.steps[i].level)
		}
	}
	for level := range present {
		low, err := compileChanged(c.prog, c.params, func(st *config.Stream) {
			st.LogScale = int(math.Round(math.Log2(InputScale(c.params, *st))))
			st.Level = &level
		})
		if err == nil && low.out.Bound <= 2*c.out.Bound {
			return &LeastLevel{Level: level, Bytes: 2 * polyBytes(c.params, level), Bound: low.out.Bound}
		}
	}
	return nil
}

// Explain describes the circuit.
func (c *Circuit) Explain() Explanation {
	if c.Whole() {
		return c.explainWhole()
	}
	e := Explanation{
		Program: c.prog.Name, Expr: c.prog.Expr, Class: c.prog.Class,
		Params: c.params.Name(),
		Depth:  c.Depth(), MaxLevel: c.params.Depth(), Policy: c.policy.String(),
		Least: c.least(), Result: c.resultInfo(), Keys: c.keyInfo(),
	}
	for _, in := range c.Inputs() {
		e.Inputs = append(e.Inputs, c.inputInfo(in))
	}
	rescaled := make([]int, len(c.steps))
	for i := range c.steps {
		s := &c.steps[i]
		e.MaxLevel = max(e.MaxLevel, s.level) // bootstrapping may lead above Depth
		for _, a := range s.operands() {
			rescaled[i] = max(rescaled[i], rescaled[a])
		}
		if s.op == stepRescale || s.op == stepMulRescale {
			rescaled[i]++
		}
		from, to := c.src.span(s.at)
		e.Steps = append(e.Steps, c.stepInfo(i, excerpt(c.src.text, from, to)))
	}
	e.Levels = rescaled[c.results[0]]
	e.KeySwitch, e.LimbSwitches = c.switches()
	e.Fleet, e.Places, e.Bootstrap = c.fleetInfo(), c.sharing(), c.bootstrapInfo()
	e.Compact = c.compactInfo()
	return e
}

// explainWhole is Explain for a model or a comparison.
func (c *Circuit) explainWhole() Explanation {
	e := Explanation{Program: c.prog.Name, Expr: c.prog.Expr, Class: c.prog.Class, Params: c.params.Name(),
		MaxLevel: c.params.Depth(), Result: c.resultInfo(), Steps: []StepInfo{},
		Keys: KeyInfo{Relinearise: true, Rotations: c.Rotations()}}
	e.Keys.Count = len(e.Keys.Rotations) + 2 // conjugation too
	e.Keys.Bytes = e.Keys.Count * c.params.SwitchingKeyBytes()
	e.Result.Bytes = int(c.ResultBytes())
	if e.Result.Bound == 0 {
		e.Result.Bits, e.Result.Exact = math.Log2(e.Result.High-e.Result.Low+1), "exact"
	}
	for _, in := range c.Inputs() {
		e.Inputs = append(e.Inputs, c.inputInfo(in))
	}
	n := rangecover.Counts{}
	if c.compared != nil {
		cost := c.compared.Window.Cost()
		n.Depth, n.Products, n.Switches = cost.Depth, cost.Products, cost.Switches
		e.Comparison = c.comparisonInfo(n)
	} else {
		info := &ModelInfo{Model: *c.prog.Model, Learned: c.prog.Model.Learned(), Legend: c.prog.Model.Legend()}
		if c.prog.Plan != nil {
			n = c.prog.Plan.Count()
			info.Terms, info.Blocks, info.RowBits = n.Terms, n.Blocks, n.Bits
			info.Products, info.PlainProducts, info.Ciphertexts = n.Products, n.PlainProducts, n.Results
			info.Limbs = c.params.LimbsAt(c.params.MaxLevel())
			info.Seconds = n.Time(coreCosts(c.params), 1).Seconds()
		}
		e.Model = info
	}
	e.Depth, e.KeySwitch = n.Depth, n.Switches+n.Products
	top := c.params.MaxLevel()
	e.LimbSwitches = e.KeySwitch * c.params.Dnum(top) * (c.params.LimbsAt(top) + len(c.params.P()))
	return e
}

// comparisonInfo describes private_less.
func (c *Circuit) comparisonInfo(n rangecover.Counts) *ComparisonInfo {
	k := c.compared
	info := &ComparisonInfo{Less: k.Less.String(), Than: k.Than.String(), Resolution: k.grid.Width(), Unit: k.unit,
		Bits: k.Window.Bits(), Room: k.Window.Numbers(), Products: n.Products,
		Seconds: n.Time(coreCosts(c.params), 1).Seconds()}
	if p, err := bfv.NewParameters(c.params, henc.DefaultT); err == nil {
		info.Spare = k.Window.Budget(p)
	}
	return info
}

// coreCosts are the times of operations on one core, measured on the machine that docs/models.md names under bfv13, and
// for other parameters in proportion to the residues that they touch.
func coreCosts(p henc.Parameters) rangecover.Costs {
	limbs := p.LimbsAt(p.MaxLevel())
	work := float64(p.N()) * float64(limbs) / (8192 * 6)
	switches := float64(p.N()) * float64(p.Dnum(p.MaxLevel())*(limbs+len(p.P()))) / (8192 * 6 * 7)
	times := func(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }
	return rangecover.Costs{Product: times(8*time.Millisecond, work),
		PlainProduct: times(60*time.Microsecond, work), Switch: times(950*time.Microsecond, switches)}
}

// Promises returns in words which errors a program across devices promises, for some numbers of
// windows, and "" for other programs.
func (c *Circuit) Promises() string {
	if info := c.fleetInfo(); info != nil {
		return info.promises()
	}
	return ""
}

// fleetInfo returns nil for programs that are not across devices.
func (c *Circuit) fleetInfo() *FleetInfo {
	if c.across == nil {
		return nil
	}
	info := &FleetInfo{Windows: c.across.capacity}
	if c.out.Whole > 0 {
		info.Exact = c.out.Promise()
	}
	info.KeySwitch, info.LimbSwitches = c.across.window.switches()
	samples := int64(c.prog.stream(c.Inputs()[0]).Window.Samples)
	for n := 1; n <= c.across.capacity; n <<= 4 {
		if a, err := c.Across(n, int64(n)*samples); err == nil {
			info.Promises = append(info.Promises, FleetPromise{n, a.out.Bound, a.out.Noise})
		}
	}
	return info
}

// SetExplanation tells what programs cost that run together. Its JSON form is stable; Text
// is for people.
type SetExplanation struct {
	Programs []string `json:"programs"`
	Params   string   `json:"params"`

	// Key switches and limb switches of a window, as in Explanation: together, and of the
	// programs one by one.
	KeySwitch    int `json:"keyswitches"`
	LimbSwitches int `json:"limb_switches"`
	AloneKey     int `json:"keyswitches_alone"`
	AloneLimb    int `json:"limb_switches_alone"`
	// Places is how many windows can be added up, as in Explanation. All of them take these
	// key switches once.
	Places int `json:"places,omitempty"`

	Keys  KeyInfo    `json:"keys"`
	Steps []StepInfo `json:"steps"` // expr names the programs that a step serves
}

// Explain describes the set.
func (s *Set) Explain() SetExplanation {
	e := SetExplanation{Programs: s.names(), Params: s.params.Name(), Keys: s.keyInfo()}
	e.KeySwitch, e.LimbSwitches = s.switches()
	e.AloneKey, e.AloneLimb = s.alone()
	e.Places = s.sharing()
	serves := make([]set, len(s.steps)) // programs, by place
	for n, i := range s.results {
		serves[i] = serves[i].with(n)
	}
	for i := len(s.steps) - 1; i >= 0; i-- {
		for _, a := range s.steps[i].operands() {
			serves[a] = serves[a].or(serves[i])
		}
	}
	for i := range s.steps {
		var names []string
		for n, name := range e.Programs {
			if serves[i].meets(set{}.with(n)) {
				names = append(names, name)
			}
		}
		e.Steps = append(e.Steps, s.stepInfo(i, strings.Join(names, ", ")))
	}
	return e
}

// bootstrapInfo returns nil for programs that do not bootstrap.
func (c *Circuit) bootstrapInfo() *BootstrapInfo {
	if c.Bootstraps() == 0 {
		return nil
	}
	info := &BootstrapInfo{Count: c.Bootstraps()}
	info.KeySwitch, info.LimbSwitches = c.boot.KeySwitches()
	info.Memory = c.bootstrapMemory()
	for i := range c.steps {
		if s := &c.steps[i]; s.op == stepBootstrap {
			sd, fixed := c.boot.Error(s.k)
			info.Error = max(info.Error, laplace(sd).limit()+fixed)
			from, to := c.src.span(s.at)
			info.Expr = append(info.Expr, excerpt(c.src.text, from, to))
		}
	}
	return info
}

// bootstrapMemory is about what the keys of the program take, as they are and prepared, and bootstrapping.
func (c *Circuit) bootstrapMemory() int64 {
	matrices, working := c.boot.Memory()
	p := c.params
	key := 8 * int64(p.Dnum(p.MaxLevel())) * int64(len(p.Q())+len(p.P())) * int64(p.N())
	return 2*key*int64(c.keyInfo().Count) + matrices + working
}

// compactInfo returns nil for programs on other windows.
func (c *Circuit) compactInfo() *CompactInfo {
	if c.compact == 0 || c.boot == nil {
		return nil
	}
	// A device's key: two polynomials of the small ring for each limb of level 0, over these limbs and one more, as
	// they are and prepared.
	limbs := c.params.LimbsAt(0)
	info := &CompactInfo{Windows: c.compact, Memory: c.bootstrapMemory(),
		DeviceMemory: 2 * 2 * int64(limbs) * int64(limbs+1) * 4 * config.MaxCompact}
	info.KeySwitch, info.LimbSwitches = c.boot.KeySwitches()
	for _, v := range c.prog.Vars {
		info.Error = math.Exp2(-float64(v.Stream.Compact()))
	}
	return info
}

// CompactBytes is the length of a window of a compact stream, without what signs it.
func CompactBytes(st config.Stream) int {
	const head, more = 14, 6 // as henc/compact has it
	return head + (st.Readings()*(st.Compact()+more)+7)/8
}

// sharing returns Places, or 0 if a window runs alone.
func (r *routine) sharing() int {
	if r.Places() == 1 {
		return 0
	}
	return r.Places()
}

func (r *routine) keyInfo() KeyInfo {
	k := KeyInfo{Relinearise: r.NeedsRelin(), Rotations: r.Rotations()}
	k.Count = len(k.Rotations)
	if k.Relinearise {
		k.Count++
	}
	if r.refreshes() {
		k.Bootstrap = true
		k.Count += 2 // conjugation, and from the sparse secret
		for _, rotation := range r.boot.Rotations() {
			if !slices.Contains(k.Rotations, rotation) {
				k.Count++
			}
		}
	}
	k.Bytes = k.Count * r.params.SwitchingKeyBytes()
	return k
}

// stepInfo describes step i, which serves some part of a program or some programs.
func (r *routine) stepInfo(i int, serves string) StepInfo {
	s := &r.steps[i]
	return StepInfo{
		ID: i, Op: s.op.String(), Text: s.String(), Expr: serves, Level: s.level,
		Limbs: r.params.LimbsAt(s.level), Depth: s.depth, LogScale: math.Log2(s.scale), LogMag: math.Log2(s.mag),
		LogError: math.Log2(max(s.dev.limit(), 0x1p-200)),
		Room:     r.params.LogQ(s.level) - 1 - math.Log2(s.scale) - math.Log2(s.mag+s.dev.limit()),
	}
}

func (c *Circuit) inputInfo(in Input) InputInfo {
	info := InputInfo{Name: in.String()}
	for i := range c.steps {
		if s := &c.steps[i]; s.op == stepInput && s.in == in {
			info.Level, info.LogScale = s.level, math.Log2(s.scale)
		}
	}
	for _, v := range c.prog.Vars {
		if v.Device == in.Device && v.Stream.Name == in.Stream {
			info.Samples = c.prog.present(in, v.Stream)
			if grid, err := v.Stream.Channels[v.Channel].Grid(); v.Stream.Histogram() && err == nil {
				info.Bins = max(info.Bins, grid.Bins)
			}
		}
	}
	info.SeededBytes = polyBytes(c.params, info.Level)
	info.Bytes = 2 * info.SeededBytes
	if st := c.prog.stream(in); st.Compact() > 0 {
		info.Precision, info.Readings, info.Bytes = st.Compact(), st.Readings(), CompactBytes(st)
		info.SeededBytes = info.Bytes
	}
	return info
}

func (c *Circuit) resultInfo() ResultInfo {
	r := ResultInfo{A: c.out.A, B: c.out.B, Sqrt: c.out.Sqrt, Slot: c.out.Slot, Count: c.out.Count,
		Low: c.lo, High: c.hi, Bound: c.out.Bound, Level: c.Level(), Limbs: c.params.LimbsAt(c.Level()),
		LogScale: math.Log2(c.Scale()), Bytes: 2 * polyBytes(c.params, c.Level())}
	if r.Sqrt {
		r.Low, r.High = math.Sqrt(max(r.Low, 0)), math.Sqrt(max(r.High, 0))
	}
	r.HighBound, r.Undecided = c.out.BoundAt(r.High), c.out.Resolution
	if c.out.Whole > 0 {
		r.Exact, r.Reading, r.Noise = c.out.Promise(), c.out.Counts.String(), c.out.Noise
		r.AtLeast = c.out.AtLeast
	}
	if r.Bits = max(math.Log2((r.High-r.Low)/r.Bound), 0); r.Bound == 0 {
		r.Bits = math.Log2((r.High-r.Low)*c.out.Whole + 1)
	}
	return r
}

// polyBytes returns the size of one polynomial with its residues packed to their bit length.
func polyBytes(p henc.Parameters, level int) int {
	n := 0
	for _, q := range p.Q()[:p.LimbsAt(level)] {
		n += bits.Len32(q) * p.N() / 8
	}
	return n
}
