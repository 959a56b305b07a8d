package agent

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/agent/sensor"
)

// metric is one exported count.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

func perStream(name, help string, value func(StreamStats) float64) metric[StreamStats] {
	return metric[StreamStats]{prometheus.NewDesc("hencedge_agent_"+name, help, []string{"stream"}, nil),
		prometheus.CounterValue, value}
}

func perAgent(name, help string, kind prometheus.ValueType, value func(Stats) float64) metric[Stats] {
	return metric[Stats]{prometheus.NewDesc("hencedge_agent_"+name, help, nil, nil), kind, value}
}

var streamMetrics = []metric[StreamStats]{
	perStream("samples_total", "Samples that went into windows.",
		func(s StreamStats) float64 { return float64(s.Samples) }),
	perStream("samples_skipped_total", "Samples left out.", func(s StreamStats) float64 { return float64(s.Skipped) }),
	perStream("values_missing_total", "Channel values that could not be read.",
		func(s StreamStats) float64 { return float64(s.Missing) }),
	perStream("values_held_total", "Missing values replaced by the last good one.",
		func(s StreamStats) float64 { return float64(s.Held) }),
	perStream("values_outside_total", "Channel values out of range.",
		func(s StreamStats) float64 { return float64(s.Outside) }),
	perStream("values_clamped_total", "Values moved to the end of the range.",
		func(s StreamStats) float64 { return float64(s.Clamped) }),
	perStream("samples_overflow_total", "Samples beyond the capacity of a window.",
		func(s StreamStats) float64 { return float64(s.Overflow) }),
	perStream("ticks_missed_total", "Ticks left out because sampling was late.",
		func(s StreamStats) float64 { return float64(s.MissedTicks) }),
	perStream("ticks_marked_total", "Missed ticks that were replaced by missing samples.",
		func(s StreamStats) float64 { return float64(s.Marked) }),
	perStream("samples_late_total", "Samples that came too late for their window.",
		func(s StreamStats) float64 { return float64(s.Late) }),
	perStream("replay_bad_cells_total", "Cells of a replay that are not numbers and were taken as missing.",
		func(s StreamStats) float64 { return float64(s.BadCells) }),
	perStream("replay_rows_skipped_total", "Rows of a replay left out because of a cell.",
		func(s StreamStats) float64 { return float64(s.BadRows) }),
	perStream("clock_steps_total", "Windows cut short because the clock was set or the machine slept.",
		func(s StreamStats) float64 { return float64(s.ClockSteps) }),
	perStream("windows_total", "Windows encrypted and signed.",
		func(s StreamStats) float64 { return float64(s.Windows) }),
	perStream("windows_partial_total", "Windows with fewer samples than they hold.",
		func(s StreamStats) float64 { return float64(s.Partial) }),
	perStream("windows_lost_total", "Windows that could not be encrypted or signed.",
		func(s StreamStats) float64 { return float64(s.Errors) }),
	perStream("object_bytes_total", "Bytes of sealed windows.",
		func(s StreamStats) float64 { return float64(s.ObjectBytes) }),
	perStream("gap_seconds_total", "Time before this start for which there are no samples.",
		func(s StreamStats) float64 { return float64(s.GapNanos) / 1e9 }),
	perStream("encrypt_seconds_total", "Time spent encoding and encrypting.",
		func(s StreamStats) float64 { return float64(s.EncryptNanos) / 1e9 }),
}

// The state of the connection, as `agent status` shows it.
var (
	descConnected = prometheus.NewDesc("hencedge_agent_connected", "1 while there is a connection to the broker.", nil,
		nil)
	descLastAck = prometheus.NewDesc("hencedge_agent_last_ack_timestamp_seconds",
		"Unix time at which the last window was acknowledged.", nil, nil)
)

// connection tells of the link.
func (a *Agent) connection(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	connected := 0.0
	if a.Connected() {
		connected = 1
	}
	gauge(descConnected, connected)
	a.link.mu.Lock()
	ack := a.link.lastAck.wall
	a.link.mu.Unlock()
	if !ack.IsZero() {
		gauge(descLastAck, float64(ack.UnixMilli())/1e3)
	}
}

var agentMetrics = []metric[Stats]{
	perAgent("boot_epoch", "Boot epoch of this start.", prometheus.GaugeValue,
		func(s Stats) float64 { return float64(s.Boot) }),
	perAgent("queue_objects", "Sealed windows that wait.", prometheus.GaugeValue,
		func(s Stats) float64 { return float64(s.Spool.Objects) }),
	perAgent("queue_bytes", "Bytes of sealed windows that wait.", prometheus.GaugeValue,
		func(s Stats) float64 { return float64(s.Spool.Bytes) }),
	perAgent("queue_memory_objects",
		"Sealed windows that wait in memory: because the disk takes nothing, or all of them without a spool.",
		prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Spool.MemoryObjects) }),
	perAgent("queue_oldest_seconds", "Age of the oldest window that waits.", prometheus.GaugeValue,
		func(s Stats) float64 { return s.Spool.Oldest.Seconds() }),
	perAgent("queue_expired_total", "Sealed windows lost to age.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Spool.Expired) }),
	perAgent("spool_damaged_total", "Sealed windows lost to damage; their files are in the quarantine.",
		prometheus.CounterValue, func(s Stats) float64 { return float64(s.Spool.Damaged) }),
	perAgent("spool_repaired_total", "Spool files completed, cut to their length, or restored from the mirror.",
		prometheus.CounterValue, func(s Stats) float64 { return float64(s.Spool.Repaired) }),
	perAgent("spool_write_errors_total", "Writes that the disk refused.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Spool.WriteErrors) }),
	perAgent("spool_written_bytes_total", "Bytes written into spool files.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Spool.Written) }),
	perAgent("spool_syncs_total", "Flushes of spool files and directories.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Spool.Syncs) }),
	perAgent("queue_dropped_total", "Sealed windows lost to a full queue.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Spool.Dropped) }),
	perAgent("sent_total", "Sealed windows delivered, at the acknowledgement level of their streams.",
		prometheus.CounterValue, func(s Stats) float64 { return float64(s.Sent) }),
	perAgent("sent_bytes_total", "Bytes of sealed windows delivered.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.SentBytes) }),
	perAgent("send_retries_total", "Sends that failed and were tried again.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Retries) }),
	perAgent("live_sent_total", "Sealed windows delivered before older ones, because they were live data.",
		prometheus.CounterValue, func(s Stats) float64 { return float64(s.Delivery.Live) }),
	perAgent("chunks_total", "Messages acknowledged by the broker.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Delivery.Chunks) }),
	perAgent("chunk_bytes_total", "Bytes of messages acknowledged by the broker.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Delivery.ChunkBytes) }),
	perAgent("chunks_skipped_total", "Chunks not sent again because the evaluator had them.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Delivery.Skipped) }),
	perAgent("chunk_size_bytes",
		"Size of chunks in use: below that of the configuration where the broker drops larger ones.",
		prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Delivery.ChunkSize) }),
	perAgent("asks_total", "Questions to the evaluator what it has of a window.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Delivery.Asks) }),
	perAgent("receipts_total", "Signed receipts that counted.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Delivery.Receipts) }),
	perAgent("receipts_bad_total", "Receipts that did not verify.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Delivery.Forged) }),
	perAgent("receiver_refused_total", "Refusals by the evaluator.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Delivery.Refused) }),
	perAgent("windows_delivered_before_total",
		"Windows of an earlier process that the evaluator had already: many mean that the spool is an old copy.",
		prometheus.CounterValue, func(s Stats) float64 { return float64(s.Delivery.Before) }),
	perAgent("windows_renumbered_total", "Windows whose number another board, or an older copy of this one, had used.",
		prometheus.CounterValue, func(s Stats) float64 { return float64(s.Delivery.Renumbered) }),
	perAgent("send_throttled_seconds_total", "Time spent waiting for the bandwidth cap.", prometheus.CounterValue,
		func(s Stats) float64 { return s.Delivery.Throttled.Seconds() }),
	perAgent("send_closed", "1 while the configured hours forbid sending.", prometheus.GaugeValue,
		func(s Stats) float64 {
			if s.Delivery.Closed {
				return 1
			}
			return 0
		}),
	perAgent("fallbacks_total", "GPUs that failed while they encrypted.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Fallbacks) }),
	perAgent("send_refused_total", "Sealed windows that can never be sent.", prometheus.CounterValue,
		func(s Stats) float64 { return float64(s.Refused) }),
}

func perInput(name, help string, value func(sensor.InputStats) uint64) metric[sensor.InputStats] {
	return metric[sensor.InputStats]{prometheus.NewDesc("hencedge_agent_input_"+name, help, []string{"input"}, nil),
		prometheus.CounterValue,
		func(s sensor.InputStats) float64 { return float64(value(s)) }}
}

var inputMetrics = []metric[sensor.InputStats]{
	perInput("values_total", "Values received.", func(s sensor.InputStats) uint64 { return s.Values }),
	perInput("bad_total", "Values received that could not be used.", func(s sensor.InputStats) uint64 { return s.Bad }),
	perInput("failures_total", "Polls and connections that failed.",
		func(s sensor.InputStats) uint64 { return s.Failures }),
}

func perBoard(name, help string, kind prometheus.ValueType,
	value func(sensor.Energy) (float64, bool)) metric[sensor.Energy] {
	return metric[sensor.Energy]{prometheus.NewDesc("hencedge_agent_"+name, help, []string{"sensor", "scope"}, nil),
		kind, func(e sensor.Energy) float64 {
			if v, ok := value(e); ok {
				return v
			}
			return math.NaN() // left out
		}}
}

// energyMetrics are there on boards with a power sensor only.
var energyMetrics = []metric[sensor.Energy]{
	perBoard("energy_joules_total", "Energy of what the sensor covers, since the start.", prometheus.CounterValue,
		func(e sensor.Energy) (float64, bool) { return e.Joules, true }),
	perBoard("energy_seconds_total", "Time that this energy covers.", prometheus.CounterValue,
		func(e sensor.Energy) (float64, bool) { return e.Seconds, true }),
	perBoard("energy_failures_total", "Readings of the power sensor that failed.", prometheus.CounterValue,
		func(e sensor.Energy) (float64, bool) { return float64(e.Failures), true }),
	perBoard("energy_watts", "Mean power over the last five minutes.", prometheus.GaugeValue,
		func(e sensor.Energy) (float64, bool) { return e.Recent.Watts, e.Recent.Seconds > 0 }),
	perBoard("energy_joules_per_reading", "Energy for each sample over the last five minutes.", prometheus.GaugeValue,
		func(e sensor.Energy) (float64, bool) { return e.Recent.PerReading, e.Recent.PerReading > 0 }),
	perBoard("energy_own_joules", "Estimate of the agent's part: energy times its share of the busy processor time.",
		prometheus.GaugeValue, func(e sensor.Energy) (float64, bool) {
			if e.Own == nil {
				return 0, false
			}
			return *e.Own, true
		}),
}

// Describe makes an Agent a prometheus.Collector of its Stats.
func (a *Agent) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range streamMetrics {
		ch <- m.desc
	}
	for _, m := range agentMetrics {
		ch <- m.desc
	}
	for _, m := range inputMetrics {
		ch <- m.desc
	}
	for _, m := range energyMetrics {
		ch <- m.desc
	}
	for _, d := range []*prometheus.Desc{descConnected, descLastAck} {
		ch <- d
	}
	a.tracing.out.Describe(ch)
}

// Collect sends the counts as they are now.
func (a *Agent) Collect(ch chan<- prometheus.Metric) {
	a.connection(ch)
	a.tracing.out.Collect(ch)
	s := a.Stats()
	for _, m := range agentMetrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s))
	}
	if e := a.Energy(); e.Sensor != "" {
		for _, m := range energyMetrics {
			if v := m.value(e); !math.IsNaN(v) {
				ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, e.Sensor, string(e.Scope))
			}
		}
	}
	for name, in := range s.Inputs {
		for _, m := range inputMetrics {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(in), name)
		}
	}
	for name, st := range s.Streams {
		for _, m := range streamMetrics {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(st), name)
		}
	}
}

var _ prometheus.Collector = (*Agent)(nil)
