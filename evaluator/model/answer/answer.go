// Package answer is what the key holder of a model's results must know: the description of a model that a program has
// in place of an expression, how results are cut and opened, and what values follow from the sums of the trees. The
// evaluator makes descriptions from model files (Read); they do not hold the model.
package answer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
)

// The answers of models.
const (
	Class = "class" // the number of the class, from 0
	Score = "score" // what the library predicts: a number, or the probability of each class
)

// ErrModel is wrapped by the errors of models and descriptions that cannot be used.
var ErrModel = errors.New("model cannot be used")

// Model describes a model. It is part of a program's description and of its hash, so a changed file, answer or feature
// is another program.
type Model struct {
	File     string   `json:"file"`   // its name without directories, for people
	SHA256   string   `json:"sha256"` // of its content, in hexadecimal
	Source   string   `json:"source,omitempty"`
	Answer   string   `json:"answer"`
	Features []string `json:"features"` // variables of the model's columns, in their order
	Classes  []string `json:"classes,omitempty"`
	Link     string   `json:"link"`
	// Decided: the trees are one whose sum is the class itself, so that nothing else is learned.
	Decided bool `json:"decided,omitempty"`

	Splits  int `json:"splits"`
	Trees   int `json:"trees"` // that have splits
	Outputs int `json:"outputs"`
	Words   int `json:"words"` // of a sum, see rangecover.Shape
	Bits    int `json:"bits"`  // of a word
	// A score is a sum over Divisor, off by at most Error for the rounding of the leaves; no sum is beyond Bound.
	Divisor float64 `json:"divisor"`
	Error   float64 `json:"error"`
	Bound   int64   `json:"bound"`
}

// Options say how a model file is used.
type Options struct {
	File   string
	Answer string // Class or Score; empty: class of a classifier, score of a regression
	Scale  int    // scores are rounded to multiples of 1/Scale
	// Features are the variables of the model's columns; empty: the names in the file.
	Features []string
	// Channels are the names of a row's readings and Grids their steps. Columns maps each variable to a channel.
	Channels []string
	Grids    []model.Grid
	Columns  map[string]int
	// Slots and T are those of the parameters.
	Slots int
	T     uint64
}

// Read makes the description of a model file and its plan. It fails with ErrModel, model.ErrModel or
// rangecover.ErrPlan.
func Read(content []byte, o Options) (*Model, *rangecover.Plan, error) {
	m, err := model.Read(bytes.NewReader(content))
	if err != nil {
		return nil, nil, err
	}
	features := o.Features
	if len(features) == 0 {
		features = m.Features
	}
	if err := matches(features, len(m.Features), o.Columns); err != nil {
		return nil, nil, err
	}
	classifier := len(m.Classes) > 0 || m.Outputs > 1 || m.Link == model.Logistic
	switch {
	case o.Answer == "" && classifier:
		o.Answer = Class
	case o.Answer == "":
		o.Answer = Score
	case o.Answer == Class && !classifier:
		return nil, nil, fmt.Errorf("%w: it is a regression, which has no classes: write answer: score", ErrModel)
	}
	sum := sha256.Sum256(content)
	out := &Model{File: o.File, SHA256: hex.EncodeToString(sum[:]), Source: m.Source, Answer: o.Answer,
		Features: slices.Clone(features), Classes: m.Classes, Splits: m.Splits()}
	scale := float64(o.Scale)
	if o.Answer == Class {
		if one, err := m.Decided(); err == nil {
			m, scale, out.Decided = one, 1, true
		}
	}
	of := make([]int, len(features))
	for i, name := range features {
		of[i] = o.Columns[name]
	}
	f, err := m.On(o.Channels, of).Quantise(o.Grids, scale)
	if err != nil {
		return nil, nil, err
	}
	plan, err := rangecover.NewPlan(f, o.Slots, o.T)
	if err != nil {
		return nil, nil, err
	}
	s := plan.Shape()
	out.Link, out.Trees, out.Outputs, out.Words, out.Bits = string(m.Link), s.Trees, s.Outputs, s.Words, s.WordBits
	out.Divisor, out.Error, out.Bound = f.Divisor(), f.Error(), f.Bound()
	if out.Decided {
		out.Error = 0
	}
	return out, plan, out.Check()
}

// matches refuses features that are not the variables.
func matches(features []string, columns int, variables map[string]int) error {
	if len(features) != columns {
		return fmt.Errorf("%w: features: names %d columns, the model has %d", ErrModel, len(features), columns)
	}
	seen := map[string]bool{}
	for _, name := range features {
		if _, known := variables[name]; !known {
			return fmt.Errorf("%w: its feature %q is none of the inputs: name the inputs after the features, or list "+
				"their names in features:, in the order of the model's columns", ErrModel, name)
		}
		if seen[name] {
			return fmt.Errorf("%w: two of its features are %q: give each column an input of its own in features:",
				ErrModel, name)
		}
		seen[name] = true
	}
	for name := range variables {
		if !seen[name] {
			return fmt.Errorf("%w: the input %q is none of its features: remove it", ErrModel, name)
		}
	}
	return nil
}

// Check refuses a description that no model has. It fails with ErrModel.
func (m *Model) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrModel}, args...)...)
	}
	if sum, err := hex.DecodeString(m.SHA256); err != nil || len(sum) != sha256.Size {
		return bad("no SHA-256 of its file")
	}
	switch {
	case m.Answer != Class && m.Answer != Score:
		return bad("answer %q", m.Answer)
	case len(m.Features) < 1 || len(m.Features) > model.MaxFeatures:
		return bad("%d features", len(m.Features))
	case m.Outputs < 1 || m.Outputs > model.MaxOutputs || len(m.Classes) > model.MaxOutputs:
		return bad("%d outputs, %d classes", m.Outputs, len(m.Classes))
	case m.Trees < 1 || m.Trees > model.MaxTrees || m.Splits < m.Trees || m.Splits > model.MaxNodes:
		return bad("%d trees of %d splits", m.Trees, m.Splits)
	case m.Words < 1 || m.Bits < 1 || m.Bits > 31 || m.Words > 62/m.Bits:
		return bad("sums of %d words of %d bits", m.Words, m.Bits)
	case !(m.Divisor > 0) || math.IsInf(m.Divisor, 1) || !(m.Error >= 0) || math.IsInf(m.Error, 1):
		return bad("scores in %g, off by %g", m.Divisor, m.Error)
	case m.Bound < 0 || m.Bound > 1<<61:
		return bad("sums up to %d", m.Bound)
	case m.Decided && (m.Answer != Class || m.Outputs != 1 || m.Divisor != 1):
		return bad("decided, with %d outputs in %g", m.Outputs, m.Divisor)
	}
	switch model.Link(m.Link) {
	case model.Identity, model.Logistic, model.Softmax, model.Exp:
		return nil
	}
	return bad("link %q", m.Link)
}

// Texts are the texts of a description that people are shown.
func (m *Model) Texts() []string {
	return append(append([]string{m.File, m.Source, m.Answer, m.Link}, m.Features...), m.Classes...)
}

// Append appends what a program's hash covers: every field in the order of docs/wire-format.md. Strings and lists stand
// with their length; that and all whole numbers are 8 bytes, big endian, and so are the bits of other numbers.
func (m *Model) Append(b []byte) []byte {
	num := func(v int64) { b = binary.BigEndian.AppendUint64(b, uint64(v)) }
	str := func(s string) {
		num(int64(len(s)))
		b = append(b, s...)
	}
	list := func(all []string) {
		num(int64(len(all)))
		for _, s := range all {
			str(s)
		}
	}
	for _, s := range []string{m.File, m.SHA256, m.Source, m.Answer} {
		str(s)
	}
	list(m.Features)
	list(m.Classes)
	str(m.Link)
	decided := int64(0)
	if m.Decided {
		decided = 1
	}
	for _, v := range []int64{decided, int64(m.Splits), int64(m.Trees), int64(m.Outputs), int64(m.Words),
		int64(m.Bits)} {
		num(v)
	}
	num(int64(math.Float64bits(m.Divisor)))
	num(int64(math.Float64bits(m.Error)))
	num(m.Bound)
	return b
}

// Text is the program in words, in place of an expression.
func (m *Model) Text() string { return fmt.Sprintf("%s of %s", m.Answer, m.File) }

// Shape is what results of the model look like.
func (m *Model) Shape() rangecover.Shape {
	return rangecover.Shape{Trees: m.Trees, Outputs: m.Outputs, Words: m.Words, WordBits: m.Bits}
}

// Count returns how many values a result has.
func (m *Model) Count() int {
	if m.Answer == Class {
		return 1
	}
	return m.Outputs
}

// Ciphertexts returns how many ciphertexts a block of a result has.
func (m *Model) Ciphertexts() int { return 1 + m.Outputs*m.Words }

// BodyRoom is what stands before the ciphertexts of a result's body: their number, big endian.
const BodyRoom = 4

// Begin begins the body of a result of n ciphertexts. These follow, each as long as the others: of a block those of the
// test, and then of the words of each output.
func Begin(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

// First returns the bytes from the first ciphertext of a body on. It fails with ErrModel if there are none.
func First(body []byte) ([]byte, error) {
	if len(body) <= BodyRoom {
		return nil, fmt.Errorf("%w: a result of %d bytes", ErrModel, len(body))
	}
	return body[BodyRoom:], nil
}

// maxCiphertexts is far above what fits a result.
const maxCiphertexts = 1 << 12

// Ciphertexts cuts the body of a result into its ciphertexts, at least one. It fails with ErrModel unless they have one
// length.
func Ciphertexts(body []byte) ([][]byte, error) {
	rest, err := First(body)
	if err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(body))
	if n < 1 || n > maxCiphertexts || int64(len(rest))%n != 0 {
		return nil, fmt.Errorf("%w: a result of %d ciphertexts in %d bytes", ErrModel, n, len(rest))
	}
	size := int64(len(rest)) / n
	out := make([][]byte, 0, n)
	for ; len(rest) > 0; rest = rest[size:] {
		out = append(out, rest[:size])
	}
	return out, nil
}

// Cut cuts the body of a result into ciphertexts. It fails with ErrModel unless it is a whole number of blocks.
func (m *Model) Cut(body []byte) ([]rangecover.Result[[]byte], error) {
	all, err := Ciphertexts(body)
	if err != nil {
		return nil, err
	}
	each := m.Ciphertexts()
	if len(all)%each != 0 {
		return nil, fmt.Errorf("%w: a result of %d ciphertexts, with %d in a block", ErrModel, len(all), each)
	}
	out := make([]rangecover.Result[[]byte], 0, len(all)/each)
	for ; len(all) > 0; all = all[each:] {
		out = append(out, rangecover.Result[[]byte]{Test: all[0], Values: all[1:each:each]})
	}
	return out, nil
}

// Open returns the values of a result by its body. decrypt returns the slots of a ciphertext. It fails as Cut and as
// decrypt do.
func (m *Model) Open(body []byte, decrypt func([]byte) ([]uint64, error)) ([]float64, error) {
	blocks, err := m.Cut(body)
	if err != nil {
		return nil, err
	}
	opened := make([]rangecover.Result[[]uint64], len(blocks))
	for i, b := range blocks {
		if opened[i].Test, err = decrypt(b.Test); err != nil {
			return nil, err
		}
		for _, v := range b.Values {
			one, err := decrypt(v)
			if err != nil {
				return nil, err
			}
			opened[i].Values = append(opened[i].Values, one)
		}
	}
	return m.Values(opened), nil
}

// Values returns the values that follow from the slots of a result's ciphertexts. Where these are no result of the
// model, each value is the largest float64: a refusal would reveal something about them.
func (m *Model) Values(slots []rangecover.Result[[]uint64]) []float64 {
	sums, err := m.Shape().Open(slots)
	if err != nil {
		return slices.Repeat([]float64{math.MaxFloat64}, m.Count())
	}
	return m.Of(sums)
}

// Of returns the values that follow from the sums of the trees.
func (m *Model) Of(sums []int64) []float64 {
	scores := make([]float64, len(sums))
	for i, s := range sums {
		scores[i] = float64(s) / m.Divisor
	}
	if m.Answer == Class {
		if m.Decided {
			return scores
		}
		return []float64{float64(model.Class(scores))}
	}
	out := (&model.Model{Link: model.Link(m.Link)}).Predict(scores)
	for i, v := range out {
		out[i] = min(max(v, -math.MaxFloat64), math.MaxFloat64)
	}
	return out
}

// Range returns the least and the largest value.
func (m *Model) Range() (low, high float64) {
	top := float64(m.Bound) / m.Divisor
	switch {
	case m.Answer == Class && m.Decided:
		return 0, top
	case m.Answer == Class:
		return 0, float64(max(m.Outputs, 2) - 1)
	}
	switch model.Link(m.Link) {
	case model.Logistic, model.Softmax:
		return 0, 1
	case model.Exp:
		return math.Exp(-top), min(math.Exp(top), math.MaxFloat64)
	}
	return -top, top
}

// Promise bounds how far a value is from the library's, before the library's own rounding: what the leaves' rounding to
// multiples of 1/Scale moves it. It is 0 of a class, which can differ only where the scores of two classes are nearer
// to each other than 2*Error.
func (m *Model) Promise() float64 {
	if m.Answer == Class {
		return 0
	}
	switch model.Link(m.Link) {
	case model.Logistic: // its slope is at most 1/4
		return m.Error / 4
	case model.Softmax: // the sum of its slopes' magnitudes is at most 1/2
		return m.Error / 2
	case model.Exp:
		_, high := m.Range()
		return min(high*math.Expm1(m.Error), math.MaxFloat64)
	}
	return m.Error
}

// Legend says what the values stand for.
func (m *Model) Legend() string {
	switch {
	case len(m.Classes) == 0 && m.Answer == Class:
		return "the number of the class, from 0"
	case m.Answer == Class:
		var parts []string
		for i, c := range m.Classes {
			parts = append(parts, fmt.Sprintf("%d = %s", i, c))
		}
		return "the class: " + strings.Join(parts, ", ")
	case m.Outputs > 1 && len(m.Classes) == m.Outputs:
		return "the probability of each class: " + strings.Join(m.Classes, ", ")
	}
	return "what the model predicts"
}

// Learned says what the key holder learns.
func (m *Model) Learned() string {
	switch {
	case m.Decided:
		return "the class alone"
	case m.Answer == Class:
		return "the score of each output, of which the class is made"
	}
	return "the score of each output"
}
