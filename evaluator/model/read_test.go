package model_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/evaluator/model"
)

const smallExported = `{"format":"hencedge-trees/1","features":["a","b"],"combine":"sum","link":"identity","trees":[` +
	`{"feature":[0,-1,-1],"threshold":[1.5,0,0],"left":[1,-1,-1],"right":[2,-1,-1],"value":[[],[3],[4]]}]}`

const smallXGBoost = `{"learner":{"feature_names":["a"],"gradient_booster":{"name":"gbtree","model":{"tree_info":[0],` +
	`"trees":[{"left_children":[1,-1,-1],"right_children":[2,-1,-1],"split_conditions":[1.5,3,4],` +
	`"split_indices":[0,0,0],` +
	`"split_type":[0,0,0],"tree_param":{"size_leaf_vector":"0"}}]}},"learner_model_param":{"base_score":"5E-1",` +
	`"num_class":"0","num_feature":"1"},"objective":{"name":"reg:squarederror"}},"version":[1,7,4]}`

const smallLightGBM = "tree\nversion=v3\nnum_class=1\nnum_tree_per_iteration=1\nobjective=regression\n" +
	"feature_names=a b\n\n" +
	"Tree=0\nnum_leaves=3\nnum_cat=1\nsplit_feature=0 1\nthreshold=1.5 0\ndecision_type=2 1\nleft_child=-1 -2\n" +
	"right_child=1 -3\nleaf_value=3 4 5\ncat_boundaries=0 1\ncat_threshold=6\n\nend of trees\n"

// prunedXGBoost has entries that training with gamma pruned, as XGBoost saves them.
var prunedXGBoost = strings.NewReplacer("[1,-1,-1]", "[1,-1,-1,-1,-1]", "[2,-1,-1]", "[2,-1,-1,-1,-1]", "[1.5,3,4]",
	"[1.5,3,4,7,8]", `"split_indices":[0,0,0]`, `"split_indices":[0,0,0,2147483647,2147483647]`).Replace(smallXGBoost)

func manyLines() string {
	var out strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&out, "x%d\n", i)
	}
	return out.String() + "num_class=1"
}

// TestSmall reads one small file of each format and walks it.
func TestSmall(t *testing.T) {
	for _, c := range []struct {
		file string
		row  []float64
		want float64
	}{
		{smallExported, []float64{1.5, 0}, 3},
		{smallExported, []float64{1.5 + 1e-9, 0}, 3}, // 1.5 as a 32-bit float
		{smallExported, []float64{1.5 + 1e-6, 0}, 4},
		{smallXGBoost, []float64{1.5}, 4.5},
		{smallXGBoost, []float64{1.4999}, 3.5},
		{smallXGBoost, []float64{1.5 - 1e-12}, 4.5},
		{prunedXGBoost, []float64{1.5}, 4.5},
		{prunedXGBoost, []float64{1.4999}, 3.5},
		{smallLightGBM, []float64{1.5, 0}, 3},
		{smallLightGBM, []float64{math.Nextafter(1.5, 2), 1}, 4},
		{smallLightGBM, []float64{2, 2.9}, 4},
		{smallLightGBM, []float64{2, 3}, 5},
		{smallLightGBM, []float64{2, -1}, 5},
		{smallLightGBM, []float64{2, 1e300}, 5},
	} {
		m, err := model.Read(strings.NewReader(c.file))
		if err != nil {
			t.Fatal(err)
		}
		if got := must(m.Scores(c.row))(t)[0]; got != c.want {
			t.Errorf("%s: %v gives %v, not %v", m.Source, c.row, got, c.want)
		}
	}
}

// TestRefused changes one thing in a small file and expects an error that says what it is.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ file, from, to, says string }{
		{"", "", "", "empty"},
		{"[]", "", "", "dump_model"},
		{"{L\x00", "", "", ".ubj"},
		{"\x80\x04pickle", "", "", "docs/models.md"},
		{"{}", "", "", "docs/models.md"},
		{"{", "", "", "not JSON"},
		{`{"tree_info":[]}`, "", "", "save_model"},
		{smallExported, "trees/1", "trees/2", "hencedge-trees/1"},
		{smallExported, `"features"`, `"extra":1,"features"`, "extra"},
		{smallExported, `"sum"`, `"median"`, "sum or mean"},
		{smallExported, `"identity"`, `"cube"`, "logistic"},
		{smallExported, `["a","b"]`, `["a","a"]`, "rename"},
		{smallExported, `["a","b"]`, `["a",""]`, "0 bytes"},
		{smallExported, `["a","b"]`, `[]`, "0 features"},
		{smallExported, `[0,-1,-1]`, `[2,-1,-1]`, "feature 2 of 2"},
		{smallExported, `[0,-1,-1]`, `[0,-1]`, "one of each"},
		{smallExported, `"left":[1`, `"left":[2`, "twice"},
		{smallExported, `"left":[1`, `"left":[0`, "twice"},
		{smallExported, `"left":[1`, `"left":[3`, "node 3"},
		{smallExported, `"left":[1,-1,-1],"right":[2`, `"left":[-1,-1,-1],"right":[-1`, "3 leaves for 0 splits"},
		{smallExported, `[3],`, `[3,4],`, "2 scores"},
		{smallExported, `"left"`, `"output":1,"left"`, "output 1 of 1"},
		{smallExported, `"left"`, `"output":-1,"left"`, "output is -1"},
		{smallExported, `"identity"`, `"softmax"`, "softmax of 1 outputs"},
		{smallExported, `"identity"`, `"logistic","base":[0,0]`, "logistic of 2 outputs"},
		{smallExported, `"combine"`, `"base":[0],"classes":["x","y","z"],"combine"`, "3 classes for 1 outputs"},
		{smallExported, `"combine"`, `"classes":["x"],"combine"`, "one class"},
		{smallExported, `"trees":[`, `"trees":[` + strings.Repeat("{},", 16*model.MaxTrees), "objects"},
		{smallExported, `"value":[`, `"value":[` + strings.Repeat("[],", 3*model.MaxNodes), "lists"},
		{smallXGBoost, "gbtree", "dart", "gbtree"},
		{prunedXGBoost, `"left_children":[1`, `"left_children":[3`, "does not exist"},
		{smallXGBoost, "reg:squarederror", "rank:ndcg", "docs/models.md"},
		{smallXGBoost, `"num_feature":"1"`, `"num_feature":"2"`, "2 features"},
		{smallXGBoost, `"num_feature":"1"`, `"num_feature":"x"`, "num_feature"},
		{smallXGBoost, `"split_type":[0`, `"split_type":[1`, "enable_categorical"},
		{smallXGBoost, `"size_leaf_vector":"0"`, `"size_leaf_vector":"3"`, "one_output_per_tree"},
		{smallXGBoost, `5E-1`, `[1,2]`, "base_score"},
		{smallXGBoost, `"tree_info":[0]`, `"tree_info":[]`, "tree_info"},
		{smallXGBoost, `"tree_info":[0]`, `"tree_info":[1]`, "output 1 of 1"},
		{smallXGBoost, `[1.5,3,4]`, `[1.5,1e39,4]`, "finite"},
		{strings.Replace(smallXGBoost, "reg:squarederror", "binary:logistic", 1), `5E-1`, `1`, "between 0 and 1"},
		{strings.Replace(smallXGBoost, "reg:squarederror", "count:poisson", 1), `5E-1`, `0`, "positive"},
		{strings.Replace(smallXGBoost, "reg:squarederror", "multi:softmax", 1), `5E-1`, `5E-1`, "0 outputs"},
		{smallLightGBM, "objective=regression", "objective=lambdarank", "docs/models.md"},
		{smallLightGBM, "objective=regression", "objective=regression sqrt", "sqrt"},
		{smallLightGBM, "objective=regression", "objective=binary sigmoid:2", "sigmoid"},
		{smallLightGBM, "objective=regression\n", "", "no objective"},
		{smallLightGBM, "num_class=1", "num_class=2", "2 outputs"},
		{smallLightGBM, "num_class=1", "num_class=1\nnum_class=1", "second time"},
		{smallLightGBM, "num_cat=1", "num_cat=1\nis_linear=1", "linear_tree"},
		{smallLightGBM, "decision_type=2 1", "decision_type=6 1", "zero_as_missing"},
		{smallLightGBM, "decision_type=2 1", "decision_type=2", "decision_type has 1"},
		{smallLightGBM, "threshold=1.5 0", "threshold=1.5 1", "names set 1"},
		{smallLightGBM, "threshold=1.5 0", "threshold=NaN 0", "not a number"},
		{smallLightGBM, "threshold=1.5 0", "threshold=1.5 NaN", "names set NaN"},
		{smallLightGBM, "num_class=1", manyLines(), "lines of one section"},
		{smallLightGBM, "cat_boundaries=0 1", "cat_boundaries=0 2", "cat_boundaries"},
		{smallLightGBM, "cat_threshold=6", "cat_threshold=-6", "cat_threshold"},
		{smallLightGBM, "left_child=-1 -2", "left_child=-1 0", "twice"},
		{smallLightGBM, "left_child=-1 -2", "left_child=-1 -9", "does not exist"},
		{smallLightGBM, "num_leaves=3", "num_leaves=9999999", "num_leaves"},
		{smallLightGBM, "leaf_value=3 4 5", "leaf_value=3 4 Inf", "finite"},
	} {
		file := strings.Replace(c.file, c.from, c.to, 1)
		_, err := model.Read(strings.NewReader(file))
		if !errors.Is(err, model.ErrModel) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%q to %q: %v", c.from, c.to, err)
		}
	}
}

// TestDeep refuses a tree that is deeper than the bound, and reads one that is as deep.
func TestDeep(t *testing.T) {
	chain := func(depth int) string {
		var feature, threshold, left, right, value []string
		for i := range depth { // split i at 2i, its left leaf at 2i+1
			feature = append(feature, "0", "-1")
			threshold = append(threshold, fmt.Sprint(i), "0")
			left = append(left, fmt.Sprint(2*i+1), "-1")
			right = append(right, fmt.Sprint(2*i+2), "-1")
			value = append(value, "[]", fmt.Sprintf("[%d]", i))
		}
		list := func(name string, of []string, last string) string {
			return `"` + name + `":[` + strings.Join(append(of, last), ",") + `]`
		}
		const start = `{"format":"hencedge-trees/1","features":["a"],"combine":"sum","link":"identity","trees":[{`
		return start + strings.Join(
			[]string{list("feature", feature, "-1"), list("threshold", threshold, "0"), list("left", left, "-1"),
				list("right", right, "-1"), list("value", value, "[-7]")}, ",") + "}]}"
	}
	m, err := model.Read(strings.NewReader(chain(model.MaxDepth)))
	if err != nil {
		t.Fatal(err)
	}
	if got := must(m.Scores([]float64{1e6}))(t)[0]; got != -7 {
		t.Errorf("last leaf: %v", got)
	}
	if _, err := model.Read(strings.NewReader(chain(model.MaxDepth + 1))); !errors.Is(err, model.ErrModel) {
		t.Errorf("deeper: %v", err)
	}
}

// FuzzRead reads anything. What it accepts can be evaluated and put on a grid, and both agree.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{smallExported, smallXGBoost, smallLightGBM, prunedXGBoost} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := model.Read(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, model.ErrModel) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		row, grids := make([]float64, len(m.Features)), make([]model.Grid, len(m.Features))
		for i := range row {
			row[i] = float64(i % 5)
			grids[i] = grid(t, -3, 1, 10)
		}
		scores, err := m.Scores(row)
		if err != nil {
			t.Fatal(err)
		}
		m.Predict(scores)
		forest, err := m.Quantise(grids, 1)
		if err != nil {
			return // scores beyond the bound
		}
		steps, rounded, err := forest.Steps(row)
		if err != nil || len(rounded) > 0 {
			t.Fatalf("rounded %v: %v", rounded, err)
		}
		sums, err := forest.Whole(steps)
		if err != nil {
			t.Fatal(err)
		}
		for o, got := range forest.Scores(sums) {
			off := math.Abs(got - scores[o])
			if off > forest.Error()+1e-3*(math.Abs(got)+float64(len(m.Trees))*float64(forest.Bound())) {
				t.Fatalf("score %d is %v, not %v", o, got, scores[o])
			}
		}
	})
}
