package alert

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are what has happened since the start.
type counts struct {
	*sync.Mutex
	undecided, late map[string]uint64 // windows, by rule
	events          map[[2]string]uint64
	sent, failed    map[string]uint64 // by receiver
	dropped         uint64
	reported        map[string]bool
}

func newCounts() counts {
	return counts{new(sync.Mutex), map[string]uint64{}, map[string]uint64{}, map[[2]string]uint64{},
		map[string]uint64{},
		map[string]uint64{}, 0, map[string]bool{}}
}

// once reports whether this is the first call with what. It remembers few.
func (c *counts) once(what string) bool {
	c.Lock()
	defer c.Unlock()
	if c.reported[what] || len(c.reported) > 64 {
		return false
	}
	c.reported[what] = true
	return true
}

func (c *counts) window(rule string, undecided, late bool) {
	c.Lock()
	defer c.Unlock()
	if undecided {
		c.undecided[rule]++
	}
	if late {
		c.late[rule]++
	}
}

func (c *counts) event(e *Event) {
	c.Lock()
	defer c.Unlock()
	c.events[[2]string{e.Alert, e.State}]++
}

func (c *counts) delivered(receiver string, taken bool) {
	c.Lock()
	defer c.Unlock()
	if taken {
		c.sent[receiver]++
	} else {
		c.failed[receiver]++
	}
}

func (c *counts) lost(n int) {
	c.Lock()
	defer c.Unlock()
	c.dropped += uint64(n)
}

const prefix = "hencedge_keyholder_alert"

var (
	descFiring = prometheus.NewDesc(prefix+"s_firing", "Alarms that fire.", []string{"alert", "severity"}, nil)
	descSilent = prometheus.NewDesc(prefix+"s_silenced", "Alarms that fire and were not sent because of a silence.",
		[]string{"alert"}, nil)
	descEvents = prometheus.NewDesc(prefix+"_events_total", "Events of alarms, by state.", []string{"alert",
		"state"}, nil)
	descUndecided = prometheus.NewDesc(prefix+"_windows_undecided_total",
		"Windows whose value is nearer to the threshold than its promised bound.", []string{"alert"}, nil)
	descLate = prometheus.NewDesc(prefix+"_windows_late_total",
		"Windows that came after a newer one and did not count.",
		[]string{"alert"}, nil)
	descSent = prometheus.NewDesc(prefix+"_deliveries_total", "Events that a receiver has taken.", []string{"receiver"},
		nil)
	descFailed = prometheus.NewDesc(prefix+"_delivery_failures_total", "Attempts to deliver that failed.",
		[]string{"receiver"}, nil)
	descWaiting = prometheus.NewDesc(prefix+"_events_waiting", "Events that a receiver has not taken yet.",
		[]string{"receiver"}, nil)
	descOldest = prometheus.NewDesc(prefix+"_waiting_seconds", "Age of the oldest event that a receiver has not taken.",
		[]string{"receiver"}, nil)
	descDropped = prometheus.NewDesc(prefix+"_events_dropped_total", "Events dropped because too many waited.", nil,
		nil)
)

var _ prometheus.Collector = (*Alarms)(nil)

// Describe makes Alarms a prometheus.Collector.
func (a *Alarms) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descFiring, descSilent, descEvents, descUndecided, descLate, descSent,
		descFailed, descWaiting, descOldest, descDropped} {
		ch <- d
	}
}

// Collect gives the counts as they are now; every rule and receiver is there from the start.
func (a *Alarms) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	total := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	firing, silent, waiting, oldest := map[string]int{}, map[string]int{}, map[string]int{}, map[string]time.Time{}
	a.mu.Lock()
	for key, al := range a.alarms {
		if al.Firing {
			firing[key.Rule]++
			if !al.Told {
				silent[key.Rule]++
			}
		}
	}
	for _, q := range a.queue {
		for _, name := range q.To {
			if waiting[name]++; waiting[name] == 1 {
				oldest[name] = q.Event.At
			}
		}
	}
	a.mu.Unlock()
	now := a.o.Now()
	a.counts.Lock()
	defer a.counts.Unlock()
	for _, r := range a.rules {
		gauge(descFiring, float64(firing[r.Name]), r.Name, r.Severity)
		gauge(descSilent, float64(silent[r.Name]), r.Name)
		for _, state := range []string{StateFiring, StateResolved} {
			total(descEvents, a.counts.events[[2]string{r.Name, state}], r.Name, state)
		}
		total(descUndecided, a.counts.undecided[r.Name], r.Name)
		total(descLate, a.counts.late[r.Name], r.Name)
	}
	for _, l := range a.lanes {
		total(descSent, a.counts.sent[l.name], l.name)
		total(descFailed, a.counts.failed[l.name], l.name)
		gauge(descWaiting, float64(waiting[l.name]), l.name)
		age := 0.0
		if waiting[l.name] > 0 {
			age = max(now.Sub(oldest[l.name]).Seconds(), 0)
		}
		gauge(descOldest, age, l.name)
	}
	total(descDropped, a.counts.dropped)
}
