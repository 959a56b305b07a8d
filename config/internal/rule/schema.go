package rule

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Forms of text that the decoder reads, as regular expressions of RE2 and ECMAScript.
const (
	durationForm = `^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^[0-9]{1,5}d$`
	sizeForm     = `^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*(KiB|MiB|GiB|kB|KB|MB|GB|B)$`
	identForm    = `^[A-Za-z_][A-Za-z0-9_]{0,63}$`
	notPath      = `^cred:(.*[/\\].*|\.\.?)?$`
	noDigit      = `^[^1-9]*$` // a duration or a size of zero
)

// Schema returns the JSON Schema of the struct type root: the keys, types and options that
// the decoder demands, and the rules of the table.
func (t *Table) Schema(root reflect.Type, o Options) ([]byte, error) {
	b := &builder{table: t, defs: Schema{}, Options: o}
	s := b.structure(root)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"], s["title"], s["$defs"] = o.ID, o.Title, b.defs
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(out, '\n'), nil
}

// Options say which schema of a table is written.
type Options struct {
	Role, ID, Title string
	// Describe returns the description of a field of a type, and Comment that of a type.
	Describe func(owner reflect.Type, f reflect.StructField) string
	Comment  func(t reflect.Type) string
}

// builder makes one schema.
type builder struct {
	Options
	table *Table
	defs  Schema
}

// structure returns the schema of a struct, inlined ones flattened.
func (b *builder) structure(t reflect.Type) Schema {
	props, required := Schema{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			tag, ok := f.Tag.Lookup("yaml")
			if !ok {
				continue
			}
			if tag == ",inline" {
				add(f.Type)
				continue
			}
			opts := f.Tag.Get("cfg")
			p := b.value(f.Type, b.table.Fields[t.Name()+"."+f.Name], opts)
			if doc := b.Describe(t, f); doc != "" {
				p["description"] = doc
			}
			props[tag] = p
			if strings.Contains(opts, "required") {
				required = append(required, tag)
			}
		}
	}
	add(t)
	out := Schema{"type": "object", "additionalProperties": false, "properties": props}
	if doc := b.Comment(t); doc != "" {
		out["description"] = doc
	}
	slices.Sort(required)
	if len(required) > 0 {
		out["required"] = required
	}
	if rules := b.table.relationSchemas(t, b.Role); len(rules) > 0 {
		out["allOf"] = rules
	}
	return out
}

// value returns the schema of one field's type. rule and opts are those of the field; of
// a list they apply to its entries.
func (b *builder) value(t reflect.Type, rule Value, opts string) Schema {
	switch t.Kind() {
	case reflect.Pointer:
		return b.value(t.Elem(), rule, opts)
	case reflect.Struct:
		return b.reference(t)
	case reflect.Slice:
		list := b.list(t, rule, opts)
		if strings.Contains(opts, "one") {
			return Schema{"anyOf": []any{b.value(t.Elem(), rule.entry(), opts), list}}
		}
		return list
	case reflect.Array:
		return Schema{"type": "array", "minItems": t.Len(), "maxItems": t.Len(), "items": b.value(t.Elem(), rule,
			"zero")}
	case reflect.Map:
		names := Schema{"pattern": identForm}
		if rule.names != nil {
			names = rule.names.schema
		}
		return Schema{"type": "object", "minProperties": 1, "propertyNames": names,
			"additionalProperties": b.value(t.Elem(), rule.entry(), opts)}
	}
	out := merged(plain(t, opts), b.table.Types[t].schema)
	ruled := len(rule.schema) > 0
	out = merged(out, rule.schema)
	if out["enum"] != nil {
		delete(out, "pattern")
	}
	number := t.Kind() == reflect.Int || t.Kind() == reflect.Float64
	if number && !ruled && !strings.Contains(opts, "zero") {
		out["not"] = Schema{"const": 0} // zero stands for the default
	}
	return out
}

// plain returns what the decoder demands of a value that is neither a list nor a block.
func plain(t reflect.Type, opts string) Schema {
	amount := func(form string) Schema {
		out := Schema{"type": "string", "pattern": form}
		if !strings.Contains(opts, "zero") {
			out["not"] = Schema{"pattern": noDigit}
		}
		return out
	}
	switch {
	case t == reflect.TypeFor[yamlx.Duration]():
		return amount(durationForm)
	case t == reflect.TypeFor[yamlx.Size]():
		return amount(sizeForm)
	case t.Kind() == reflect.Bool:
		return Schema{"type": "boolean"}
	case t.Kind() == reflect.Int:
		return Schema{"type": "integer"}
	case t.Kind() == reflect.Float64:
		return Schema{"type": "number"}
	}
	out := Schema{"type": "string", "pattern": `\S`}
	if strings.Contains(opts, "blank") {
		out["pattern"] = `[\s\S]`
	}
	if strings.Contains(opts, "path") {
		out["not"] = Schema{"pattern": notPath}
	}
	return out
}

// list returns the schema of a list.
func (b *builder) list(t reflect.Type, rule Value, opts string) Schema {
	out := Schema{"type": "array", "minItems": 1}
	if rule.list != nil {
		out = merged(out, rule.list.schema)
	}
	items := b.value(t.Elem(), rule.entry(), opts)
	out["items"] = items
	if rule.first != nil { // items then speaks of the others
		out["prefixItems"] = []any{Schema{"allOf": []any{items, rule.first.schema}}}
	}
	return out
}

// reference defines a struct once and refers to it.
func (b *builder) reference(t reflect.Type) Schema {
	name := t.Name()
	if b.defs[name] == nil {
		b.defs[name] = Schema{} // in case it holds itself
		b.defs[name] = b.structure(t)
	}
	return Schema{"$ref": "#/$defs/" + name}
}
