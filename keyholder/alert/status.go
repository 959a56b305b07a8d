package alert

import (
	"cmp"
	"slices"
	"time"

	"github.com/hencedge/hencedge/config"
)

// A Status is an alarm as it is on disk.
type Status struct {
	Alert    string `json:"alert"`
	Device   string `json:"device,omitempty"`
	Severity string `json:"severity"`
	// State is "firing", "pending" (some of the windows have come), "undecided" (the newest
	// window was, and no alarm fires) or "ok".
	State     string     `json:"state"`
	Undecided bool       `json:"undecided"` // the newest window was
	Windows   int        `json:"windows"`   // that speak for a change, one after the other
	For       int        `json:"for"`       // windows that make it; 0: a rule about age
	Late      int        `json:"late_windows"`
	Unclear   int        `json:"undecided_windows"`
	Newest    *time.Time `json:"newest,omitempty"` // end of the newest window
	Raised    *time.Time `json:"raised,omitempty"`
	Incident  string     `json:"incident,omitempty"`
	Devices   []string   `json:"devices,omitempty"`  // of a class: those that fire
	Followed  int        `json:"followed,omitempty"` // of a class: devices
	Silenced  *time.Time `json:"silenced_until,omitempty"`
}

// Report is all that can be said about alarms.
type Report struct {
	Alerts   []Status       `json:"alerts"`
	Waiting  map[string]int `json:"waiting"` // events that a receiver has not taken
	Silences []Silence      `json:"silences,omitempty"`
}

// ReadReport reads the state of the alarms, which a process may be using. A rule without any
// result yet has the state "ok".
func ReadReport(cfg *config.Alerts, keyHolderState string, now time.Time) (*Report, error) {
	rules, err := compile(cfg)
	if err != nil {
		return nil, err
	}
	s, _, err := readState(keyHolderState + StateSuffix)
	if err != nil {
		return nil, err
	}
	quiet := silences{fixed: cfg.Silences, path: keyHolderState + SilenceSuffix}
	if err := quiet.refresh(); err != nil {
		return nil, err
	}
	out := &Report{Alerts: []Status{}, Waiting: map[string]int{}, Silences: quiet.list}
	for i := range cfg.Receivers {
		out.Waiting[cfg.Receivers[i].Name] = 0
	}
	for _, q := range s.queue {
		for _, name := range q.To {
			out.Waiting[name]++
		}
	}
	for _, r := range rules {
		list := s.statuses(r)
		for i := range list {
			if end := quiet.until(r.Name, list[i].Device, now); !end.IsZero() {
				list[i].Silenced = &end
			}
		}
		out.Alerts = append(out.Alerts, list...)
	}
	return out, nil
}

// statuses returns the alarms of a rule, sorted by device.
func (s *state) statuses(r *rule) []Status {
	bySubject := map[string]*Status{}
	of := func(device string) *Status {
		if bySubject[device] == nil {
			bySubject[device] = &Status{Alert: r.Name, Device: device, Severity: r.Severity, State: "ok", For: r.For}
		}
		return bySubject[device]
	}
	for key, v := range s.series {
		if key.Rule != r.Name {
			continue
		}
		st := of(r.subject(key.Device))
		if end := instant(v.End); st.Newest == nil || end.After(*st.Newest) {
			st.Newest = end
		}
		st.Undecided = st.Undecided || v.Undecided
		st.Late += v.Late
		st.Unclear += v.Unclear
		if st.Windows = max(st.Windows, v.Count); v.Firing && r.ClearFor > 0 {
			st.For = r.ClearFor
		}
		if r.class() {
			st.Followed++
			if v.Firing {
				st.Devices = append(st.Devices, key.Device)
			}
		}
	}
	for key, al := range s.alarms {
		if key.Rule == r.Name && al.Firing && al.Last != nil {
			st := of(key.Device)
			st.State, st.Raised, st.Incident = StateFiring, &al.Last.Raised, al.Last.Incident
		}
	}
	if len(bySubject) == 0 {
		of("")
	}
	out := make([]Status, 0, len(bySubject))
	for _, st := range bySubject {
		switch {
		case st.State == StateFiring:
		case st.Undecided:
			st.State = "undecided"
		case st.Windows > 0:
			st.State = "pending"
		}
		slices.Sort(st.Devices)
		out = append(out, *st)
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Device, b.Device) })
	return out
}
