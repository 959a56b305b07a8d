package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// exportedFormat names the format that interop/python/export_trees.py writes.
const exportedFormat = "hencedge-trees/1"

type exported struct {
	Format    string         `json:"format"`
	Source    string         `json:"source"`
	Estimator string         `json:"estimator"`
	Features  []string       `json:"features"`
	Classes   []string       `json:"classes"`
	Combine   string         `json:"combine"`
	Link      Link           `json:"link"`
	Base      []float64      `json:"base"`
	Trees     []exportedTree `json:"trees"`
}

// exportedTree has parallel lists over the nodes. A leaf has no children (-1).
type exportedTree struct {
	Feature   []int       `json:"feature"`
	Threshold []float64   `json:"threshold"`
	Left      []int       `json:"left"`
	Right     []int       `json:"right"`
	Value     [][]float64 `json:"value"`
	Output    *int        `json:"output"`
}

// readExported reads what the exporter wrote. Unknown fields are refused: the format is this project's own.
func readExported(data []byte) (*Model, error) {
	var e exported
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, refuse("not format %s: %v", exportedFormat, err)
	}
	if e.Format != exportedFormat {
		return nil, refuse("format %q: this version reads %s", e.Format, exportedFormat)
	}
	m := &Model{Source: e.Source, Features: e.Features, Classes: e.Classes, Base: e.Base, Link: e.Link, Narrow: true}
	switch e.Combine {
	case "sum":
	case "mean":
		m.Mean = true
	default:
		return nil, refuse("combine is %q: sum or mean", e.Combine)
	}
	if len(e.Trees) == 0 || len(e.Trees) > MaxTrees {
		return nil, refuse("%d trees: from 1 to %d are possible", len(e.Trees), MaxTrees)
	}
	switch {
	case e.Link != Identity && e.Link != Logistic && e.Link != Softmax:
		return nil, refuse("link is %q: identity, logistic or softmax", e.Link)
	case e.Base != nil:
		m.Outputs = len(e.Base)
	case e.Classes != nil:
		m.Outputs = len(e.Classes)
	default:
		m.Outputs = 1
	}
	for i := range e.Trees {
		t, err := e.Trees[i].tree()
		if err != nil {
			return nil, fmt.Errorf("%w (tree %d)", err, i)
		}
		m.Trees = append(m.Trees, t)
	}
	return m, nil
}

func (e *exportedTree) tree() (Tree, error) {
	n := len(e.Left)
	if len(e.Feature) != n || len(e.Threshold) != n || len(e.Right) != n || len(e.Value) != n {
		return Tree{}, refuse(
			"lists of %d features, %d thresholds, %d and %d children and %d values: one of each a node", len(e.Feature),
			len(e.Threshold), n, len(e.Right), len(e.Value))
	}
	output := -1
	if e.Output != nil {
		if output = *e.Output; output < 0 {
			return Tree{}, refuse("output is %d", output)
		}
	}
	return fromLists(lists{left: e.Left, right: e.Right, output: output,
		split: func(i int) Node { return Node{Feature: e.Feature[i], Cut: above(e.Threshold[i], true)} },
		leaf:  func(i int) []float64 { return e.Value[i] },
	})
}

// lists is a tree as libraries keep it: nodes and leaves under one numbering, -1 as both children of a leaf.
type lists struct {
	left, right []int
	output      int
	split       func(i int) Node
	leaf        func(i int) []float64
	pruned      func(i int) bool // entries that nothing leads to; nil: none
}

// fromLists numbers nodes and leaves apart. The root is entry 0.
func fromLists(l lists) (Tree, error) {
	t := Tree{Output: l.output}
	if len(l.left) == 0 || l.pruned != nil && l.pruned(0) {
		return t, refuse("no nodes")
	}
	name := make([]int, len(l.left))
	for i := range l.left {
		if l.pruned != nil && l.pruned(i) {
			name[i] = math.MinInt // the name of no leaf
			continue
		}
		if l.left[i] == -1 && l.right[i] == -1 {
			name[i] = ^len(t.Leaves)
			t.Leaves = append(t.Leaves, l.leaf(i))
			continue
		}
		name[i] = len(t.Nodes)
		t.Nodes = append(t.Nodes, l.split(i))
		t.Nodes[name[i]].Left, t.Nodes[name[i]].Right = l.left[i], l.right[i]
	}
	if len(t.Nodes) > 0 && name[0] < 0 {
		return t, refuse("node 0 is a leaf of a tree with splits")
	}
	for i := range t.Nodes {
		for _, child := range []*int{&t.Nodes[i].Left, &t.Nodes[i].Right} {
			if *child < 0 || *child >= len(name) {
				return t, refuse("split %d leads to node %d of %d", i, *child, len(name))
			}
			*child = name[*child]
		}
	}
	return t, nil
}
