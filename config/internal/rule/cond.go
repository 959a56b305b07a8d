package rule

import (
	"fmt"
	"slices"
)

// A Cond is a condition on the keys of one block.
type Cond struct {
	schema Schema
	keys   []string // whose values it reads; it says nothing where one is wrong already
	faults func(b Block) []fault
}

func (x Cond) holds(b Block) bool { return len(x.faults(b)) == 0 }

// Has holds when all keys are given.
func Has(keys ...string) Cond {
	return Cond{Schema{"required": keys}, nil, func(b Block) (out []fault) {
		for _, k := range keys {
			if !b.Has(k) {
				out = append(out, fault{key: k, missing: true})
			}
		}
		return out
	}}
}

// Lacks holds when none of the keys is given.
func Lacks(keys ...string) Cond {
	none := Schema{}
	for _, k := range keys {
		none[k] = false
	}
	return Cond{Schema{"properties": none}, nil, func(b Block) (out []fault) {
		for _, k := range keys {
			if b.Has(k) {
				out = append(out, fault{key: k})
			}
		}
		return out
	}}
}

// Only holds when no other key is given.
func Only(keys ...string) Cond {
	return Cond{Schema{"propertyNames": Schema{"enum": keys}}, nil, func(b Block) (out []fault) {
		for _, f := range b.fields {
			if !slices.Contains(keys, f.Name) && b.Has(f.Name) {
				out = append(out, fault{key: f.Name})
			}
		}
		return out
	}}
}

// One holds when exactly one of the keys is given.
func One(keys ...string) Cond {
	one := make([]any, len(keys))
	for i, k := range keys {
		one[i] = Schema{"required": []string{k}}
	}
	return Cond{Schema{"oneOf": one}, nil, func(b Block) []fault {
		given := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !b.Has(k) })
		switch {
		case len(given) == 0:
			return whole
		case len(given) > 1:
			return []fault{{key: given[1]}}
		}
		return nil
	}}
}

// Is holds when key has one of the values. Without the key it holds for the default.
func Is[T any](key string, values ...T) Cond { return is(key, true, values...) }

// Unless holds when key has none of the values.
func Unless[T any](key string, values ...T) Cond {
	x := is(key, true, values...)
	return Cond{Schema{"not": x.schema}, x.keys, func(b Block) []fault {
		if x.holds(b) {
			return []fault{{key: key}}
		}
		return nil
	}}
}

// Default holds when key has one of the values or is not given.
func Default[T any](key string, values ...T) Cond { return is(key, false, values...) }

func is[T any](key string, required bool, values ...T) Cond {
	known, words := make([]any, len(values)), make([]string, len(values))
	for i, v := range values {
		known[i], words[i] = v, fmt.Sprint(v)
	}
	s := Schema{"properties": Schema{key: Schema{"enum": known}}}
	if required {
		s["required"] = []string{key}
	}
	return Cond{s, []string{key}, func(b Block) []fault {
		if slices.Contains(words, b.Text(key)) || !required && !b.Has(key) {
			return nil
		}
		return []fault{{key: key}}
	}}
}

// Looks holds when key has a text that matches pattern.
func Looks(key, pattern string) Cond {
	return Like(key, pattern, matcher(pattern))
}

// Like holds when key has a text for which match is true. pattern must match all such texts.
func Like(key, pattern string, match func(text string) bool) Cond {
	s := Schema{"properties": Schema{key: Schema{"pattern": pattern}}, "required": []string{key}}
	return Cond{s, []string{key}, func(b Block) []fault {
		if match(b.Text(key)) {
			return nil
		}
		return []fault{{key: key}}
	}}
}

// Valid holds when the values of keys that are given fulfil rules.
func Valid(rules map[string]Value) Cond {
	props := Schema{}
	var keys []string
	for k, v := range rules {
		props[k], keys = v.schema, append(keys, k)
	}
	slices.Sort(keys)
	return Cond{Schema{"properties": props}, nil, func(b Block) (out []fault) {
		for _, k := range keys {
			if !b.Has(k) || b.c.Failed(b.at(k)) {
				continue
			}
			if cause, remedy := rules[k].problem(b.value(k)); cause != "" {
				out = append(out, fault{key: k, cause: cause, remedy: remedy, amount: rules[k].amount})
			}
		}
		return out
	}}
}

// Not holds when x does not.
func Not(x Cond) Cond {
	return Cond{Schema{"not": x.schema}, x.keys, func(b Block) []fault {
		if x.holds(b) {
			return whole
		}
		return nil
	}}
}

// All holds when all of the conditions hold.
func All(list ...Cond) Cond {
	return Cond{Schema{"allOf": schemas(list)}, keysOf(list), func(b Block) (out []fault) {
		for _, x := range list {
			out = append(out, x.faults(b)...)
		}
		return out
	}}
}

// Any holds when one of the conditions does.
func Any(list ...Cond) Cond {
	return Cond{Schema{"anyOf": schemas(list)}, keysOf(list), func(b Block) []fault {
		if slices.ContainsFunc(list, func(x Cond) bool { return x.holds(b) }) {
			return nil
		}
		return whole
	}}
}

// Within holds when x holds of the block at key, or there is none.
func Within(key string, x Cond) Cond {
	return Cond{Schema{"properties": Schema{key: x.schema}}, []string{key}, func(b Block) []fault {
		if !b.Has(key) || x.holds(newBlock(b.c, b.at(key), b.value(key))) {
			return nil
		}
		return []fault{{key: key}}
	}}
}

// Some holds when x holds of one of the blocks in the list at key.
func Some(key string, x Cond) Cond {
	contains := Schema{"type": "array", "contains": x.schema}
	return Cond{Schema{"properties": Schema{key: contains}, "required": []string{key}}, []string{key},
		func(b Block) []fault {
			list := b.value(key)
			for i := range list.Len() {
				if x.holds(newBlock(b.c, fmt.Sprintf("%s[%d]", b.at(key), i), list.Index(i))) {
					return nil
				}
			}
			return []fault{{key: key}}
		}}
}

func schemas(list []Cond) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x.schema
	}
	return out
}

func keysOf(list []Cond) (out []string) {
	for _, x := range list {
		out = append(out, x.keys...)
	}
	return out
}

// A fault is a key that breaks a condition, "" for the block as a whole.
type fault struct {
	key           string
	missing       bool
	cause, remedy string // of a value that breaks a rule of its own
	amount        bool   // see Value
}

// whole is the fault of a block in which no single key is wrong.
var whole = []fault{{}}
