package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
)

// TestKillServe kills "results serve", with page and sink, at any moment while results come from a board and an
// evaluator. In the end the database has the result of each window once, within its promise, and the sink was told of
// each. HENCEDGE_CHAOS_ROUNDS says how often.
func TestKillServe(t *testing.T) {
	rounds, samples := 6, 8
	if text := os.Getenv("HENCEDGE_CHAOS_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	const perRound = 12 // windows, about
	all := recording(t)
	readings := slices.Repeat(all, 1+rounds*perRound*samples/len(all))[:rounds*perRound*samples]
	w := watched{mode: "public_key", params: "edge12-d1", samples: samples, program: "expr: mean(x)", threshold: 1000,
		times: 1}
	r := w.rig(t, [][]float64{readings})
	told := newPoints(t)
	r.servesKept(told.url)
	r.rewrite("cloud/evaluator.yaml", "results: keyholder}",
		"results: keyholder, receipt_timeout: 1s, retry_min: 100ms, retry_max: 1s}")
	r.rewrite("board1/agent.yaml", "speed: fast", fmt.Sprintf("speed: %dx", 20*samples))
	r.start(r.broker, r.evaluator, r.boards[0].process)
	for i := range rounds {
		r.start(r.holder)
		if i == rounds/2 { // however slow the machine is, one kill comes while results do
			for since := time.Now(); told.number() == 0; time.Sleep(10 * time.Millisecond) {
				if time.Since(since) > time.Minute {
					t.Fatalf("the sink was told of no result within a minute\n%s", r.logs())
				}
			}
		}
		time.Sleep(rand.N(1200 * time.Millisecond))
		if ok, err := r.holder.alive(); !ok {
			t.Fatalf("the key holder ended by itself: %v\n%s", err, r.logs())
		}
		r.holder.kill()
	}
	between := told.number()
	r.start(r.holder)
	rows, want := map[int]int{}, len(readings)/samples
	for last, since := -1, time.Now(); time.Since(since) < 2*time.Minute; time.Sleep(300 * time.Millisecond) {
		rows = r.kept(t, readings, samples)
		n := len(rows) + told.number()
		if n >= 2*want {
			break
		}
		if n != last {
			last, since = n, time.Now()
		}
	}
	if n := told.number(); len(rows) != want || n != want {
		t.Errorf("%d results in the database, the sink was told of %d, want %d of each\n%s", len(rows), n, want,
			r.logs())
	}
	for first, n := range rows {
		if n != 1 {
			t.Errorf("the window of sample %d is there %d times", first, n)
		}
	}
	// What the page keeps for proofs is whole, whatever was cut off.
	if left, _ := filepath.Glob(filepath.Join(r.dir, "holder/holder.state.sealed/*.tmp")); len(left) > 1 {
		t.Errorf("%d halves of sealed results are left", len(left))
	}
	t.Logf("%d kills, %d results, the sink was told of %d before the last start", rounds, len(rows), between)
}

// servesKept makes a key holder that keeps results in a database, shows a page and tells a sink.
func (r *rig) servesKept(sink string) {
	r.t.Helper()
	name := filepath.Join(r.dir, "holder/keyholder.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write("holder/keyholder.yaml", string(text)+fmt.Sprintf("console: {listen: %q}\nhistory:\n  sinks:\n"+
		"    - {name: points, influx: {url: %q}}\n", testrig.FreeAddress(r.t), sink))
	r.holder = r.program("holder", "results", "serve", "-c", name)
}

// rewrite changes a text of a file.
func (r *rig) rewrite(name, old, text string) {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil || !strings.Contains(string(b), old) {
		r.t.Fatalf("%s has no %q: %v", name, old, err)
	}
	r.write(name, strings.Replace(string(b), old, text, 1))
}

// kept returns how often the result of the window that begins with a sample is in the database. Each must be the mean
// of its readings.
func (r *rig) kept(t *testing.T, readings []float64, samples int) map[int]int {
	t.Helper()
	rows := map[int]int{}
	out := r.run("results", "query", "-c", "holder/keyholder.yaml", "--limit", "0", "--format", "ndjson")
	for line := range strings.Lines(out) {
		var x result
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		first := int(x.Start.Sub(origin) / time.Second)
		if first < 0 || first%samples != 0 || first+samples > len(readings) || x.Samples != samples {
			t.Fatalf("a result that nobody asked for: %+v", x)
		}
		if v := average(readings[first : first+samples]); len(x.Values) != 1 || !(math.Abs(x.Values[0]-v) <= x.Bound) {
			t.Fatalf("the window of sample %d: %g, want %g within %g", first, x.Values, v, x.Bound)
		}
		rows[first]++
	}
	return rows
}

// points is a server for the line protocol of InfluxDB.
type points struct {
	url string
	mu  sync.Mutex
	at  map[string]bool // the times of points
}

func newPoints(t *testing.T) *points {
	t.Helper()
	p := &points{at: map[string]bool{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // cut off
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for line := range strings.Lines(string(body)) {
			line = strings.TrimSpace(line)
			p.at[line[strings.LastIndexByte(line, ' ')+1:]] = true
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func (p *points) number() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.at)
}
