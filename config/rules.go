package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/hencedge/hencedge/config/internal/rule"
)

// rules are what a configuration must fulfil, as far as a rule is about the value of one key
// or about keys of one block. The check and the JSON Schema both come from them. What needs
// arithmetic, or refers to another place, is checked by the check_*.go files.
var rules = &rule.Table{
	Types: map[reflect.Type]rule.Value{
		reflect.TypeFor[Secret]():     secretRule,
		reflect.TypeFor[SourceType](): rule.OneOf(SourceTypes()...),
	},
	Fields: fieldRules,
	Blocks: blockRules,
}

var (
	ackWindowRule   = rule.OneOf(AckBroker, AckEvaluator)
	fallbackRule    = rule.OneOf(FallbackCPU, FallbackRetry, FallbackStop)
	fullRule        = rule.OneOf(QueueDropOldest, QueueDropNewest, QueueBlock)
	stopTimeoutRule = rule.Between(time.Second, time.Hour)
	workersRule     = rule.Between(1, 1024)
	inputTimeRule   = rule.Between(10*time.Millisecond, 24*time.Hour).Derived()
	spoolAgeRule    = rule.Between(time.Minute, 10*365*24*time.Hour)
	retryMinRule    = rule.Between(10*time.Millisecond, time.Hour)
	retryMaxRule    = rule.Between(10*time.Millisecond, 24*time.Hour)
	receiptTimeRule = rule.Between(100*time.Millisecond, time.Hour)
	byteValueRule   = rule.Between(0, 255)
)

var versionRule = rule.Number(rule.Schema{"const": SchemaVersion}, func(n int) (cause, remedy string) {
	if n == SchemaVersion {
		return "", ""
	}
	return fmt.Sprintf("version %d is not known", n),
		fmt.Sprintf("write version: %d, or install a newer hencedge", SchemaVersion)
})

// fieldRules are the rules for the value of one key.
var fieldRules = map[string]rule.Value{
	"Agent.Version":             versionRule,
	"Agent.Device":              nameRule,
	"Agent.Place":               rule.Between(0, 1<<20),
	"Agent.Energy":              rule.OneOf(EnergyAuto, EnergyOff),
	"Agent.Workers":             workersRule,
	"Agent.BackendFallback":     fallbackRule,
	"Agent.StopTimeout":         stopTimeoutRule,
	"AgentKeys.Mode":            rule.OneOf(KeyModePublic, KeyModeSymmetric),
	"AgentKeys.Holder":          holderRule,
	"Queue.Objects":             rule.Between(1, 1<<20),
	"Queue.Bytes":               rule.Between(MiB, 64*GiB),
	"Queue.Full":                fullRule,
	"Remote.OperatorKey":        publicKeyRule,
	"Remote.Sections":           rule.OneOf(RemoteSections()...).Distinct("section"),
	"Remote.Trial":              rule.Between(10*time.Second, 24*time.Hour),
	"overlay.Version":           versionRule,
	"overlay.StopTimeout":       stopTimeoutRule,
	"Metrics.Listen":            listenRule,
	"Traces.Sample":             rule.Share("use a number above 0 and at most 1, such as 0.01"),
	"Control.Socket":            socketPathRule,
	"Log.Level":                 rule.OneOf("debug", "info", "warn", "error"),
	"Log.Format":                rule.OneOf("text", "json"),
	"Evaluator.Version":         versionRule,
	"Evaluator.Name":            nameRule,
	"Evaluator.KeySets":         rule.Value{}.Distinct("directory"),
	"Evaluator.Workers":         workersRule,
	"Evaluator.Batch":           rule.Between(1, 4096),
	"Evaluator.Latency":         rule.Between(time.Millisecond, 10*time.Second),
	"Results.Pack":              rule.Between(2, 256),
	"Results.Within":            rule.Between(10*time.Millisecond, 10*time.Minute),
	"Evaluator.StopTimeout":     stopTimeoutRule,
	"EvaluatorKeys.Holder":      holderRule.Distinct("key holder").Sole(HolderNone),
	"DeviceStream.Device":       nameRule,
	"Device.Name":               nameRule,
	"Device.PublicKey":          publicKeyRule,
	"Device.Class":              nameRule,
	"Class.Name":                nameRule,
	"Evaluator.Enrolled":        rule.Value{}.Distinct("path"),
	"Signer.Name":               nameRule,
	"Signer.PublicKey":          publicKeyRule,
	"Join.Timeout":              rule.Between(time.Second, 24*time.Hour),
	"Join.Windows":              rule.Between(1, 1<<16),
	"Limits.Object":             rule.Between(4*KiB, 256*MiB),
	"Limits.Pending":            rule.Between(1, 1<<20),
	"Limits.Memory":             rule.Between(MiB, 1024*GiB),
	"Limits.Reassembly":         rule.Between(time.Second, 24*time.Hour),
	"Evaluator.BackendFallback": fallbackRule,
	"Program.Name":              nameRule,
	"Program.For":               nameRule,
	"Program.Expr":              expressionRule,
	"ProgramModel.Answer":       rule.OneOf(AnswerClass, AnswerScore),
	"ProgramModel.Features":     variableRule.Distinct("feature"),
	"ProgramModel.Scale":        rule.Between(1, 1<<30),
	"Program.Unit":              unitRule,
	"Program.Topic":             topicRule,
	"Program.Inputs":            channelRule.Names(variableRule),
	"KeyHolder.Version":         versionRule,
	"KeyHolder.Name":            nameRule,
	"KeyHolder.Programs":        nameRule.Distinct("program"),
	"KeyHolder.Topics":          topicRule.Distinct("topic"),
	"KeyHolder.Output":          rule.OneOf("table", "ndjson", "csv"),

	"History.Keep":      rule.Between(time.Hour, 100*365*24*time.Hour),
	"History.KeepBytes": rule.Between(MiB, 1024*GiB),
	"History.Tiers":     rule.AtMost(maxTiers),
	"History.Sinks":     rule.AtMost(maxSinks),
	"Sink.Name":         nameRule,
	"Sink.Programs":     nameRule.Distinct("program"),
	"Postgres.URL":      postgresURLRule,
	"Postgres.Schema": rule.Form(`^[a-z_][a-z0-9_]{0,62}$`, "invalid schema name {}",
		"use up to 63 lower case letters, digits and '_'").Derived(),
	"Tier.Every": rule.Between(time.Second, 31*24*time.Hour),
	"Tier.Keep":  rule.Between(time.Hour, 100*365*24*time.Hour),

	"Console.Devices":    rule.Value{}.Distinct("path"),
	"Console.Listen":     pageRule,
	"Console.Session":    rule.Between(time.Minute, 30*24*time.Hour),
	"Console.KeepSealed": rule.Between(MiB, 1024*GiB),

	"Alerts.Receivers":    rule.AtMost(maxReceivers),
	"AlertRule.Name":      nameRule,
	"AlertRule.Program":   nameRule,
	"AlertRule.When":      conditionRule,
	"AlertRule.For":       rule.Between(1, 10000),
	"AlertRule.Clear":     clearRule,
	"AlertRule.ClearFor":  rule.Between(1, 10000),
	"AlertRule.Gap":       rule.Between(time.Second, 365*24*time.Hour),
	"AlertRule.Undecided": rule.OneOf(UndecidedKeep, UndecidedRaise, UndecidedClear),
	"AlertRule.Severity":  rule.OneOf("critical", "warning", "info"),
	"AlertRule.Per":       rule.OneOf("device", "class"),
	"AlertRule.Devices":   nameRule.Distinct("device"),
	"AlertRule.Receivers": nameRule.Distinct("receiver"),
	"Receiver.Name":       nameRule,
	"Receiver.Command": rule.First(absoluteRule(
		"write the whole path of the program, such as /usr/local/bin/page; a shell line needs [/bin/sh, -c, ...]")),
	"AlertMQTT.Topic": topicRule,
	"Silence.Rule":    nameRule,
	"Silence.Device":  nameRule,
	"Silence.From":    instantRule,
	"Silence.To":      instantRule,

	"Broker.URL": brokerURLRule,
	"Broker.ClientID": rule.Form(`^[!-~]{1,128}$`, "not a usable client id",
		"use up to 128 printable ASCII characters without spaces").Derived(),
	"Broker.ALPN": rule.Form(`^[!-~]{1,255}$`, "{} is no protocol name",
		"write up to 255 printable ASCII characters, such as x-amzn-mqtt-ca").Distinct("protocol"),
	"Broker.TopicPrefix":  topicPrefixRule,
	"Broker.ChunkSize":    rule.Between(KiB, 16*MiB),
	"Broker.KeepAlive":    rule.Between(time.Second, 65535*time.Second),
	"Broker.ReconnectMax": rule.Between(time.Second, time.Hour),

	"Spool.Bytes":             rule.Between(MiB, 1024*GiB),
	"Spool.Age":               spoolAgeRule,
	"Delivery.Ack":            ackWindowRule,
	"Delivery.ReceiptTimeout": receiptTimeRule,
	"Delivery.RetryMin":       retryMinRule,
	"Delivery.RetryMax":       retryMaxRule,
	"Delivery.Bandwidth":      rule.Between(KiB, 4*GiB),
	"Delivery.LiveShare":      rule.Share("use a number from 0 (in order) to 1"),
	"Delivery.LiveAge":        rule.Between(time.Second, 24*time.Hour),
	"StreamDelivery.Ack":      ackWindowRule,
	"StreamDelivery.Full":     fullRule,
	"StreamDelivery.Bytes":    rule.Between(KiB, 1024*GiB),
	"StreamDelivery.Age":      spoolAgeRule,
	"Hours.From":              timeOfDayRule,
	"Hours.To":                timeOfDayRule,
	"Hours.Days":              rule.OneOf(weekdays...).Distinct("day"),
	"Hours.Zone":              namedZoneRule,
	"Store.Bytes":             rule.Between(MiB, 1024*GiB),
	"Store.Remember":          rule.Between(1024, 1<<24),
	"Store.Results":           rule.OneOf(AckBroker, AckKeyHolder),
	"Store.ReceiptTimeout":    receiptTimeRule,
	"Store.RetryMin":          retryMinRule,
	"Store.RetryMax":          retryMaxRule,

	"Stream.Name": nameRule,
	"Stream.Params": rule.Form(patternParams, "invalid parameter set name {}",
		"use a name such as edge12-d1; docs/parameters.md lists them"),
	"Stream.Mode":       rule.OneOf(ModeSamples, ModeHistogram, ModeCompact, ModeSteps, ModeDigits),
	"Stream.Precision":  rule.OneOf(12, 16),
	"Stream.Interval":   rule.Between(MinInterval, MaxInterval),
	"Stream.LogScale":   rule.Between(10, 60),
	"Stream.Places":     rule.OneOf(2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
	"Stream.Level":      rule.Between(0, 64),
	"Stream.OnGap":      rule.OneOf(GapIgnore, GapMark, GapEnd),
	"Stream.Lateness":   rule.Between(time.Millisecond, MaxLateness),
	"Stream.Channels":   rule.AtMost(MaxChannels),
	"Window.Samples":    rule.Between(1, MaxSamples),
	"Window.Every":      rule.Between(10*time.Millisecond, 7*24*time.Hour),
	"Channel.Name":      nameRule,
	"Channel.Unit":      unitRule,
	"Channel.OnMissing": rule.OneOf(MissingHold, MissingSkip, MissingMark),
	"Channel.OnRange":   rule.OneOf(OutsideClamp, OutsideMissing),
	"Events.Time":       jsonPathRule,
	"Events.TimeFormat": rule.OneOf(namedTimes...),
	"Replay.Format":     rule.OneOf("csv", "ndjson"),
	"Replay.Time":       rule.Form(patternColumn, "not a column name", "write the column or field of the timestamp"),
	"Replay.TimeFormat": timeFormatRule,
	"Replay.Timezone":   timeZoneRule,
	"Replay.Decimal":    rule.OneOf(".", ","),
	"Replay.BadCells":   rule.OneOf(BadFail, BadSkip, BadMissing),
	"Replay.Delimiter":  delimiterRule(`^(tab|[^"\r\n])$`, "\"\r\n"),
	"Replay.Speed":      replaySpeedRule,

	"Source.Chip":      plainRule("chip"),
	"Source.Input":     plainRule("input"),
	"Source.Label":     plainRule("label"),
	"Source.Zone":      plainRule("zone"),
	"Source.CPU":       rule.Form(`^(total|cpu[0-9]{1,4})$`, "invalid cpu {}", "use total, or cpu0, cpu1, ..."),
	"Source.Device":    plainRule("device"),
	"Source.Interface": plainRule("interface"),
	"Source.Column": rule.Form(patternColumn, "not a column name",
		"write the column's name as in the header, or the dotted field"),
	"Point.From":    plainRule("from"),
	"Point.Rail":    plainRule("rail"),
	"Point.Path":    jsonPathRule,
	"Point.Pattern": numberPatternRule,
	"Point.Topic":   topicFilterRule,

	"Input.Name":        nameRule,
	"Input.Every":       inputTimeRule,
	"Input.Timeout":     inputTimeRule,
	"Input.MaxAge":      inputTimeRule,
	"Input.Retry":       inputTimeRule,
	"Input.RetryMax":    inputTimeRule,
	"I2C.Bus":           byteValueRule,
	"I2C.Address":       rule.Number(rule.Schema{"minimum": 0x08, "maximum": 0x77}, addressProblem),
	"SPI.Bus":           byteValueRule,
	"SPI.ChipSelect":    byteValueRule,
	"SPI.Speed":         rule.Between(1000, 100_000_000),
	"SPI.Mode":          rule.Between(0, 3),
	"SPI.ReadMask":      byteValueRule,
	"Register.Register": byteValueRule,
	"Register.Value":    byteValueRule,
	"Modbus.URL":        modbusURLRule,
	"Modbus.Unit":       rule.Between(0, 247),
	"Line.Baud":         rule.OneOf(Bauds()...),
	"Line.DataBits":     rule.Between(7, 8),
	"Line.StopBits":     rule.Between(1, 2),
	"Line.Parity":       rule.OneOf("none", "even", "odd"),
	"CAN.Interface": rule.Form(`^[^/ \t]{1,15}$`, "invalid interface {}",
		"write its name as `ip link` shows it, such as can0"),
	"Serial.Device": absoluteRule(
		"write the whole path, such as /dev/ttyUSB0; those in /dev/serial/by-id stay the same"),
	"Serial.Format":    rule.OneOf("csv", "json", "nmea", "text"),
	"Serial.Delimiter": delimiterRule(`^(tab|[^\x00-\x1f])$`, controls),
	"Serial.Request":   rule.MaxLength(256, "the request is longer than 256 bytes", "use at most 256 bytes"),
	"Exec.Command": rule.First(absoluteRule(
		"write the whole path of the program, such as /usr/bin/sensors; a shell line needs [/bin/sh, -c, ...]")),
	"HTTP.URL": webURLRule,
	"HTTP.Header": rule.Form(`^[A-Za-z0-9-]{1,64}$`, "invalid header name {}",
		"use letters, digits and '-', such as X-API-Key"),
	"MQTT.URL": brokerURLRule,
}

// plainRule returns the rule for a name that is no path.
func plainRule(key string) rule.Value {
	return rule.Form(patternPlain, "invalid "+key+" {}", "use the plain name, without a path")
}

// absoluteRule returns the rule for an absolute path.
func absoluteRule(remedy string) rule.Value {
	return rule.Form(`^/`, "{} is not an absolute path", remedy)
}

func addressProblem(n int) (cause, remedy string) {
	if n >= 0x08 && n <= 0x77 {
		return "", ""
	}
	return fmt.Sprintf("0x%02x is not an address", n),
		"use a 7-bit address from 0x08 to 0x77, as `i2cdetect` shows it"
}
