package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config/internal/rule"
	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Alerts are the key holder's alarms on decrypted results.
type Alerts struct {
	Rules []AlertRule `yaml:"rules" cfg:"required"`
	// Receivers are told of every alarm, in order, until they have taken it.
	Receivers []Receiver `yaml:"receivers" cfg:"required"`
	Silences  []Silence  `yaml:"silences"`
}

// An AlertRule raises an alarm when a condition holds for consecutive windows.
type AlertRule struct {
	Name    string `yaml:"name" cfg:"required"`
	Program string `yaml:"program" cfg:"required"`
	// When is the condition; see ParseCondition.
	When string `yaml:"when" cfg:"required"`
	// For is the number of consecutive windows that raise the alarm.
	For int `yaml:"for"`
	// Clear is the condition that ends the alarm when it holds for ClearFor windows; empty:
	// that When does not hold.
	Clear    string `yaml:"clear"`
	ClearFor int    `yaml:"clear_for"`
	// Gap is the longest pause between windows that count as consecutive; 0: any.
	Gap       Duration  `yaml:"gap"`
	Undecided Undecided `yaml:"undecided"`
	Severity  string    `yaml:"severity"`
	// Per is "device" for an alarm of each device, "class" for one of all together.
	Per string `yaml:"per"`
	// Devices limits a rule to some devices of the program's class; none: all.
	Devices []string `yaml:"devices"`
	// Receivers are the names of those who are told; none: all.
	Receivers []string `yaml:"receivers"`
}

// Undecided says what a window counts as whose value is nearer to the threshold than its
// promised bound.
type Undecided string

// What an undecided window counts as.
const (
	UndecidedKeep  Undecided = "keep"  // as no window
	UndecidedRaise Undecided = "raise" // as one that raises the alarm and does not clear it
	UndecidedClear Undecided = "clear" // as one that clears the alarm and does not raise it
)

// A Receiver is told of alarms. It has one of the blocks.
type Receiver struct {
	Name string `yaml:"name" cfg:"required"`
	// Command is a program, by its absolute path, and its arguments. There is no shell.
	Command      []string   `yaml:"command" cfg:"blank"`
	Webhook      *Webhook   `yaml:"webhook"`
	MQTT         *AlertMQTT `yaml:"mqtt"`
	Alertmanager *HTTP      `yaml:"alertmanager"`
}

// A Webhook is a page that alarms are posted to.
type Webhook struct {
	HTTP `yaml:",inline"`
	// Secret is the key of the HMAC-SHA256 that signs each message.
	Secret Secret `yaml:"secret" cfg:"required"`
}

// AlertMQTT is a broker that alarms are published at, in clear.
type AlertMQTT struct {
	MQTT  `yaml:",inline"`
	Topic string `yaml:"topic" cfg:"required"`
}

// A Silence keeps alarms from being sent for a time.
type Silence struct {
	Rule   string `yaml:"rule"`   // empty: all
	Device string `yaml:"device"` // empty: all
	From   string `yaml:"from"`   // RFC 3339; empty: always
	To     string `yaml:"to" cfg:"required"`
}

// Covers reports whether the silence is about an alarm at a time. The silence is checked.
func (s Silence) Covers(name, device string, now time.Time) bool {
	from, _ := time.Parse(time.RFC3339, s.From)
	to, err := time.Parse(time.RFC3339, s.To)
	return err == nil && !now.Before(from) && now.Before(to) &&
		(s.Rule == "" || s.Rule == name) && (s.Device == "" || s.Device == device)
}

// A Condition compares a result with a threshold.
type Condition struct {
	Index     int      // of the value; -1: any or all of them
	Op        string   // ">", ">=", "<" or "<="
	Threshold float64  // finite
	Age       Duration // positive: the newest window is older than that; the rest is then not used
}

// ParseCondition reads "value > 80", "value[2] <= 1.5e3" or "age > 10m".
func ParseCondition(text string) (Condition, error) {
	if m := valueCondition().FindStringSubmatch(text); m != nil {
		c := Condition{Index: -1, Op: m[3]}
		var err error
		if c.Threshold, err = strconv.ParseFloat(m[4], 64); err != nil || math.IsInf(c.Threshold, 0) {
			return Condition{}, fmt.Errorf("%w: the threshold %s is out of range", ErrInvalid, m[4])
		}
		if m[2] != "" {
			c.Index, _ = strconv.Atoi(m[2])
		}
		return c, nil
	}
	if m := ageCondition().FindStringSubmatch(text); m != nil {
		d, err := time.ParseDuration(m[1])
		if err != nil || d < minAge || d > maxAge {
			return Condition{}, fmt.Errorf("%w: the age %s is out of range, 1s to 8760h", ErrInvalid, m[1])
		}
		return Condition{Index: -1, Age: d}, nil
	}
	return Condition{}, fmt.Errorf("%w: %s is no condition", ErrInvalid, yamlx.Quote(text))
}

// Bounds of the age in a condition.
const (
	minAge = time.Second
	maxAge = 365 * 24 * time.Hour
)

// Forms of conditions.
const (
	patternValueCondition = `^\s*value(\[([0-9]{1,5})\])?\s*(>=|<=|>|<)\s*` +
		`([+-]?([0-9]{1,64}(\.[0-9]{0,64})?|\.[0-9]{1,64})([eE][+-]?[0-9]{1,3})?)\s*$`
	patternAgeCondition = `^\s*age\s*>\s*(([0-9]{1,9}(\.[0-9]{1,9})?(ms|s|m|h)){1,4})\s*$`
)

// conditionRule is the rule for when an alarm is raised, clearRule for when it ends.
var (
	conditionRule = rule.Text(pattern(patternValueCondition+"|"+patternAgeCondition), conditionProblem)
	clearRule     = rule.Text(pattern(patternValueCondition), func(s string) (cause, remedy string) {
		if c, err := ParseCondition(s); err == nil && c.Age > 0 {
			return "an alarm does not end by age", `write a condition on the value, such as "value < 75"`
		}
		return conditionProblem(s)
	})
)

func conditionProblem(s string) (cause, remedy string) {
	if _, err := ParseCondition(s); err != nil {
		return err.Error()[len(ErrInvalid.Error())+2:],
			`write value, one of > >= < <=, and a number: "value > 80"; value[2] is the third of several; ` +
				`or "age > 10m"`
	}
	return "", ""
}

// instantRule is the rule for a point in time.
var instantRule = rule.Text(pattern(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`),
	func(s string) (cause, remedy string) {
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return yamlx.Quote(s) + " is no point in time", `write it as RFC 3339, such as "2026-11-23T22:00:00+01:00"`
		}
		return "", ""
	})

// aboutAge holds for rules about the age of results.
var aboutAge = rule.When(rule.Looks("when", `^\s*age`))

var alertRules = []rule.Relation{{If: aboutAge, Then: rule.Lacks("for", "clear", "clear_for", "gap", "undecided"),
	Cause: `a rule about age has no "{}"`, Remedy: "remove it; the next result that is new enough ends the alarm"}}

// maxReceivers bounds Alerts.Receivers.
const maxReceivers = 16

// receiverKinds are the blocks of which a receiver has one.
var receiverKinds = []string{"command", "webhook", "mqtt", "alertmanager"}

var receiverRules = []rule.Relation{{Then: rule.One(receiverKinds...), Tell: func(_ rule.Block, second string) (cause,
	remedy string) {
	if second == "" {
		return "the receiver has no type", "add one block: command, webhook, mqtt or alertmanager"
	}
	return fmt.Sprintf("%q is given beside another type", second), `make two entries of "receivers"`
}}}

var keyHolderRules = []rule.Relation{{If: rule.When(rule.Has("alerts")), Then: rule.Has("state"),
	Remedy: `add "state: keyholder.state": alarms that wait for their receiver are kept beside it`},
	{If: rule.When(rule.Has("history")), Then: rule.Has("state"),
		Remedy: `add "state: keyholder.state": it remembers which results are in the database already`},
	{If: rule.When(rule.Has("console")), Then: rule.Has("state"),
		Remedy: `add "state: keyholder.state": the page's logins and sealed results lie beside it`}}

// alerts checks what the rules for single keys and blocks cannot express.
func (c *checker) alerts(k *KeyHolder) {
	a := k.Alerts
	rules, receivers := make([]string, len(a.Rules)), make([]string, len(a.Receivers))
	for i := range a.Rules {
		rules[i] = a.Rules[i].Name
	}
	for i := range a.Receivers {
		receivers[i] = a.Receivers[i].Name
	}
	c.unique("alerts.rules", "rule", rules)
	c.unique("alerts.receivers", "receiver", receivers)
	if len(receivers) > maxReceivers {
		c.Fail("alerts.receivers", fmt.Sprintf("%d receivers, at most %d", len(receivers), maxReceivers),
			"let one of them pass alarms on")
	}
	for i := range a.Rules {
		r, at := &a.Rules[i], fmt.Sprintf("alerts.rules[%d]", i)
		if len(k.Programs) > 0 {
			c.listed(at+".program", "program", r.Program, k.Programs)
		}
		for n, name := range r.Receivers {
			c.listed(fmt.Sprintf("%s.receivers[%d]", at, n), "receiver", name, receivers)
		}
		c.hysteresis(at, r)
	}
	for i, s := range a.Silences {
		at := fmt.Sprintf("alerts.silences[%d]", i)
		if s.Rule != "" {
			c.listed(at+".rule", "rule", s.Rule, rules)
		}
		from, ferr := time.Parse(time.RFC3339, s.From)
		to, terr := time.Parse(time.RFC3339, s.To)
		if ferr == nil && terr == nil && !to.After(from) {
			c.Fail(at+".to", "the silence ends before it begins", "use a later time")
		}
	}
}

// listed checks that one of the names is meant.
func (c *checker) listed(path, kind, name string, names []string) {
	for _, n := range names {
		if n == name {
			return
		}
	}
	if name != "" && c.Sound(path) {
		c.Fail(path, fmt.Sprintf("the %s %q is not listed", kind, name), yamlx.SuggestValue(name, names))
	}
}

// hysteresis checks that no value both raises and ends an alarm.
func (c *checker) hysteresis(at string, r *AlertRule) {
	when, werr := ParseCondition(r.When)
	end, cerr := ParseCondition(r.Clear)
	if werr != nil || cerr != nil || when.Age > 0 || end.Age > 0 {
		return
	}
	up, down := when.Threshold, end.Threshold
	if when.Op[0] == '<' {
		up, down = down, up
	}
	both := len(when.Op) == 2 && len(end.Op) == 2 && up == down
	switch {
	case when.Index != end.Index:
		c.Fail(at+".clear", "it is about another value than when", "compare the same value in both")
	case when.Op[0] == end.Op[0] || down > up || both:
		c.Fail(at+".clear", fmt.Sprintf("a value can fulfil both %q and %q", r.When, r.Clear),
			"choose thresholds that lie apart, such as \"value > 80\" and \"value < 75\"")
	}
}

// setDefaults fills every optional field that is zero.
func (a *Alerts) setDefaults(name string) {
	if a == nil {
		return
	}
	for i := range a.Rules {
		r := &a.Rules[i]
		orDefault(&r.Severity, "warning")
		orDefault(&r.Per, "device")
		if c, err := ParseCondition(r.When); err == nil && c.Age == 0 {
			orDefault(&r.For, 1)
			orDefault(&r.ClearFor, 1)
			orDefault(&r.Undecided, UndecidedKeep)
		}
	}
	for i := range a.Receivers {
		if m := a.Receivers[i].MQTT; m != nil {
			orDefault(&m.ClientID, "alerts-"+name+"-"+a.Receivers[i].Name)
		}
	}
}

var (
	valueCondition = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(patternValueCondition) })
	ageCondition   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(patternAgeCondition) })
)
