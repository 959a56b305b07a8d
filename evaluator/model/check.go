package model

import (
	"fmt"
	"math"
	"slices"
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrModel}, args...)...)
}

// check holds a model against the bounds and against what Scores relies on: every tree is one, and all numbers are
// finite.
func (m *Model) check() error {
	if n := len(m.Features); n < 1 || n > MaxFeatures {
		return refuse("%d features: from 1 to %d are possible", n, MaxFeatures)
	}
	if err := checkNames("feature", m.Features); err != nil {
		return err
	}
	if m.Classes != nil {
		if err := checkNames("class", m.Classes); err != nil {
			return err
		}
	}
	if m.Outputs < 1 || m.Outputs > MaxOutputs {
		return refuse("%d outputs: from 1 to %d are possible", m.Outputs, MaxOutputs)
	}
	if m.Base != nil && len(m.Base) != m.Outputs {
		return refuse("%d base scores for %d outputs", len(m.Base), m.Outputs)
	}
	if !finite(m.Base) {
		return refuse("a base score is not a finite number")
	}
	if err := m.checkLink(); err != nil {
		return err
	}
	if n := len(m.Trees); n < 1 || n > MaxTrees {
		return refuse("%d trees: from 1 to %d are possible", n, MaxTrees)
	}
	if n := m.Splits(); n > MaxNodes {
		return refuse("%d splits: at most %d are possible", n, MaxNodes)
	}
	for i := range m.Trees {
		if err := m.checkTree(&m.Trees[i]); err != nil {
			return fmt.Errorf("%w (tree %d)", err, i)
		}
	}
	return nil
}

// checkLink holds outputs against what Predict and Class make of them.
func (m *Model) checkLink() error {
	switch one := m.Outputs == 1; {
	case m.Link == Softmax && one, m.Link == Logistic && !one:
		return refuse("link %s of %d outputs", m.Link, m.Outputs)
	case m.Classes != nil && len(m.Classes) != m.Outputs && !(one && len(m.Classes) == 2):
		return refuse("%d classes for %d outputs", len(m.Classes), m.Outputs)
	case len(m.Classes) == 1:
		return refuse("one class: there is nothing to decide")
	}
	return nil
}

func checkNames(kind string, names []string) error {
	seen := make(map[string]bool, len(names))
	for i, n := range names {
		switch {
		case n == "" || len(n) > maxName:
			return refuse("name of %s %d has %d bytes: name each with 1 to %d", kind, i, len(n), maxName)
		case seen[n]:
			return refuse("two of the names of a %s are %q: rename one before training", kind, n)
		}
		seen[n] = true
	}
	return nil
}

// checkTree walks a tree from its root and refuses what is reached twice, never or too deep.
func (m *Model) checkTree(t *Tree) error {
	if len(t.Leaves) != len(t.Nodes)+1 {
		return refuse("%d leaves for %d splits", len(t.Leaves), len(t.Nodes))
	}
	for i, leaf := range t.Leaves {
		if want := m.leafLen(t); len(leaf) != want {
			return refuse("leaf %d has %d scores, not %d", i, len(leaf), want)
		}
		if !finite(leaf) {
			return refuse("leaf %d has a score that is not a finite number", i)
		}
	}
	if t.Output >= m.Outputs {
		return refuse("adds to output %d of %d", t.Output, m.Outputs)
	}
	if len(t.Nodes) == 0 {
		return nil
	}
	return m.walk(t)
}

func (m *Model) leafLen(t *Tree) int {
	if t.Output >= 0 {
		return 1
	}
	return m.Outputs
}

func (m *Model) walk(t *Tree) error {
	type visit struct{ at, depth int }
	nodes, leaves := make([]bool, len(t.Nodes)), make([]bool, len(t.Leaves))
	todo := []visit{{0, 0}}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		seen, at := nodes, v.at
		if at < 0 {
			seen, at = leaves, ^at
		}
		if at >= len(seen) || seen[at] {
			return refuse("a split leads to %d, which does not exist or is reached twice", v.at)
		}
		seen[at] = true
		if v.at < 0 {
			continue
		}
		if v.depth >= MaxDepth {
			return refuse("deeper than %d splits", MaxDepth)
		}
		n := &t.Nodes[at]
		if n.Feature < 0 || n.Feature >= len(m.Features) {
			return refuse("split %d asks for feature %d of %d", at, n.Feature, len(m.Features))
		}
		if n.Categories == nil && math.IsNaN(n.Cut) {
			return refuse("threshold of split %d is not a number", at)
		}
		todo = append(todo, visit{n.Left, v.depth + 1}, visit{n.Right, v.depth + 1})
	}
	if i := slices.Index(nodes, false); i >= 0 {
		return refuse("no split leads to split %d", i)
	}
	return nil // as many leaves as splits and one more, none reached twice: all are reached
}

func finite(values []float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
