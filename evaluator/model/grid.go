package model

import (
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strconv"
	"strings"
)

// MaxBits bounds the bits of a reading on its grid.
const MaxBits = 16

// Grid says which readings a feature has: low + step*k for whole k from 0 to Top, in decimals. The reading of a step is
// the float64 nearest to that decimal number, as a program has it that reads the number from text.
type Grid struct {
	Top       int
	low, step int64
	unit      float64 // readings are (low + step*k) / unit, with one rounding
}

// NewGrid returns the grid from low in steps of step, with top steps, at most 2^16-1. Low and step have at most 15
// digits between them, so that every reading is exact up to one rounding.
func NewGrid(low, step float64, top int) (Grid, error) {
	if !finite([]float64{low, step}) || step <= 0 {
		return Grid{}, refuse("grid from %v in steps of %v: a finite start and a positive step", low, step)
	}
	if top < 1 || top >= 1<<MaxBits {
		return Grid{}, refuse("grid of %d steps: from 1 to %d are possible, so choose a larger step", top, 1<<MaxBits-1)
	}
	places := max(decimals(low), decimals(step))
	if places > 15 {
		return Grid{}, refuse("grid from %v in steps of %v: round both to at most 15 digits", low, step)
	}
	g := Grid{Top: top, unit: math.Pow10(places)}
	l, s := math.Round(low*g.unit), math.Round(step*g.unit)
	const exact = 1 << 53
	if math.Abs(l)+s*float64(top) >= exact {
		return Grid{}, refuse("grid from %v in steps of %v: round both to fewer digits", low, step)
	}
	g.low, g.step = int64(l), int64(s)
	return g, nil
}

// decimals returns how many digits the shortest decimal form of x has behind the point.
func decimals(x float64) int {
	_, places, _ := strings.Cut(strconv.FormatFloat(x, 'f', -1, 64), ".")
	return len(places)
}

// Value returns the reading of step k.
func (g Grid) Value(k int) float64 { return float64(g.low+g.step*int64(k)) / g.unit }

// Bits returns how many bits k needs, at least one.
func (g Grid) Bits() int { return max(1, bits.Len(uint(g.Top))) }

// Nearest returns the step whose reading is nearest to x, between 0 and Top, and whether that is x itself. Where it is
// not, a model answers for the step's reading instead.
func (g Grid) Nearest(x float64) (k int, exact bool) {
	at := math.Round((x*g.unit - float64(g.low)) / float64(g.step))
	switch {
	case at >= float64(g.Top):
		k = g.Top
	case at > 0: // not NaN
		k = int(at)
	}
	return k, g.Value(k) == x
}

// Span is the whole numbers from Lo to Hi, without Hi.
type Span struct{ Lo, Hi int }

// Forest is a model on whole numbers: readings are steps of grids, and scores are multiples of 1/Scale.
type Forest struct {
	Grids   []Grid
	Outputs int
	Base    []int64
	Trees   []WholeTree
	Scale   float64 // a score is Whole / Scale, or Whole / (Scale * number of trees) of a mean
	model   *Model
	parts   int // spans of all splits
}

// WholeTree is a tree of a Forest, in the form of Tree.
type WholeTree struct {
	Nodes  []WholeNode
	Leaves [][]int64 // each of Forest.Outputs
}

// WholeNode is a split: a reading goes right if its step lies in one of the spans, which are in order and apart.
// Every split decides something: splits that all steps of a grid pass on one side are left out.
type WholeNode struct {
	Feature     int
	Right       []Span
	Left, After int // children: a node, or ^leaf; After is the right one
}

// Quantise puts a model on grids, one for each feature, with scores in multiples of 1/scale. A split becomes exactly
// the steps that the library sends right, so that every row on the grids ends in the library's leaves.
func (m *Model) Quantise(grids []Grid, scale float64) (*Forest, error) {
	if len(grids) != len(m.Features) {
		return nil, refuse("%d grids for %d features", len(grids), len(m.Features))
	}
	for i, g := range grids {
		if g.step == 0 {
			return nil, refuse("no grid for feature %q: make each with NewGrid", m.Features[i])
		}
	}
	if !finite([]float64{scale}) || scale <= 0 {
		return nil, refuse("scale %v: a positive number", scale)
	}
	if leaves := m.Splits() + len(m.Trees); leaves > maxScores/m.Outputs {
		return nil, refuse("%d leaves of %d outputs: at most %d scores are possible, so train fewer or smaller trees",
			leaves, m.Outputs, maxScores)
	}
	f := &Forest{Grids: grids, Outputs: m.Outputs, Scale: scale, model: m, Base: make([]int64, m.Outputs)}
	if err := toWhole(f.Base, m.Base, scale); err != nil {
		return nil, err
	}
	for i := range m.Trees {
		t, err := f.tree(&m.Trees[i])
		if err != nil {
			return nil, fmt.Errorf("%w (tree %d)", err, i)
		}
		f.Trees = append(f.Trees, t)
	}
	return f, nil
}

// maxWhole bounds scores times scale, so that sums of MaxTrees fit an int64.
const maxWhole = 1 << 48

func toWhole(to []int64, values []float64, scale float64) error {
	for i, v := range values {
		w := math.Round(v * scale)
		if math.Abs(w) > maxWhole {
			return refuse("score %v times scale %v exceeds 2^48: choose a smaller scale", v, scale)
		}
		to[i] = int64(w)
	}
	return nil
}

// Bounds of what a Forest holds: leaves times outputs, and spans of all splits.
const (
	maxScores = 1 << 25
	maxSpans  = 4 * MaxNodes
)

func (f *Forest) tree(t *Tree) (WholeTree, error) {
	var out WholeTree
	root := 0
	if len(t.Nodes) == 0 {
		root = ^0
	}
	_, err := f.copyInto(&out, t, root)
	return out, err
}

// copyInto copies the subtree at a node and returns its name in the copy. Its depth is that of the tree, at most
// MaxDepth.
func (f *Forest) copyInto(out *WholeTree, t *Tree, at int) (int, error) {
	if at < 0 {
		leaf := make([]int64, f.Outputs)
		part := leaf
		if t.Output >= 0 {
			part = leaf[t.Output : t.Output+1]
		}
		if err := toWhole(part, t.Leaves[^at], f.Scale); err != nil {
			return 0, err
		}
		out.Leaves = append(out.Leaves, leaf)
		return ^(len(out.Leaves) - 1), nil
	}
	n := &t.Nodes[at]
	right := f.spans(n)
	switch whole := (Span{0, f.Grids[n.Feature].Top + 1}); {
	case len(right) == 0:
		return f.copyInto(out, t, n.Left)
	case right[0] == whole:
		return f.copyInto(out, t, n.Right)
	}
	if f.parts += len(right); f.parts > maxSpans {
		return 0, refuse("more than %d ranges of categories: use coarser grids or fewer splits by category", maxSpans)
	}
	name := len(out.Nodes)
	out.Nodes = append(out.Nodes, WholeNode{Feature: n.Feature, Right: right})
	left, err := f.copyInto(out, t, n.Left)
	if err != nil {
		return 0, err
	}
	after, err := f.copyInto(out, t, n.Right)
	out.Nodes[name].Left, out.Nodes[name].After = left, after
	return name, err
}

// spans returns the steps that the library sends right.
func (f *Forest) spans(n *Node) []Span {
	g := f.Grids[n.Feature]
	if n.Categories == nil {
		lo := sort.Search(g.Top+1, func(k int) bool { return f.model.right(n, g.Value(k)) })
		if lo > g.Top {
			return nil
		}
		return []Span{{lo, g.Top + 1}}
	}
	var out []Span
	for k := 0; k <= g.Top; k++ {
		switch last := len(out) - 1; {
		case !f.model.right(n, g.Value(k)):
		case last >= 0 && out[last].Hi == k:
			out[last].Hi++
		default:
			out = append(out, Span{k, k + 1})
		}
	}
	return out
}

// Steps returns the steps nearest to the readings of a row, and which of them are not the reading itself.
func (f *Forest) Steps(row []float64) (steps, rounded []int, err error) {
	if err := f.model.checkRow(row); err != nil {
		return nil, nil, err
	}
	for i, x := range row {
		k, exact := f.Grids[i].Nearest(x)
		steps = append(steps, k)
		if !exact {
			rounded = append(rounded, i)
		}
	}
	return steps, rounded, nil
}

// Whole returns the sums of the trees and the base for a row of steps, in whole numbers: the slow reference of what is
// evaluated on encrypted readings.
func (f *Forest) Whole(steps []int) ([]int64, error) {
	if len(steps) != len(f.Grids) {
		return nil, fmt.Errorf("%w: %d steps for %d features", ErrRow, len(steps), len(f.Grids))
	}
	for i, k := range steps {
		if k < 0 || k > f.Grids[i].Top {
			return nil, fmt.Errorf("%w: step %d of feature %d: from 0 to %d", ErrRow, k, i, f.Grids[i].Top)
		}
	}
	sums := append([]int64(nil), f.Base...)
	for i := range f.Trees {
		for o, v := range f.Trees[i].Leaves[f.Trees[i].Leaf(steps)] {
			sums[o] += v
		}
	}
	return sums, nil
}

// Leaf returns the index of the leaf that a row of steps ends in.
func (t *WholeTree) Leaf(steps []int) int {
	if len(t.Nodes) == 0 {
		return 0
	}
	at := 0
	for at >= 0 {
		n := &t.Nodes[at]
		at = n.Left
		for _, s := range n.Right {
			if k := steps[n.Feature]; k >= s.Lo && k < s.Hi {
				at = n.After
			}
		}
	}
	return ^at
}

// Scores returns the scores that whole sums stand for. Each is off by at most Error.
func (f *Forest) Scores(sums []int64) []float64 {
	out := make([]float64, len(sums))
	for i, s := range sums {
		out[i] = float64(s) / f.Divisor()
	}
	return out
}

// Error bounds how far rounding to multiples of 1/Scale moves a score.
func (f *Forest) Error() float64 { return float64(len(f.Trees)+1) / 2 / f.Divisor() }

// Divisor is what whole sums are divided by to give scores.
func (f *Forest) Divisor() float64 {
	if f.model.Mean {
		return f.Scale * float64(len(f.Trees))
	}
	return f.Scale
}

// Bound returns the largest absolute value that a sum of an output can have.
func (f *Forest) Bound() int64 {
	var most int64
	for o := range f.Outputs {
		sum := abs(f.Base[o])
		for i := range f.Trees {
			var top int64
			for _, leaf := range f.Trees[i].Leaves {
				top = max(top, abs(leaf[o]))
			}
			sum += top
		}
		most = max(most, sum)
	}
	return most
}

// Splits returns the number of splits of all trees.
func (f *Forest) Splits() int {
	n := 0
	for i := range f.Trees {
		n += len(f.Trees[i].Nodes)
	}
	return n
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}
