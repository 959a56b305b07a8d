package model

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// section is one block of LightGBM's text: lines name=value up to an empty line.
type section map[string]string

// readLightGBM reads what LightGBM's save_model writes: a header, a section for each tree, and what follows "end of
// trees", which predictions do not depend on.
func readLightGBM(data []byte) (*Model, error) {
	head, trees, err := sections(data)
	if err != nil {
		return nil, err
	}
	m := &Model{Source: "LightGBM " + head["version"]}
	perRound, err := head.header(m)
	if err != nil {
		return nil, err
	}
	for i, s := range trees {
		t, err := s.tree()
		if err != nil {
			return nil, fmt.Errorf("%w (tree %d)", err, i)
		}
		t.Output = i % perRound
		m.Trees = append(m.Trees, t)
	}
	return m, nil
}

// maxLines bounds the names of a section, of which LightGBM writes about twenty.
const maxLines = 1000

func sections(data []byte) (section, []section, error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, MaxFile+1)
	head := section{}
	var trees []section
	at := head
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		name, value, pair := strings.Cut(line, "=")
		switch {
		case line == "end of trees" || strings.HasPrefix(line, "feature_importances") || line == "feature importances:":
			return head, trees, nil
		case name == "Tree" && pair:
			if len(trees) == MaxTrees {
				return nil, nil, refuse("more than %d trees", MaxTrees)
			}
			at = section{}
			trees = append(trees, at)
		case pair:
			if _, twice := at[name]; twice {
				return nil, nil, refuse("line %d gives %s a second time", number, name)
			}
			at[name] = value
		case line != "":
			at[line] = "" // a flag, such as average_output
		}
		if len(at) > maxLines {
			return nil, nil, refuse("line %d: more than %d lines of one section", number, maxLines)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, refuse("%v", err)
	}
	return head, trees, nil
}

// lightgbmObjectives maps an objective to its link.
var lightgbmObjectives = map[string]Link{
	"binary": Logistic, "cross_entropy": Logistic, "multiclass": Softmax,
	"regression": Identity, "regression_l1": Identity, "huber": Identity, "fair": Identity, "quantile": Identity,
	"mape": Identity, "poisson": Exp, "gamma": Exp, "tweedie": Exp,
}

// header sets names, classes, outputs and link, and returns the number of trees of a round.
func (s section) header(m *Model) (int, error) {
	objective := strings.Fields(s["objective"])
	if len(objective) == 0 {
		return 0, refuse("no objective: train with one of those in docs/models.md")
	}
	link, known := lightgbmObjectives[objective[0]]
	if !known {
		return 0, refuse("objective %q is not supported: docs/models.md has the list", objective[0])
	}
	for _, p := range objective[1:] {
		if name, value, _ := strings.Cut(p, ":"); p == "sqrt" || name == "sigmoid" && value != "1" {
			return 0, refuse("objective with %s: train without it", p)
		}
	}
	if _, linear := s["linear_tree"]; linear {
		return 0, refuse("linear trees: train with linear_tree=false")
	}
	outputs, err := count("num_class", s["num_class"], MaxOutputs)
	if err != nil {
		return 0, err
	}
	perRound, err := count("num_tree_per_iteration", s["num_tree_per_iteration"], MaxOutputs)
	if err != nil {
		return 0, err
	}
	if perRound != outputs || outputs == 0 {
		return 0, refuse("%d trees a round for %d outputs", perRound, outputs)
	}
	m.Features, m.Outputs, m.Link = strings.Fields(s["feature_names"]), outputs, link
	if _, average := s["average_output"]; average {
		m.Mean = true
		if outputs != 1 {
			return 0, refuse("a random forest of several outputs: train with boosting=gbdt")
		}
	}
	classes := 0
	switch link {
	case Logistic:
		classes = 2
	case Softmax:
		classes = outputs
	}
	for i := range classes {
		m.Classes = append(m.Classes, strconv.Itoa(i))
	}
	return perRound, nil
}

// tree reads one tree. LightGBM numbers nodes and leaves apart already: a child below zero is ^leaf.
func (s section) tree() (Tree, error) {
	var t Tree
	leaves, err := count("num_leaves", s["num_leaves"], MaxNodes+1)
	if err != nil {
		return t, err
	}
	values, err := numbers(s, "leaf_value", leaves)
	if err != nil {
		return t, err
	}
	for _, v := range values {
		t.Leaves = append(t.Leaves, []float64{v})
	}
	if leaves < 2 {
		return t, nil
	}
	if s["is_linear"] == "1" {
		return t, refuse("a linear tree: train with linear_tree=false")
	}
	n := leaves - 1
	lists := map[string][]int{}
	for _, name := range []string{"split_feature", "decision_type", "left_child", "right_child"} {
		if lists[name], err = whole(s, name, n); err != nil {
			return t, err
		}
	}
	cuts, err := numbers(s, "threshold", n)
	if err != nil {
		return t, err
	}
	sets, err := s.categories()
	if err != nil {
		return t, err
	}
	for i := range n {
		node := Node{Feature: lists["split_feature"][i], Left: lists["left_child"][i], Right: lists["right_child"][i]}
		if err := node.decide(lists["decision_type"][i], cuts[i], sets); err != nil {
			return t, fmt.Errorf("%w (split %d)", err, i)
		}
		t.Nodes = append(t.Nodes, node)
	}
	return t, nil
}

// decide sets what sends a reading right. Bit 0 of the type says categories, bits 2 and 3 what counts as missing.
func (n *Node) decide(kind int, cut float64, sets [][]uint32) error {
	if kind>>2&3 == 1 {
		return refuse("zeros count as missing: train with zero_as_missing=false")
	}
	if kind&1 == 0 {
		n.Cut = above(cut, false)
		return nil
	}
	if !(cut >= 0 && cut < float64(len(sets))) { // NaN is neither
		return refuse("names set %v of %d categories", cut, len(sets))
	}
	n.Categories = sets[int(cut)]
	return nil
}

// categories returns the sets of a tree, each a string of bits.
func (s section) categories() ([][]uint32, error) {
	sets, err := count("num_cat", s["num_cat"], MaxNodes)
	if err != nil || sets == 0 {
		return nil, err
	}
	bounds, err := whole(s, "cat_boundaries", sets+1)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(s["cat_threshold"])
	out := make([][]uint32, sets)
	for i := range out {
		from, to := bounds[i], bounds[i+1]
		if from < 0 || to <= from || to > len(words) {
			return nil, refuse("cat_boundaries from %d to %d of %d words", from, to, len(words))
		}
		for _, w := range words[from:to] {
			bits, err := strconv.ParseUint(w, 10, 32)
			if err != nil {
				return nil, refuse("cat_threshold has %q: whole numbers of 32 bits", w)
			}
			out[i] = append(out[i], uint32(bits))
		}
	}
	return out, nil
}

func numbers(s section, name string, n int) ([]float64, error) {
	words := strings.Fields(s[name])
	if len(words) != n {
		return nil, refuse("%s has %d entries, not %d", name, len(words), n)
	}
	out := make([]float64, n)
	for i, w := range words {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return nil, refuse("%s has %q, which is no number", name, w)
		}
		out[i] = v
	}
	return out, nil
}

func whole(s section, name string, n int) ([]int, error) {
	words := strings.Fields(s[name])
	if len(words) != n {
		return nil, refuse("%s has %d entries, not %d", name, len(words), n)
	}
	out := make([]int, n)
	for i, w := range words {
		v, err := strconv.ParseInt(w, 10, 32)
		if err != nil {
			return nil, refuse("%s has %q, which is no whole number", name, w)
		}
		out[i] = int(v)
	}
	return out, nil
}
