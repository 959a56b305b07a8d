package program

import (
	"fmt"
	"math"
	"slices"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc"
)

// Source is a program before compilation.
type Source struct {
	Name string
	Expr string
	// Class names the devices of which each has a result of its own; then no variable names
	// a device. Empty: the variables name devices.
	Class string
	Vars  map[string]Var // by the name that Expr uses
	// Present says for windows that are not full how many samples they hold
	// (windows that end by time). Inputs that it does not name are full.
	Present map[Input]int
	// Resolution, in the units of what Expr compares: values nearer to a threshold are undecided. 0: nothing is
	// compared.
	Resolution float64
	// Packed: the result is a single value for a pack. It changes how the program is
	// planned and read, not what it computes or its hash.
	Packed bool
	// Earlier: the result is as evaluators planned it before results left at the lowest level. It changes neither what
	// the program computes nor its hash, and lets results that were stored then be checked and read.
	Earlier bool
	// Model is evaluated in place of an expression; Expr is then its text. Plan is how the evaluator does that; the key
	// holder has none.
	Model *answer.Model
	Plan  *rangecover.Plan
}

// Var is what a variable stands for: the windows of one channel.
type Var struct {
	Device  string
	Stream  config.Stream
	Channel int // index into Stream.Channels
}

// Input names one ciphertext: the window of a stream that is Lag windows older
// than the newest one of the join.
type Input struct {
	Device string
	Stream string
	Lag    int
}

// String returns "device/stream" or, for older windows, "device/stream@lag"; without a device
// "stream" and "stream@lag".
func (in Input) String() string {
	text := in.Stream
	if in.Device != "" {
		text = in.Device + "/" + in.Stream
	}
	if in.Lag != 0 {
		text += fmt.Sprintf("@%d", in.Lag)
	}
	return text
}

// VarKey names a window of a variable for Reference: "x", or "x@k" for the one
// that is k windows old.
func VarKey(name string, lag int) string {
	if lag == 0 {
		return name
	}
	return fmt.Sprintf("%s@%d", name, lag)
}

// unusable refuses a description. hint says what to do.
func (s *Source) unusable(hint, format string, args ...any) error {
	return &Error{Program: s.Name, Kind: ErrParams, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// check refuses a description that the planner could not rely on. slots is half
// the ring degree.
func (s *Source) check(params string, slots int) error {
	fail := s.unusable
	if len(s.Vars) == 0 {
		return fail("name inputs under inputs:", "no inputs are declared")
	}
	if !(s.Resolution >= 0) || !finite(s.Resolution) {
		return fail("leave out resolution:, or give it in the unit of the channel",
			"the resolution %g is not a positive number", s.Resolution)
	}
	if text := s.placesProblem(slots); text != "" {
		return fail("mend places: or window: of the streams", "%s", text)
	}
	streams := map[[2]string]config.Stream{}
	for _, name := range sortedKeys(s.Vars) {
		v := s.Vars[name]
		st := v.Stream
		where := Input{Device: v.Device, Stream: st.Name}.String()
		if (v.Device == "") != (s.Class != "") {
			return fail("write STREAM/CHANNEL with for: CLASS, else DEVICE/STREAM/CHANNEL",
				"variable %s: %s: a program for a class names no devices, any other does", name, where)
		}
		if v.Channel < 0 || v.Channel >= len(st.Channels) {
			return fail("name one of the channels of the stream",
				"variable %s: %s has no channel %d", name, where, v.Channel)
		}
		if st.Params != "" && params != "" && st.Params != params {
			return fail("give all streams of a program the same params:",
				"variable %s: %s is encrypted under parameters %s, this program is compiled for %s", name,
				where,
				st.Params, params)
		}
		if st.Window.Samples < 1 || st.Slots() > slots {
			return fail("use shorter windows, fewer channels or larger parameters",
				"variable %s: %s needs %d slots, parameters %s have %d", name, where, st.Slots(), params, slots)
		}
		for _, c := range st.Channels {
			if mid, half := c.Affine(); !finite(mid) || !finite(half) || half <= 0 {
				return fail("write range: [LOW, HIGH] with LOW below HIGH",
					"variable %s: %s channel %s has no usable range", name, where, c.Name)
			}
			if _, err := c.Grid(); st.Histogram() && err != nil {
				return fail("mend range: or resolution: of the channel",
					"variable %s: %s channel %s: %v", name, where, c.Name, err)
			}
			if st.Digits() && len(st.Channels) != 1 {
				return fail("use a stream for each channel",
					"variable %s: %s has %d channels, a stream of mode digits has one", name, where,
					len(st.Channels))
			}
			if _, err := c.StepGrid(); st.Whole() && err != nil {
				return fail("mend range: or resolution: of the channel",
					"variable %s: %s channel %s: %v", name, where, c.Name, err)
			}
		}
		key := [2]string{v.Device, st.Name}
		if old, ok := streams[key]; ok && old.LayoutHash() != st.LayoutHash() {
			return fail("describe the stream once", "variable %s: %s is described in two ways", name, where)
		}
		streams[key] = st
	}
	if s.Model != nil {
		return s.checkModel()
	}
	for _, name := range sortedKeys(s.Vars) {
		if v := s.Vars[name]; v.Stream.Steps() {
			return fail("use a stream of another mode, or a model:",
				"variable %s: %s holds rows of whole steps, which only a model: reads", name,
				Input{Device: v.Device, Stream: v.Stream.Name})
		}
	}
	for in, n := range s.Present {
		st, ok := streams[[2]string{in.Device, in.Stream}]
		if !ok {
			return fail("name windows of the inputs alone", "%s is not an input", in)
		}
		if n < 1 || n > st.Window.Samples {
			return fail("name as many samples as the window has",
				"%s has %d samples, its windows hold 1 to %d", in, n, st.Window.Samples)
		}
	}
	return nil
}

// checkModel refuses inputs that are no row of the model.
func (s *Source) checkModel() error {
	fail := s.unusable
	if err := s.Model.Check(); err != nil {
		return fail("take a file as docs/models.md describes", "%v", err)
	}
	if s.Packed {
		return fail("leave out results: pack of this key set, or the program",
			"results of a model are several ciphertexts and go out alone")
	}
	if len(s.Model.Features) != len(s.Vars) {
		return fail("give each feature one input",
			"the model has %d features, the program %d inputs", len(s.Model.Features), len(s.Vars))
	}
	first := s.Vars[s.Model.Features[0]]
	for _, name := range s.Model.Features {
		v, known := s.Vars[name]
		if !known {
			return fail("name the inputs as the model names its features",
				"the model's feature %q is none of the inputs", name)
		}
		where := Input{Device: v.Device, Stream: v.Stream.Name}
		if !v.Stream.Steps() {
			return fail("set mode: steps on the stream",
				"variable %s: %s is not of mode steps, which a model reads", name, where)
		}
		if v.Device != first.Device || v.Stream.Name != first.Stream.Name {
			return fail("take all features from channels of one stream",
				"variables %s and %s: %s and %s are different streams; a row of a model is one window",
				s.Model.Features[0], name, Input{Device: first.Device, Stream: first.Stream.Name}, where)
		}
	}
	return nil
}

// placesProblem says what is wrong with the places of the streams, or "".
func (s *Source) placesProblem(slots int) string {
	first := sortedKeys(s.Vars)[0]
	places, compact := placesOf(s.Vars[first].Stream, slots), s.Vars[first].Stream.Compact() > 0
	for _, name := range sortedKeys(s.Vars) {
		v := s.Vars[name]
		st := v.Stream
		where := Input{Device: v.Device, Stream: st.Name}.String()
		switch n := placesOf(st, slots); {
		case st.Compact() > 0 != compact:
			return fmt.Sprintf("variables %s and %s: the windows of one stream are compact, those of the other are not",
				first, name)
		case n != places:
			return fmt.Sprintf("variables %s and %s: their streams have %d and %d places; they must have the same",
				first, name, places, n)
		case n == 0:
		case n < 2 || n > slots || n&(n-1) != 0:
			return fmt.Sprintf("variable %s: %s has %d places, want a power of two from 2 to %d", name, where, n, slots)
		case st.Window.Samples < 1 || st.Slots() > slots/n:
			return fmt.Sprintf("variable %s: %s needs %d slots, each of %d places has %d", name, where, st.Slots(), n,
				slots/n)
		case v.Device != s.Vars[first].Device && !compact:
			return fmt.Sprintf("variables %s and %s are of devices %s and %s, whose windows stand at different "+
				"places; leave out places: on their streams", first, name, s.Vars[first].Device, v.Device)
		}
	}
	return ""
}

// places returns how many windows share a ciphertext, at least 1.
func (s *Source) places(slots int) int {
	for _, v := range s.Vars {
		return max(placesOf(v.Stream, slots), 1)
	}
	return 1
}

// placesOf returns how many windows of a stream share the slots, 0 for one. Those of compact windows
// follow from their size.
func placesOf(st config.Stream, slots int) int {
	if st.Compact() == 0 {
		return st.Places
	}
	if n := slots / st.Readings(); n > 1 {
		return n
	}
	return 0
}

// compact reports whether the windows are compact.
func (s *Source) compact() bool {
	for _, v := range s.Vars {
		return v.Stream.Compact() > 0
	}
	return false
}

// stream returns the stream of an input.
func (s *Source) stream(in Input) (st config.Stream) {
	for _, v := range s.Vars {
		if v.Device == in.Device && v.Stream.Name == in.Stream {
			st = v.Stream
		}
	}
	return st
}

// present returns the number of samples of an input's window.
func (s *Source) present(in Input, st config.Stream) int {
	if n, ok := s.Present[in]; ok {
		return n
	}
	return st.Window.Samples
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// InputScale returns the scale at which the windows of a stream are encrypted under
// p: 2^LogScale, or the parameters' own scale at the stream's level. Of compact windows it is what
// bootstrapping gives, and of whole numbers the plaintext modulus, as headers have it.
func InputScale(p henc.Parameters, st config.Stream) float64 {
	if st.Whole() {
		return henc.DefaultT
	}
	if st.Compact() > 0 {
		return p.ScaleAt(InputLevel(p, st))
	}
	if st.LogScale != 0 {
		return math.Ldexp(1, st.LogScale)
	}
	return p.ScaleAt(st.LevelAt(p.Depth()))
}

// InputLevel returns the level at which a program gets the windows of a stream under p, beyond the highest
// where p cannot have such windows.
func InputLevel(p henc.Parameters, st config.Stream) int {
	if st.Compact() == 0 {
		return st.LevelAt(p.Depth())
	}
	if boot := bootstrapOf(p); boot != nil {
		return boot.CoefficientLevel()
	}
	return p.Depth() + 1
}
