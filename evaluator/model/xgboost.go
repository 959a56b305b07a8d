package model

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// xgboostLearner is the part of XGBoost's save_model that predictions depend on. XGBoost adds fields from version to
// version, so unknown ones pass.
type xgboostLearner struct {
	FeatureNames    []string `json:"feature_names"`
	GradientBooster struct {
		Name  string `json:"name"`
		Model struct {
			TreeInfo []int         `json:"tree_info"`
			Trees    []xgboostTree `json:"trees"`
		} `json:"model"`
	} `json:"gradient_booster"`
	Param struct {
		BaseScore  string `json:"base_score"`
		NumClass   string `json:"num_class"`
		NumFeature string `json:"num_feature"`
		NumTarget  string `json:"num_target"`
	} `json:"learner_model_param"`
	Objective struct {
		Name string `json:"name"`
	} `json:"objective"`
}

type xgboostTree struct {
	Left       []int     `json:"left_children"`
	Right      []int     `json:"right_children"`
	Conditions []float64 `json:"split_conditions"` // thresholds, and values of leaves
	Indices    []int     `json:"split_indices"`
	SplitType  []int     `json:"split_type"`
	TreeParam  struct {
		SizeLeafVector string `json:"size_leaf_vector"`
	} `json:"tree_param"`
}

// xgboostObjectives maps an objective to its link.
var xgboostObjectives = map[string]Link{
	"binary:logistic": Logistic, "reg:logistic": Logistic, "binary:logitraw": Identity,
	"reg:squarederror": Identity, "reg:absoluteerror": Identity, "reg:pseudohubererror": Identity,
	"count:poisson": Exp, "reg:gamma": Exp, "reg:tweedie": Exp,
	"multi:softmax": Softmax, "multi:softprob": Softmax,
}

func readXGBoost(data []byte) (*Model, error) {
	var l xgboostLearner
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, refuse("not XGBoost's save_model: %v", err)
	}
	if l.GradientBooster.Name != "gbtree" {
		return nil, refuse("booster %q: train with booster=\"gbtree\"", l.GradientBooster.Name)
	}
	link, known := xgboostObjectives[l.Objective.Name]
	if !known {
		return nil, refuse("objective %q is not supported: docs/models.md has the list", l.Objective.Name)
	}
	m := &Model{Source: "XGBoost", Link: link, Single: true, Narrow: true, Outputs: 1}
	if err := l.header(m); err != nil {
		return nil, err
	}
	trees := l.GradientBooster.Model.Trees
	info := l.GradientBooster.Model.TreeInfo
	if len(info) != len(trees) {
		return nil, refuse("%d trees, but tree_info has %d entries", len(trees), len(info))
	}
	for i := range trees {
		t, err := trees[i].tree(info[i])
		if err != nil {
			return nil, fmt.Errorf("%w (tree %d)", err, i)
		}
		m.Trees = append(m.Trees, t)
	}
	return m, nil
}

// header sets names, classes, outputs and base scores.
func (l *xgboostLearner) header(m *Model) error {
	features, err := count("num_feature", l.Param.NumFeature, MaxFeatures)
	if err != nil {
		return err
	}
	m.Features = l.FeatureNames
	if len(m.Features) == 0 {
		for i := range features {
			m.Features = append(m.Features, fmt.Sprintf("f%d", i))
		}
	}
	if len(m.Features) != features {
		return refuse("%d names for %d features", len(m.Features), features)
	}
	if t := l.Param.NumTarget; t != "" && t != "1" && t != "0" {
		return refuse("%s targets: train one model for each", t)
	}
	classes, err := count("num_class", l.Param.NumClass, MaxOutputs)
	if err != nil {
		return err
	}
	switch {
	case m.Link == Softmax:
		m.Outputs = classes
	case m.Link == Logistic || l.Objective.Name == "binary:logitraw":
		classes = 2
	default:
		classes = 0
	}
	for i := range classes {
		m.Classes = append(m.Classes, strconv.Itoa(i))
	}
	return l.base(m)
}

// base sets the base scores, which the file has before the link, as XGBoost does in 32-bit floats.
func (l *xgboostLearner) base(m *Model) error {
	text := strings.TrimSuffix(strings.TrimPrefix(l.Param.BaseScore, "["), "]") // a list from version 3 on
	wide, err := strconv.ParseFloat(text, 32)
	if err != nil {
		return refuse("base_score %q is not one number: set base_score when you train", l.Param.BaseScore)
	}
	b := float32(wide)
	switch {
	case m.Link == Logistic || l.Objective.Name == "binary:logitraw":
		if b <= 0 || b >= 1 {
			return refuse("base_score %v of objective %s: it lies between 0 and 1", b, l.Objective.Name)
		}
		b = -float32(math.Log(float64(1/b - 1)))
	case m.Link == Exp:
		if b <= 0 {
			return refuse("base_score %v of objective %s: it is positive", b, l.Objective.Name)
		}
		b = float32(math.Log(float64(b)))
	}
	for range m.Outputs {
		m.Base = append(m.Base, float64(b))
	}
	return nil
}

func (x *xgboostTree) tree(output int) (Tree, error) {
	n := len(x.Left)
	if len(x.Right) != n || len(x.Conditions) != n || len(x.Indices) != n {
		return Tree{}, refuse("lists of %d and %d children, %d conditions and %d features: one of each a node",
			n, len(x.Right), len(x.Conditions), len(x.Indices))
	}
	for _, kind := range x.SplitType {
		if kind != 0 {
			return Tree{}, refuse("splits by category: train with numbers, enable_categorical=False")
		}
	}
	if s := x.TreeParam.SizeLeafVector; s != "" && s != "0" && s != "1" {
		return Tree{}, refuse("leaves of %s values: train with multi_strategy=\"one_output_per_tree\"", s)
	}
	if output < 0 {
		return Tree{}, refuse("adds to output %d", output)
	}
	return fromLists(lists{left: x.Left, right: x.Right, output: output,
		split: func(i int) Node { return Node{Feature: x.Indices[i], Cut: float64(float32(x.Conditions[i]))} },
		leaf:  func(i int) []float64 { return []float64{float64(float32(x.Conditions[i]))} },
		// What training with gamma prunes stays in the file: leaves that are marked so.
		pruned: func(i int) bool { return x.Indices[i] == math.MaxInt32 && x.Left[i] == -1 },
	})
}

func count(name, text string, limit int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > limit {
		return 0, refuse("%s is %q: a whole number up to %d", name, text, limit)
	}
	return n, nil
}
