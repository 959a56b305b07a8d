package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiled is the schema of a role in an independent validator.
func compiled(t testing.TB, role string) *jsonschema.Schema {
	t.Helper()
	text, err := Schema(role)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(role+".json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(role + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance is YAML as the validator wants it; ok is false when it is no YAML that
// an editor could check.
func instance(data []byte) (v any, ok bool) {
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, false
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, false
	}
	v, err = jsonschema.UnmarshalJSON(bytes.NewReader(b))
	return v, err == nil
}

func TestSchemaAcceptsExamples(t *testing.T) {
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		role := strings.TrimSuffix(filepath.Base(file), ".yaml")
		role, _, _ = strings.Cut(role, "-")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(Roles(), role) {
			role = "agent"
		}
		v, ok := instance(data)
		if !ok {
			t.Fatalf("%s is no YAML", file)
		}
		if err := compiled(t, role).Validate(v); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// rejects lists the broken files that the schema must reject. The others have a
// mistake between fields, in what a name refers to, in the YAML itself, or in
// arithmetic on a value; an editor cannot see those by the schema.
const rejects = "testdata/schema-rejects.txt"

func TestSchemaRejectsTheBroken(t *testing.T) {
	schemas := map[string]*jsonschema.Schema{}
	for _, r := range Roles() {
		schemas[r] = compiled(t, r)
	}
	rejected := func(name string) bool {
		raw, err := os.ReadFile(filepath.Join("testdata/bad", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		input, _, _ := strings.Cut(string(raw), divider)
		role, _, _ := strings.Cut(name, "-")
		v, ok := instance([]byte(input + "\n"))
		return ok && schemas[role].Validate(v) != nil
	}
	if *update {
		files, err := filepath.Glob("testdata/bad/*.txt")
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, file := range files {
			if name := strings.TrimSuffix(filepath.Base(file), ".txt"); rejected(name) {
				list = append(list, name)
			}
		}
		if err := os.WriteFile(rejects, []byte(strings.Join(list, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(rejects)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(raw))
	if len(list) < 80 {
		t.Errorf("only %d broken files are to be rejected", len(list))
	}
	for _, name := range list {
		if !rejected(name) {
			t.Errorf("the schema accepts %s", name)
		}
	}
}

// Nearly every key has a description, and every hint a field.
func TestSchemaIsComplete(t *testing.T) {
	seen := map[string]bool{}
	var bare []string
	var walk func(t reflect.Type, f func(owner reflect.Type, field reflect.StructField))
	walk = func(t reflect.Type, f func(reflect.Type, reflect.StructField)) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return
		}
		for i := range t.NumField() {
			field := t.Field(i)
			if _, ok := field.Tag.Lookup("yaml"); ok {
				f(t, field)
				walk(field.Type, f)
			}
		}
	}
	for _, root := range []reflect.Type{reflect.TypeFor[Agent](), reflect.TypeFor[Evaluator](), reflect.TypeFor[KeyHolder]()} {
		walk(root, func(owner reflect.Type, field reflect.StructField) {
			seen[owner.Name()+"."+field.Name] = true
			if describeField(owner, field) == "" {
				bare = append(bare, owner.Name()+"."+field.Name)
			}
		})
	}
	if len(bare) > len(seen)/20 {
		t.Errorf("%d of %d keys have no description, neither in docs/configuration.md nor in a comment: %v", len(bare), len(seen), bare)
	}
	for id := range hints {
		if !seen[id] {
			t.Errorf("the hint %s belongs to no field", id)
		}
	}
	if _, err := Schema("console"); err == nil {
		t.Error("a role without a configuration has a schema")
	}
}
