package rule

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Relation is a rule between the keys of one block: where If holds, Then must.
type Relation struct {
	If   *Cond // nil: always
	Then Cond
	// Each names the blocks below this one that Then is about, such as "channels[].source".
	Each string
	// Roles are those that the rule is for; none means all.
	Roles []string

	// At is the key that the mistake is reported at, by default the one that breaks Then,
	// or the block, where a key is missing. Value reports it at the key's value.
	At    string
	Value bool
	// Cause and Remedy tell the mistake. In both {} stands for the key that breaks Then, and
	// {key} for the value of a key of the block. A key that is missing needs no cause.
	Cause, Remedy string
	// Tell replaces Cause and Remedy.
	Tell func(b Block, key string) (cause, remedy string)
}

// When returns the condition of a relation.
func When(x Cond) *Cond { return &x }

// of reports whether the relation is a rule for a role.
func (r Relation) of(role string) bool { return len(r.Roles) == 0 || slices.Contains(r.Roles, role) }

// check applies the relation to a block.
func (r Relation) check(b Block) {
	if !r.of(b.c.Role) || r.If != nil && (b.anyFailed(r.If.keys) || !r.If.holds(b)) {
		return
	}
	for _, inner := range b.blocks(r.Each) {
		if inner.anyFailed(r.Then.keys) {
			continue
		}
		for _, f := range r.Then.faults(inner) {
			if f.key != "" || !b.c.misspelt(inner.path) { // what seems to be missing is misspelt
				r.report(inner, f)
			}
		}
	}
}

func (r Relation) report(b Block, f fault) {
	cause, remedy := r.tell(b, f)
	path := b.path
	switch {
	case r.At != "":
		path = b.at(r.At)
	case f.key != "" && !f.missing:
		path = b.at(f.key)
	}
	if r.Value || f.cause != "" || path == b.path {
		b.c.Fail(path, cause, remedy)
	} else {
		b.c.FailKey(path, cause, remedy)
	}
	if f.amount {
		b.c.Bad = append(b.c.Bad, path)
	}
}

func (r Relation) tell(b Block, f fault) (cause, remedy string) {
	if f.cause != "" {
		return f.cause, f.remedy
	}
	if r.Tell != nil {
		return r.Tell(b, f.key)
	}
	cause = r.Cause
	if cause == "" && f.missing {
		cause = `"{}" is missing`
	}
	return b.expand(cause, f.key), b.expand(r.Remedy, f.key)
}

// expand replaces {} by key, and {x} by the value of key x.
func (b Block) expand(text, key string) string {
	text = strings.ReplaceAll(text, "{}", key)
	for _, f := range b.fields {
		if mark := "{" + f.Name + "}"; strings.Contains(text, mark) {
			text = strings.ReplaceAll(text, mark, b.Text(f.Name))
		}
	}
	return text
}

// anyFailed reports whether a mistake was reported in one of the keys.
func (b Block) anyFailed(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return b.c.Failed(b.at(k)) })
}

// blocks returns the blocks that each names below b, or b itself.
func (b Block) blocks(each string) []Block {
	if each == "" {
		return []Block{b}
	}
	name, rest, _ := strings.Cut(each, ".")
	key, list := strings.CutSuffix(name, "[]")
	if !b.c.decoded(b.at(key)) {
		return nil
	}
	v := b.value(key)
	var out []Block
	switch {
	case !list && v.Kind() == reflect.Pointer: // nil
	case !list:
		out = newBlock(b.c, b.at(key), v).blocks(rest)
	default:
		for i := range v.Len() {
			out = append(out, newBlock(b.c, fmt.Sprintf("%s[%d]", b.at(key), i), v.Index(i)).blocks(rest)...)
		}
	}
	return out
}

// schema returns the relation as JSON Schema.
func (r Relation) schema() Schema {
	then := r.Then.schema
	parts := strings.Split(r.Each, ".")
	slices.Reverse(parts)
	for _, name := range parts {
		key, list := strings.CutSuffix(name, "[]")
		switch {
		case list:
			then = Schema{"properties": Schema{key: Schema{"items": then}}}
		case key != "":
			then = Schema{"properties": Schema{key: then}}
		}
	}
	if r.If == nil {
		return then
	}
	return Schema{"if": r.If.schema, "then": then}
}

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
