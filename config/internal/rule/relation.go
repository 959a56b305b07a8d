package rule

import (
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
