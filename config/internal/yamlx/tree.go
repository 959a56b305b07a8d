package yamlx

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// value decodes n into v. opts are the cfg options of the field.
func (d *Decoder) value(n ast.Node, v reflect.Value, path, opts string) {
	if !d.plain(n, path) {
		return
	}
	if _, null := n.(*ast.NullNode); null {
		d.fail(n, path, "has no value", d.valueRemedy(path, opts))
		return
	}
	switch v.Type() {
	case reflect.TypeFor[Duration]():
		d.duration(n, v, path)
		d.notZero(n, v, path, opts)
		return
	case reflect.TypeFor[Size]():
		d.size(n, v, path)
		d.notZero(n, v, path, opts)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, opts)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		if _, one := n.(*ast.StringNode); one && strings.Contains(opts, "one") {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			d.Doc.at[path+"[0]"] = nodePosition(n)
			d.value(n, v.Index(0), path, opts)
			return
		}
		d.list(n, v, path, opts)
	case reflect.Array:
		d.array(n, v, path)
	case reflect.Map:
		d.stringMap(n, v, path)
	case reflect.String:
		if s, ok := d.text(n, path); ok {
			switch {
			case s == "", strings.TrimSpace(s) == "" && !strings.Contains(opts, "blank"):
				d.fail(n, path, "the text is empty", d.valueRemedy(path, opts))
			case d.options.Texts[v.Type()] != nil:
				s = d.options.Texts[v.Type()](s, d.resolve)
			case strings.Contains(opts, "path"):
				s = d.path(n, s, path)
			}
			v.SetString(s)
		}
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.mismatch(n, path, "true or false", "write true or false")
			return
		}
		v.SetBool(b.Value)
	case reflect.Int:
		d.integer(n, v, path)
		d.notZero(n, v, path, opts)
	case reflect.Float64:
		if f, ok := d.number(n, path); ok {
			v.SetFloat(f)
			d.notZero(n, v, path, opts)
		}
	default:
		d.fail(n, path, "cannot be set", "remove it")
	}
}

// notZero refuses a zero where zero stands for the default. The default would otherwise
// replace it silently.
func (d *Decoder) notZero(n ast.Node, v reflect.Value, path, opts string) {
	remedy := "write a positive value, or remove the key for the default"
	if v.Kind() == reflect.Float64 {
		remedy = "write another value, or remove the key for the default"
	}
	if v.IsZero() && !strings.Contains(opts, "zero") && !slices.Contains(d.Bad, path) {
		d.fail(n, path, "must not be 0", remedy)
	}
}

func (d *Decoder) list(n ast.Node, v reflect.Value, path, opts string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.mismatch(n, path, "a list", listRemedy(n, path))
		return
	}
	if len(seq.Values) == 0 {
		remedy := "add an entry, or remove the key"
		if strings.Contains(opts, "required") {
			remedy = "add at least one entry"
		}
		d.fail(n, path, "the list is empty", remedy)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, e := range seq.Values {
		p := fmt.Sprintf("%s[%d]", path, i)
		if e == nil {
			d.fail(n, p, "has no value", "give it a value, or remove the entry")
			continue
		}
		d.Doc.at[p] = nodePosition(e)
		d.value(e, v.Index(i), p, opts)
	}
}

func (d *Decoder) array(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok || len(seq.Values) != v.Len() {
		d.mismatch(n, path, fmt.Sprintf("a list of %d numbers", v.Len()), "write [minimum, maximum]")
		return
	}
	for i, e := range seq.Values {
		p := fmt.Sprintf("%s[%d]", path, i)
		d.Doc.at[p] = nodePosition(e)
		d.value(e, v.Index(i), p, "zero")
	}
}

// entries returns the pairs of a mapping that have plain, distinct texts as keys, and reports
// all others. ok is false if n is not a mapping.
func (d *Decoder) entries(n ast.Node, path string) (list []*ast.MappingValueNode, ok bool) {
	var pairs []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		pairs = m.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{m}
	default:
		remedy := "write \"key: value\" lines, indented below it"
		if e, ok := d.options.Examples[lastKey(path)]; ok && !strings.HasSuffix(path, "]") {
			remedy = "write " + e
		}
		if path == "" {
			remedy = "write \"key: value\" lines; docs/configuration.md has examples"
		}
		d.mismatch(n, path, "keys and values", remedy)
		return nil, false
	}
	seen := map[string]Position{}
	for _, kv := range pairs {
		if _, merge := kv.Key.(*ast.MergeKeyNode); merge {
			d.fail(kv.Key, path, "merge keys (<<) are not supported", "write the keys themselves")
			continue
		}
		key, isText := keyText(kv.Key)
		if !isText {
			d.report(kv.Key, path, "expected a key of letters, digits and '_', found "+describe(kv.Key),
				"write \"key: value\"")
			continue
		}
		at := nodePosition(kv.Key)
		if first, dup := seen[key]; dup {
			d.report(kv.Key, Join(path, key), fmt.Sprintf("the key is given twice, first in line %d", first.Line),
				"keep one of them")
			continue
		}
		seen[key] = at
		p := Join(path, key)
		d.Doc.keys[p], d.Doc.at[p] = at, at
		if _, null := kv.Value.(*ast.NullNode); !null && kv.Value != nil {
			d.Doc.at[p] = nodePosition(kv.Value)
		}
		list = append(list, kv)
	}
	return list, true
}

func (d *Decoder) structure(n ast.Node, v reflect.Value, path string) {
	pairs, ok := d.entries(n, path)
	if !ok {
		return
	}
	fields := Fields(v)
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
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
			d.fail(kv.Key, Join(path, key), "has no value", d.valueRemedy(Join(path, key), fields[i].Opts))
			continue
		}
		d.value(kv.Value, fields[i].Value, Join(path, key), fields[i].Opts)
	}
	for _, f := range fields {
		if strings.Contains(f.Opts, "required") && !given[f.Name] && !slices.Contains(d.Bad, path) {
			where := n
			if len(pairs) > 0 {
				where = pairs[0].Key
			}
			d.Bad = append(d.Bad, Join(path, f.Name))
			d.report(where, path, fmt.Sprintf("%q is missing", f.Name), "add "+d.example(f.Name))
		}
	}
}

func (d *Decoder) stringMap(n ast.Node, v reflect.Value, path string) {
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
		p := Join(path, key)
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
