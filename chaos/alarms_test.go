package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder/alert"
)

// watched is a rule over the temperatures of a recording, in one of the modes of a stream.
type watched struct {
	mode, params string
	samples      int    // of a window
	stream       string // what agents and evaluators say of the mode and the channel besides
	program      string // with the variable x
	limit        bool   // the program also has y, the same stream of a device that always reads 95
	every        int    // one of so many readings is taken
	threshold    float64
	times        int                       // windows in a row
	value        func(x []float64) float64 // what the rule looks at, of the readings
	files        map[string]string         // beside the evaluator's configuration
	step         float64                   // readings are rounded to multiples of it; 0: not
}

const hot = 95 // degC

func hotter(x []float64) (n float64) {
	for _, v := range x {
		if v > hot {
			n++
		}
	}
	return n
}

// anyHotter is 1 if a reading is above the limit.
func anyHotter(x []float64) float64 { return math.Min(1, hotter(x)) }

// stump is a tree of one split: class 1 above 95 degC.
const stump = `{"format": "hencedge-trees/1", "source": "by hand", "estimator": "DecisionTreeClassifier",
 "features": ["x"], "classes": ["0", "1"], "combine": "sum", "link": "identity", "trees": [{"feature": [0, -1, -1],
 "threshold": [95, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1], "value": [[0.5, 0.5], [1, 0], [0, 1]]}]}`

var watchedModes = []watched{
	{mode: "public_key", params: "edge12-d1", samples: 64, program: "expr: mean(x)", threshold: 90, times: 3,
		value: average, every: 1},
	{mode: "symmetric", params: "edge12-d1", samples: 64, program: "expr: mean(x)", threshold: 96,
		times: 2, value: average, every: 2},
	{mode: "histogram", params: "edge12-d1", samples: 512, stream: "mode: histogram", step: 0.5, threshold: 50,
		program: "expr: count(x > 95)", times: 1, value: hotter, every: 1},
	{mode: "compact", params: "boot10-insecure", samples: 64, stream: "mode: compact", program: "expr: mean(x)",
		threshold: 96, times: 2, value: average, every: 2},
	{mode: "digits", params: "bfv13", samples: 128, stream: "mode: digits", step: 0.125, limit: true, threshold: 0.5,
		program: "expr: private_less(y, x)", times: 2, value: anyHotter, every: 4},
	{mode: "steps", params: "bfv13", samples: 1, stream: "mode: steps", step: 0.125, threshold: 0.5, times: 2,
		program: "model: {file: stump.json}", value: anyHotter, every: 150,
		files: map[string]string{"stump.json": stump}},
}

// TestReplayAlarms: rules over decrypted results of a machine's recorded temperatures raise and end exactly the alarms
// that the plain readings do, through agent, evaluator and key holder, in every mode of a stream. Windows whose value
// is nearer to the threshold than the promised error count for neither, and are listed.
func TestReplayAlarms(t *testing.T) {
	for _, w := range watchedModes {
		t.Run(w.mode, func(t *testing.T) { w.run(t) })
	}
}

func (w watched) run(t *testing.T) {
	var readings []float64
	for i, v := range recording(t) {
		if i%w.every == 0 {
			readings = append(readings, v)
		}
	}
	readings = readings[:len(readings)/w.samples*w.samples]
	boards := [][]float64{readings}
	if w.limit {
		boards = append(boards, slices.Repeat([]float64{hot}, len(readings)))
	}
	r := w.rig(t, boards)
	r.start(r.broker, r.holder, r.evaluator)
	for _, b := range r.boards {
		r.start(b.process)
	}
	const patience = 2 * time.Minute
	for _, b := range r.boards {
		if err := r.drained(b, patience); err != nil {
			t.Fatalf("%s did not drain: %v\n%s", b.name, err, r.logs())
		}
	}
	windows := len(readings) / w.samples
	r.progress(patience, func() bool { return len(r.results()) >= windows })
	results := r.results()
	if len(results) != windows {
		t.Fatalf("%d results, want %d\n%s", len(results), windows, r.logs())
	}
	want := w.alarms(t, readings, results)
	r.progress(20*time.Second, func() bool { return len(r.events()) >= len(want) })
	time.Sleep(500 * time.Millisecond) // for what nobody expects
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("events\n%v\nwant\n%v\n%s", got, want, r.logs())
	}
}

// alarms returns the events that the plain readings make, with the ends of the windows that decided.
func (w watched) alarms(t *testing.T, readings []float64, results []result) (events []string) {
	t.Helper()
	bound := map[time.Time]float64{}
	for _, x := range results {
		bound[x.Start] = x.Bound
	}
	firing, row, quiet, raised := false, 0, 0, 0
	for i, x := range slices.Collect(slices.Chunk(readings, w.samples)) {
		if w.step > 0 {
			x = rounded(x, w.step)
		}
		start := origin.Add(time.Duration(i*w.samples) * time.Second)
		near, there := bound[start]
		v := w.value(x)
		off := math.Abs(v - w.threshold)
		switch {
		case !there:
			t.Fatalf("no result of the window at %v", start)
		case off <= near/2:
			t.Logf("undecided: window %d, %g, promised error %g", i, v, near)
			continue
		case off <= 2*near:
			t.Fatalf("window %d, %g: nobody can say whether its result is decided; choose another threshold", i, v)
		}
		end := start.Add(time.Duration(w.samples) * time.Second).Unix()
		if !w.limit {
			end-- // the last sample's time
		}
		switch over := v > w.threshold; {
		case !over && firing:
			firing, row = false, 0
			events = append(events, fmt.Sprint(alert.StateResolved, " ", end))
		case !over:
			row = 0
			quiet++
		case !firing:
			if row++; row == w.times {
				firing = true
				raised++
				events = append(events, fmt.Sprint(alert.StateFiring, " ", end))
			}
		}
	}
	t.Logf("%d windows, %d alarms, %d quiet windows", len(results), raised, quiet)
	if raised < 2 || quiet < 2 {
		t.Errorf("%d alarms and %d quiet windows show nothing", raised, quiet)
	}
	return events
}

// rounded returns the readings at the nearest multiples of a step.
func rounded(x []float64, step float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Round(v/step) * step
	}
	return out
}

// events returns what the alarms' receiver got so far.
func (r *rig) events() (out []string) {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.dir, "events"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range bytes.Lines(raw) {
		var e alert.Event
		if err := json.Unmarshal(line, &e); err != nil {
			continue // not written to its end
		}
		if !seen[e.ID] {
			seen[e.ID] = true
			out = append(out, fmt.Sprint(e.State, " ", e.End.Unix()))
		}
	}
	return out
}

// rig makes keys, configurations and processes of boards with the given readings.
func (w watched) rig(t *testing.T, boards [][]float64) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), binary: build(t, false)}
	address := testrig.FreeAddress(t)
	r.newBroker(leg{broker: "embedded"}, address)
	r.mkdir("holder", "cloud", "cloud/store")
	for name, text := range w.files {
		r.write("cloud/"+name, text)
	}
	cloud := r.run("keys", "identity", "cloud/signing.key")
	devices, streams := "", ""
	channel := "range: [0, 120]"
	if w.step > 0 {
		channel += fmt.Sprint(", resolution: ", w.step)
	}
	window := fmt.Sprint("samples: ", w.samples)
	if w.limit { // windows that are joined end at the same times
		window += fmt.Sprintf(", every: %ds", w.samples)
	}
	about := fmt.Sprintf("name: machine\n    window: {%s}\n    params: %s\n    %s\n    channels: [{name: temp, "+
		"unit: degC, %s%%s}]\n", window, w.params, w.stream, channel)
	for i := range boards {
		b := &board{dir: fmt.Sprint("board", i+1)}
		r.boards = append(r.boards, b)
		r.mkdir(b.dir, b.dir+"/disk")
		devices += fmt.Sprintf("  - {name: %s, public_key: %q}\n", b.dir,
			r.run("keys", "identity", b.dir+"/signing.key"))
		streams += fmt.Sprintf("  - device: %s\n    %s", b.dir, fmt.Sprintf(about, ""))
	}
	inputs := "x: board1/machine/temp"
	if w.limit {
		inputs += ", y: board2/machine/temp"
	}
	evaluator := fmt.Sprintf("name: cloud\nbroker: {url: \"tcp://%s\"}\nkey_sets: [keys]\nsigning_key: signing.key\n"+
		"state: evaluator.state\nstore: {dir: store, results: keyholder}\nlatency: 500ms\ndevices:\n%sstreams:\n%s"+
		"programs:\n  - name: heat\n    %s\n    inputs: {%s}\n", address, devices, streams, w.program, inputs)
	holder := r.holds(evaluator, address, cloud, fmt.Sprintf(`alerts:
  rules: [{name: hot, program: heat, when: value > %g, for: %d}]
  receivers: [{name: file, command: [/bin/sh, -c, 'cat >>"$0"', %q]}]
`, w.threshold, w.times, filepath.Join(r.dir, "events")))
	for i, b := range r.boards {
		r.replays(b, boards[i], w.keys(r, b), address, holder, cloud, about)
	}
	r.serves()
	return r
}

// keys gives a board its keys, and returns what its configuration says of them.
func (w watched) keys(r *rig, b *board) string {
	r.t.Helper()
	out := b.dir + "/keys"
	switch w.mode {
	case "compact":
		r.run("keys", "device", b.dir, "--dir", "holder/keys", "--out", out)
		return "board_key: keys/board.key"
	case "symmetric":
		r.run("keys", "export", "--dir", "holder/keys", "--role", "agent", "--symmetric", "--out", out)
		return "mode: symmetric, secret_key: keys/secret.key"
	}
	r.run("keys", "export", "--dir", "holder/keys", "--role", "agent", "--out", out)
	return "public_key: keys/public.key"
}
