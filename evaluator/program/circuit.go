package program

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// Circuit is a compiled program. It is immutable and safe for concurrent use.
type Circuit struct {
	routine // with one result, the last step
	prog    Source
	src     *source
	tree    ast.Node
	out     Output
	sh      shape
	lo, hi  float64 // range of the value before the root
	policy  policy
	// compared is what private_less compares; nil for other programs.
	compared *Comparison
	across   *across // of a program across the devices of a class; nil for others
	lowered  int     // of whole numbers, the level of the result
}

var _ Routine = (*Circuit)(nil)

// compile is Compile without advice.
func compile(prog Source, params henc.Parameters) (*Circuit, error) {
	if params.N() == 0 {
		return nil, &Error{Program: prog.Name, Kind: ErrParams, Message: "no parameters are given",
			Hint: "name parameters in the streams"}
	}
	if err := prog.check(params.Name(), params.Slots()); err != nil {
		return nil, err
	}
	for _, v := range prog.Vars {
		if v.Stream.Whole() != params.Integers() {
			return nil, &Error{Program: prog.Name, Kind: ErrParams,
				Message: fmt.Sprintf("streams of modes steps and digits need parameters for whole numbers, others "+
					"those for real ones; the inputs are under %s", params.Name()),
				Hint: "set params: bfv13 or bfv14 on streams of modes steps and digits, others on the rest"}
		}
	}
	switch {
	case prog.Model != nil:
		return modelCircuit(prog, params), nil
	case params.Integers():
		return compareWindows(prog, params)
	}
	src, tree, err := parse(prog.Name, prog.Expr)
	if err != nil {
		return nil, err
	}
	root, err := newGraph().lower(src, &prog, tree)
	if err != nil {
		return nil, err
	}
	s := &search{prog: &prog, src: src, root: root, ch: chainOf(params, &prog)}
	if root.spans(map[*node]bool{}) {
		s.ch.added = 1 // its windows are added up after their parts are computed
		return s.acrossDevices(tree)
	}
	best, perr := s.run()
	if perr != nil {
		return nil, perr
	}
	if best.bootstraps() || prog.compact() {
		s.ch.boot = bootstrapOf(params)
	}
	return s.circuit(best, tree, "program "+prog.Name), nil
}

// modelCircuit returns the circuit of a model on checked inputs: the row alone. What is computed on it is Source.Plan.
func modelCircuit(prog Source, params henc.Parameters) *Circuit {
	m := prog.Model
	v := prog.Vars[m.Features[0]]
	level := params.MaxLevel()
	if p, err := bfv.NewParameters(params, henc.DefaultT); err == nil {
		level = p.LowestLevel()
	}
	row := step{op: stepInput, in: Input{Device: v.Device, Stream: v.Stream.Name}, level: params.MaxLevel(),
		scale: InputScale(params, v.Stream)}
	lo, hi := m.Range()
	return &Circuit{prog: prog, lo: lo, hi: hi, lowered: level,
		out: Output{A: 1, Count: m.Count(), Bound: m.Promise()},
		routine: routine{name: "program " + prog.Name, params: params, steps: []step{row}, results: []int{0}, places: 1,
			added: 1}}
}

// Opener turns the body of a result of whole numbers into values. decrypt returns the slots of one of its ciphertexts.
// It fails with answer.ErrModel if the body has not the ciphertexts of such a result, and as decrypt does, but not for
// what they decrypt to.
type Opener interface {
	Open(body []byte, decrypt func(ciphertext []byte) ([]uint64, error)) ([]float64, error)
}

// Opener returns how a result of whole numbers is read; nil: it is one of real numbers.
func (c *Circuit) Opener() Opener {
	switch {
	case c.prog.Model != nil:
		return c.prog.Model
	case c.compared != nil:
		return c.compared
	}
	return nil
}

// Whole reports whether the circuit computes on whole numbers: a model, or a comparison. The result is then a body that
// package answer begins, under the scale of the inputs.
func (c *Circuit) Whole() bool { return c.Opener() != nil }

// Model returns the model that is evaluated in place of an expression; nil: there is none.
func (c *Circuit) Model() *answer.Model { return c.prog.Model }

// Plan returns how the model is evaluated; nil at the key holder.
func (c *Circuit) Plan() *rangecover.Plan { return c.prog.Plan }

// NeedsRelin reports whether a run multiplies ciphertexts and so needs the relinearisation key.
func (c *Circuit) NeedsRelin() bool { return c.Whole() || c.routine.NeedsRelin() }

// Peak bounds the memory of a run, in bytes: of a model that of the bits of a row, of its results and of what these are
// made of, of a comparison that of everything that it computes.
func (c *Circuit) Peak() int64 {
	held := 0
	switch {
	case c.compared != nil:
		cost := c.compared.Window.Cost()
		held = 3 * (cost.Products + cost.Switches)
	case c.prog.Plan != nil:
		counts := c.prog.Plan.Count()
		held = 2*counts.Bits + 2*counts.Results + 8*counts.Parts
	default:
		return c.routine.Peak()
	}
	return int64(held) * 8 * int64(c.params.N()) * int64(c.params.LimbsAt(c.params.MaxLevel()))
}

// ResultBytes bounds the length of a result's body.
func (c *Circuit) ResultBytes() int64 {
	one := int64(c.params.CiphertextBytes(c.Level(), false))
	if c.compared != nil {
		return answer.BodyRoom + one
	}
	if c.prog.Plan == nil {
		return one
	}
	return answer.BodyRoom + int64(c.prog.Plan.Count().Results)*one
}

// circuit returns the circuit of a plan.
func (s *search) circuit(p *plan, tree ast.Node, name string) *Circuit {
	compact := 0
	if s.prog.compact() && (s.fleet == nil || s.fleet.from == nil) { // else it runs on sums
		if compact = 1; s.prog.Class != "" {
			compact = s.ch.places
		}
	}
	return &Circuit{prog: *s.prog, src: s.src, tree: tree, out: p.out, sh: p.sh, lo: p.lo, hi: p.hi, policy: p.policy,
		routine: routine{name: name, params: s.ch.params, steps: p.steps, results: []int{len(p.steps) - 1},
			places: s.ch.places, added: s.ch.added, boot: s.ch.boot, compact: compact}}
}

// compileChanged compiles a program with changed streams.
func compileChanged(prog Source, p henc.Parameters, change func(*config.Stream)) (*Circuit, error) {
	vars := make(map[string]Var, len(prog.Vars))
	for name, v := range prog.Vars {
		change(&v.Stream)
		vars[name] = v
	}
	prog.Vars = vars
	return compile(prog, p)
}

// Class returns the class whose devices each have a result of their own, or "".
func (c *Circuit) Class() string { return c.prog.Class }

// Name returns the program's name.
func (c *Circuit) Name() string { return c.prog.Name }

// Output says how to read the result.
func (c *Circuit) Output() Output { return c.out }

// Level and Scale are those of the result.
func (c *Circuit) Level() int {
	if c.Whole() {
		return c.lowered
	}
	return c.last().level
}
func (c *Circuit) Scale() float64 { return c.last().scale }

// last returns the step of the result.
func (c *Circuit) last() *step { return &c.steps[c.results[0]] }

// Depth returns the number of multiplications one after another.
func (c *Circuit) Depth() int { return c.last().depth }

// OutputAt returns Output for windows at a place.
func (c *Circuit) OutputAt(place int) Output { return c.out.At(place, c.places, c.params.Slots()) }

// Reads reports whether the value of a device can stand in a slot, at the place of that device.
// A result across devices stands in one slot.
func (c *Circuit) Reads(slot int) bool {
	if across := c.Class() != "" && c.added == 1; c.places < 2 || across {
		return slot == c.out.Slot
	}
	slots := c.params.Slots()
	return slot >= 0 && slot < slots && (slot-c.out.Slot)%(slots/c.places) == 0
}

// Packed reports whether the circuit makes its result for a pack.
func (c *Circuit) Packed() bool { return c.prog.Packed }

// Rotations returns the rotations whose Galois keys the program needs, also to fill a pack.
func (c *Circuit) Rotations() []int {
	if c.Whole() {
		return bfv.KeyRotations(c.params)
	}
	ks := c.routine.Rotations()
	if c.Packed() && (len(ks) == 0 || ks[0] != PackRotation) {
		ks = append([]int{PackRotation}, ks...)
	}
	return ks
}

// Hash identifies what the program computes on what: SHA-256 over a tag, the
// expression, the parameter hash and, for each variable in alphabetical order,
// its name, device, channel and the layout hash of its stream. Strings stand
// with their length (8 bytes, big endian). With a model the word "model" and answer.Model.Append stand before the
// parameter hash. Of a program for a class the tag is another
// one, the class follows the expression, and the devices are empty: it is the same for
// all devices. It does not depend on how the circuit is planned or on how full the windows are.
func (c *Circuit) Hash() [32]byte {
	var b []byte
	str := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	if c.prog.Class == "" {
		str("hencedge program v1")
		str(c.prog.Expr)
	} else {
		str("hencedge class program v1")
		str(c.prog.Expr)
		str(c.prog.Class)
	}
	if c.prog.Resolution != 0 {
		str("resolution")
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(c.prog.Resolution))
	}
	if c.prog.Model != nil {
		str("model")
		b = c.prog.Model.Append(b)
	}
	hash := c.params.Hash()
	b = append(b, hash[:]...)
	for _, name := range sortedKeys(c.prog.Vars) {
		v := c.prog.Vars[name]
		layout := v.Stream.LayoutHash()
		str(name)
		str(v.Device)
		b = binary.BigEndian.AppendUint64(b, uint64(v.Channel))
		b = append(b, layout[:]...)
	}
	return sha256.Sum256(b)
}

// Magnitude bounds the coefficients of the decrypted result: no honest one is larger. It is
// twice what the program alone gives, for what a Set leaves in slots that nobody reads.
func (c *Circuit) Magnitude() float64 {
	s := c.last()
	return 2 * (s.mag + s.dev.limit()) * s.scale
}

// Range returns the range of the result's values, errors aside.
func (c *Circuit) Range() (low, high float64) {
	if !c.out.Sqrt {
		return c.lo, c.hi
	}
	return math.Sqrt(max(c.lo, 0)), math.Sqrt(max(c.hi, 0))
}

// Useful reports whether the promised error is below a hundredth of the range
// of results.
func (c *Circuit) Useful() bool { return c.Whole() || useful(c.lo, c.hi, c.out) }

// Output says how to read the slots of a decrypted result: value i is
// A*Re(slot[Slot+i]) + B, then its square root if Sqrt is set, in natural units. Of a histogram
// the values are exact: see Whole and Counts.
type Output struct {
	A, B  float64
	Sqrt  bool
	Slot  int
	Count int
	// Bound is the promised error: a value differs from the exact one, which
	// Reference gives up to its own rounding, by more with probability below 10^-15.
	Bound float64
	// Root, with Sqrt, is the promised error of the value under the root.
	Root float64
	// Whole, unless 0: a value times Whole is a whole number, to which the key holder rounds it.
	// Noise, below a quarter, is the promised error of that number before it is rounded.
	Whole, Noise float64
	// AtLeast, unless 0: the value is 1 if the rounded one is at least that, else 0.
	AtLeast float64
	// Resolution, unless 0: samples nearer than that to a threshold are undecided. For them a comparison is anything
	// from 0 to 1, with a count between what it would be for either. Bound holds where none is.
	Resolution float64
	// Counts say how one value follows from Count of them, if it does.
	Counts Counts
}

// Len returns the number of values.
func (o *Output) Len() int {
	if o.Counts.kind != readSlots {
		return 1
	}
	return o.Count
}

// Values returns the values that follow from the decrypted slots. A negative argument of the
// root is noise around zero and becomes 0. Values beyond float64, which no honest result has,
// become the largest float64: a refusal would reveal something about them.
func (o *Output) Values(slots []float64) []float64 {
	values := make([]float64, o.Count)
	for i := range values {
		v := within(within(o.A*slots[o.Slot+i]) + o.B)
		if o.Sqrt {
			v = math.Sqrt(max(v, 0))
		}
		if o.Whole > 0 {
			v = math.Round(within(v*o.Whole))/o.Whole + 0 // no negative zero
		}
		if o.AtLeast > 0 {
			v = truth(">=", v, o.AtLeast)
		}
		values[i] = v
	}
	if o.Counts.kind == readSlots {
		return values
	}
	defer clear(values)
	return []float64{o.Counts.value(values)}
}

// within returns x, or the largest float64 of its sign if x is infinite.
func within(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }

// raw returns the promised error of A*Re(slot) + B.
func (o *Output) raw() float64 {
	switch {
	case o.Sqrt:
		return o.Root
	case o.Whole > 0:
		return o.Noise / o.Whole
	}
	return o.Bound
}

// Promise returns the promised error in words.
func (o *Output) Promise() string {
	switch {
	case o.Counts.kind == readRank:
		return fmt.Sprintf("exact to the bin of %g", o.Counts.grid.Width())
	case o.Whole > 0:
		return "exact" + o.undecided()
	case o.Bound == 0:
		return "exact"
	}
	return fmt.Sprintf("error at most %.2g", o.Bound) + o.undecided()
}

// undecided says which samples a promise is not about.
func (o *Output) undecided() string {
	if o.Resolution == 0 {
		return ""
	}
	return fmt.Sprintf(" if no sample is within %g of a threshold", o.Resolution)
}

// At returns how to read the result for the window at a place. places is how many share a
// ciphertext, as in config.Stream, and slots those of the ring.
func (o Output) At(place, places, slots int) Output {
	if places > 1 {
		o.Slot = (o.Slot + place%places*(slots/places)) % slots
	}
	return o
}

// BoundAt returns the promised error of a value that was decrypted: with Sqrt it is the
// smaller the further the value is from 0, where Bound holds. For |w - v| <= e, sqrt(w)
// and sqrt(v) differ by at most e/(sqrt(w) + sqrt(w-e)) where w > e. Whoever learns it
// learns about as much of the value: it stays with the value.
func (o *Output) BoundAt(value float64) float64 {
	if o.Counts.kind == readRank {
		return o.Counts.bound(value)
	}
	if !o.Sqrt {
		return o.Bound
	}
	w := value * value
	down := value                               // to 0
	if low := w - o.Root - 0x1p-50*w; low > 0 { // less what w and the difference are rounded by
		down = o.Root / (value + math.Sqrt(low))
	}
	up := o.Root / (value + math.Sqrt(w+o.Root))
	return min(o.Bound, max(down, up)+0x1p-50*value)
}

// useful is Useful for values of lo to hi before the root.
func useful(lo, hi float64, out Output) bool {
	if out.Whole > 0 {
		return true
	}
	width := hi - lo
	if out.Sqrt {
		width = math.Sqrt(max(hi, 0)) - math.Sqrt(max(lo, 0))
	}
	return out.Bound < width/100
}
