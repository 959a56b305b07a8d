package benchmark

import (
	"fmt"
	"io"
	"strings"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// OpEvaluator is the operation of a LoadRecord.
const OpEvaluator = "evaluator"

// LoadRecord is one line of "hencedge bench evaluator --json": a service under load.
type LoadRecord struct {
	Op     string `json:"op"`     // OpEvaluator
	Method string `json:"method"` // LoadMax, LoadRate or LoadHalf
	Params string `json:"params"` // named parameter set
	LogN   int    `json:"logN"`   // ring degree 2^logN
	Limbs  int    `json:"limbs"`  // of the windows
	Dnum   int    `json:"dnum"`   // digits of key switching, 0 where the set has none

	Backend string `json:"backend"` // cutrantt backend of the service
	Device  string `json:"device"`  // hardware in words, of the first device
	GPUs    int    `json:"gpus"`    // devices that the service computes on, if they are GPUs
	Cores   int    `json:"cores"`   // processors that Go may use, in all
	Workers int    `json:"workers"` // of the service
	Broker  string `json:"broker"`  // "none": in process; "embedded"; or its URL

	Devices  int      `json:"devices"`  // that send
	Programs []string `json:"programs"` // expressions; each for every device unless it has a name in front
	Samples  int      `json:"samples"`  // of a window, per channel
	Channels int      `json:"channels"`
	Rotation int      `json:"rotation"` // different ciphertexts of each device
	Seeded   bool     `json:"seeded"`
	Compact  int      `json:"compact,omitempty"` // bits of precision of compact windows; 0: they are large
	Places   int      `json:"places,omitempty"`  // windows of a class that share a ciphertext once added up; 0: none
	Pack     int      `json:"pack,omitempty"`    // most results in one object; 0: one

	Rate     float64 `json:"rate"`     // windows per second that were offered; 0: as many as were taken
	Seconds  float64 `json:"seconds"`  // that were measured
	Windows  float64 `json:"windows"`  // worked off in that time
	Results  int64   `json:"results"`  // published in that time
	Segments int     `json:"segments"` // in which they were prepared and fed
	Prepared int64   `json:"prepared_bytes"`

	WindowsPerS float64 `json:"windows_per_s"`
	ResultsPerS float64 `json:"results_per_s"`
	// Latency of a result from the last chunk of its last window, or, at a rate, from when
	// that chunk was due, to the last chunk of the result, in milliseconds.
	Latency Quantiles `json:"latency_ms"`

	GPUBusy  *float64 `json:"gpu_busy"`                      // share of the time in which a kernel ran; null: unknown
	Launches float64  `json:"launches_per_window,omitempty"` // of kernels

	// Processor time of this process in milliseconds: of the service, for the broker's
	// case with broker and connections; and of what feeds it and counts its results.
	CPU       float64 `json:"cpu_ms_per_window"`
	FeederCPU float64 `json:"feeder_cpu_ms_per_window"`

	BytesIn         float64 `json:"bytes_in_per_window"` // of messages
	BytesOut        float64 `json:"bytes_out_per_window"`
	BytesInPerS     float64 `json:"bytes_in_per_s"`
	BytesOutPerS    float64 `json:"bytes_out_per_s"`
	CiphertextBytes int     `json:"ciphertext_bytes"` // of a window

	Stages []Stage `json:"stages"` // in their order

	Checked    int64   `json:"checked"`     // results that were decrypted and compared with the plaintext answer
	CheckEvery int64   `json:"check_every"` // of so many of each program at least one; of the others the header
	WorstRatio float64 `json:"worst_ratio"` // largest error as a part of its promised bound
}

// The loads of a record.
const (
	LoadMax  = "max"  // as fast as the service takes windows
	LoadRate = "rate" // at a rate that was asked for
	LoadHalf = "half" // at half of the highest rate
)

// Quantiles of a time.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// Stage is the part of one stage of the service (docs/evaluator.md).
type Stage struct {
	Name      string  `json:"name"`
	MeanUS    float64 `json:"mean_us"`    // that a window or result spends there
	PerWindow float64 `json:"per_window"` // how many do so for each window
}

// stageWork says of each stage whether it is work, or waiting, and of what.
var stageWork = map[string]struct{ work, result bool }{
	"receive": {true, false}, "queue": {false, false}, "verify": {true, false}, "decode": {true, false},
	"turn": {false, false}, "store": {true, false}, "join": {true, false}, "wait": {false, true},
	"compute": {true, true}, "order": {false, true}, "pack": {false, true},
	"seal": {true, true}, "publish": {true, true},
}

// StageNames returns the stages in the order of a window's way.
func StageNames() []string {
	return []string{"receive", "queue", "verify", "decode", "turn", "store", "join", "wait", "compute",
		"order", "pack", "seal", "publish"}
}

// Load prints a record of a service under load.
func (t *Report) Load(r LoadRecord) error {
	if t.JSON {
		return cli.JSONLine(t.Out, r)
	}
	way := "in process"
	if r.Broker != "none" {
		way = "through the broker " + r.Broker
	}
	kind := "public-key"
	switch {
	case r.Seeded:
		kind = "seeded"
	case r.Compact > 0:
		kind = fmt.Sprintf("compact (%d bits)", r.Compact)
	}
	offered := "as fast as the service takes them"
	if r.Rate > 0 {
		offered = fmt.Sprintf("%.0f windows/s offered", r.Rate)
	}
	busy := ""
	if r.GPUBusy != nil {
		busy = fmt.Sprintf(", GPU busy %.0f %%", 100**r.GPUBusy)
	}
	w := t.Out
	fmt.Fprintf(
		w,
		"load        %s, %s, %s, %s windows of %s\n",
		way,
		offered,
		cli.Plural(r.Devices, "device"),
		kind,
		cli.Bytes(int64(r.CiphertextBytes)),
	)
	fmt.Fprintf(w, "programs    %s\n", strings.Join(r.Programs, ", "))
	fmt.Fprintf(w, "service     %s, backend %s (%s), %s, %d cores\n", r.Params, r.Backend, r.Device,
		cli.Plural(r.Workers, "worker"), r.Cores)
	fmt.Fprintf(
		w,
		"rate        %.1f windows/s, %.1f results/s, over %.1f s%s\n",
		r.WindowsPerS,
		r.ResultsPerS,
		r.Seconds,
		busy,
	)
	fmt.Fprintf(w, "latency     p50 %s, p90 %s, p99 %s\n", micros(1e3*r.Latency.P50), micros(1e3*r.Latency.P90),
		micros(1e3*r.Latency.P99))
	fmt.Fprintf(
		w,
		"processor   %.2f ms a window, and %.2f ms to feed it and take its results\n",
		r.CPU,
		r.FeederCPU,
	)
	fmt.Fprintf(w, "traffic     in %s a window, %s/s; out %s a window, %s/s\n", cli.Bytes(int64(r.BytesIn)),
		cli.Bytes(int64(r.BytesInPerS)), cli.Bytes(int64(r.BytesOut)), cli.Bytes(int64(r.BytesOutPerS)))
	r.shared(w)
	fmt.Fprintf(
		w,
		"correct     every result counted, none lost or doubled; %d decrypted, largest error %.0f %% of its bound\n",
		r.Checked,
		100*r.WorstRatio,
	)
	fmt.Fprintln(w)
	table := cli.NewTable(w, cli.Column{Title: "stage", Width: 9}, cli.Column{Title: "of", Width: 7},
		cli.Column{Title: "mean", Width: 10, Right: true}, cli.Column{Title: "per window", Right: true},
		cli.Column{Title: "", Width: 8})
	if err := table.Header(); err != nil {
		return err
	}
	for _, s := range r.Stages {
		of, waits := "window", ""
		if stageWork[s.Name].result {
			of = "result"
		}
		if !stageWork[s.Name].work {
			waits = "waiting"
		}
		if err := table.Row(s.Name, of, micros(s.MeanUS), fmt.Sprintf("%.2f", s.PerWindow), waits); err != nil {
			return err
		}
	}
	return nil
}

// shared writes what shares ciphertexts.
func (r LoadRecord) shared(w io.Writer) {
	if r.Places > 0 {
		fmt.Fprintf(w, "places      %d windows of the class share a ciphertext where they are computed together\n",
			r.Places)
	}
	if r.Pack > 0 {
		fmt.Fprintf(w, "packs       of up to %s, %s a result\n", cli.Plural(r.Pack, "result"),
			cli.Bytes(int64(r.BytesOut*r.Windows/float64(r.Results))))
	}
}
