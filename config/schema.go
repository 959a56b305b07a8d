package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

//go:generate go run ./internal/gendoc

// Roles lists the roles that have a configuration.
func Roles() []string { return []string{"agent", "evaluator", "keyholder"} }

// Schemas lists what Schema knows: the roles, and "remote", what an agent takes from
// afar.
func Schemas() []string { return append(Roles(), "remote") }

// schema is a JSON Schema, draft 2020-12.
type schema map[string]any

// Schema is the JSON Schema of a role's configuration, or of a remote one, for
// editors: the same keys, types, forms, fixed sets of values and rules between keys
// that loading demands, and the comments of the Go types. What needs arithmetic or
// refers to another place (slots, names) it cannot say; Parse* does.
func Schema(role string) ([]byte, error) {
	types := map[string]reflect.Type{"agent": reflect.TypeFor[Agent](), "evaluator": reflect.TypeFor[Evaluator](), "keyholder": reflect.TypeFor[KeyHolder](),
		"remote": reflect.TypeFor[overlay]()}
	t, ok := types[role]
	if !ok {
		return nil, fmt.Errorf("%w: no role %q: use %s", ErrInvalid, role, strings.Join(Schemas(), ", "))
	}
	b := &schemaBuilder{defs: schema{}, role: role}
	root := b.structure(t)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://github.com/hencedge/hencedge/schema/" + role + ".json"
	root["title"] = "hencedge " + role
	root["$defs"] = b.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(out, '\n'), nil
}

type schemaBuilder struct {
	defs schema
	role string
}

// value is the schema of one field's type. hint and opts are those of the field; of
// a list they apply to its entries.
func (b *schemaBuilder) value(t reflect.Type, hint schema, opts string) schema {
	out := schema{}
	zero := strings.Contains(opts, "zero") // may be written out
	switch t {
	case reflect.TypeFor[Duration]():
		out = schema{"type": "string", "pattern": patternDuration}
		if !zero {
			out["not"] = form(noDigit)
		}
	case reflect.TypeFor[Size]():
		out = schema{"type": "string", "pattern": patternSize}
		if !zero {
			out["not"] = form(noDigit)
		}
	case reflect.TypeFor[Secret]():
		out = schema{"type": "string", "pattern": patternSecret, "not": form(notSecret)}
	case reflect.TypeFor[SourceType]():
		out = schema{"type": "string", "enum": SourceTypes()}
	default:
		switch t.Kind() {
		case reflect.Pointer:
			return b.value(t.Elem(), hint, opts)
		case reflect.Struct:
			return b.reference(t)
		case reflect.Slice:
			if strings.Contains(opts, "one") {
				return schema{"anyOf": []any{b.value(t.Elem(), hint, opts), b.list(t, hint, opts)}}
			}
			return b.list(t, hint, opts)
		case reflect.Array:
			return schema{"type": "array", "minItems": t.Len(), "maxItems": t.Len(), "items": b.value(t.Elem(), hint, "zero")}
		case reflect.Map:
			entry := b.value(t.Elem(), hint, opts)
			return schema{"type": "object", "minProperties": 1, "propertyNames": form(patternIdent), "additionalProperties": entry}
		case reflect.String:
			out = schema{"type": "string", "pattern": `\S`}
			if strings.Contains(opts, "blank") {
				out["pattern"] = `[\s\S]`
			}
			if strings.Contains(opts, "path") {
				out["not"] = form(notPath)
			}
		case reflect.Bool:
			out = schema{"type": "boolean"}
		case reflect.Int:
			out = schema{"type": "integer"}
		case reflect.Float64:
			out = schema{"type": "number"}
		}
	}
	for k, v := range hint {
		out[k] = v
	}
	if out["enum"] != nil {
		delete(out, "pattern")
	}
	if k := t.Kind(); (k == reflect.Int || k == reflect.Float64) && !zero && hint == nil {
		out["not"] = schema{"const": 0} // zero stands for the default
	}
	return out
}

// list is the schema of a list; some hints are about it, not about its entries.
func (b *schemaBuilder) list(t reflect.Type, hint schema, opts string) schema {
	out, entries := schema{"type": "array", "minItems": 1}, schema{}
	for k, v := range hint {
		if k == "uniqueItems" || k == "prefixItems" || k == "maxItems" {
			out[k] = v
		} else {
			entries[k] = v
		}
	}
	out["items"] = b.value(t.Elem(), entries, opts)
	if first, ok := out["prefixItems"].([]any); ok { // items then speaks of the others
		out["prefixItems"] = []any{schema{"allOf": append([]any{out["items"]}, first...)}}
	}
	return out
}

// reference defines a struct once and refers to it.
func (b *schemaBuilder) reference(t reflect.Type) schema {
	name := t.Name()
	if b.defs[name] == nil {
		b.defs[name] = schema{} // in case it holds itself
		b.defs[name] = b.structure(t)
	}
	return schema{"$ref": "#/$defs/" + name}
}

// structure is the schema of a struct, inlined ones flattened.
func (b *schemaBuilder) structure(t reflect.Type) schema {
	props, required := schema{}, []string{}
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
			id := t.Name() + "." + f.Name
			opts := f.Tag.Get("cfg")
			p := b.value(f.Type, hints[id], opts)
			if doc := describeField(t, f); doc != "" {
				p["description"] = doc
			}
			props[tag] = p
			if strings.Contains(opts, "required") {
				required = append(required, tag)
			}
		}
	}
	add(t)
	out := schema{"type": "object", "additionalProperties": false, "properties": props}
	if doc := fieldDoc[t.Name()]; doc != "" {
		out["description"] = doc
	}
	slices.Sort(required)
	if len(required) > 0 {
		out["required"] = required
	}
	if rules := b.rules(t); len(rules) > 0 {
		out["allOf"] = rules
	}
	return out
}

// describeField is the comment of a field, else of the type that it holds, else of
// the broker's field of the same name (other connections repeat them).
func describeField(owner reflect.Type, f reflect.StructField) string {
	if doc := fieldDoc[owner.Name()+"."+f.Name]; doc != "" {
		return doc
	}
	t := f.Type
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if doc := fieldDoc[t.Name()]; doc != "" {
		return doc
	}
	if doc := fieldDoc["Agent."+f.Name]; doc != "" && owner == reflect.TypeFor[overlay]() {
		return doc
	}
	return fieldDoc["Broker."+f.Name]
}
