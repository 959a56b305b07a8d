package model

import (
	"errors"
	"fmt"
	"math"
)

// Bounds of what Read accepts. They are far above useful models and keep a hostile file from filling the memory.
const (
	MaxFile     = 64 << 20 // bytes
	MaxTrees    = 10_000
	MaxNodes    = 1_000_000 // splits of all trees
	MaxDepth    = 256       // splits on a path
	MaxFeatures = 4096
	MaxOutputs  = 256
	maxName     = 256
)

// ErrModel is wrapped by every error that a model file causes.
var ErrModel = errors.New("model refused")

// ErrRow is wrapped by the errors of rows that do not fit a model.
var ErrRow = errors.New("row refused")

// Link says what a library makes of the scores that the trees add up to.
type Link string

// The links that models have.
const (
	Identity Link = "identity" // the score itself
	Logistic Link = "logistic" // 1/(1+exp(-score)), one output
	Softmax  Link = "softmax"  // over the outputs
	Exp      Link = "exp"      // exp(score)
)

// Model is a forest in one form, whatever library it came from. Read makes it and checks it.
type Model struct {
	Source   string   // library and version, as far as the file says
	Features []string // names, in the order of a row
	Classes  []string // labels of a classifier, nil of a regression
	Outputs  int      // scores per row: one, or one for each class
	Base     []float64
	Mean     bool // scores are averages over the trees, otherwise sums
	Single   bool // the library adds scores up in 32-bit floats
	Narrow   bool // the library rounds readings to 32-bit floats before it compares
	Link     Link
	Trees    []Tree
}

// Tree is one decision tree. Its root is Nodes[0], or Leaves[0] if there are no nodes.
type Tree struct {
	Nodes  []Node
	Leaves [][]float64 // each of Model.Outputs scores, or of one if Output names where it goes
	Output int         // the output that leaves of one score add to; -1: leaves have all outputs
}

// Node is one split. A reading goes right if it is at least Cut, or, where Categories is not nil, if it is not among
// them.
type Node struct {
	Feature     int
	Cut         float64
	Categories  []uint32 // bits: whole numbers that go left
	Left, Right int      // a node, or ^leaf
}

// Splits returns the number of splits of all trees.
func (m *Model) Splits() int {
	n := 0
	for i := range m.Trees {
		n += len(m.Trees[i].Nodes)
	}
	return n
}

// Scores returns what the trees add up to for one row, before the link, as the library computes it: in its precision
// and in its order. The row has one finite reading for each feature.
func (m *Model) Scores(row []float64) ([]float64, error) {
	if err := m.checkRow(row); err != nil {
		return nil, err
	}
	scores := make([]float64, m.Outputs)
	copy(scores, m.Base)
	for i := range m.Trees {
		t := &m.Trees[i]
		m.add(scores, t, t.Leaves[m.leaf(t, row)])
	}
	if m.Mean {
		for i := range scores {
			scores[i] /= float64(len(m.Trees))
		}
	}
	return scores, nil
}

// Predict returns what the library predicts from scores: one number of a regression or of a classifier with one
// output, otherwise the probability of each class.
func (m *Model) Predict(scores []float64) []float64 {
	out := append([]float64(nil), scores...)
	switch m.Link {
	case Logistic:
		for i, s := range scores {
			out[i] = 1 / (1 + math.Exp(-s))
		}
	case Exp:
		for i, s := range scores {
			out[i] = math.Exp(s)
		}
	case Softmax:
		top, sum := scores[Class(scores)], 0.0
		for i, s := range scores {
			out[i] = math.Exp(s - top)
			sum += out[i]
		}
		for i := range out {
			out[i] /= sum
		}
	}
	return out
}

// Class returns the index of the class that scores say: the first of the largest, or, of a single score, whether it is
// positive.
func Class(scores []float64) int {
	if len(scores) == 1 {
		if scores[0] > 0 {
			return 1
		}
		return 0
	}
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	return best
}

// Decided returns a classifier that is one tree as a model whose one score is the index of the class, so that nothing
// but the class needs to be learned. It fails with ErrModel for other models.
func (m *Model) Decided() (*Model, error) {
	one := len(m.Trees) == 1 && m.Trees[0].Output < 0 && m.Base == nil
	if !one || m.Outputs < 2 || len(m.Classes) != m.Outputs {
		return nil, refuse("not one tree with a score for each class: only such a tree decides by itself")
	}
	out := *m
	out.Outputs, out.Mean, out.Link = 1, false, Identity
	t := Tree{Nodes: m.Trees[0].Nodes, Output: -1}
	for _, leaf := range m.Trees[0].Leaves {
		t.Leaves = append(t.Leaves, []float64{float64(Class(leaf))})
	}
	out.Trees = []Tree{t}
	return &out, nil
}

// On returns the model for rows of other columns: feature i is column of[i]. Columns that no feature is are ignored.
func (m *Model) On(columns []string, of []int) *Model {
	out := *m
	out.Features, out.Trees = columns, make([]Tree, len(m.Trees))
	for i, t := range m.Trees {
		t.Nodes = append([]Node(nil), t.Nodes...)
		for k := range t.Nodes {
			t.Nodes[k].Feature = of[t.Nodes[k].Feature]
		}
		out.Trees[i] = t
	}
	return &out
}

func (m *Model) checkRow(row []float64) error {
	if len(row) != len(m.Features) {
		return fmt.Errorf("%w: %d readings for %d features", ErrRow, len(row), len(m.Features))
	}
	for i, x := range row {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: reading of %q is %v: trees need a number there", ErrRow, m.Features[i], x)
		}
	}
	return nil
}

func (m *Model) add(scores []float64, t *Tree, leaf []float64) {
	for i, v := range leaf {
		to := i
		if t.Output >= 0 {
			to = t.Output
		}
		if m.Single {
			scores[to] = float64(float32(scores[to]) + float32(v))
		} else {
			scores[to] += v
		}
	}
}

// leaf returns the index of the leaf that a row ends in. Read has checked that the walk ends.
func (m *Model) leaf(t *Tree, row []float64) int {
	at := 0
	if len(t.Nodes) == 0 {
		return 0
	}
	for at >= 0 {
		n := &t.Nodes[at]
		at = n.Left
		if m.right(n, row[n.Feature]) {
			at = n.Right
		}
	}
	return ^at
}

func (m *Model) right(n *Node, x float64) bool {
	if n.Categories != nil {
		return !n.has(x)
	}
	if m.Narrow {
		x = float64(float32(x))
	}
	return x >= n.Cut
}

// has says whether the whole part of x is one of the categories that go left.
func (n *Node) has(x float64) bool {
	x = math.Trunc(x)
	if x < 0 || x >= float64(32*len(n.Categories)) {
		return false
	}
	c := uint(x)
	return n.Categories[c/32]>>(c%32)&1 == 1
}

// above returns the least float64, or with narrow the least float32, that is greater than x: a library that goes right
// if reading > x goes right from there on.
func above(x float64, narrow bool) float64 {
	if !narrow {
		return math.Nextafter(x, math.Inf(1))
	}
	f := float32(x)
	if float64(f) > x {
		return float64(f)
	}
	return float64(math.Nextafter32(f, float32(math.Inf(1))))
}
