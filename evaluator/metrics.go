package evaluator

import (
	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of a service. Refusals have a sample for every reason from the
// start, so that a rate exists before the first one.
var (
	descAccepted = describe("windows_accepted_total", "Windows that passed every check.")
	descRefused  = describe("refused_total", "Messages, windows and results refused or lost.", "reason")
	descResults  = describe("results_total", "Results acknowledged by the broker.", "program")
	descFailed   = describe("results_failed_total", "Results that could not be computed or sent.", "program")
	descBytes    = describe("result_bytes_total", "Bytes of sealed results.", "program")
	descSeconds  = describe("evaluate_seconds_total", "Time spent computing on ciphertexts.", "program")
	descPromise  = describe("promised_error", "Error that is promised for full windows, in the unit of the result.", "program")
	descFallback = describe("fallbacks_total", "Devices that failed or ran out of memory, whose work went elsewhere.")
	descBoot     = describe("boot_epoch", "Boot epoch of this start.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hencedge_evaluator_"+name, help, labels, nil)
}

// Describe makes a Service a prometheus.Collector of its Stats.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descAccepted, descRefused, descResults, descFailed, descBytes, descSeconds, descPromise, descFallback, descBoot} {
		ch <- d
	}
}

// Collect gives the counts as they are now.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	st := s.Stats()
	count(descAccepted, float64(st.Accepted))
	for _, reason := range Reasons() {
		count(descRefused, float64(st.Refused[reason]), reason)
	}
	for i := range s.plan.Programs {
		p := &s.plan.Programs[i]
		ps := st.Programs[p.Name]
		count(descResults, float64(ps.Results), p.Name)
		count(descFailed, float64(ps.Failed), p.Name)
		count(descBytes, float64(ps.Bytes), p.Name)
		count(descSeconds, ps.Evaluate.Seconds(), p.Name)
		ch <- prometheus.MustNewConstMetric(descPromise, prometheus.GaugeValue, p.Circuit.Output().Bound, p.Name)
	}
	count(descFallback, float64(st.Fallbacks))
	ch <- prometheus.MustNewConstMetric(descBoot, prometheus.GaugeValue, float64(s.state.boot()))
}

var _ prometheus.Collector = (*Service)(nil)
