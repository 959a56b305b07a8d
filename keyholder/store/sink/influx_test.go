package sink

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store"
)

// documented answers writes as the documentation of a version of InfluxDB says.
type documented struct {
	version string // "1", "2", "2.0" and "3"

	mu      sync.Mutex
	away    int      // the next answer, with the header Retry-After; 0: none
	tokens  []string // that are right
	largest int      // request, in bytes
	never   []string // starts of lines that are refused
	lines   []string
}

func (d *documented) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := func(code int, kind, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		reply := map[string]string{"code": kind, "message": text}
		if d.version == "1" || d.version == "3" {
			reply = map[string]string{"error": text}
		}
		_ = json.NewEncoder(w).Encode(reply)
	}
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") || l == "" })
	var fit []string
	for _, l := range lines {
		if !slices.ContainsFunc(d.never, func(p string) bool { return strings.HasPrefix(l, p) }) {
			fit = append(fit, l)
		}
	}
	partial := fmt.Sprintf("partial write: points beyond retention policy dropped=%d", len(lines)-len(fit))
	switch {
	case err != nil:
		answer(http.StatusBadRequest, "invalid", "unable to read data")
	case d.away != 0:
		w.Header().Set("Retry-After", "1") // cut to the longest wait of the test
		answer(d.away, "unavailable", "later")
		d.away = 0
	case !slices.Contains(d.tokens, r.Header.Get("Authorization")):
		answer(http.StatusUnauthorized, "unauthorized", "unauthorized access")
	case r.URL.Query().Get("bucket") != "results":
		answer(http.StatusNotFound, "not found", "bucket not found")
	case r.URL.Query().Get("precision") != "ns":
		answer(http.StatusBadRequest, "invalid", "invalid precision")
	case len(body) == 0 && d.version != "1":
		answer(http.StatusBadRequest, "invalid", "writing requires points")
	case len(body) > d.largest:
		answer(http.StatusRequestEntityTooLarge, "request too large", "points batch is too large")
	case len(lines) == 0 && d.version == "3":
		http.Error(w, "incoming write was empty", http.StatusBadRequest)
	case len(lines) > len(fit) && d.version == "2.0": // the first one rejects all
		answer(http.StatusBadRequest, "invalid", "unable to parse")
	case len(lines) > len(fit) && d.version == "2":
		d.lines = append(d.lines, fit...)
		answer(http.StatusUnprocessableEntity, "unprocessable entity", "failure writing points to database: "+partial)
	case len(lines) > len(fit):
		d.lines = append(d.lines, fit...)
		answer(http.StatusBadRequest, "", partial)
	default:
		d.lines = append(d.lines, fit...)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (d *documented) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// missing returns how many of the results the server lacks, other than those that it refuses, and
// has of those.
func (d *documented) missing(made int) (lacks, wrong int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range made {
		line := strings.TrimSuffix(string(appendLine(nil, store.Row{Result: result([]string{"mean", "var"}[n%2], n)})),
			"\n")
		bad := slices.ContainsFunc(d.never, func(p string) bool { return strings.HasPrefix(line, p) })
		switch has := slices.Contains(d.lines, line); {
		case !has && !bad:
			lacks++
		case has && bad:
			wrong++
		}
	}
	return lacks, wrong
}

// Every version gets all results but those that it refuses, which are counted one by one. Nothing
// is left out while it is away, is overloaded, or does not know who asks.
func TestInfluxRefusals(t *testing.T) {
	for _, version := range []string{"1", "2", "2.0", "3"} {
		t.Run(version, func(t *testing.T) {
			d := &documented{version: version, tokens: []string{"Token right"}, largest: 1 << 20}
			server := httptest.NewServer(d)
			defer server.Close()
			token := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(token, []byte("Token right\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			b := newBench(t, config.Sink{Name: "influx", Influx: &config.HTTP{Header: "Authorization",
				URL:   server.URL + "/api/v2/write?org=home&bucket=results&precision=ns",
				Token: config.Secret("file:" + token)}})
			count := func(what string) float64 { return counted(t, b.sinks)[what] }
			all := func() bool { lacks, _ := d.missing(b.made); return lacks == 0 }
			told := func() bool {
				id, err := b.store.Sent(t.Context(), "influx")
				return err == nil && id == int64(b.made)
			}
			b.grow(t, 10)
			testrig.Eventually(t, "the first results", all)
			for _, status := range []int{429, 503, 500} {
				before := count("failures")
				d.change(func() { d.away = status })
				b.grow(t, 3)
				testrig.Eventually(t, fmt.Sprint("a failure by ", status),
					func() bool { return count("failures") > before })
				testrig.Eventually(t, fmt.Sprint("results after ", status), all)
			}
			before := count("failures")
			d.change(func() { d.tokens = nil })
			b.grow(t, 3)
			testrig.Eventually(t, "failures to log in", func() bool { return count("failures") > before+2 })
			d.change(func() { d.tokens = []string{"Token right"} })
			testrig.Eventually(t, "results after the login", all)
			testrig.Eventually(t, "a sink that has told its place", told)
			if n := count("refused"); n != 0 {
				t.Errorf("%v results are refused", n)
			}

			b.end()
			var never []string
			for _, n := range []int{b.made, b.made + 13, b.made + 14, b.made + 99} {
				line := string(appendLine(nil, store.Row{Result: result([]string{"mean", "var"}[n%2], n)}))
				never = append(never, strings.TrimSpace(line))
			}
			d.change(func() { d.never = never })
			b.grow0(t, 100) // so that the results come together
			b.start(t)
			testrig.Eventually(t, "the place after refusals", told)
			if lacks, wrong := d.missing(b.made); lacks != 0 || wrong != 0 {
				t.Errorf("the server lacks %d results and has %d that it refuses", lacks, wrong)
			}
			if refused, failures := count("refused"), count("failures"); refused != 4 || failures != 0 {
				t.Errorf("%v results are refused after %v failures", refused, failures)
			}

			b.end()
			d.change(func() { d.largest = 500 }) // some lines
			b.grow0(t, 100)
			b.start(t)
			testrig.Eventually(t, "the place after smaller requests", told)
			if lacks, _ := d.missing(b.made); lacks != 0 || count("refused") != 0 {
				t.Errorf("the server lacks %d results, %v are refused", lacks, count("refused"))
			}
		})
	}
}

// A mistake in the address that InfluxDB answers with 400 or 404 loses nothing.
func TestInfluxMistake(t *testing.T) {
	for _, version := range []string{"1", "2", "2.0", "3"} {
		for _, query := range []string{"bucket=results", "bucket=other&precision=ns"} {
			d := &documented{version: version, tokens: []string{""}, largest: 1 << 20}
			server := httptest.NewServer(d)
			f, err := newInflux(&config.HTTP{URL: server.URL + "/api/v2/write?" + query})
			if err != nil {
				t.Fatal(err)
			}
			rows := []store.Row{{ID: 1, Result: result("mean", 0)}, {ID: 2, Result: result("var", 1)}}
			done, refused, err := f.send(t.Context(), rows)
			if done != 0 || len(refused) != 0 || err == nil {
				t.Errorf("version %s, %s: %d done, refused %v, error %v", version, query, done, refused, err)
			}
			f.Close()
			server.Close()
		}
	}
}

// influxd is a real InfluxDB 1.
type influxd struct {
	program, dir, address string
	cmd                   *exec.Cmd
}

func startInflux(t *testing.T) *influxd {
	t.Helper()
	i := &influxd{program: testenv.Program(t, "influxdb", "influxd"), dir: t.TempDir(),
		address: testrig.FreeAddress(t)}
	conf := fmt.Sprintf("reporting-disabled = true\nbind-address = %q\n[meta]\ndir = %q\n[data]\ndir = %q\n"+
		"wal-dir = %q\n[http]\nbind-address = %q\nlog-enabled = false\n[monitor]\nstore-enabled = false\n",
		testrig.FreeAddress(t), filepath.Join(i.dir, "meta"), filepath.Join(i.dir, "data"), filepath.Join(i.dir, "wal"),
		i.address)
	if err := os.WriteFile(filepath.Join(i.dir, "conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.kill)
	i.start(t)
	return i
}

func (i *influxd) start(t *testing.T) {
	t.Helper()
	i.cmd = exec.Command(i.program, "-config", filepath.Join(i.dir, "conf"))
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testrig.Eventually(t, "InfluxDB", func() bool {
		resp, err := http.Get("http://" + i.address + "/ping")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	})
}

func (i *influxd) kill() {
	if i.cmd != nil {
		_ = i.cmd.Process.Kill()
		_ = i.cmd.Wait()
		i.cmd = nil
	}
}

// ask runs a statement and returns the rows of its first series, without their times.
func (i *influxd) ask(t *testing.T, statement string) (out []string) {
	t.Helper()
	resp, err := http.PostForm("http://"+i.address+"/query?db=results", url.Values{"q": {statement}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Results []struct {
			Error  string
			Series []struct{ Values [][]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Results) != 1 ||
		answer.Results[0].Error != "" {
		t.Fatalf("%s: %v, %+v", statement, err, answer)
	}
	for _, s := range answer.Results[0].Series {
		for _, v := range s.Values {
			out = append(out, fmt.Sprint(v[1:]...))
		}
	}
	return out
}

// A real InfluxDB gets every result although it lacks the database at first and is killed
// meanwhile; what it refuses is counted, and it gets what comes with it.
func TestInfluxDB(t *testing.T) {
	i := startInflux(t)
	b := newBench(t, config.Sink{Name: "influx",
		Influx: &config.HTTP{URL: "http://" + i.address + "/write?db=results&precision=ns"}})
	count := func(what string) float64 { return counted(t, b.sinks)[what] }
	told := func() bool {
		id, err := b.store.Sent(t.Context(), "influx")
		return err == nil && id == int64(b.made)
	}
	numbers := func(program string) string {
		return strings.Join(i.ask(t, `SELECT value FROM "`+program+`" WHERE evaluator = 'cloud' AND unit = 'K'`), " ")
	}
	want := func(numbers ...int) string { return strings.Trim(fmt.Sprint(numbers), "[]") }
	b.grow(t, 4)
	testrig.Eventually(t, "a failure without the database", func() bool { return count("failures") > 0 })
	if n := count("refused"); n != 0 {
		t.Errorf("%v results are refused", n)
	}
	i.ask(t, "CREATE DATABASE results WITH DURATION INF SHARD DURATION 8760h")
	testrig.Eventually(t, "results that waited for the database", told)
	if got := numbers("mean"); got != want(0, 2) {
		t.Errorf("mean has %q", got)
	}
	i.kill()
	b.grow(t, 2)
	i.start(t)
	testrig.Eventually(t, "results that waited for the server", told)
	if got := numbers("var"); got != want(1, 3, 5) {
		t.Errorf("var has %q", got)
	}

	b.end() // so that the results come together
	for _, line := range []string{`trend value="a text" ` + fmt.Sprint(noon.UnixNano()),
		`trend,unit=K value="a text" ` + fmt.Sprint(noon.UnixNano())} {
		resp, err := http.Post("http://"+i.address+"/write?db=results", "", strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	var err error
	if b.store, err = store.Open(t.Context(), store.Options{History: b.h, Logger: testrig.Quiet()}); err != nil {
		t.Fatal(err)
	}
	old := func(r *keyholder.Result) { r.Start, r.End = time.Unix(0, 0), time.Unix(60, 0) }
	for _, r := range []struct {
		program string
		edit    func(*keyholder.Result)
	}{{"mean", nil}, {"trend", nil}, {"mean", nil}, {"ancient", old}, {"mean", nil}, {"trend", nil}, {"mean", nil}} {
		x := result(r.program, b.made)
		if r.edit != nil {
			r.edit(x)
		}
		if err := b.store.Add(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		b.made++
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	i.ask(t, "ALTER RETENTION POLICY autogen ON results DURATION 87600h") // ten years
	b.start(t)
	testrig.Eventually(t, "the place after refusals", told)
	if got := numbers("mean"); got != want(0, 2, 4, 6, 8, 10, 12) {
		t.Errorf("mean has %q", got)
	}
	if refused, failures := count("refused"), count("failures"); refused != 3 || failures != 0 {
		t.Errorf("%v results are refused after %v failures", refused, failures)
	}
}
