package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// entries gives the pairs of a mapping with plain, distinct text keys and
// reports all others. ok is false when n is no mapping.
func (d *decoder) entries(n ast.Node, path string) (list []*ast.MappingValueNode, ok bool) {
	var pairs []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		pairs = m.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{m}
	default:
		remedy := "write \"key: value\" lines, indented below it"
		if e, ok := examples[lastKey(path)]; ok && !strings.HasSuffix(path, "]") {
			remedy = "write " + e
		}
		if path == "" {
			remedy = "write \"key: value\" lines; docs/configuration.md has examples"
		}
		d.mismatch(n, path, "keys and values", remedy)
		return nil, false
	}
	seen := map[string]position{}
	for _, kv := range pairs {
		if _, merge := kv.Key.(*ast.MergeKeyNode); merge {
			d.fail(kv.Key, path, "merge keys (<<) are not supported", "write the keys themselves")
			continue
		}
		key, isText := keyText(kv.Key)
		if !isText {
			d.report(kv.Key, path, "expected a key of letters, digits and '_', found "+describe(kv.Key), "write \"key: value\"")
			continue
		}
		at := nodePosition(kv.Key)
		if first, dup := seen[key]; dup {
			d.report(kv.Key, joinPath(path, key), fmt.Sprintf("the key is given twice, first in line %d", first.line),
				"keep one of them")
			continue
		}
		seen[key] = at
		p := joinPath(path, key)
		d.doc.keys[p], d.doc.at[p] = at, at
		if _, null := kv.Value.(*ast.NullNode); !null && kv.Value != nil {
			d.doc.at[p] = nodePosition(kv.Value)
		}
		list = append(list, kv)
	}
	return list, true
}

func keyText(k ast.MapKeyNode) (string, bool) {
	switch s := k.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.IntegerNode, *ast.BoolNode:
		return k.GetToken().Value, true
	}
	return "", false
}

// field is one settable field of a struct.
type field struct {
	name     string
	opts     string
	required bool
	value    reflect.Value
}

// fieldsOf lists the fields of a struct with inlined structs flattened.
func fieldsOf(v reflect.Value) []field {
	var out []field
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		if !ok {
			continue
		}
		if tag == ",inline" {
			out = append(out, fieldsOf(v.Field(i))...)
			continue
		}
		opts := f.Tag.Get("cfg")
		out = append(out, field{tag, opts, strings.Contains(opts, "required"), v.Field(i)})
	}
	return out
}

func (d *decoder) structure(n ast.Node, v reflect.Value, path string) {
	pairs, ok := d.entries(n, path)
	if !ok {
		return
	}
	fields := fieldsOf(v)
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	given := map[string]bool{}
	for _, kv := range pairs {
		key, _ := keyText(kv.Key)
		i := slices.Index(names, key)
		if i < 0 {
			d.report(kv.Key, path, fmt.Sprintf("unknown key %q", key), suggestKey(key, names))
			continue
		}
		given[key] = true
		if kv.Value == nil {
			d.fail(kv.Key, joinPath(path, key), "has no value", valueRemedy(joinPath(path, key), fields[i].opts))
			continue
		}
		d.value(kv.Value, fields[i].value, joinPath(path, key), fields[i].opts)
	}
	for _, f := range fields {
		if f.required && !given[f.name] && !slices.Contains(d.bad, path) {
			where := n
			if len(pairs) > 0 {
				where = pairs[0].Key
			}
			d.bad = append(d.bad, joinPath(path, f.name))
			d.report(where, path, fmt.Sprintf("%q is missing", f.name), "add "+exampleOf(f.name))
		}
	}
}

func (d *decoder) stringMap(n ast.Node, v reflect.Value, path string) {
	pairs, ok := d.entries(n, path)
	if !ok {
		return
	}
	if len(pairs) == 0 {
		d.fail(n, path, "there are no entries", "add one, or remove the key")
		return
	}
	m := make(map[string]string, len(pairs))
	for _, kv := range pairs {
		key, _ := keyText(kv.Key)
		p := joinPath(path, key)
		if kv.Value == nil {
			d.fail(kv.Key, p, "has no value", "give it a value, or remove the key")
			continue
		}
		if !d.plain(kv.Value, p) {
			continue
		}
		if s, ok := d.text(kv.Value, p); ok {
			m[key] = s
		}
	}
	v.Set(reflect.ValueOf(m))
}

// sortedKeys gives the keys of m in a fixed order.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// nodePosition is where a node starts in the file.
func nodePosition(n ast.Node) position {
	if n == nil {
		return position{}
	}
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 && m.Values[0].Key != nil {
			return nodePosition(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		if m.Key != nil {
			return nodePosition(m.Key)
		}
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// describe names what a node is, for messages.
func describe(n ast.Node) string {
	named := func(kind string) string {
		return kind + " " + quote(n.GetToken().Value)
	}
	switch m := n.(type) {
	case *ast.StringNode:
		return named("the text")
	case *ast.IntegerNode, *ast.FloatNode:
		return named("the number")
	case *ast.BoolNode:
		return named("the truth value")
	case *ast.InfinityNode, *ast.NanNode:
		return named("the value")
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.SequenceNode:
		return fmt.Sprintf("a list of %d", len(m.Values))
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.NullNode:
		return "nothing"
	}
	return "something else"
}
