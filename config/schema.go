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

// schema is a JSON Schema, draft 2020-12.
type schema map[string]any

// Schema is the JSON Schema of a role's configuration, for editors: the same
// keys, types, forms and fixed sets of values that loading demands, and the
// comments of the Go types. What depends on several fields (slots, names that
// refer to others) it cannot say; Parse* does.
func Schema(role string) ([]byte, error) {
	types := map[string]reflect.Type{"agent": reflect.TypeFor[Agent](), "evaluator": reflect.TypeFor[Evaluator](), "keyholder": reflect.TypeFor[KeyHolder]()}
	t, ok := types[role]
	if !ok {
		return nil, fmt.Errorf("%w: no role %q: use %s", ErrInvalid, role, strings.Join(Roles(), ", "))
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

// Forms of text.
const (
	patternName     = `^[A-Za-z0-9_.-]{1,64}$`
	patternDuration = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^[0-9]+d$`
	patternSize     = `^[0-9]+(\.[0-9]+)? *(KiB|MiB|GiB|kB|KB|MB|GB|B)$`
	patternSecret   = `^(file|env|cred|age):.+`
	patternKey      = `^ed25519:[A-Za-z0-9+/]{43}=$`
)

// hints are what the types do not say, by "Type.Field".
var hints = map[string]schema{
	"Agent.Version": {"const": SchemaVersion}, "Evaluator.Version": {"const": SchemaVersion}, "KeyHolder.Version": {"const": SchemaVersion},
	"Agent.Device": {"pattern": patternName}, "Evaluator.Name": {"pattern": patternName}, "KeyHolder.Name": {"pattern": patternName},
	"Stream.Name": {"pattern": patternName}, "Channel.Name": {"pattern": patternName}, "Program.Name": {"pattern": patternName},
	"Device.Name": {"pattern": patternName}, "Device.PublicKey": {"pattern": patternKey}, "DeviceStream.Device": {"pattern": patternName},
	"Remote.OperatorKey": {"pattern": patternKey}, "Remote.Sections": {"enum": RemoteSections()},
	"AgentKeys.Mode": {"enum": []any{KeyModePublic, KeyModeSymmetric}}, "Agent.Energy": {"enum": []any{EnergyAuto, EnergyOff}},
	"Log.Level": {"enum": []any{"debug", "info", "warn", "error"}}, "Log.Format": {"enum": []any{"text", "json"}},
	"Queue.Full":        {"enum": []any{QueueDropOldest, QueueDropNewest, QueueBlock}},
	"Channel.OnMissing": {"enum": []any{MissingHold, MissingSkip, MissingMark}}, "Channel.OnRange": {"enum": []any{OutsideClamp, OutsideMissing}},
	"Stream.Packing": {"enum": []any{PackingReal}}, "Stream.Level": {"minimum": 0, "maximum": 64}, "Stream.LogScale": {"minimum": 10, "maximum": 60},
	"Window.Samples": {"minimum": 1, "maximum": MaxSamples}, "Replay.Format": {"enum": []any{"csv", "ndjson"}},
	"Replay.TimeFormat": {"enum": []any{"rfc3339", "unix", "unix_ms", "unix_ns"}}, "Replay.Speed": {"pattern": `^(realtime|fast|[0-9.e+-]+x)$`},
	"KeyHolder.Output": {"enum": []any{"table", "ndjson", "csv"}}, "Evaluator.Workers": {"minimum": 1, "maximum": 1024}, "Agent.Workers": {"minimum": 1, "maximum": 1024},
	"Broker.URL": {"pattern": `^(tls|mqtts|ssl|tcp|mqtt)://[^/@?#]+/?$`}, "Broker.TopicPrefix": {"pattern": `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,7}$`, "maxLength": 128},
	"Broker.ClientID": {"pattern": `^[!-~]{1,128}$`}, "Program.Topic": {"pattern": `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`, "maxLength": 512},
	"Metrics.Listen": {"pattern": `^(unix:/.+|[^/]*:[0-9]{1,5})$`},
}

// value is the schema of one field's type. hint applies to it, or to the entries
// of a list.
func (b *schemaBuilder) value(t reflect.Type, hint schema) schema {
	out := schema{}
	switch t {
	case durationType:
		out = schema{"type": "string", "pattern": patternDuration}
	case sizeType:
		out = schema{"type": "string", "pattern": patternSize}
	case secretType:
		out = schema{"type": "string", "pattern": patternSecret}
	case reflect.TypeFor[SourceType]():
		out = schema{"type": "string", "enum": SourceTypes()}
	default:
		switch t.Kind() {
		case reflect.Pointer:
			return b.value(t.Elem(), hint)
		case reflect.Struct:
			return b.reference(t)
		case reflect.Slice:
			return schema{"type": "array", "minItems": 1, "items": b.value(t.Elem(), hint)}
		case reflect.Array:
			return schema{"type": "array", "minItems": t.Len(), "maxItems": t.Len(), "items": b.value(t.Elem(), hint)}
		case reflect.Map:
			return schema{"type": "object", "minProperties": 1, "additionalProperties": schema{"type": "string"}}
		case reflect.String:
			out = schema{"type": "string", "pattern": `\S`}
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
			p := b.value(f.Type, hints[id])
			opts := f.Tag.Get("cfg")
			if k := f.Type.Kind(); (k == reflect.Float64 || k == reflect.Int && p["minimum"] == nil) && f.Type != durationType && f.Type != sizeType && !strings.Contains(opts, "zero") {
				p["not"] = schema{"const": 0} // zero stands for the default
			}
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
	switch t {
	case reflect.TypeFor[Source]():
		out["allOf"] = sourceRules()
	case reflect.TypeFor[AgentKeys]():
		out["if"] = schema{"properties": schema{"mode": schema{"const": KeyModeSymmetric}}, "required": []string{"mode"}}
		out["then"] = schema{"required": []string{"secret_key"}, "properties": schema{"public_key": false}}
		out["else"] = schema{"required": []string{"public_key"}, "properties": schema{"secret_key": false}}
	case reflect.TypeFor[Broker]():
		out["dependentRequired"] = schema{"cert": []string{"key"}, "key": []string{"cert"}, "password": []string{"username"}}
	case reflect.TypeFor[Window]():
		out["anyOf"] = []any{schema{"required": []string{"samples"}}, schema{"required": []string{"every"}}}
	case reflect.TypeFor[Channel]():
		if b.role == "agent" {
			out["required"] = append(required, "source")
		}
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
	return fieldDoc["Broker."+f.Name]
}

// sourceRules are the keys and fields of each kind of source.
func sourceRules() []any {
	var rules []any
	for _, t := range SourceTypes() {
		kind := sourceKinds[t]
		then := schema{"propertyNames": schema{"enum": append([]string{"type", "scale", "offset"}, kind.keys...)}}
		if len(kind.required) > 0 {
			then["required"] = kind.required
		}
		if kind.fields != nil {
			then["properties"] = schema{"field": schema{"enum": FieldsOf(t)}}
		}
		rules = append(rules, schema{"if": schema{"properties": schema{"type": schema{"const": t}}, "required": []string{"type"}}, "then": then})
	}
	return rules
}
