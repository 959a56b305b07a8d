package evaluator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/evaluator/interval"
	"github.com/hencedge/hencedge/internal/traces"
	"github.com/hencedge/hencedge/transport"
)

// The metrics of a service. Refusals have a sample for every reason from the
// start, so that a rate exists before the first one.
var (
	descAccepted = describe("windows_accepted_total", "Windows that passed every check.")
	descTwins    = describe("windows_twin_total", "Windows that passed every check and come from a second board with "+
		"the same identity.")
	descRefused = describe("refused_total", "Messages, windows and results refused or lost.", "reason")
	descResults = describe("results_total", "Results acknowledged by the broker.", "program")
	descFailed  = describe("results_failed_total", "Results that could not be computed or sent.", "program")
	descBytes   = describe("result_bytes_total", "Bytes of sealed results.", "program")
	descSeconds = describe("evaluate_seconds_total", "Time spent computing on ciphertexts.", "program")
	descPromise = describe("promised_error", "Error that is promised for full windows, in the unit of the result.",
		"program")
	descBatches  = describe("batches_total", "Runs of one or more results together.")
	descFallback = describe("fallbacks_total", "Devices that failed or ran out of memory, whose work went elsewhere.")
	descInbox    = describe("store_windows", "Windows in the store.")
	descInBytes  = describe("store_window_bytes", "Bytes of windows in the store.")
	descOutbox   = describe("store_results", "Results in the store that are not delivered yet.")
	descOutBytes = describe("store_result_bytes", "Bytes of results in the store that are not delivered yet.")
	descWaiting  = describe("program_results_waiting", "Results of a program in the store that are not delivered yet.",
		"program")
	descWaitByte = describe("program_results_waiting_bytes",
		"Bytes of results of a program in the store that are not delivered yet.", "program")
	descWaitAge = describe("program_results_waiting_seconds",
		"Age of the oldest result of a program that is not delivered yet.", "program")
	descShare = describe("program_share_bytes", "Bytes that the results of a program may take in the store.",
		"program")
	descUnread = describe("program_unread", "1 while results of other programs are delivered and those of this one "+
		"are not.", "program")
	descSkipped = describe("results_skipped_total", "Results that were not made, since nobody takes those of the "+
		"program and they fill its share of the store.", "program")
	descMissing = describe("windows_missing", "Windows of a device that have not come, of all streams: later numbers "+
		"of the same start have.", "device")
	descClassMissing = describe("class_windows_missing", "Windows that have not come, of all streams of all devices "+
		"of a class.", "class")
	descClassDevices = describe("class_devices", "Devices of a class: configured and enrolled.", "class")
	descLeftOut      = describe("enrolled_left_out", "Mistakes in the files of enrolled devices, which are left out.")
	descKnown        = describe("windows_repeated_total", "Windows that came again and were recognised by content id.")
	descReceipts     = describe("receipts_total", "Receipts sent.")
	descAsks         = describe("asks_total", "Questions of devices answered.")
	descSent         = describe("results_delivered_total", "Results that left the store.")
	descRetries      = describe("result_retries_total", "Attempts to deliver a result that failed.")
	descDamaged      = describe("store_damaged_total", "Files of the store lost to damage.")
	descBoot         = describe("boot_epoch", "Boot epoch of this start.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hencedge_evaluator_"+name, help, labels, nil)
}

// Describe makes a Service a prometheus.Collector of its Stats.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descAccepted, descTwins, descRefused, descResults, descFailed, descBytes,
		descSeconds, descPromise, descBatches, descFallback, descBoot,
		descInbox, descInBytes, descOutbox, descOutBytes, descKnown, descReceipts, descAsks, descSent, descRetries,
		descDamaged, descWaiting, descWaitByte, descWaitAge, descShare, descUnread, descSkipped, descMissing,
		descClassMissing, descClassDevices, descLeftOut} {
		ch <- d
	}
	s.stages.all.Describe(ch)
	s.traces.Describe(ch)
}

// Collect sends the counts as they are now.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	s.traces.Collect(ch)
	st := s.Stats()
	count(descAccepted, float64(st.Accepted))
	count(descTwins, float64(st.Twins))
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
	count(descBatches, float64(st.Batches))
	count(descFallback, float64(st.Fallbacks))
	s.stages.all.Collect(ch)
	if len(s.cfg.Classes) > 0 {
		for class, n := range s.roster.counts() {
			ch <- prometheus.MustNewConstMetric(descClassDevices, prometheus.GaugeValue, float64(n), class)
		}
		ch <- prometheus.MustNewConstMetric(descLeftOut, prometheus.GaugeValue, float64(s.roster.leftOut()))
	}
	s.custody.collect(ch)
	ch <- prometheus.MustNewConstMetric(descBoot, prometheus.GaugeValue, float64(s.state.Boot()))
}

// The stages of a window and its results, in their order (stageNames).
const (
	stageReceive = iota // its chunks taken, put together and hashed
	stageQueue          // complete, until an intake takes it
	stageVerify         // signature, allow-lists, replay
	stageDecode         // header and body checked, the ciphertext read onto a device
	stageTurn           // until the earlier windows of its stream are taken
	stageStore          // onto the disk, with a store
	stageJoin           // the jobs that the window completes
	stageWait           // of a job, until its computation starts
	stageCompute        // the circuit, and its result read back and packed
	stageOrder          // until earlier results of the program are made, with a store; of a pack, those before it
	stagePack           // until its pack is full or due, and made; packed results only
	stageSeal           // number, header, signature
	stagePublish        // until the broker has acknowledged the result, or the store has it
	numStages
)

var stageNames = [numStages]string{"receive", "queue", "verify", "decode", "turn", "store", "join", "wait", "compute",
	"order", "pack", "seal", "publish"}

// stages measures how long windows and results are in each stage: a histogram for each,
// in seconds by the wall clock. It is safe for concurrent use.
type stages struct {
	all *prometheus.HistogramVec
	of  [numStages]prometheus.Observer
}

func newStages() *stages {
	s := &stages{all: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "hencedge_evaluator_stage_seconds", Help: "Time of a window or a result in a stage of its way.",
		Buckets: prometheus.ExponentialBuckets(20e-6, 4, 10), // 20 us to 5 s
	}, []string{"stage"})}
	for i, name := range stageNames {
		s.of[i] = s.all.WithLabelValues(name)
	}
	return s
}

// took notes that something was in a stage for d.
func (s *stages) took(stage int, d time.Duration) { s.of[stage].Observe(d.Seconds()) }

// since notes that something was in a stage from start until now.
func (s *stages) since(stage int, start time.Time) { s.took(stage, time.Since(start)) }

// tracedWindow exports the arrival of a window that passed every check: from its first message to
// its place in line.
func (s *Service) tracedWindow(o staged, v verdict, now time.Time) {
	if v.err != nil || v.w == nil || !s.traces.Wants(v.w.id) {
		return
	}
	span := traces.Reading(&v.w.meta, v.w.id, o.Size())
	span.Name, span.Start, span.End = "receive", o.at.Add(-o.Took), now
	s.traces.Add(span)
}

// tracedResult exports what became of the last window of a result: its wait from arrived on, the
// computation from began to over, and the way out until now. id is that of the sealed object. Of a
// sum across devices it also exports from when to when its windows came.
func (p *pipeline) tracedResult(m *transport.Meta, id [32]byte, bytes int, sum *interval.Sum, arrived, began,
	over time.Time) {
	if p.traces == nil {
		return
	}
	span, ok := traces.Result(m, id, bytes)
	if !ok || !p.traces.Takes(&span) {
		return
	}
	if sum != nil {
		collect := span
		collect.Name, collect.ID, collect.Parent = "collect", span.Parent, traces.SpanID{}
		collect.Links, collect.Start, collect.End = sum.IDs(), arrived, arrived
		for i := range sum.Windows {
			if at := sum.Windows[i].At; at.Before(collect.Start) {
				collect.Start = at
			}
		}
		p.traces.Add(collect)
	}
	for _, step := range []struct {
		name       string
		start, end time.Time
		id         traces.SpanID
	}{{"queue", arrived, began, traces.SpanID{}}, {"compute", began, over, traces.SpanID{}},
		{"publish", over, time.Now(), traces.Published(id, m.Program, m.Subject)}} {
		span.Name, span.Start, span.End, span.ID = step.name, step.start, step.end, step.id
		p.traces.Add(span)
	}
}
