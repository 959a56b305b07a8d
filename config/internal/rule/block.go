package rule

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// A Block is the keys and values of one struct, and where they stand.
type Block struct {
	c      *Checker
	path   string
	fields []yamlx.Field
}

func newBlock(c *Checker, path string, v reflect.Value) Block {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return Block{c, path, yamlx.Fields(v)}
}

// field returns the value of key, defaults filled in.
func (b Block) field(key string) reflect.Value {
	i := slices.IndexFunc(b.fields, func(f yamlx.Field) bool { return f.Name == key })
	if i < 0 {
		panic("no key " + key + " at " + b.path) // a rule names a key that its type lacks
	}
	return b.fields[i].Value
}

// value returns what field does, or what it points to.
func (b Block) value(key string) reflect.Value {
	v := b.field(key)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem()
	}
	return v
}

// at returns the path of key.
func (b Block) at(key string) string { return yamlx.Join(b.path, key) }

// Text returns the value of key as text.
func (b Block) Text(key string) string { return fmt.Sprint(b.value(key)) }

// Has reports whether key is given: in the file, or in code by a value other than zero.
func (b Block) Has(key string) bool {
	if b.c.byValue() {
		return !b.field(key).IsZero()
	}
	return b.c.Given(b.at(key))
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
