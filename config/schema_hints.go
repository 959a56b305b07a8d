package config

import "strings"

// Forms of text. They are regular expressions that both RE2 and ECMAScript read.
const (
	patternName     = `^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}|\.[A-Za-z0-9_-][A-Za-z0-9_.-]{0,62}|\.\.[A-Za-z0-9_.-]{1,62})$`
	patternDuration = `^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^[0-9]{1,5}d$`
	patternSize     = `^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*(KiB|MiB|GiB|kB|KB|MB|GB|B)$`
	patternKey      = `^ed25519:[A-Za-z0-9+/]{43}=$`
	patternHolder   = `^(ed25519:[A-Za-z0-9+/]{43}=|[a-z2-7]{5}(-[a-z2-7]{5}){4}|none)$`
	patternParams   = `^[a-z0-9][a-z0-9-]{0,63}$`
	patternPort     = `0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})`
	patternHost     = `(\[[^\[\]/@?#]+\]|[^/@?#:\[\]]+)`
	patternTime     = `^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	patternPlain    = `^[^\x00-\x1f\x7f/]{1,128}$`
	patternColumn   = `^[^\x00-\x1f\x7f]{1,256}$`
	patternFilter   = `^(([^+#/]*|\+)/)*([^+#/]*|\+|#)$`
	patternRef      = `^[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}$`
	patternIdent    = `^[A-Za-z_][A-Za-z0-9_]{0,63}$`
	patternOwnUnit  = `^x:[A-Za-z0-9_./-]{1,16}$`
	patternSecret   = `^(file|env|cred|age):.+`
	notSecret       = `^cred:(.*[/\\].*|\.\.?)$|^age:@(file|env|cred):|@cred:([^@]*[/\\][^@]*|\.\.?)?$|@(file|env):$`
	notPath         = `^cred:(.*[/\\].*|\.\.?)?$`
	notJSONPath     = `^[@!]|[.|]@`
	noDigit         = `^[^1-9]*$` // a duration or a size of zero
)

// scheme matches the start of a URL with one of the schemes, in any case.
func scheme(names ...string) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, c := range n {
			if low, up := strings.ToLower(string(c)), strings.ToUpper(string(c)); low != up {
				b.WriteString("[" + low + up + "]")
			} else {
				b.WriteString(`\` + low)
			}
		}
	}
	return "^(" + b.String() + ")://"
}

// brokerURL is the address of an MQTT broker.
func brokerURL() schema {
	host := patternHost + "(:(" + patternPort + `)?)?`
	return schema{"pattern": scheme("tls", "mqtts", "ssl", "tcp", "mqtt") + host + `/?\??#?$|` + scheme("ws", "wss") + host + `(/[^?#]*)?\??#?$`}
}

func enum[T any](values ...T) schema {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	return schema{"enum": list}
}

func span(lo, hi int) schema { return schema{"minimum": lo, "maximum": hi} }

func form(pattern string) schema { return schema{"pattern": pattern} }

// unitForm is a known unit or one of the operator's own.
func unitForm() schema {
	known := make([]any, len(units))
	for i, u := range units {
		known[i] = u.unit
	}
	return schema{"anyOf": []any{schema{"enum": known}, form(patternOwnUnit)}}
}

// hints are what the types do not say, by "Type.Field". Of a list they hold for the
// entries, but uniqueItems and prefixItems for the list.
var hints = map[string]schema{
	"Agent.Version": {"const": SchemaVersion}, "Evaluator.Version": {"const": SchemaVersion}, "KeyHolder.Version": {"const": SchemaVersion}, "overlay.Version": {"const": SchemaVersion},
	"Agent.Device": form(patternName), "Evaluator.Name": form(patternName), "KeyHolder.Name": form(patternName),
	"Stream.Name": form(patternName), "Channel.Name": form(patternName), "Program.Name": form(patternName), "Input.Name": form(patternName),
	"Device.Name": form(patternName), "DeviceStream.Device": form(patternName), "KeyHolder.Programs": {"pattern": patternName, "uniqueItems": true},
	"Device.PublicKey": form(patternKey), "Remote.OperatorKey": form(patternKey), "Evaluator.KeySets": {"uniqueItems": true},
	"AgentKeys.Holder": form(patternHolder), "EvaluatorKeys.Holder": {"pattern": patternHolder, "uniqueItems": true},
	"Agent.Energy": enum(EnergyAuto, EnergyOff), "Agent.Workers": span(1, 1024), "Evaluator.Workers": span(1, 1024),
	"Agent.BackendFallback": enum(FallbackCPU, FallbackRetry, FallbackStop), "Evaluator.BackendFallback": enum(FallbackCPU, FallbackRetry, FallbackStop),
	"AgentKeys.Mode": enum(KeyModePublic, KeyModeSymmetric), "Log.Level": enum("debug", "info", "warn", "error"), "Log.Format": enum("text", "json"),
	"Queue.Full": enum(QueueDropOldest, QueueDropNewest, QueueBlock), "Queue.Objects": span(1, 1<<20),
	"Remote.Sections": {"enum": RemoteSections(), "uniqueItems": true},
	"Metrics.Listen":  form(`^(unix:/.{1,106}|[^/]*:[0-9]+)$`), "Control.Socket": {"maxLength": maxSocketPath},

	"Broker.URL": brokerURL(), "MQTT.URL": brokerURL(), "Broker.ClientID": form(`^[!-~]{1,128}$`),
	"Broker.TopicPrefix": {"pattern": `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,7}$`, "maxLength": 128},
	"Broker.ALPN":        {"pattern": `^[!-~]{1,255}$`, "uniqueItems": true},

	"Stream.Params": form(patternParams), "Stream.Packing": enum(PackingReal), "Stream.Level": span(0, 64), "Stream.LogScale": span(10, 60),
	"Stream.OnGap": enum(GapIgnore, GapMark, GapEnd), "Stream.Channels": {"maxItems": MaxChannels}, "Window.Samples": span(1, MaxSamples),
	"Channel.Unit": unitForm(), "Channel.OnMissing": enum(MissingHold, MissingSkip, MissingMark), "Channel.OnRange": enum(OutsideClamp, OutsideMissing),
	"Replay.Format": enum("csv", "ndjson"), "Replay.Time": form(patternColumn), "Replay.TimeFormat": form(`^(rfc3339|unix|unix_ms|unix_ns|[\s\S]*(%[YyFD]|06)[\s\S]*)$`),
	"Replay.Timezone": form(`^(Local|[A-Za-z]+[A-Za-z0-9_+/-]*|[+-][0-9]{2}:[0-9]{2})$`), "Replay.Decimal": enum(".", ","), "Replay.BadCells": enum(BadFail, BadSkip, BadMissing),
	"Replay.Delimiter": form(`^(tab|[^"\r\n])$`), "Replay.Speed": form(`^(realtime|fast|\+?[0-9.][0-9.eExXpPa-fA-F_+-]*x)$`),
	"Events.TimeFormat": enum("rfc3339", "unix", "unix_ms", "unix_ns"), "Events.Time": {"not": form(notJSONPath)},

	"Source.Chip": form(patternPlain), "Source.Input": form(patternPlain), "Source.Label": form(patternPlain), "Source.Zone": form(patternPlain),
	"Source.Device": form(patternPlain), "Source.Interface": form(patternPlain), "Source.Column": form(patternColumn), "Point.From": form(patternPlain),
	"Point.Rail": form(patternPlain), "Point.Path": {"not": form(notJSONPath), "maxLength": 256}, "Point.Pattern": {"maxLength": 512}, "Point.Topic": {"pattern": patternFilter, "maxLength": 256},

	"I2C.Bus": span(0, 255), "I2C.Address": span(0x08, 0x77), "SPI.Bus": span(0, 255), "SPI.ChipSelect": span(0, 255), "SPI.Speed": span(1000, 100_000_000),
	"SPI.Mode": span(0, 3), "SPI.ReadMask": span(0, 255), "Register.Register": span(0, 255), "Register.Value": span(0, 255),
	"Modbus.URL":  form(scheme("tcp", "rtu+tcp") + patternHost + "(:(" + patternPort + `)?)?/?([?#].*)?$|^[rR][tT][uU]:(//)?/[^/?#]`),
	"Modbus.Unit": span(0, 247), "Line.Baud": enum(Bauds()...), "Line.DataBits": span(7, 8), "Line.StopBits": span(1, 2), "Line.Parity": enum("none", "even", "odd"),
	"CAN.Interface": form(`^[^/ \t]{1,15}$`), "Serial.Device": form(`^/`), "Serial.Format": enum("csv", "json", "nmea", "text"),
	"Serial.Delimiter": form(`^(tab|[^\x00-\x1f])$`), "Serial.Request": {"maxLength": 256}, "Exec.Command": {"prefixItems": []any{form(`^/`)}},
	"HTTP.URL": form(scheme("http", "https") + patternHost + "(:(" + patternPort + `)?)?([/?#].*)?$`), "HTTP.Header": form(`^[A-Za-z0-9-]{1,64}$`),

	"Delivery.Ack": enum(AckBroker, AckEvaluator), "Delivery.LiveShare": span(0, 1), "StreamDelivery.Ack": enum(AckBroker, AckEvaluator),
	"StreamDelivery.Full": enum(QueueDropOldest, QueueDropNewest, QueueBlock),
	"Hours.From":          form(patternTime), "Hours.To": form(patternTime), "Hours.Days": {"enum": weekdays, "uniqueItems": true},

	"Program.Expr": {"maxLength": maxExpr}, "Program.Unit": unitForm(), "Program.Topic": {"pattern": `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`, "maxLength": 512},
	"KeyHolder.Topics": {"pattern": `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`, "maxLength": 512, "uniqueItems": true},
	"Program.Inputs":   form(patternRef), "KeyHolder.Output": enum("table", "ndjson", "csv"),
	"Join.Windows": span(1, 1<<16), "Limits.Pending": span(1, 1<<20), "Store.Remember": span(1024, 1<<24), "Store.Results": enum(AckBroker, AckKeyHolder),
}
