package rule

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// A Value is a rule for the value of one key. For a list it is about each entry.
type Value struct {
	schema Schema
	// problem says what is wrong with a value; cause is empty if nothing is.
	problem func(v reflect.Value) (cause, remedy string)
	// amount says that a value which breaks the rule is not used in further checks.
	amount bool
	// derived says that the default follows from other values, and is right if they are.
	derived bool
	// conceal returns the part of a wrong value that errors must not show.
	conceal func(text string) string

	// list, names and first are about a list as a whole, the keys of a map, and the first
	// entry of a list.
	list  *listRule
	names *Value
	first *Value
}

// A listRule is a rule for a list as a whole.
type listRule struct {
	schema Schema
	// problem says what is wrong with entry i.
	problem func(list []string, i int) (cause, remedy string)
}

// OneOf demands one of the values.
func OneOf[T ~string | ~int](values ...T) Value {
	words, known := make([]string, len(values)), make([]any, len(values))
	for i, v := range values {
		words[i], known[i] = fmt.Sprint(v), v
	}
	return Value{
		schema: Schema{"enum": known},
		problem: func(v reflect.Value) (cause, remedy string) {
			text := fmt.Sprint(v)
			switch {
			case slices.Contains(words, text):
				return "", ""
			case v.Kind() == reflect.Int:
				return "unknown value " + text, "use one of " + strings.Join(words, ", ")
			}
			return "unknown value " + yamlx.Quote(text), yamlx.SuggestValue(text, words)
		},
	}
}

// Between demands a value from lo to hi. JSON Schema knows bounds of numbers only.
func Between[T int | yamlx.Size | yamlx.Duration](lo, hi T) Value {
	var s Schema
	if _, number := any(lo).(int); number {
		s = Schema{"minimum": lo, "maximum": hi}
	}
	return Value{
		schema: s, amount: true,
		problem: func(v reflect.Value) (cause, remedy string) {
			if n := T(v.Int()); n < lo || n > hi {
				cause = yamlx.Show(n) + " is out of range"
				remedy = fmt.Sprintf("use a value from %s to %s", yamlx.Show(lo), yamlx.Show(hi))
			}
			return cause, remedy
		},
	}
}

// Number demands a whole number in which problem finds nothing wrong.
func Number(schema Schema, problem func(n int) (cause, remedy string)) Value {
	return Value{
		schema: schema, amount: true,
		problem: func(v reflect.Value) (string, string) { return problem(int(v.Int())) },
	}
}

// Share demands a number from 0 to 1.
func Share(remedy string) Value {
	return Value{
		schema: Schema{"minimum": 0, "maximum": 1},
		problem: func(v reflect.Value) (string, string) {
			if f := v.Float(); f >= 0 && f <= 1 {
				return "", ""
			}
			return fmt.Sprintf("%v is not a share", v.Float()), remedy
		},
	}
}

// Form demands a text that matches pattern, a regular expression that both RE2 and
// ECMAScript read. {} in cause stands for the text in quotes.
func Form(pattern, cause, remedy string) Value {
	matches := matcher(pattern)
	return Text(Schema{"pattern": pattern}, func(s string) (string, string) {
		if matches(s) {
			return "", ""
		}
		return strings.ReplaceAll(cause, "{}", yamlx.Quote(s)), remedy
	})
}

// matcher returns a function that reports whether a text matches pattern. It compiles the
// pattern when it is first needed: together the patterns of all rules take megabytes, and
// a process needs few of them.
func matcher(pattern string) func(text string) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
	return func(text string) bool { return compiled().MatchString(text) }
}

// Text demands a text in which problem finds nothing wrong; cause is then empty. The schema
// must accept what problem accepts, and should refuse as much of the rest as it can say.
func Text(schema Schema, problem func(s string) (cause, remedy string)) Value {
	return Value{
		schema:  schema,
		problem: func(v reflect.Value) (string, string) { return problem(v.String()) },
	}
}

// MaxLength demands a text of at most n bytes.
func MaxLength(n int, cause, remedy string) Value {
	return Text(Schema{"maxLength": n}, func(s string) (string, string) {
		if len(s) <= n {
			return "", ""
		}
		return strings.ReplaceAll(cause, "{}", yamlx.Quote(s)), remedy
	})
}

// Derived says that the default follows from other values: only what the file gives is
// checked.
func (v Value) Derived() Value {
	v.derived = true
	return v
}

// Conceal keeps a part of a wrong value out of the errors.
func (v Value) Conceal(part func(text string) string) Value {
	v.conceal = part
	return v
}

// Problem returns what is wrong with a text; cause is empty if nothing is.
func (v Value) Problem(text string) (cause, remedy string) { return v.problem(reflect.ValueOf(text)) }

// Caused returns v with another cause for a wrong text.
func (v Value) Caused(cause func(text string) string) Value {
	problem := v.problem
	v.problem = func(x reflect.Value) (string, string) {
		was, remedy := problem(x)
		if was == "" {
			return "", ""
		}
		return cause(x.String()), remedy
	}
	return v
}

// Distinct demands that no entry of the list is there twice. kind names one entry.
func (v Value) Distinct(kind string) Value {
	v.list = &listRule{Schema{"uniqueItems": true}, func(list []string, i int) (string, string) {
		if list[i] == "" || !slices.Contains(list[:i], list[i]) {
			return "", ""
		}
		return fmt.Sprintf("the %s %q is listed twice", kind, list[i]), "keep one of them"
	}}
	return v
}

// Sole demands that value, where it is in the list, is the only entry.
func (v Value) Sole(value string) Value {
	distinct := v.list
	sole := Schema{"not": Schema{"contains": Schema{"const": value}, "minItems": 2}}
	v.list = &listRule{merged(distinct.schema, sole), func(list []string, i int) (string, string) {
		if slices.Contains(list, value) && i > 0 && (list[i] == value || list[0] == value) {
			return fmt.Sprintf("%q cannot be combined with others", value), "remove it, or all others"
		}
		return distinct.problem(list, i)
	}}
	return v
}

// AtMost demands a list of no more than n entries; arithmetic elsewhere says so.
func AtMost(n int) Value { return Value{list: &listRule{schema: Schema{"maxItems": n}}} }

// First demands v of the first entry of a list.
func First(v Value) Value { return Value{first: &v} }

// Names demands names of the keys of a map.
func (v Value) Names(names Value) Value {
	v.names = &names
	return v
}

// check applies the rule to the value at path.
func (v Value) check(c *Checker, path string, x reflect.Value) {
	switch x.Kind() {
	case reflect.Pointer:
		if !x.IsNil() {
			v.check(c, path, x.Elem())
		}
		return
	case reflect.Slice:
		v.checkList(c, path, x)
		return
	case reflect.Map:
		v.checkMap(c, path, x)
		return
	}
	if v.problem == nil || c.Failed(path) {
		return
	}
	cause, remedy := v.problem(x)
	if cause == "" {
		return
	}
	if v.conceal != nil {
		c.Doc.Hide(v.conceal(x.String()))
	}
	c.Fail(path, cause, remedy)
	if v.amount {
		c.Bad = append(c.Bad, path)
	}
}

// entry returns the part of v that is about each entry of a list.
func (v Value) entry() Value {
	v.list, v.names, v.first = nil, nil, nil
	return v
}

func (v Value) checkList(c *Checker, path string, x reflect.Value) {
	texts := make([]string, x.Len())
	for i := range x.Len() {
		texts[i] = fmt.Sprint(x.Index(i))
	}
	for i := range x.Len() {
		at := fmt.Sprintf("%s[%d]", path, i)
		if v.first != nil && i == 0 {
			v.first.check(c, at, x.Index(i))
		}
		v.entry().check(c, at, x.Index(i))
		if v.list == nil || v.list.problem == nil {
			continue
		}
		if cause, remedy := v.list.problem(texts, i); cause != "" {
			c.Fail(at, cause, remedy)
		}
	}
}

func (v Value) checkMap(c *Checker, path string, x reflect.Value) {
	for _, key := range slices.Sorted(maps.Keys(x.Interface().(map[string]string))) {
		at := yamlx.Join(path, key)
		if v.names != nil {
			if cause, remedy := v.names.problem(reflect.ValueOf(key)); cause != "" {
				c.FailKey(at, cause, remedy)
			}
		}
		v.entry().check(c, at, x.MapIndex(reflect.ValueOf(key)))
	}
}

// merged returns the keywords of both schemas.
func merged(a, b Schema) Schema {
	out := maps.Clone(a)
	if out == nil {
		out = Schema{}
	}
	maps.Copy(out, b)
	return out
}

// Schema is a JSON Schema, draft 2020-12.
type Schema map[string]any
