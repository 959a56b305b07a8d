package model

import (
	"bytes"
	"encoding/json"
	"io"
)

// Read reads a model: JSON of interop/python/export_trees.py (scikit-learn), of XGBoost's save_model, or text of
// LightGBM's save_model. Its errors wrap ErrModel and say what to do.
func Read(r io.Reader) (*Model, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, refuse("%v", err)
	}
	if len(data) > MaxFile {
		return nil, refuse("larger than %d MiB: train fewer or smaller trees", MaxFile>>20)
	}
	m, err := decode(data)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// Bounds of JSON, of which an empty list or object takes many times its bytes in memory. Each library's files have less
// for as many trees and splits as Read accepts.
const (
	maxObjects = 16 * MaxTrees
	maxLists   = 64*MaxTrees + 2*MaxNodes
)

// decode tells the formats apart by how they begin.
func decode(data []byte) (*Model, error) {
	text := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(text) == 0:
		return nil, refuse("the file is empty")
	case bytes.HasPrefix(text, []byte("tree\n")) || bytes.HasPrefix(text, []byte("tree\r\n")):
		return readLightGBM(text)
	case text[0] == '[':
		return nil, refuse("a JSON list, as XGBoost's dump_model writes: it lacks the objective and the base score, " +
			"so use save_model(\"trees.json\")")
	case text[0] != '{':
		return nil, refuse("neither JSON nor LightGBM's text: export the model as docs/models.md says")
	case len(text) > 1 && (text[1] == 'L' || text[1] == 'i' || text[1] == '$'):
		return nil, refuse("looks like XGBoost's binary JSON (.ubj): use save_model(\"trees.json\")")
	}
	if bytes.Count(text, []byte("{")) > maxObjects || bytes.Count(text, []byte("[")) > maxLists {
		return nil, refuse("more than %d objects or %d lists: train fewer or smaller trees", maxObjects, maxLists)
	}
	var top struct {
		Format   string          `json:"format"`
		Learner  json.RawMessage `json:"learner"`
		TreeInfo json.RawMessage `json:"tree_info"`
	}
	if err := json.Unmarshal(text, &top); err != nil {
		return nil, refuse("not JSON: %v", err)
	}
	switch {
	case top.Format != "":
		return readExported(text)
	case top.Learner != nil:
		return readXGBoost(top.Learner)
	case top.TreeInfo != nil:
		return nil, refuse("LightGBM's dump_model: use save_model(\"trees.txt\"), which has every digit")
	}
	return nil, refuse("JSON without \"format\" or \"learner\": export the model as docs/models.md says")
}
