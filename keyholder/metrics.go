package keyholder

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	descRead = prometheus.NewDesc("hencedge_keyholder_results_total", "Results that were verified and decrypted.",
		[]string{"program"}, nil)
	descLost = prometheus.NewDesc("hencedge_keyholder_state_damaged_total",
		"Damaged records of the state, which were lost.", nil, nil)
	descGaps = prometheus.NewDesc("hencedge_keyholder_gaps_total", "Gaps in time between the results of a program.",
		[]string{"program"}, nil)
	descGone = prometheus.NewDesc("hencedge_keyholder_gap_seconds_total", "Length of the gaps in time between results.",
		[]string{"program"}, nil)
	descBack = prometheus.NewDesc("hencedge_keyholder_results_backward_total",
		"Results that begin no later than an earlier one: late, or of samples that were sent again.",
		[]string{"program"}, nil)
	descNot = prometheus.NewDesc("hencedge_keyholder_refused_total", "Objects refused, by class.",
		[]string{"class"}, nil)
)

var _ prometheus.Collector = (*Tally)(nil)

// Describe makes a Tally a prometheus.Collector.
func (t *Tally) Describe(ch chan<- *prometheus.Desc) {
	ch <- descRead
	ch <- descNot
	ch <- descLost
	ch <- descGaps
	ch <- descGone
	ch <- descBack
}

// Collect gives the counts as they are now; every class is there from the start.
func (t *Tally) Collect(ch chan<- prometheus.Metric) {
	read, refused := t.Counts()
	for program, n := range read {
		ch <- prometheus.MustNewConstMetric(descRead, prometheus.CounterValue, float64(n), program)
	}
	t.mu.Lock()
	for program, o := range t.byProgram() {
		ch <- prometheus.MustNewConstMetric(descGaps, prometheus.CounterValue, float64(o.gaps), program)
		ch <- prometheus.MustNewConstMetric(descGone, prometheus.CounterValue, o.missing.Seconds(), program)
		ch <- prometheus.MustNewConstMetric(descBack, prometheus.CounterValue, float64(o.backward), program)
	}
	t.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(descLost, prometheus.CounterValue, float64(t.Damaged()))
	for _, class := range Classes() {
		ch <- prometheus.MustNewConstMetric(descNot, prometheus.CounterValue, float64(refused[class]), class)
	}
}

// byProgram returns the sums of what was noted of each program's results; mu is held.
func (t *Tally) byProgram() map[string]*order {
	out := map[string]*order{}
	for id, o := range t.orders {
		sum := out[id.program]
		if sum == nil {
			sum = new(order)
			out[id.program] = sum
		}
		sum.gaps, sum.missing, sum.backward = sum.gaps+o.gaps, sum.missing+o.missing, sum.backward+o.backward
	}
	return out
}
