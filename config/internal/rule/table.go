package rule

import (
	"fmt"
	"reflect"
	"strings"
)

// A Table holds the rules of all types.
type Table struct {
	Types  map[reflect.Type]Value // by the type of the value
	Fields map[string]Value       // by "Type.Field"
	Blocks map[string][]Relation  // by "Type"
}

// Check applies the rules to the struct that v points to.
func (t *Table) Check(c *Checker, v any) { t.block(c, "", reflect.ValueOf(v).Elem()) }

func (t *Table) block(c *Checker, path string, v reflect.Value) {
	b := newBlock(c, path, v)
	t.keys(b, v)
	t.relations(b, v.Type())
}

// keys applies the rules of the keys of b, inlined structs among them.
func (t *Table) keys(b Block, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		switch {
		case !ok:
		case tag == ",inline":
			t.keys(b, v.Field(i))
		case b.Has(tag), b.c.byValue() && strings.Contains(f.Tag.Get("cfg"), "required"):
			// What the file does not give has its default, or was in another file.
			rule := t.Fields[v.Type().Name()+"."+f.Name]
			if !b.c.Failed(b.at(tag)) && (!rule.derived || b.c.Given(b.at(tag))) {
				rule.check(b.c, b.at(tag), v.Field(i))
			}
			t.below(b.c, b.at(tag), v.Field(i))
		}
	}
}

// below applies the rules of what lies in the value at path.
func (t *Table) below(c *Checker, path string, v reflect.Value) {
	if rule, ok := t.Types[v.Type()]; ok && !v.IsZero() {
		rule.check(c, path, v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			t.below(c, path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			t.below(c, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Struct:
		if c.decoded(path) {
			t.block(c, path, v)
		}
	}
}

// relations applies the rules between the keys of b, those of inlined structs first.
func (t *Table) relations(b Block, of reflect.Type) {
	for i := range of.NumField() {
		if f := of.Field(i); f.Tag.Get("yaml") == ",inline" {
			t.relations(b, f.Type)
		}
	}
	for _, r := range t.Blocks[of.Name()] {
		r.check(b)
	}
}

// relationSchemas returns the relations of a type for a role as JSON Schema.
func (t *Table) relationSchemas(of reflect.Type, role string) (out []any) {
	for i := range of.NumField() {
		if f := of.Field(i); f.Tag.Get("yaml") == ",inline" {
			out = append(out, t.relationSchemas(f.Type, role)...)
		}
	}
	for _, r := range t.Blocks[of.Name()] {
		if r.of(role) {
			out = append(out, r.schema())
		}
	}
	return out
}
