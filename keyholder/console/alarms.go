package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/keyholder/alert"
)

// alarms reads what package alert keeps beside the key holder's state, and remembers which
// incidents somebody has acknowledged.
type alarms struct {
	cfg   *config.Alerts // nil: none
	state string
	mu    *sync.Mutex // of the file of acknowledged incidents
}

// acknowledged is an incident that somebody has seen.
type acknowledged struct {
	Incident string    `json:"incident"`
	At       time.Time `json:"at"`
	Comment  string    `json:"comment,omitempty"`
}

// Bounds of acknowledged incidents.
const (
	maxSeen    = 4096
	maxComment = 256
)

func newAlarms(k *config.KeyHolder) (alarms, error) {
	a := alarms{k.Alerts, k.State, new(sync.Mutex)}
	_, err := a.seen()
	return a, err
}

// seen returns the acknowledged incidents.
func (a *alarms) seen() ([]acknowledged, error) {
	b, err := durable.ReadFile(a.state+seenSuffix, 1<<22)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []acknowledged
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("acknowledged alarms: %s: %w; correct or remove it", a.state+seenSuffix, err)
	}
	return list, nil
}

// acknowledge remembers an incident that fires now, and forgets those that do not any more.
// It reports whether the incident fires.
func (a *alarms) acknowledge(one acknowledged, now time.Time) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	report, err := alert.ReadReport(a.cfg, a.state, now)
	if err != nil {
		return false, err
	}
	firing := map[string]bool{}
	for i := range report.Alerts {
		if report.Alerts[i].State == alert.StateFiring {
			firing[report.Alerts[i].Incident] = true
		}
	}
	if !firing[one.Incident] {
		return false, nil
	}
	list, err := a.seen()
	if err != nil {
		return true, err
	}
	list = slices.DeleteFunc(list, func(l acknowledged) bool {
		return !firing[l.Incident] || l.Incident == one.Incident
	})
	list = append(list, one)
	b, err := json.Marshal(list[max(0, len(list)-maxSeen):])
	if err == nil {
		err = durable.WriteFile(a.state+seenSuffix, b)
	}
	return true, err
}

// alarmRow is an alarm with who has seen it.
type alarmRow struct {
	alert.Status
	Seen    *time.Time `json:"seen,omitempty"`
	Comment string     `json:"comment,omitempty"`
	Rule    string     `json:"rule"`
	Program string     `json:"program"`
}

// alarmList answers every alarm: those that fire first.
func (c *Console) alarmList(w http.ResponseWriter, r *http.Request) {
	out := struct {
		On       bool            `json:"on"`
		Alarms   []alarmRow      `json:"alarms"`
		Silences []alert.Silence `json:"silences"`
		Waiting  map[string]int  `json:"waiting"`
	}{Alarms: []alarmRow{}, Silences: []alert.Silence{}}
	if c.alarms.cfg == nil {
		answer(w, out)
		return
	}
	report, err := alert.ReadReport(c.alarms.cfg, c.alarms.state, c.now())
	var seen []acknowledged
	if err == nil {
		seen, err = c.alarms.seen()
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	out.On, out.Waiting, out.Silences = true, report.Waiting, append(out.Silences, report.Silences...)
	for _, st := range report.Alerts {
		row := alarmRow{Status: st}
		for i := range seen {
			if st.Incident != "" && seen[i].Incident == st.Incident {
				row.Seen, row.Comment = &seen[i].At, seen[i].Comment
			}
		}
		for i := range c.alarms.cfg.Rules {
			if rule := &c.alarms.cfg.Rules[i]; rule.Name == st.Alert {
				row.Rule, row.Program = rule.When, rule.Program
			}
		}
		out.Alarms = append(out.Alarms, row)
	}
	slices.SortStableFunc(out.Alarms, func(a, b alarmRow) int { return urgency(&a) - urgency(&b) })
	answer(w, out)
}

// urgency sorts alarms: firing ones that nobody has seen first.
func urgency(a *alarmRow) int {
	switch {
	case a.State == alert.StateFiring && a.Seen == nil:
		return 0
	case a.State == alert.StateFiring:
		return 1
	case a.State == "ok":
		return 3
	}
	return 2
}

// seen acknowledges an alarm.
func (c *Console) seen(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Incident string `json:"incident"`
		Comment  string `json:"comment"`
	}
	if !read(w, r, &ask) {
		return
	}
	if c.alarms.cfg == nil || ask.Incident == "" || len(ask.Comment) > maxComment {
		refuse(w, http.StatusBadRequest, "name an alarm that fires; a comment has at most 256 bytes")
		return
	}
	fires, err := c.alarms.acknowledge(acknowledged{ask.Incident, c.now(), ask.Comment}, c.now())
	switch {
	case err != nil:
		c.fail(w, r, err)
		return
	case !fires:
		refuse(w, http.StatusConflict, "this alarm does not fire any more")
		return
	}
	c.log.Info("console: alarm acknowledged", "incident", ask.Incident, "from", r.RemoteAddr)
	c.live.alarmsChanged()
	answer(w, struct{}{})
}

// quiet is what a request says about a silence.
type quiet struct {
	Rule    string `json:"rule"`
	Device  string `json:"device"`
	Minutes int    `json:"minutes"`
	Comment string `json:"comment"`
}

// maxSilence is the longest silence that the page sets, in minutes.
const maxSilence = 30 * 24 * 60

// readQuiet reads a request about a silence of a rule that there is.
func (c *Console) readQuiet(w http.ResponseWriter, r *http.Request) (q quiet, ok bool) {
	if !read(w, r, &q) {
		return q, false
	}
	known := q.Rule == ""
	if c.alarms.cfg != nil {
		for i := range c.alarms.cfg.Rules {
			known = known || c.alarms.cfg.Rules[i].Name == q.Rule
		}
	}
	if c.alarms.cfg == nil || !known || len(q.Comment) > maxComment || len(q.Device) > maxComment {
		refuse(w, http.StatusBadRequest, "there is no such alarm, or the text is too long")
		return q, false
	}
	return q, true
}

func (c *Console) silence(w http.ResponseWriter, r *http.Request) {
	q, ok := c.readQuiet(w, r)
	if !ok {
		return
	}
	if q.Minutes < 1 || q.Minutes > maxSilence {
		refuse(w, http.StatusBadRequest, "a silence lasts one minute to 30 days")
		return
	}
	now := c.now()
	s := alert.Silence{Rule: q.Rule, Device: q.Device, From: now, To: now.Add(time.Duration(q.Minutes) * time.Minute),
		Comment: q.Comment}
	c.editSilences(w, r, func(list []alert.Silence) []alert.Silence { return append(list, s) })
}

// unsilence ends silences that a command or the page has set: those of exactly a rule and device.
func (c *Console) unsilence(w http.ResponseWriter, r *http.Request) {
	q, ok := c.readQuiet(w, r)
	if !ok {
		return
	}
	c.editSilences(w, r, func(list []alert.Silence) []alert.Silence {
		return slices.DeleteFunc(list, func(s alert.Silence) bool { return s.Rule == q.Rule && s.Device == q.Device })
	})
}

func (c *Console) editSilences(w http.ResponseWriter, r *http.Request, edit func([]alert.Silence) []alert.Silence) {
	if err := alert.EditSilences(c.alarms.state, c.now(), edit); err != nil {
		c.fail(w, r, err)
		return
	}
	c.log.Info("console: silences changed", "from", r.RemoteAddr)
	c.live.alarmsChanged()
	answer(w, struct{}{})
}

// watchAlarms tells browsers when the alarms or silences on disk change, until ctx ends.
func (c *Console) watchAlarms(ctx context.Context) {
	if c.alarms.cfg == nil {
		return
	}
	type stamp struct {
		size int64
		at   time.Time
	}
	look := func() (out [2]stamp) {
		for i, suffix := range []string{alert.StateSuffix, alert.SilenceSuffix} {
			if info, err := os.Stat(c.alarms.state + suffix); err == nil {
				out[i] = stamp{info.Size(), info.ModTime()}
			}
		}
		return out
	}
	last := look()
	for role.Sleep(ctx, alarmsEvery) == nil {
		if now := look(); now != last {
			last = now
			c.live.alarmsChanged()
		}
	}
}

const alarmsEvery = 500 * time.Millisecond
