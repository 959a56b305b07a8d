package rule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

type inner struct {
	X string `yaml:"x"`
	Y string `yaml:"y"`
}

type outer struct {
	Mode string  `yaml:"mode"`
	URL  string  `yaml:"url"`
	N    int     `yaml:"n"`
	One  *inner  `yaml:"one"`
	List []inner `yaml:"list"`
}

// texts are blocks of all kinds: each key is absent or has one of a few values.
func texts() (out []string) {
	out = []string{""}
	for _, key := range [][]string{
		{"mode: a", "mode: b"}, {"url: tcp://h", "url: tls://h"}, {"n: 3", "n: 30"}, {"one: {x: q}", "one: {y: q}"},
		{"list: [{x: q}, {y: r}]", "list: [{y: r}, {y: s}]"},
	} {
		for _, with := range out {
			for _, k := range key {
				out = append(out, with+k+"\n")
			}
		}
	}
	return out[1:]
}

// Every condition and every rule for a value holds for the check exactly where it holds for
// the schema that is made of it.
func TestCheckAndSchemaAgree(t *testing.T) {
	conds := map[string]Cond{
		"has": Has("mode", "n"), "lacks": Lacks("url", "one"), "only": Only("mode", "n"), "one": One("mode", "url",
			"n"),
		"is": Is("mode", "a"), "is a number": Is("n", 3), "unless": Unless("mode", "b"), "default": Default("mode",
			"b"),
		"looks": Looks("url", `^tcp://`), "not": Not(Has("mode")), "all": All(Has("n"), Looks("url", "tls")),
		"any": Any(Has("n"), Is("mode", "b")), "within": Within("one", Has("x")), "some": Some("list", Has("x")),
		"valid":  Valid(map[string]Value{"n": Between(1, 10), "mode": OneOf("a")}),
		"nested": Any(Not(All(Has("one"), Lacks("n"))), Within("one", Is("x", "q"))),
	}
	for name, x := range conds {
		valid := compiled(t, x.schema)
		held := 0
		for _, text := range texts() {
			var v outer
			d, err := yamlx.Parse("t.yaml", []byte(text), yamlx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d.Decode(&v)
			holds := x.holds(newBlock(&Checker{Doc: d.Doc}, "", valueOf(&v)))
			if holds != valid(text) {
				t.Errorf("%s: the check says %v, the schema %v of\n%s", name, holds, !holds, text)
			}
			if holds {
				held++
			}
		}
		if held == 0 || held == len(texts()) {
			t.Errorf("%s holds for %d of %d blocks and proves nothing", name, held, len(texts()))
		}
	}
}

// A relation is told where it is broken, and only there, and the schema refuses the same.
func TestRelationsAgree(t *testing.T) {
	table := &Table{
		Fields: map[string]Value{"outer.N": Between(1, 10), "inner.X": Form(`^[a-z]$`, "{} is no letter", "write one")},
		Blocks: map[string][]Relation{"outer": {
			{If: When(Is("mode", "a")), Then: Has("n"), Remedy: "add it"},
			{If: When(Has("one")), Each: "list[]", Then: Lacks("x"), Cause: `"{}" with {y}`, Remedy: "remove it"},
			{Then: Lacks("url"), Roles: []string{"strict"}, Cause: "no", Remedy: "remove it"},
		}},
	}
	for _, role := range []string{"strict", "loose"} {
		b := &builder{table: table, defs: Schema{}, Options: undescribed(role)}
		s := b.structure(valueOf(&outer{}).Type())
		s["$defs"] = b.defs
		valid := compiled(t, s)
		for _, text := range append(texts(), "one: {x: QQ}\n") {
			var v outer
			d, err := yamlx.Parse("t.yaml", []byte(text), yamlx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d.Decode(&v)
			c := &Checker{Doc: d.Doc, Role: role, Bad: d.Bad, Errs: d.Errs}
			table.Check(c, &v)
			if (len(c.Errs) == 0) != valid(text) {
				t.Errorf("%s: the check finds %v in\n%s", role, c.Errs, text)
			}
			for _, e := range c.Errs {
				if e.Line == 0 || e.Cause == "" || e.Remedy == "" || strings.Contains(e.Cause+e.Remedy, "{") {
					t.Errorf("incomplete error %+v", e)
				}
			}
		}
	}
}

// compiled returns whether a schema accepts a text, by an independent validator.
func compiled(t *testing.T, s Schema) func(text string) bool {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", raw, err))
	}
	return func(text string) bool {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		return compiled.Validate(v) == nil
	}
}

func valueOf(v *outer) reflect.Value { return reflect.ValueOf(v).Elem() }

func undescribed(role string) Options {
	return Options{
		Role:     role,
		Describe: func(reflect.Type, reflect.StructField) string { return "" },
		Comment:  func(reflect.Type) string { return "" },
	}
}
