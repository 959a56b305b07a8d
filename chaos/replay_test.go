package chaos

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
)

// TestReplayCompact: the recorded temperatures of a machine, sent by four boards in compact windows of which the last
// are partial, give every result of every program, each within its promise. HENCEDGE_TEST_DEEP=1 takes boot15 and not
// its likeness in a small ring: minutes and 6 GiB.
func TestReplayCompact(t *testing.T) {
	params, patience := "boot10-insecure", 2*time.Minute
	if os.Getenv("HENCEDGE_TEST_DEEP") == "1" {
		params, patience = "boot15", 15*time.Minute
	}
	r, shares := newRecording(t, params)
	r.start(r.broker, r.holder, r.evaluator)
	want := 0
	for i, b := range r.boards {
		r.start(b.process)
		want += len(recorded) * ((len(shares[i]) + recordedWindow - 1) / recordedWindow)
	}
	for _, b := range r.boards {
		if err := r.drained(b, patience); err != nil {
			t.Fatalf("%s did not drain: %v\n%s", b.name, err, r.logs())
		}
	}
	r.progress(patience, func() bool { return len(r.results()) >= want })
	time.Sleep(500 * time.Millisecond) // for what comes twice
	r.checkRecording(shares, want)
	if t.Failed() {
		t.Log(r.logs())
	}
}

// recordedWindow is how many samples a window of the recording has.
const recordedWindow = 64

// recorded are programs on windows of the recording.
var recorded = []struct {
	name, expr string
	want       func(x []float64) float64
}{
	{"mean", "mean(x)", average},
	{"var", "var(x)", variance},
	{"deviation", "sqrt(var(x))", func(x []float64) float64 { return math.Sqrt(variance(x)) }},
	{"power", "mean(x^2)", func(x []float64) float64 { return variance(x) + average(x)*average(x) }},
}

func variance(x []float64) (sum float64) {
	m := average(x)
	for _, v := range x {
		sum += (v - m) * (v - m) / float64(len(x))
	}
	return sum
}

// recording returns the temperatures of evaluator/program/testdata/replay, in 0..120 degC.
func recording(t *testing.T) (all []float64) {
	t.Helper()
	f, err := os.Open("../evaluator/program/testdata/replay/machine_temperature.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		v, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// newRecording makes keys, configurations and processes of four boards, each with a share of the recording.
func newRecording(t *testing.T, params string) (*rig, [][]float64) {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), binary: build(t, false), mounted: os.Geteuid() == 0}
	all := recording(t)
	shares := slices.Collect(slices.Chunk(all, (len(all)+3)/4))
	r.mkdir("holder", "cloud", "cloud/enrolled")
	r.disk("cloud/store", 64)
	address := testrig.FreeAddress(t)
	r.newBroker(leg{broker: "embedded"}, address)
	cloud := r.run("keys", "identity", "cloud/signing.key")
	for i := range shares {
		b := &board{dir: fmt.Sprint("board", i+1)}
		r.boards = append(r.boards, b)
		r.mkdir(b.dir)
		r.disk(b.dir+"/disk", 16)
		r.write("cloud/enrolled/"+b.dir+".yaml", fmt.Sprintf("- name: %s\n  class: boards\n  public_key: %q\n", b.dir,
			r.run("keys", "identity", b.dir+"/signing.key")))
	}
	stream := fmt.Sprintf("name: machine\n    mode: compact\n    window: {samples: %d}\n    params: %s\n    channels: "+
		"[{name: temp, unit: degC, range: [0, 120]%%s}]\n", recordedWindow, params)
	evaluator := fmt.Sprintf(`name: cloud
broker: {url: "tcp://%s"}
key_sets: [keys]
signing_key: signing.key
state: store/evaluator.state
store: {dir: store, results: keyholder}
enrolled: enrolled
latency: 500ms
results: {pack: 32, within: 500ms}
classes:
  - name: boards
    streams:
    - %sprograms:
`, address, strings.ReplaceAll(fmt.Sprintf(stream, ""), "\n    ", "\n      "))
	for _, p := range recorded {
		evaluator += fmt.Sprintf("  - {name: %s, for: boards, expr: %s, inputs: {x: machine/temp}}\n", p.name, p.expr)
	}
	holder := r.holds(evaluator, address, cloud, "")
	for i, b := range r.boards {
		r.run("keys", "device", b.dir, "--dir", "holder/keys", "--out", b.dir+"/keys")
		r.replays(b, shares[i], "board_key: keys/board.key", address, holder, cloud, stream)
	}
	r.serves()
	return r, shares
}

// holds makes the key holder's keys for an evaluator's configuration, approves its programs, and writes both
// configurations; more is what the key holder's says besides. It returns the key holder's fingerprint.
func (r *rig) holds(evaluator, address, cloud, more string) (holder string) {
	r.t.Helper()
	r.write("cloud/evaluator.yaml", evaluator)
	r.run("keys", "new", "--dir", "holder/keys", "--for", "cloud/evaluator.yaml")
	r.run("results", "approve", "--dir", "holder/keys", "--evaluator", "cloud/evaluator.yaml", "--yes")
	holder = regexp.MustCompile(`(?m)^fingerprint +(\S+)$`).FindStringSubmatch(r.run("keys", "show", "--dir",
		"holder/keys"))[1]
	r.write("cloud/evaluator.yaml", evaluator+"keys: {holder: "+holder+"}\n")
	r.write("holder/keyholder.yaml", fmt.Sprintf(`name: home
broker: {url: "tcp://%s"}
key_set: keys
evaluators: [{name: cloud, public_key: "%s"}]
receipts: true
state: holder.state
%s`, address, cloud, more))
	return holder
}

// serves gives the evaluator the keys that there are now, and makes the processes of evaluator and key holder.
func (r *rig) serves() {
	r.t.Helper()
	r.run("keys", "export", "--dir", "holder/keys", "--role", "evaluator", "--out", "cloud/keys")
	r.evaluator = r.program("evaluator", "evaluator", "run", "--backend", "cpu", "-c",
		filepath.Join(r.dir, "cloud/evaluator.yaml"))
	r.holder = r.program("holder", "results", "watch", "-c", filepath.Join(r.dir, "holder/keyholder.yaml"), "--json")
}

// replays gives a board its readings, a sample a second. keys is what it says of its keys, %s in stream is where the
// source of the channel stands.
func (r *rig) replays(b *board, share []float64, keys, address, holder, cloud, stream string) {
	r.t.Helper()
	var csv strings.Builder
	csv.WriteString("t,temp\n")
	for i, v := range share {
		fmt.Fprintf(&csv, "%d,%v\n", origin.Unix()+int64(i), v)
	}
	r.write(b.dir+"/machine.csv", csv.String())
	text := fmt.Sprintf(stream, ", source: {type: replay, column: temp}")
	const replay = "    replay: {file: machine.csv, time: t, time_format: unix, speed: fast}\n"
	text = strings.Replace(text, "}\n", "}\n"+replay, 1)
	r.write(b.dir+"/agent.yaml", fmt.Sprintf(`device: %s
broker: {url: "tcp://%s"}
keys: {%s, holder: %s}
signing_key: signing.key
state: disk/agent.state
streams:
  - %sspool: {dir: disk/spool, bytes: 64MiB}
queue: {full: block}
delivery:
  ack: evaluator
  evaluators: [{name: cloud, public_key: "%s"}]
stop_timeout: 10m
`, b.dir, address, keys, holder, text, cloud))
	b.process = r.program(b.dir, "agent", "run", "-c", filepath.Join(r.dir, b.dir, "agent.yaml"))
}

// checkRecording fails the test unless there is one result of each program for each window, within its promise.
func (r *rig) checkRecording(shares [][]float64, want int) {
	r.t.Helper()
	most, seen := map[string]float64{}, map[string]bool{}
	for _, x := range r.results() {
		key := fmt.Sprint(x.Program, x.Device, x.Start)
		if seen[key] {
			r.t.Errorf("%s of %s at %v comes again", x.Program, x.Device, x.Start)
		}
		seen[key] = true
		i := slices.IndexFunc(r.boards, func(b *board) bool { return b.dir == x.Device })
		first := int(x.Start.Sub(origin) / time.Second)
		if i < 0 || first%recordedWindow != 0 || first < 0 || first+x.Samples > len(shares[i]) ||
			x.Samples != min(recordedWindow, len(shares[i])-first) {
			r.t.Fatalf("a result that nobody asked for: %+v", x)
		}
		for _, p := range recorded {
			if p.name != x.Program {
				continue
			}
			v := p.want(shares[i][first : first+x.Samples])
			if len(x.Values) != 1 || !(math.Abs(x.Values[0]-v) <= x.Bound) {
				r.t.Errorf("%s of %s, window of sample %d: %g, want %g within %g", p.name, x.Device, first, x.Values, v,
					x.Bound)
				continue
			}
			most[p.name] = max(most[p.name], math.Abs(x.Values[0]-v)/x.Bound)
		}
	}
	r.t.Logf("%d results; the largest errors over what is promised: %v", len(seen), most)
	if len(seen) != want {
		r.t.Errorf("%d results, want %d", len(seen), want)
	}
}
