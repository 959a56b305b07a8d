package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
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
// an editor could check. Aliases, which can grow without bound, are not followed.
func instance(data []byte) (v any, ok bool) {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil || bytes.Contains(data, []byte("&")) && strings.Contains(file.String(), "*") {
		return nil, false
	}
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

// accepts lists the broken files that a schema cannot reject, and why.
const accepts = "testdata/schema-accepts.txt"

// What a schema can say it says: every broken file is rejected but those of a list,
// each with one of five reasons; and none of the list is rejected, so that it stays
// true.
func TestSchemaRejectsTheBroken(t *testing.T) {
	raw, err := os.ReadFile(accepts)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); f[0] != "#" {
			if len(f) != 2 || !slices.Contains([]string{"yaml", "amount", "reference", "expression", "machine"}, f[1]) {
				t.Errorf("no reason: %q", line)
				continue
			}
			reasons[f[0]] = f[1]
		}
	}
	schemas := map[string]*jsonschema.Schema{}
	for _, r := range Roles() {
		schemas[r] = compiled(t, r)
	}
	files, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	rejected := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		input, _, _ := strings.Cut(string(raw), divider)
		role, _, _ := strings.Cut(name, "-")
		v, ok := instance([]byte(input + "\n"))
		reason, listed := reasons[name]
		delete(reasons, name)
		switch fails := ok && schemas[role].Validate(v) != nil; {
		case fails && listed:
			t.Errorf("%s is rejected: take it off the list", name)
		case fails:
			rejected++
		case !listed:
			t.Errorf("the schema accepts %s", name)
		case !ok && reason != "yaml":
			t.Errorf("%s is no YAML, not %s", name, reason)
		}
	}
	for name := range reasons {
		t.Errorf("there is no broken file %s", name)
	}
	t.Logf("%d of %d broken files are rejected", rejected, len(files))
}

// exponentials are numbers that the parser under instance takes for text.
var exponentials = regexp.MustCompile(`[0-9][eE][-+]?[0-9]`)

// What loads is valid by the schema: an editor never complains about a good file.
func FuzzSchemaAgrees(f *testing.F) {
	seeds(f)
	schemas := map[string]*jsonschema.Schema{}
	for _, r := range Roles() {
		schemas[r] = compiled(f, r)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for role, parse := range map[string]func() error{
			"agent":     func() error { _, err := ParseAgent("f.yaml", data); return err },
			"evaluator": func() error { _, err := ParseEvaluator("f.yaml", data); return err },
			"keyholder": func() error { _, err := ParseKeyHolder("f.yaml", data); return err },
		} {
			if parse() != nil || exponentials.Match(data) {
				continue
			}
			if v, ok := instance(data); ok {
				if err := schemas[role].Validate(v); err != nil {
					t.Errorf("%s: a file that loads is rejected: %v\n%s", role, err, data)
				}
			}
		}
	})
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
	for _, root := range []reflect.Type{reflect.TypeFor[Agent](), reflect.TypeFor[Evaluator](),
		reflect.TypeFor[KeyHolder](), reflect.TypeFor[overlay]()} {
		walk(root, func(owner reflect.Type, field reflect.StructField) {
			seen[owner.Name()+"."+field.Name] = true
			if describeField(owner, field) == "" {
				bare = append(bare, owner.Name()+"."+field.Name)
			}
		})
	}
	if len(bare) > len(seen)/20 {
		t.Errorf("%d of %d keys have no description, neither in docs/configuration.md nor in a comment: %v", len(bare),
			len(seen), bare)
	}
	for id := range fieldRules {
		if !seen[id] {
			t.Errorf("the rule %s belongs to no field", id)
		}
	}
	if _, err := Schema("console"); err == nil {
		t.Error("a role without a configuration has a schema")
	}
}

// The schema of remote configurations: what WithRemote takes it accepts, and it
// rejects what no device takes.
func TestSchemaOfRemote(t *testing.T) {
	s := compiled(t, "remote")
	base := remoteBase(t, withRemote)
	stream := "streams:\n  - name: s\n    params: edge12-d1\n    window: {samples: 8}\n    channels: [{name: c, " +
		"unit: '%', range: [0, 100], source: {type: cpu}}]\n    "
	for text, good := range map[string]bool{
		"log: {level: debug}":                     true,
		"stop_timeout: 5s\nversion: 1":            true,
		stream + "interval: 1s":                   true,
		stream:                                    false, // no interval
		stream + "replay: {file: a.csv, time: t}": false,
		"broker: {url: tls://h}":                  false,
		"log: {level: loud}":                      false,
		"queue: {bytes: 5}":                       false,
		"{}":                                      false,
	} {
		v, ok := instance([]byte(text))
		if !ok {
			t.Fatalf("%q is no YAML", text)
		}
		if err := s.Validate(v); (err == nil) != good {
			t.Errorf("%q: %v, want good %v", text, err, good)
		}
		if _, err := base.WithRemote("remote", []byte(text)); good && err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// No rule is for the check or for the schema alone, except those that JSON Schema cannot say
// and those that arithmetic elsewhere checks.
func TestRulesHaveTwoSides(t *testing.T) {
	unsayable := []string{"Hours.Zone"} // the zones that the machine knows
	elsewhere := []string{"Stream.Channels", "Alerts.Receivers", "History.Tiers",
		"History.Sinks"} // counted there
	for id, r := range fieldRules {
		v := reflect.ValueOf(r)
		list := v.FieldByName("list")
		says := v.FieldByName("schema").Len() > 0 || !v.FieldByName("first").IsNil() || !list.IsNil()
		checks := !v.FieldByName("problem").IsNil() || !v.FieldByName("first").IsNil() ||
			!list.IsNil() && !list.Elem().FieldByName("problem").IsNil()
		amount := v.FieldByName("amount").Bool() && fieldOfRules(t, id).Type != reflect.TypeFor[int]()
		if !says && !amount && !slices.Contains(unsayable, id) {
			t.Errorf("the schema says nothing of %s", id)
		}
		if !checks && !slices.Contains(elsewhere, id) {
			t.Errorf("the check says nothing of %s", id)
		}
	}
}

// fieldOfRules finds the field that a rule names.
func fieldOfRules(t *testing.T, id string) reflect.StructField {
	owner, name, _ := strings.Cut(id, ".")
	for _, v := range []any{Agent{}, AgentKeys{}, Queue{}, Remote{}, overlay{}, Metrics{}, Control{}, Log{},
		Evaluator{},
		EvaluatorKeys{},
		DeviceStream{}, Device{}, Results{}, Join{}, Limits{}, Program{}, ProgramModel{}, KeyHolder{}, Broker{},
		Spool{}, Delivery{},
		StreamDelivery{},
		Hours{}, Store{},
		Stream{}, Window{}, Channel{}, Events{}, Replay{}, Source{}, Point{}, Input{}, I2C{}, SPI{}, Register{},
		Modbus{},
		Line{}, CAN{},
		Serial{}, Exec{}, HTTP{}, MQTT{}, Alerts{}, AlertRule{}, Receiver{}, Webhook{}, AlertMQTT{}, Silence{},
		History{}, Tier{}, Postgres{}, Console{}, ConsoleEnrolment{}, Sink{}, Traces{}} {
		if f, ok := reflect.TypeOf(v).FieldByName(name); ok && reflect.TypeOf(v).Name() == owner {
			return f
		}
	}
	t.Errorf("no field %s", id)
	return reflect.StructField{}
}
