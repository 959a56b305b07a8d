package config

import (
	"fmt"
	"net/url"

	"github.com/hencedge/hencedge/config/internal/rule"
)

// live are the roles whose streams are read from sensors.
var live = []string{"agent", "remote"}

// blockRules are the rules between the keys of one block, by its type.
var blockRules = map[string][]rule.Relation{
	"Agent":     agentRules,
	"AgentKeys": keyRules,
	"Evaluator": evaluatorRules,
	"KeyHolder": keyHolderRules,
	"AlertRule": alertRules,
	"Receiver":  receiverRules,
	"Broker":    brokerRules,
	"MQTT":      connectionRules(plainBroker, tlsBroker, "use tcp://"),
	"HTTP":      httpRules,
	"overlay": {{Then: anyOf("version", "streams", "queue", "log", "stop_timeout"),
		Cause:  "the remote configuration changes nothing",
		Remedy: "give one of the sections streams, queue, log and stop_timeout"}},
	"History": {{If: rule.When(rule.Has("postgres")), Then: rule.Lacks("file"), At: "file",
		Cause: "a file beside a PostgreSQL database", Remedy: "remove one of them"}},
	"Postgres": postgresRules,
	"Sink":     sinkRules,
	"Stream":   append(streamRules, streamSourceRules...),
	"Program": {
		{Then: anyOf("expr", "model"), Cause: "the program computes nothing",
			Remedy: `add "expr: mean(x)", or "model: {file: trees.json}"`},
		{If: rule.When(rule.Has("model")), Then: rule.Lacks("expr", "resolution"),
			Cause: "a model is evaluated in place of an expression", Remedy: `remove "{}" or "model"`},
	},
	"Window":  windowRules,
	"Channel": channelRules,
	"Replay":  replayRules,
	"Events": {{If: rule.When(rule.Lacks("time")), Then: rule.Lacks("time_format"),
		Cause: "a format without the time", Remedy: `add "time", the path of the timestamp`}},
	"Input": inputRules,
	"Modbus": {{If: rule.When(rule.Is("unit", 0)), Then: rule.Looks("url", scheme("tcp")), At: "unit", Value: true,
		Cause:  "units on a serial line do not answer to 0, the broadcast address",
		Remedy: "use the unit's own address, 1 to 247"}},
	"Serial": {{If: rule.When(rule.Unless("format", "csv")), Then: rule.Lacks("delimiter"),
		Cause: "{format} lines have no delimiter", Remedy: "remove it"}},
	"Delivery": {{If: rule.When(wantsReceipts), Then: rule.Has("evaluators"),
		Cause:  `"evaluators" is missing, so no receipts would count`,
		Remedy: `add 'evaluators: [{name: ..., public_key: "ed25519:..."}]', or write ack: broker`}},
	"Source": sourceRules(),
}

// wantsReceipts holds for deliveries that wait for receipts of an evaluator.
var wantsReceipts = rule.Any(rule.Is("ack", AckEvaluator), rule.Some("streams", rule.Is("ack", AckEvaluator)))

// anyOf holds when one of the keys is given.
func anyOf(keys ...string) rule.Cond {
	one := make([]rule.Cond, len(keys))
	for i, k := range keys {
		one[i] = rule.Has(k)
	}
	return rule.Any(one...)
}

var (
	isPublic    = rule.When(rule.Default("mode", KeyModePublic))
	isSymmetric = rule.When(rule.Is("mode", KeyModeSymmetric))
)

// compactStream holds for agents with a compact stream.
var compactStream = rule.Some("streams", rule.Is("mode", ModeCompact))

// agentRules say which keys the streams need.
var agentRules = []rule.Relation{
	{If: rule.When(compactStream), Then: rule.Within("keys", rule.Has("board_key")), At: "keys", Value: true,
		Cause:  `"board_key" is missing, the key of the device's compact windows`,
		Remedy: `add "board_key", the file that ` + "`hencedge keys device` wrote"},
	{If: rule.When(rule.All(rule.Has("keys"), rule.Within("keys", rule.Has("board_key")))), Then: compactStream,
		At: "keys", Value: true, Cause: `"board_key" is given, and no stream is of mode compact`,
		Remedy: `remove it and the file, or write "mode: compact" in a stream`},
	{If: rule.When(rule.All(rule.Has("keys"), rule.Within("keys", rule.All(rule.Has("board_key"),
		rule.Lacks("public_key", "secret_key"))))),
		Then: rule.Not(rule.Some("streams", rule.Unless("mode", ModeCompact))), At: "keys", Value: true,
		Cause:  `"public_key" is missing, which streams that are not of mode compact need`,
		Remedy: "add \"public_key\", the file that `hencedge keys export --role agent` wrote"},
}

var keyRules = []rule.Relation{
	{If: isPublic, Then: anyOf("public_key", "board_key"), Cause: `"public_key" is missing`,
		Remedy: "add \"public_key\", the file that `hencedge keys export --role agent` wrote"},
	{If: isPublic, Then: rule.Lacks("secret_key"),
		Cause:  "a secret key does not belong on a device that encrypts with the public key",
		Remedy: `remove it and the file; or, knowing the risk, set "mode: symmetric"`},
	{If: isSymmetric, Then: rule.Has("secret_key"),
		Remedy: "add \"secret_key\", the file that `hencedge keys export --role agent --symmetric` wrote"},
	{If: isSymmetric, Then: rule.Lacks("public_key"),
		Cause: "symmetric mode uses the secret key only", Remedy: `remove "public_key", or set "mode: public"`},
	{If: isSymmetric, Then: rule.Lacks("board_key"),
		Cause:  "a board with the secret key has no use for a key of its own",
		Remedy: `remove "board_key", or set "mode: public"`},
}

var evaluatorRules = []rule.Relation{
	{Then: anyOf("devices", "enrolled"), Cause: "no device is trusted",
		Remedy: `add "devices:" with the name and public_key of each agent, or "enrolled:" with a directory of them`},
	{Then: anyOf("streams", "classes"), Cause: "no stream is described",
		Remedy: `add "streams:" with what each device sends, or "classes:" for devices that are alike`},
	{If: rule.When(rule.Has("enrolled")), Then: rule.Has("classes"),
		Remedy: `add "classes:": every enrolled device is of a class`},
}

// The schemes of brokers with and without TLS.
var (
	tlsBroker   = scheme("tls", "mqtts", "ssl", "wss")
	plainBroker = scheme("tcp", "mqtt", "ws")
)

var brokerRules = append(connectionRules(plainBroker, tlsBroker, "use tcp:// for a broker without TLS"), rule.Relation{
	If: rule.When(rule.Looks("url", plainBroker)), Then: rule.Lacks("ca", "cert", "server_name", "alpn"),
	Cause: `"{}" is used only with TLS`, Remedy: "use tls:// in the URL, or remove it",
})

var httpRules = append(connectionRules(scheme("http"), scheme("https"), "use http://"),
	rule.Relation{If: rule.When(rule.Has("header")), Then: rule.Has("token"), At: "header",
		Cause: "a header without its value", Remedy: `add "token: file:..."`},
	rule.Relation{If: rule.When(rule.Has("username", "token")), Then: rule.Has("header"), At: "token",
		Cause:  `both "username" and "token" are given`,
		Remedy: `keep one of them; or add "header", the name of the header for the token`})

// thisMachine is the form of a URL to this machine, which needs no TLS.

const thisMachine = `://(localhost|127\.[0-9.]+|\[[^\]]*\])(:|/|\?|#|$)`

// connectionRules returns the rules of a connection: TLS, certificates and passwords. plain and tls
// are the forms of URLs without and with TLS.
func connectionRules(plain, tls, usePlain string) []rule.Relation {
	remote := rule.All(rule.Looks("url", plain), rule.Not(rule.Like("url", thisMachine, toThisMachine)))
	return []rule.Relation{
		{If: rule.When(rule.Looks("url", tls)), Then: rule.Unless("insecure", true),
			Cause: "the URL uses TLS, but insecure asks for none", Remedy: `remove "insecure", or ` + usePlain},
		{If: rule.When(remote), Then: rule.Is("insecure", true), At: "url", Value: true,
			Tell: func(b rule.Block, _ string) (cause, remedy string) {
				return "no TLS to " + hostOf(b.Text("url")),
					fmt.Sprintf(`use %s://; or, in a network that you trust, add "insecure: true"`, withTLS(tls))
			}},
		certWithKey, keyWithCert,
		{If: rule.When(rule.Has("password")), Then: rule.Has("username"), At: "password",
			Cause: "a password without a user name", Remedy: `add "username", or remove the password`},
	}
}

// postgresHere is the form of a URL of a database on this machine.
const postgresHere = `://([^@/?#]*@)?(localhost|127\.[0-9.]+|\[[^\]]*\])?(:[0-9]*)?/`

var postgresRules = []rule.Relation{
	{If: rule.When(rule.All(rule.Looks("url", `[?&]sslmode=(disable|require)(&|$)`),
		rule.Not(rule.Like("url", postgresHere, func(text string) bool {
			return (&Postgres{URL: text}).Local()
		})))), Then: rule.Is("insecure", true), At: "url", Value: true,
		Tell: func(b rule.Block, _ string) (cause, remedy string) {
			return "nobody would know who reads the results on the way to " + hostOf(b.Text("url")),
				`use sslmode=verify-full; or, in a network that you trust, add "insecure: true"`
		}},
	certWithKey, keyWithCert,
}

// A client's certificate and its key belong together.
var (
	certWithKey = rule.Relation{If: rule.When(rule.Has("cert")), Then: rule.Has("key"), At: "cert",
		Cause:  "a client certificate without its key",
		Remedy: `add "key: FILE", the private key that belongs to it`}
	keyWithCert = rule.Relation{If: rule.When(rule.Has("key")), Then: rule.Has("cert"), At: "key",
		Cause:  "a private key without its certificate",
		Remedy: `add "cert: FILE", the certificate that belongs to it`}
)

// withTLS names the scheme to use with TLS.
func withTLS(form string) string {
	if form == tlsBroker {
		return "tls"
	}
	return "https"
}

// hostOf returns the host of a URL.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// toThisMachine reports whether a URL leads to this machine.
func toThisMachine(text string) bool { return loopback(hostOf(text)) }

// Streams without ticks: those of a file and those of messages.
var (
	replayed = rule.When(rule.Has("replay"))
	messages = rule.When(rule.All(rule.Has("events"), rule.Lacks("replay")))
)

var streamRules = []rule.Relation{
	{If: replayed, Then: rule.Lacks("interval"), Cause: "a replay takes its times from the file",
		Remedy: "remove interval"},
	{If: replayed, Then: rule.Default("on_gap", GapIgnore), Cause: "a replay has no ticks that could be missed",
		Remedy: "remove it"},
	{If: replayed, Then: rule.Lacks("events"), Cause: "a replay takes its samples from a file",
		Remedy: `remove "replay" or "events"`},
	{If: messages, Then: rule.Lacks("interval"), Cause: "messages arrive at their own pace",
		Remedy: "remove the interval"},
	{If: messages, Then: rule.Default("on_gap", GapIgnore), Cause: "messages have no ticks that could be missed",
		Remedy: "remove it"},
	{If: rule.When(rule.Lacks("replay", "events")), Then: rule.Lacks("lateness"),
		Cause: "sensors are read in the order of time", Remedy: "remove it; it is for replays and events"},
	{If: rule.When(rule.All(rule.Has("events"), rule.Lacks("replay"), rule.Within("events", rule.Lacks("time")))),
		Then:   rule.Lacks("lateness"),
		Cause:  `without "time" messages are in the order in which they arrive`,
		Remedy: `add "time" to "events", or remove it`},
	{If: rule.When(rule.All(rule.Lacks("interval"), rule.Within("window", rule.Has("every")))),
		Then: rule.Within("window", rule.Any(rule.Has("samples"), rule.Is("fill", true))), At: "window", Value: true,
		Cause: `"samples" is missing`, Remedy: `add "samples: 64", the most samples that a window can hold`},
	{If: rule.When(rule.Lacks("replay", "events")), Then: rule.Has("interval"), Roles: live,
		Remedy: `add "interval: 1s", the time between samples`},
	{Then: rule.Lacks("replay"), Roles: []string{"remote"}, Value: true, // a sender must not choose a file to be read
		Cause: "a remote configuration cannot replay files", Remedy: "configure replays on the device"},
}

var streamSourceRules = []rule.Relation{
	{If: replayed, Each: "channels[].source", Then: rule.Is("type", SourceReplay), Value: true,
		Cause:  "a stream with a replay file cannot read {type} sensors",
		Remedy: "write source: {type: replay, column: ...}, or move the channel to a stream without replay"},
	{If: rule.When(rule.Lacks("replay")), Each: "channels[].source", Then: rule.Unless("type", SourceReplay),
		Value: true,
		Cause: "the stream has no replay file", Remedy: `add "replay: {file: ..., time: ...}" to the stream`},
	{If: messages, Each: "channels[].source", Then: rule.Has("path"),
		Remedy: `add "path": each channel of an event stream is a part of a JSON message`},
}

var windowRules = []rule.Relation{
	{Then: rule.Any(rule.Has("samples"), rule.Has("every"), rule.Is("fill", true)), Cause: "the window has no end",
		Remedy: `add "samples: 64" to end it by count or "every: 1m" to end it by time`},
	{If: rule.When(rule.Is("fill", true)), Then: rule.Lacks("every"),
		Cause: "a window that fills the slots does not end by time", Remedy: `remove "fill" or "every"`},
}

var channelRules = []rule.Relation{
	{If: rule.When(rule.Is("on_missing", MissingMark)), Then: rule.Has("missing_value"), At: "on_missing", Value: true,
		Cause:  "mark needs a value to write",
		Remedy: `add "missing_value", a number within the range that never occurs otherwise`},
	{If: rule.When(rule.Default("on_missing", MissingHold, MissingSkip)), Then: rule.Lacks("missing_value"),
		Cause: "missing_value is used only with on_missing: mark", Remedy: `add "on_missing: mark" or remove it`},
	{Then: rule.Has("source"), Roles: live, Remedy: `add "source: {type: cpu}" or another source`},
}

// The forms of file names that tell the format of a replay.
var (
	csvFile    = `\.(` + anyCase("csv") + "|" + anyCase("tsv") + ")$"
	ndjsonFile = `\.(` + anyCase("ndjson") + "|" + anyCase("jsonl") + ")$"
)

var isNDJSON = rule.Any(rule.Is("format", "ndjson"), rule.All(rule.Lacks("format"), rule.Looks("file", ndjsonFile)))

var replayRules = []rule.Relation{
	{If: rule.When(rule.Not(rule.Looks("file", csvFile+"|"+ndjsonFile))), Then: rule.Has("format"),
		Cause: "the format of the file is not clear from its name", Remedy: `add "format: csv" or "format: ndjson"`},
	{If: rule.When(isNDJSON), Then: rule.Lacks("delimiter"), Cause: "NDJSON has no delimiter", Remedy: "remove it"},
	{If: rule.When(isNDJSON), Then: rule.Lacks("decimal"), Cause: "numbers in JSON have a decimal point",
		Remedy: "remove it"},
	{If: rule.When(rule.Not(isNDJSON)), Then: rule.Not(rule.Any(
		rule.All(rule.Is("decimal", ","), rule.Default("delimiter", ",")),
		rule.All(rule.Default("decimal", "."), rule.Is("delimiter", ".")))), At: "decimal", Value: true,
		Cause: "the decimal mark is also the delimiter", Remedy: `set delimiter, for example to ";"`},
	{If: rule.When(rule.Default("time_format", namedTimes...)), Then: rule.Lacks("timezone"), Value: true,
		Cause: `timestamps of the format "{time_format}" carry their own zone`, Remedy: "remove timezone"},
}

// inputKinds are the blocks of which an input has one.
var inputKinds = []string{"i2c", "spi", "modbus", "can", "serial", "exec", "http", "mqtt"}

var inputRules = []rule.Relation{
	{Then: rule.One(inputKinds...), Tell: func(b rule.Block, second string) (cause, remedy string) {
		if second == "" {
			return "the input has no type", "add one block: i2c, spi, modbus, can, serial, exec, http or mqtt"
		}
		return fmt.Sprintf("both %q and %q are given", kindOf(b), second),
			`an input is one device or connection: make two entries of "inputs"`
	}},
	unused("timeout", "i2c", "spi", "can", "serial", "mqtt"),
	unused("every", "i2c", "spi", "can", "mqtt"),
	{If: rule.When(rule.All(rule.Has("serial"), rule.Within("serial", rule.Lacks("request")))),
		Then:  rule.Lacks("every"),
		Cause: `a serial input has no "every"`, Remedy: "remove it"},
	unused("max_age", "i2c", "spi"),
}

// unused returns the rule that inputs of these kinds have no such key.
func unused(key string, kinds ...string) rule.Relation {
	return rule.Relation{If: rule.When(anyOf(kinds...)), Then: rule.Lacks(key),
		Tell: func(b rule.Block, _ string) (cause, remedy string) {
			return fmt.Sprintf("a %s input has no %q", kindOf(b), key), "remove it"
		}}
}

// kindOf returns the first kind that an input has.
func kindOf(b rule.Block) string {
	for _, k := range inputKinds {
		if b.Has(k) {
			return k
		}
	}
	return ""
}
