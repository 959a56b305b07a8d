package config

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hencedge/hencedge/config/internal/rule"
	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Forms of text. They are regular expressions that both RE2 and ECMAScript read.
const (
	patternName = `^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}|\.[A-Za-z0-9_-][A-Za-z0-9_.-]{0,62}|` +
		`\.\.[A-Za-z0-9_.-]{1,62})$`
	patternKey     = `^ed25519:[A-Za-z0-9+/]{43}=$`
	patternHolder  = `^(ed25519:[A-Za-z0-9+/]{43}=|[a-z2-7]{5}(-[a-z2-7]{5}){4}|none)$`
	patternParams  = `^[a-z0-9][a-z0-9-]{0,63}$`
	patternPort    = `0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})`
	patternHost    = `(\[[^\[\]/@?#]+\]|[^/@?#:\[\]]+)`
	patternTime    = `^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	patternPlain   = `^[^\x00-\x1f\x7f/]{1,128}$`
	patternColumn  = `^[^\x00-\x1f\x7f]{1,256}$`
	patternFilter  = `^(([^+#/]*|\+)/)*([^+#/]*|\+|#)$`
	patternRef     = `^([A-Za-z0-9_.-]{1,64}/)?[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}$`
	patternIdent   = `^[A-Za-z_][A-Za-z0-9_]{0,63}$`
	patternOwnUnit = `^x:[A-Za-z0-9_./-]{1,16}$`
	patternSecret  = `^(file|env|cred|age):.+`
	notSecret      = `^cred:(.*[/\\].*|\.\.?)$|^age:@(file|env|cred):|@cred:([^@]*[/\\][^@]*|\.\.?)?$|@(file|env):$`
	notJSONPath    = `^[@!]|[.|]@`
)

// pattern returns the schema of texts of a form.
func pattern(form string) rule.Schema { return rule.Schema{"pattern": form} }

// scheme returns the form of the start of a URL with one of the schemes, in any case.
func scheme(names ...string) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(anyCase(n))
	}
	return "^(" + b.String() + ")://"
}

// anyCase returns the form of a word in upper or lower case.
func anyCase(word string) string {
	var b strings.Builder
	for _, c := range word {
		if lower, upper := strings.ToLower(string(c)), strings.ToUpper(string(c)); lower != upper {
			b.WriteString("[" + lower + upper + "]")
		} else {
			b.WriteString(`\` + lower)
		}
	}
	return b.String()
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// ValidName reports whether s may name a device, stream, channel, program or
// evaluator: [A-Za-z0-9_.-]{1,64}, and neither "." nor "..".
func ValidName(s string) bool {
	return namePattern.MatchString(s) && s != "." && s != ".."
}

// nameRule is the rule for the name of a device, stream, channel, program or evaluator.
var nameRule = rule.Text(pattern(patternName), func(s string) (cause, remedy string) {
	switch {
	case ValidName(s):
		return "", ""
	case strings.ContainsAny(s, "“”„‘’"):
		remedy = "write plain quotes (\") or none"
	case strings.Contains(s, ": "):
		remedy = "put a comma between the entries within braces"
	default:
		remedy = "use 1 to 64 letters, digits, '_', '.' or '-'"
	}
	return "invalid name " + yamlx.Quote(s), remedy
})

// channelRule is the rule for what a variable of a program stands for.
var channelRule = rule.Form(patternRef, "{} is no known channel",
	"write device/stream/channel, such as board1/env/cpu, or stream/channel in a program for a class")

// variableRule is the rule for the name of a variable.
var variableRule = rule.Form(patternIdent, "invalid variable name {}",
	"use letters, digits and '_', a digit not first, such as x2")

// publicKeyRule is the rule for "ed25519:<base64 of 32 bytes>".
var publicKeyRule = rule.Text(pattern(patternKey), publicKeyProblem)

func publicKeyProblem(s string) (cause, remedy string) {
	remedy = "copy the whole line that `hencedge keys identity FILE` prints on the device: ed25519: and 44 characters"
	b64, ok := strings.CutPrefix(s, "ed25519:")
	if !ok {
		return "not a public key", remedy
	}
	if raw, err := base64.StdEncoding.Strict().DecodeString(b64); err != nil || len(raw) != 32 {
		return "the public key is damaged: it is not base64 of 32 bytes", remedy
	}
	return "", ""
}

var holderForm = regexp.MustCompile(patternHolder)

// holderRule is the rule for a key holder's fingerprint or public key.
var holderRule = rule.Text(pattern(patternHolder), func(s string) (cause, remedy string) {
	if strings.HasPrefix(s, "ed25519:") {
		return publicKeyProblem(s)
	}
	if holderForm.MatchString(s) {
		return "", ""
	}
	return "not a fingerprint",
		"copy the line that `hencedge keys show` prints at the key holder: five groups of five " +
			"letters and digits, such as k7qd2-4mzra-xxb3e-jq6hn-2hvwp; or its public key"
})

// secretRule is the rule for references to secrets.
var secretRule = rule.Text(rule.Schema{"pattern": patternSecret, "not": pattern(notSecret)},
	func(s string) (cause, remedy string) {
		if cause = Secret(s).problem(); cause == "" {
			return "", ""
		}
		return cause, Secret(s).remedy()
	}).Conceal(func(s string) string { return s })

// brokerURLRule is the rule for the address of an MQTT broker.

var brokerURLRule = rule.Text(brokerURLSchema(), func(s string) (cause, remedy string) {
	_, err := Broker{URL: s}.Endpoint()
	switch {
	case err == nil:
		return "", ""
	case hasUser(s):
		remedy = useUsername
	default:
		remedy = urlRemedy(s)
	}
	return strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": "), remedy
}).Conceal(urlPassword)

const useUsername = "use \"username\" and \"password: file:...\""

func brokerURLSchema() rule.Schema {
	host := patternHost + "(:(" + patternPort + `)?)?`
	return pattern(scheme(schemesTLS...) + host + `/?\??#?$|` + scheme("tcp", "mqtt") + host + `/?\??#?$|` +
		scheme("ws", "wss") + host + `(/[^?#]*)?\??#?$`)
}

// schemesTLS are those of connections to a broker with TLS, but for WebSockets.
var schemesTLS = []string{"tls", "mqtts", "ssl"}

// hasUser reports whether a URL names a user.
func hasUser(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.User != nil
}

// urlPassword returns the password in a URL, or "".
func urlPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// urlRemedy writes a broker's URL as it was probably meant.
func urlRemedy(text string) string {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		rest = text
	}
	host, port, err := net.SplitHostPort(strings.Trim(strings.SplitN(rest, "/", 2)[0], "/"))
	if n, perr := strconv.Atoi(port); err != nil {
		host, port = strings.SplitN(rest, "/", 2)[0], "8883"
	} else if perr != nil || n < 1 || n > 65535 || n == 80 || n == 443 || n == 1883 {
		port = "8883"
	}
	if host == "" || strings.ContainsAny(host, "@?#: ") {
		host = "host"
	}
	return "write tls://" + host + ":" + port
}

// webURLRule is the rule for the address of a page.
var webURLRule = rule.Text(pattern(scheme("http", "https")+patternHost+"(:("+patternPort+`)?)?([/?#].*)?$`),
	func(s string) (cause, remedy string) {
		u, err := url.Parse(s)
		switch {
		case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
			return "not a web address", "write https://host/path"
		case u.User != nil:
			return "the address contains credentials", useUsername
		}
		return portProblem(u)
	}).Conceal(urlPassword)

// postgresURLRule is the rule for the address of a PostgreSQL database.
var postgresURLRule = rule.Text(pattern(scheme("postgres", "postgresql")+`([^/?#@:]+@)?(`+patternPostgresHost+
	`/[^/?#]+(\?(`+patternSSLMode+`)?)?|/[^/?#]+\?(`+patternSSLMode+`&)?host=`+patternSocket+`(&`+patternSSLMode+
	`)?)$`), func(s string) (cause, remedy string) {
	const write = "write postgres://user@host/database"
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "not the address of a PostgreSQL database", write
	}
	q := u.Query()
	for key := range q {
		if key != "host" && key != "sslmode" {
			return fmt.Sprintf("the address has %q", key), "of all settings only sslmode and host belong into it"
		}
	}
	_, secret := u.User.Password()
	switch mode := q.Get("sslmode"); {
	case secret:
		return "the address contains a password", "remove it, and use \"password: file:...\""
	case len(u.Path) < 2 || strings.Contains(u.Path[1:], "/") || u.Fragment != "":
		return "no database in the address", write
	case u.Hostname() == "" && !strings.HasPrefix(q.Get("host"), "/"):
		return "no host in the address", write + ", or postgres:///database?host=/run/postgresql for a socket"
	case u.Hostname() != "" && q.Has("host"), strings.Contains(q.Get("host"), ","):
		return "two hosts in the address", "keep one of them" // a list may lead to another machine, without TLS
	case q.Has("sslmode") && !slices.Contains([]string{"disable", "require", "verify-ca", "verify-full"}, mode):
		return fmt.Sprintf("the mode of TLS is %q", mode), "use verify-full, verify-ca, require or disable"
	}
	return portProblem(u)
}).Conceal(urlPassword)

// Forms of a host with its port, of the directory of a socket, and of the mode of TLS.
const (
	patternPostgresHost = `([^/?#@:\[\]]+|\[[^\]]*\])(:[0-9]*)?`
	patternSocket       = `(/|%2[fF])([^&#,%]|%([013-9a-fA-F][0-9a-fA-F]|2[0-9aAbBdDeEfF]))*`
	patternSSLMode      = `sslmode=(disable|require|verify-ca|verify-full)`
)

// modbusURLRule is the rule for the address of a Modbus unit.

var modbusURLRule = rule.Text(
	pattern(scheme("tcp", "rtu+tcp")+patternHost+"(:("+patternPort+`)?)?/?([?#].*)?$|^[rR][tT][uU]:(//)?/[^/?#]`),
	func(s string) (cause, remedy string) {
		u, err := url.Parse(s)
		switch {
		case err != nil || !slices.Contains([]string{"tcp", "rtu", "rtu+tcp"}, u.Scheme):
			return "not a Modbus address", "write tcp://host:502, rtu:///dev/ttyUSB0 or rtu+tcp://host:port"
		case u.Scheme == "rtu" && (u.Host != "" || u.Path == ""):
			return "no device in the address", "write rtu:// and the path of the device: rtu:///dev/ttyUSB0"
		case u.Scheme != "rtu" && (u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.User != nil):
			return "not host and port", "write " + u.Scheme + "://host:502"
		}
		return portProblem(u)
	})

// portProblem says that a port does not exist.

func portProblem(u *url.URL) (cause, remedy string) {
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > 65535) {
		return "there is no port " + u.Port(), "use a port from 1 to 65535, or leave it out for the usual one"
	}
	return "", ""
}

// maxPrefixLevels is the most names in a topic prefix.
const maxPrefixLevels = 8

// topicPrefixRule is the rule for the start of all topics.
var topicPrefixRule = rule.Text(
	rule.Schema{"pattern": `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,7}$`, "maxLength": 128},
	func(s string) (cause, remedy string) {
		if cause, remedy = topicProblem(s, 128); cause == "" && strings.Count(s, "/") >= maxPrefixLevels {
			cause = fmt.Sprintf("more than %d levels", maxPrefixLevels)
			remedy = "use a shorter prefix, such as " + DefaultTopicPrefix
		}
		return cause, remedy
	})

// topicRule is the rule for a topic to publish on.

var topicRule = rule.Text(rule.Schema{"pattern": `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`, "maxLength": 512},
	func(s string) (cause, remedy string) { return topicProblem(s, 512) })

// topicProblem finds wildcards, empty levels and excessive length.

func topicProblem(s string, limit int) (cause, remedy string) {
	why := ""
	switch {
	case len(s) > limit:
		why = fmt.Sprintf("longer than %d bytes", limit)
	case strings.ContainsAny(s, "+#"):
		why = "it has a wildcard"
	case strings.HasPrefix(s, "$"):
		why = "topics that start with '$' belong to the broker"
	default:
		levels := strings.Split(s, "/")
		i := slices.IndexFunc(levels, func(l string) bool { return !ValidName(l) })
		switch {
		case i < 0:
			return "", ""
		case levels[i] == "":
			why = "a '/' at the start or end, or two in a row"
		default:
			why = fmt.Sprintf("the level %s is no name", yamlx.Quote(levels[i]))
		}
	}
	return fmt.Sprintf("invalid topic %s: %s", yamlx.Quote(s), why),
		"use names of letters, digits, '_', '.' and '-' with '/' between them, such as " + DefaultTopicPrefix
}

// topicFilterRule is the rule for the filter of a subscription.
var topicFilterRule = rule.Text(rule.Schema{"pattern": patternFilter, "maxLength": 256},
	func(s string) (cause, remedy string) {
		levels := strings.Split(s, "/")
		for i, l := range levels {
			wild := strings.ContainsAny(l, "+#") && l != "+" && (l != "#" || i != len(levels)-1)
			if wild || len(s) > 256 || strings.ContainsRune(s, 0) {
				return "invalid topic filter " + yamlx.Quote(s),
					"in a filter '+' stands for one whole level, '#' for all that follow, at the end"
			}
		}
		return "", ""
	})

// maxSocketPath is what a socket address holds, less its final zero, bytes.

const maxSocketPath = 107

// socketPathRule is the rule for the path of a local socket.
var socketPathRule = rule.Text(rule.Schema{"maxLength": maxSocketPath}, socketProblem)

func socketProblem(file string) (cause, remedy string) {
	if len(file) <= maxSocketPath {
		return "", ""
	}
	return fmt.Sprintf("a socket path has at most %d bytes, this one has %d", maxSocketPath, len(file)),
		"use a shorter path, such as one below /run/hencedge"
}

// listenRule is the rule for where metrics are served.
var listenRule = rule.Text(pattern(`^(unix:/.{1,106}|[^/]*:[0-9]+)$`), func(s string) (cause, remedy string) {
	if path, local := strings.CutPrefix(s, "unix:"); local {
		if !filepath.IsAbs(path) {
			return fmt.Sprintf("%q is no absolute path", path),
				"write unix: and an absolute path, such as unix:/run/hencedge/agent/metrics.sock"
		}
		return socketProblem(path)
	}
	_, port, err := net.SplitHostPort(s)
	if n, e := strconv.Atoi(port); err != nil || e != nil || n < 0 || n > 65535 {
		return fmt.Sprintf("invalid address %q", s),
			"write host:port, such as 127.0.0.1:9464, or unix:/run/hencedge/agent/metrics.sock"
	}
	return "", ""
})

// pageRule is the rule for where the page of results is served.
var pageRule = rule.Text(pattern(`^[^/]*:[0-9]+$`), func(s string) (cause, remedy string) {
	_, port, err := net.SplitHostPort(s)
	if n, e := strconv.Atoi(port); err != nil || e != nil || n < 0 || n > 65535 {
		return fmt.Sprintf("invalid address %q", s), "write host:port, such as 127.0.0.1:9470"
	}
	return "", ""
})

// jsonPathRule is the rule for the path of a number in JSON.
var jsonPathRule = rule.Text(rule.Schema{"not": pattern(notJSONPath), "maxLength": 256},
	func(s string) (cause, remedy string) {
		if len(s) <= 256 && !jsonPathModifier.MatchString(s) {
			return "", ""
		}
		return "not a usable path",
			"name the keys with '.' between them, such as sensors.0.value; modifiers (@) are not supported"
	})

var jsonPathModifier = regexp.MustCompile(notJSONPath)

// numberPatternRule is the rule for a regular expression that finds a number.
var numberPatternRule = rule.Text(rule.Schema{"maxLength": 512}, func(s string) (cause, remedy string) {
	re, err := regexp.Compile(s)
	switch {
	case len(s) > 512:
		return "the pattern is longer than 512 bytes", "write a shorter one"
	case err != nil:
		return "not a regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "),
			"correct it; the syntax is RE2's, and a pattern looks like \"T=([-0-9.]+)\""
	case re.NumSubexp() != 1:
		return fmt.Sprintf("the pattern has %s, not one", yamlx.Plural(re.NumSubexp(), "group")),
			"put one pair of brackets around the number, such as \"T=([-0-9.]+)\"; (?:...) groups without counting"
	}
	return "", ""
})

// delimiterRule returns the rule for what separates columns, other than the characters in not.
func delimiterRule(form, not string) rule.Value {
	return rule.Text(pattern(form), func(s string) (cause, remedy string) {
		d, n := utf8.DecodeRuneInString(s)
		if s == "tab" || n == len(s) && d != utf8.RuneError && !strings.ContainsRune(not, d) {
			return "", ""
		}
		return fmt.Sprintf("invalid delimiter %q", s), "use one character, such as \",\" or \";\", or \"tab\""
	})
}

// controls are the characters that separate no columns of a serial line.
const controls = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\v\f\r\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"

// timeFormatRule is the rule for the form of timestamps.
var timeFormatRule = rule.Text(pattern(`^(rfc3339|unix|unix_ms|unix_ns|[\s\S]*(%[YyFD]|06)[\s\S]*)$`),
	func(s string) (cause, remedy string) {
		if _, _, err := TimeLayouts(s); err != nil {
			return fmt.Sprintf("%s is not a time format: %v", yamlx.Quote(s), err),
				`use rfc3339, unix, unix_ms, unix_ns, the verbs of strftime ("%Y-%m-%d %H:%M:%S"), ` +
					`or a layout of Go ("2006-01-02 15:04:05")`
		}
		return "", ""
	})

// timeZoneRule is the rule for the zone of timestamps.

var timeZoneRule = rule.Text(pattern(`^(Local|[A-Za-z]+[A-Za-z0-9_+/-]*|[+-][0-9]{2}:[0-9]{2})$`),
	func(s string) (cause, remedy string) {
		if _, err := (Replay{Timezone: s}).Location(); err != nil {
			return "unknown time zone " + yamlx.Quote(s),
				"use a name such as Europe/Berlin, UTC or Local, or an offset such as +01:00"
		}
		return "", ""
	})

// namedZoneRule is the rule for the zone of hours.

var namedZoneRule = rule.Text(nil, func(s string) (cause, remedy string) {
	if _, err := time.LoadLocation(s); err != nil || s == "" {
		return "unknown time zone " + yamlx.Quote(s), "use a name such as Europe/Berlin, UTC or Local"
	}
	return "", ""
})

// timeOfDayRule is the rule for hours and minutes.
var timeOfDayRule = rule.Text(pattern(patternTime), func(s string) (cause, remedy string) {
	if _, err := clockTime(s); err != nil {
		return err.Error(), "write hours and minutes, such as \"22:00\", in quotes"
	}
	return "", ""
})

// replaySpeedRule is the rule for the speed of a replay.
var replaySpeedRule = rule.Text(pattern(`^(realtime|fast|\+?[0-9.][0-9.eExXpPa-fA-F_+-]*x)$`),
	func(s string) (cause, remedy string) {
		if _, err := (Replay{Speed: s}).ReplayFactor(); err != nil {
			return err.Error(), "use realtime, fast, or a factor such as 10x"
		}
		return "", ""
	})

// expressionRule is the rule for the text of a program; its compiler reads it.

var expressionRule = rule.Text(rule.Schema{"maxLength": maxExpr}, func(s string) (cause, remedy string) {
	switch {
	case strings.TrimSpace(s) == "":
		return "the expression is empty", "write one, such as mean(x)"
	case len(s) > maxExpr:
		return fmt.Sprintf("the expression is longer than %d bytes", maxExpr), "split it into several programs"
	}
	return "", ""
})

// unitRule is the rule for a physical unit: a known one, or one of the operator's own.
var unitRule = rule.Text(unitSchema(), func(s string) (cause, remedy string) {
	own, isOwn := strings.CutPrefix(s, ownUnit)
	if knownUnit(s) || isOwn && namePattern.MatchString(strings.ReplaceAll(own, "/", "_")) && len(own) <= 16 {
		return "", ""
	}
	cause = "unknown unit " + strconv.Quote(s)
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.unit
		if slices.Contains(u.aliases, strings.ToLower(s)) || slices.Contains(u.aliases, s) {
			return cause, fmt.Sprintf("write %q", u.unit)
		}
	}
	if near := yamlx.Nearest(s, names); near != "" && len(s) > 1 {
		return cause, fmt.Sprintf("did you mean %q? (write a unit of your own as \"x:name\")", near)
	}
	return cause, "docs/configuration.md lists the units; write your own as \"x:name\", up to 16 letters"
})

func unitSchema() rule.Schema {
	known := make([]any, len(units))
	for i, u := range units {
		known[i] = u.unit
	}
	return rule.Schema{"anyOf": []any{rule.Schema{"enum": known}, pattern(patternOwnUnit)}}
}
