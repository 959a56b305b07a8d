package keyholder

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	descRead = prometheus.NewDesc("hencedge_keyholder_results_total", "Results that were verified and decrypted.", []string{"program"}, nil)
	descLost = prometheus.NewDesc("hencedge_keyholder_state_damaged_total", "Records of the memory of results that were lost to damage.", nil, nil)
	descNot  = prometheus.NewDesc("hencedge_keyholder_refused_total", "Objects refused, by class.", []string{"class"}, nil)
)

var _ prometheus.Collector = (*Tally)(nil)

// Describe makes a Tally a prometheus.Collector.
func (t *Tally) Describe(ch chan<- *prometheus.Desc) {
	ch <- descRead
	ch <- descNot
	ch <- descLost
}

// Collect gives the counts as they are now; every class is there from the start.
func (t *Tally) Collect(ch chan<- prometheus.Metric) {
	read, refused := t.Counts()
	for program, n := range read {
		ch <- prometheus.MustNewConstMetric(descRead, prometheus.CounterValue, float64(n), program)
	}
	ch <- prometheus.MustNewConstMetric(descLost, prometheus.CounterValue, float64(t.Damaged()))
	for _, class := range Classes() {
		ch <- prometheus.MustNewConstMetric(descNot, prometheus.CounterValue, float64(refused[class]), class)
	}
}
