package store

import "github.com/prometheus/client_golang/prometheus"

var (
	descStored = prometheus.NewDesc("hencedge_keyholder_stored_total",
		"Results that were new to the database, since the start.", nil, nil)
	descWaiting = prometheus.NewDesc("hencedge_keyholder_database_waiting",
		"1 while a result waits because the database takes nothing.", nil, nil)
	descSize = prometheus.NewDesc("hencedge_keyholder_database_bytes",
		"Size of the database of results, looked at every minute.", nil, nil)
)

var _ prometheus.Collector = (*Store)(nil)

// Describe makes a Store a prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	ch <- descStored
	ch <- descWaiting
	ch <- descSize
}

// Collect gives the counts as they are now.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	waiting := 0.0
	if s.waiting.Load() != nil {
		waiting = 1
	}
	ch <- prometheus.MustNewConstMetric(descStored, prometheus.CounterValue, float64(s.stored.Load()))
	ch <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, waiting)
	ch <- prometheus.MustNewConstMetric(descSize, prometheus.GaugeValue, float64(s.size.Load()))
}
