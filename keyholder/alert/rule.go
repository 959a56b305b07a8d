package alert

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hencedge/hencedge/config"
)

// verdict says whether a condition holds.
type verdict int8

const (
	undecided verdict = iota // the promised bound reaches over the threshold
	no
	yes
)

// not returns the verdict on the opposite.
func (v verdict) not() verdict { return [...]verdict{undecided, yes, no}[v] }

// counted returns the verdict that an undecided one counts as.
func (v verdict) counted(as verdict) verdict {
	if v == undecided {
		return as
	}
	return v
}

// compare returns whether value OP threshold holds for every number within bound of value.
func compare(c *config.Condition, value, bound float64) verdict {
	if math.IsNaN(value) || math.IsNaN(bound) || bound < 0 {
		return undecided
	}
	lo, hi := value-bound, value+bound
	holds := func(v float64) bool {
		switch c.Op {
		case ">":
			return v > c.Threshold
		case ">=":
			return v >= c.Threshold
		case "<":
			return v < c.Threshold
		}
		return v <= c.Threshold
	}
	switch l, h := holds(lo), holds(hi); {
	case l && h:
		return yes
	case !l && !h:
		return no
	}
	return undecided
}

// judge returns whether the condition holds for one of the values, or with all for each. at
// is the index of a value with that verdict, 0 if there is none.
func judge(c *config.Condition, r *Result, all bool) (v verdict, at int) {
	values, first := r.Values, 0
	if c.Index >= 0 {
		if c.Index >= len(values) {
			return undecided, 0
		}
		first = c.Index
		values = values[first : first+1]
	}
	enough, v := yes, no // one yes decides
	if all {
		enough, v = no, yes
	}
	at = first
	for i, x := range values {
		switch got := compare(c, x, r.Bound); got {
		case enough:
			return enough, first + i
		case undecided:
			v, at = undecided, first+i
		}
	}
	if len(values) == 0 {
		return undecided, 0
	}
	return v, at
}

// rule is a rule of the configuration, ready for use.
type rule struct {
	config.AlertRule
	when      config.Condition
	clear     *config.Condition // nil: that when does not hold
	receivers []string
}

// compile reads the rules of a configuration.
func compile(cfg *config.Alerts) ([]*rule, error) {
	out := make([]*rule, len(cfg.Rules))
	for i := range cfg.Rules {
		r := &rule{AlertRule: cfg.Rules[i], receivers: cfg.Rules[i].Receivers}
		var err error
		if r.when, err = config.ParseCondition(r.When); err != nil {
			return nil, fmt.Errorf("alert %s: %w", r.Name, err)
		}
		if r.Clear != "" {
			c, err := config.ParseCondition(r.Clear)
			if err != nil {
				return nil, fmt.Errorf("alert %s: %w", r.Name, err)
			}
			r.clear = &c
		}
		if len(r.receivers) == 0 {
			for k := range cfg.Receivers {
				r.receivers = append(r.receivers, cfg.Receivers[k].Name)
			}
		}
		out[i] = r
	}
	return out, nil
}

// follows reports whether the rule is about results of a program and device.
func (r *rule) follows(program, device string) bool {
	return r.Program == program && (len(r.Devices) == 0 || slices.Contains(r.Devices, device))
}

// subject returns the device that an alarm about one is named after.
func (r *rule) subject(device string) string {
	if r.class() {
		return ""
	}
	return device
}

// class reports whether the rule has one alarm for all devices.
func (r *rule) class() bool { return r.Per == "class" }

// series is what a rule knows of one device.
type series struct {
	Rule   string `json:"r"`
	Device string `json:"d,omitempty"`

	Start     int64 `json:"s"`           // of the newest window, ns
	End       int64 `json:"e"`           // latest of all, ns
	Count     int   `json:"n,omitempty"` // windows in a row that speak for a change
	First     int64 `json:"f,omitempty"` // start of the first of them, ns
	Firing    bool  `json:"x,omitempty"`
	Undecided bool  `json:"u,omitempty"` // the newest window was
	Late      int   `json:"l,omitempty"` // windows that came after a newer one
	Unclear   int   `json:"o,omitempty"` // windows that were undecided
}

// decision is what a window does to a series.
type decision struct {
	changed bool    // Firing changed
	value   float64 // that decided
	windows int
	first   int64
}

// step takes the next window.
func (r *rule) step(s *series, res *Result) decision {
	start, end := res.Start.UnixNano(), res.End.UnixNano()
	if s.End != 0 && start <= s.Start {
		s.Late++
		return decision{}
	}
	if r.Gap > 0 && s.End != 0 && start-s.End > int64(r.Gap) {
		s.Count = 0
	}
	s.Start, s.End = start, max(end, s.End)
	need := r.For
	var v verdict
	var at int
	switch {
	case !s.Firing:
		v, at = judge(&r.when, res, false)
	case r.clear != nil:
		need = r.ClearFor
		v, at = judge(r.clear, res, true)
	default:
		need = r.ClearFor
		v, at = judge(&r.when, res, false)
		v = v.not()
	}
	if s.Undecided = v == undecided; s.Undecided {
		s.Unclear++
	}
	switch v.counted(r.counts(s.Firing)) {
	case undecided:
		return decision{}
	case no:
		s.Count = 0
		return decision{}
	}
	if s.Count++; s.Count == 1 {
		s.First = start
	}
	if s.Count < need {
		return decision{}
	}
	d := decision{changed: true, windows: s.Count, first: s.First}
	if at < len(res.Values) {
		d.value = res.Values[at]
	}
	s.Firing, s.Count = !s.Firing, 0
	return d
}

// counts returns what an undecided window says about the condition that is awaited.
func (r *rule) counts(firing bool) verdict {
	switch {
	case r.Undecided == config.UndecidedKeep:
		return undecided
	case (r.Undecided == config.UndecidedRaise) != firing:
		return yes
	}
	return no
}

// age takes the next window of a rule about age, or none but the time. It reports whether
// Firing changed.
func (r *rule) age(s *series, res *Result, now time.Time) bool {
	if res != nil {
		s.Start, s.End = max(s.Start, res.Start.UnixNano()), max(s.End, res.End.UnixNano())
	}
	old := now.UnixNano()-s.End > int64(r.when.Age)
	if old == s.Firing || s.Firing && res == nil { // a clock that is set back ends nothing
		return false
	}
	s.Firing = old
	return true
}
