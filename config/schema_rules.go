package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// when is a rule for the files that match a condition, and, where otherwise is not
// nil, one for the others.
func when(condition, then, otherwise schema) schema {
	s := schema{"if": condition, "then": then}
	if otherwise != nil {
		s["else"] = otherwise
	}
	return s
}

// has matches when all keys are given.
func has(keys ...string) schema { return schema{"required": keys} }

// lacks matches when none of the keys is given.
func lacks(keys ...string) schema {
	props := schema{}
	for _, k := range keys {
		props[k] = false
	}
	return schema{"properties": props}
}

// is matches when key is given with one of the values.
func is[T any](key string, values ...T) schema {
	return schema{"properties": schema{key: enum(values...)}, "required": []string{key}}
}

// looks matches when key is given with a text of a form.
func looks(key, pattern string) schema {
	return schema{"properties": schema{key: form(pattern)}, "required": []string{key}}
}

func anyOf(s ...schema) schema { return schema{"anyOf": listOf(s)} }
func allOf(s ...schema) schema { return schema{"allOf": listOf(s)} }
func not(s schema) schema      { return schema{"not": s} }

func listOf(s []schema) []any {
	out := make([]any, len(s))
	for i, x := range s {
		out[i] = x
	}
	return out
}

// props are rules for the values of keys that may be absent.
func props(p schema) schema { return schema{"properties": p} }

// thisMachine is the host of a URL that needs no TLS.
const thisMachine = `://(localhost|127\.[0-9.]+|\[[^\]]*\])(:|/|\?|#|$)`

// encrypted are the rules about TLS of a connection: insecure is for URLs without it,
// and for them it is needed. tls and plain are forms of URLs.
func encrypted(tls, plain string) []schema {
	return []schema{
		when(looks("url", tls), props(schema{"insecure": schema{"const": false}}), nil),
		when(allOf(looks("url", plain), not(looks("url", thisMachine))), is("insecure", true), nil),
		{"dependentRequired": schema{"cert": []string{"key"}, "key": []string{"cert"}, "password": []string{"username"}}},
	}
}

// rules are what holds between the fields of a type.
func (b *schemaBuilder) rules(t reflect.Type) []schema {
	switch t {
	case reflect.TypeFor[AgentKeys]():
		return []schema{when(is("mode", KeyModeSymmetric),
			allOf(has("secret_key"), lacks("public_key")), allOf(has("public_key"), lacks("secret_key")))}
	case reflect.TypeFor[Broker]():
		plain := scheme("tcp", "mqtt", "ws")
		return append(encrypted(scheme("tls", "mqtts", "ssl", "wss"), plain), when(looks("url", plain), lacks("ca", "cert", "server_name", "alpn"), nil))
	case reflect.TypeFor[MQTT]():
		return encrypted(scheme("tls", "mqtts", "ssl", "wss"), scheme("tcp", "mqtt", "ws"))
	case reflect.TypeFor[HTTP]():
		return append(encrypted(scheme("https"), scheme("http")), schema{"dependentRequired": schema{"header": []string{"token"}}},
			when(has("username", "token"), has("header"), nil))
	case reflect.TypeFor[Stream](), reflect.TypeFor[DeviceStream]():
		return b.streamRules()
	case reflect.TypeFor[overlay]():
		return []schema{{"minProperties": 1}}
	case reflect.TypeFor[Window]():
		return []schema{anyOf(has("samples"), has("every"), is("fill", true)), when(is("fill", true), lacks("every"), nil)}
	case reflect.TypeFor[Channel]():
		out := []schema{when(is("on_missing", MissingMark), has("missing_value"), lacks("missing_value"))}
		if b.role == "agent" || b.role == "remote" {
			out = append(out, has("source"))
		}
		return out
	case reflect.TypeFor[Replay]():
		named := func(ending string) string {
			var b strings.Builder
			for _, c := range ending {
				b.WriteString("[" + string(c) + strings.ToUpper(string(c)) + "]")
			}
			return b.String()
		}
		ndjson := `\.(` + named("ndjson") + "|" + named("jsonl") + ")$"
		return []schema{when(not(looks("file", `\.(`+named("csv")+"|"+named("tsv")+")$|"+ndjson)), has("format"), nil),
			when(anyOf(is("format", "ndjson"), allOf(lacks("format"), looks("file", ndjson))), lacks("delimiter"), nil)}
	case reflect.TypeFor[Events]():
		return []schema{{"dependentRequired": schema{"time_format": []string{"time"}}}}
	case reflect.TypeFor[Input]():
		types := []string{"i2c", "spi", "modbus", "can", "serial", "exec", "http", "mqtt"}
		var one []any
		for _, t := range types {
			one = append(one, has(t))
		}
		polled := anyOf(has("modbus"), has("exec"), has("http"))
		asked := allOf(has("serial"), props(schema{"serial": has("request")}))
		return []schema{{"oneOf": one}, when(not(polled), lacks("timeout"), nil), when(not(anyOf(polled, asked)), lacks("every"), nil),
			when(anyOf(has("i2c"), has("spi")), lacks("max_age"), nil)}
	case reflect.TypeFor[Serial]():
		return []schema{when(not(is("format", "csv")), lacks("delimiter"), nil)}
	case reflect.TypeFor[Delivery]():
		asked := schema{"properties": schema{"streams": schema{"type": "array", "contains": is("ack", AckEvaluator)}}, "required": []string{"streams"}}
		return []schema{when(anyOf(is("ack", AckEvaluator), asked), has("evaluators"), nil)}
	case reflect.TypeFor[Source]():
		return sourceRules()
	}
	return nil
}

// streamRules are those between the parts of a stream.
func (b *schemaBuilder) streamRules() []schema {
	source := func(s schema) schema {
		return props(schema{"channels": schema{"items": props(schema{"source": s})}})
	}
	noTicks := allOf(lacks("interval"), props(schema{"on_gap": schema{"const": GapIgnore}}))
	out := []schema{
		when(has("replay"), allOf(noTicks, lacks("events"), source(props(schema{"type": schema{"const": SourceReplay}}))),
			source(props(schema{"type": not(schema{"const": SourceReplay})}))),
		when(has("events"), allOf(noTicks, source(has("path"))), nil),
		when(has("lateness"), anyOf(has("replay"), allOf(has("events"), props(schema{"events": has("time")}))), nil),
		when(lacks("interval"), props(schema{"window": anyOf(has("samples"), is("fill", true))}), nil),
	}
	if b.role == "agent" || b.role == "remote" {
		out = append(out, when(lacks("replay", "events"), has("interval"), nil))
	}
	if b.role == "remote" { // a sender must not choose a file to be read
		out = append(out, lacks("replay"))
	}
	return out
}

// sourceRules are the keys and fields of each kind of source.
func sourceRules() []schema {
	var rules []schema
	for _, t := range SourceTypes() {
		kind := sourceKinds[t]
		then := []schema{{"propertyNames": schema{"enum": append([]string{"type", "scale", "offset"}, kind.keys...)}}}
		if len(kind.required) > 0 {
			then = append(then, has(kind.required...))
		}
		if kind.fields != nil {
			then = append(then, props(schema{"field": schema{"enum": FieldsOf(t)}}))
		}
		rules = append(rules, when(is("type", t), allOf(append(then, pointRules(t)...)...), nil))
	}
	return rules
}

// pointRules are the values that a kind of source takes.
func pointRules(t SourceType) []schema {
	floats := when(is("data", "float32", "float64"), lacks("start", "length"), nil)
	eitherWay := when(has("pattern"), lacks("column", "sentence"), nil)
	switch t {
	case SourceHwmon:
		return []schema{{"oneOf": []any{has("input"), has("label")}}, props(schema{"input": form(hwmonInput.String())})}
	case SourceCPU:
		return []schema{props(schema{"cpu": form(cpuPattern.String())})}
	case SourceIIO:
		return []schema{props(schema{"input": form(iioInput.String())})}
	case SourceI2C, SourceSPI:
		return []schema{has("data"), floats, props(schema{"register": span(0, 0xff), "data": schema{"enum": DataTypes()}, "order": enum("big", "little")})}
	case SourceModbus:
		words := slices.DeleteFunc(DataTypes(), func(d string) bool { return DataBits(d)%16 != 0 })
		return []schema{floats, when(is("table", "coil", "discrete"), lacks("data", "order", "start", "length"), nil),
			props(schema{"table": enum("holding", "input", "coil", "discrete"), "register": span(0, 0xffff), "data": schema{"enum": words},
				"order": enum("big", "little", "word_swap", "byte_swap")})}
	case SourceCAN:
		bits := func(data string, n int) schema {
			return when(is("data", data), props(schema{"length": schema{"const": n}}), nil)
		}
		return []schema{bits("float32", 32), bits("float64", 64),
			when(is("extended", true), props(schema{"id": span(0, 0x1fffffff), "mask": span(0, 0x1fffffff)}), props(schema{"id": span(0, 0x7ff), "mask": span(0, 0x7ff)})),
			props(schema{"data": schema{"enum": CANDataTypes()}, "order": enum("big", "little"), "start": span(0, 511), "length": span(1, 64)}),
			{"dependentRequired": schema{"mux_start": []string{"mux"}, "mux_length": []string{"mux"}}},
			props(schema{"mux": span(0, 1<<31-1), "mux_start": span(0, 511), "mux_length": span(1, 31)})}
	case SourceSerial:
		out := []schema{eitherWay, {"dependentRequired": schema{"field": []string{"sentence"}, "sentence": []string{"field"}}},
			props(schema{"column": form(columnIndex.String()), "sentence": form(sentence.String())})}
		sentences := slices.Sorted(maps.Keys(NMEAFields))
		for _, s := range sentences {
			out = append(out, when(is("sentence", s), props(schema{"field": schema{"anyOf": []any{enum(NMEAFields[s]...), form(nmeaNumber.String())}}}), nil))
		}
		return append(out, when(not(is("sentence", sentences...)), props(schema{"field": form(nmeaNumber.String())}), nil))
	case SourceExec, SourceHTTP, SourceMQTT:
		return []schema{eitherWay}
	}
	return nil
}
