package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
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

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store"
)

// fields calls f for each field of a message.
func fields(b []byte, f func(number protowire.Number, content []byte, value uint64)) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var content []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			value, n = protowire.ConsumeFixed64(b)
		default:
			return errors.New("another type")
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		f(number, content, value)
		b = b[n:]
	}
	return nil
}

// samples reads a request: each sample as "name{label="text",...} value@milliseconds".
func samples(request []byte) (out []string, err error) {
	err = fields(request, func(_ protowire.Number, message []byte, _ uint64) {
		name, pairs := "", []string{}
		err = errors.Join(err, fields(message, func(n protowire.Number, content []byte, _ uint64) {
			var text [3]string
			var number [3]uint64
			err = errors.Join(err, fields(content, func(n protowire.Number, content []byte, value uint64) {
				text[n], number[n] = string(content), value
			}))
			switch {
			case n == 2:
				out = append(out, fmt.Sprintf("%s{%s} %v@%d", name, strings.Join(pairs, ","),
					math.Float64frombits(number[1]), int64(number[2])))
			case text[1] == "__name__":
				name = text[2]
			default:
				pairs = append(pairs, fmt.Sprintf("%s=%q", text[1], text[2]))
			}
		}))
		if !slices.IsSorted(pairs) {
			err = errors.Join(err, fmt.Errorf("labels %q", pairs))
		}
	})
	return out, err
}

// encoded is what samples tells of result(program, n).
func encoded(program string, n int) []string {
	at := noon.Add(time.Duration(n+1) * time.Minute).UnixMilli()
	return []string{
		fmt.Sprintf("hencedge_result_value{evaluator=\"cloud\",program=%q,unit=\"K\"} %d@%d", program, n, at),
		fmt.Sprintf("hencedge_result_bound{evaluator=\"cloud\",program=%q} 0.001@%d", program, at),
	}
}

// receiver is a server that keeps samples of remote write, and never takes some of them.
type receiver struct {
	mu      sync.Mutex
	status  int // of answers
	never   []string
	code    int // for those
	samples []string
	fault   error // of a request
}

func (d *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		body, err = snappy.Decode(nil, body)
	}
	var got []string
	if err == nil {
		got, err = samples(body)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, want := range map[string]string{"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf",
		"X-Prometheus-Remote-Write-Version": "0.1.0", "User-Agent": "hencedge", "Authorization": "Bearer secret"} {
		if have := r.Header.Get(name); have != want {
			err = errors.Join(err, fmt.Errorf("%s: %q", name, have))
		}
	}
	d.fault = errors.Join(d.fault, err)
	status := d.status
	if status < 300 && slices.ContainsFunc(got, func(s string) bool { return slices.Contains(d.never, s) }) {
		status = d.code
	} else if status < 300 {
		d.samples = append(d.samples, got...)
	}
	w.WriteHeader(status)
}

func (d *receiver) set(status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = status
}

// refuse makes the receiver refuse what has these samples.
func (d *receiver) refuse(code int, never ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.code, d.never = code, append(d.never, never...)
}

// complete reports whether the receiver has the samples of each result, of each series in order,
// but those that it never takes.
func (d *receiver) complete(made int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	have, want := map[string][]string{}, map[string][]string{}
	put := func(to map[string][]string, s string) {
		name, _, _ := strings.Cut(s, " ")
		if !slices.Contains(to[name], s) {
			to[name] = append(to[name], s)
		}
	}
	for _, s := range d.samples {
		put(have, s)
	}
	for n := range made {
		both := encoded([]string{"mean", "var"}[n%2], n)
		if slices.Contains(d.never, both[0]) {
			continue
		}
		put(want, both[0])
		put(want, both[1])
	}
	return fmt.Sprint(have) == fmt.Sprint(want)
}

// Nothing is lost while a receiver is away, fails, is no receiver, refuses whatever it is sent, or
// this process ends; what it can never take is left out alone, and counted.
func TestRemoteWrite(t *testing.T) {
	d := &receiver{status: http.StatusNoContent}
	server := httptest.NewUnstartedServer(d)
	address, token := testrig.FreeAddress(t), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, config.Sink{Name: "prometheus",
		RemoteWrite: &config.HTTP{URL: "http://" + address + "/api/v1/write", Token: config.Secret("file:" + token)}})
	b.grow(t, 10) // the server is not there yet
	count := func(what string) float64 { return counted(t, b.sinks)[what] }
	testrig.Eventually(t, "a failure", func() bool { return count("failures") > 0 })
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()
	testrig.Eventually(t, "the first results", func() bool { return d.complete(b.made) })
	for _, status := range []int{503, 429, 500, 302, 401, 404, 400, 413, 415} {
		d.set(status)
		before := count("failures")
		b.grow(t, 3)
		testrig.Eventually(t, "another failure", func() bool { return count("failures") > before })
		if status == 500 {
			b.end()
			b.grow0(t, 250)
			b.start(t)
		}
		d.set(http.StatusOK)
		testrig.Eventually(t, fmt.Sprint("results after ", status), func() bool { return d.complete(b.made) })
	}
	if n := count("refused"); n != 0 {
		t.Errorf("%v results are refused", n)
	}
	left := 0.0
	for _, code := range []int{400, 413, 422} {
		testrig.Eventually(t, "a sink that has told its place", func() bool {
			id, err := b.store.Sent(t.Context(), "prometheus")
			return err == nil && id == int64(b.made)
		})
		b.end() // so that the results come together
		first := b.made
		for _, n := range []int{first, first + 13, first + 14, first + 99} { // the last one is the newest
			d.refuse(code, encoded([]string{"mean", "var"}[n%2], n)[0])
		}
		b.grow0(t, 100)
		b.start(t)
		testrig.Eventually(t, "the other results", func() bool { return d.complete(b.made) })
		testrig.Eventually(t, "refusals", func() bool { return count("refused") == 4 && count("results") == 96 })
		left += count("failures")
	}
	if left != 0 {
		t.Errorf("%v failures", left)
	}
	if d.mu.Lock(); d.fault != nil {
		t.Error(d.fault)
	}
	d.mu.Unlock()
}

// Requests have what Prometheus takes: no numbers but finite ones, text in UTF-8, samples of a
// series in the order of time.
func TestRequest(t *testing.T) {
	var rows []store.Row
	for i, edit := range []func(*keyholder.Result){
		func(r *keyholder.Result) { r.Values = []float64{2, math.NaN(), 1e300} },
		func(r *keyholder.Result) { r.Device, r.Unit, r.Bound = "pump \"1\"", "\xff°C", math.Inf(1) },
		func(r *keyholder.Result) { r.End = r.End.Add(-time.Minute) },
		func(r *keyholder.Result) { r.Values = []float64{7} }, // at a time that there is
		func(r *keyholder.Result) { r.Values = []float64{math.Inf(-1)} },
		func(r *keyholder.Result) { r.Values, r.Bound = nil, 0 },
		func(r *keyholder.Result) { r.End = time.UnixMilli(-5) },
	} {
		r := result("mean", 0)
		edit(r)
		rows = append(rows, store.Row{ID: int64(i + 1), Result: r})
	}
	at := noon.Add(time.Minute).UnixMilli()
	value, bound := `hencedge_result_value{evaluator="cloud",program="mean",unit="K"}`,
		`hencedge_result_bound{evaluator="cloud",program="mean"}`
	want := []string{
		value + " 0@-5", fmt.Sprint(value, " 0@", at-60000), fmt.Sprint(value, " 2@", at),
		fmt.Sprint(`hencedge_result_value{evaluator="cloud",index="2",program="mean",unit="K"} 1e+300@`, at),
		bound + " 0.001@-5", fmt.Sprint(bound, " 0.001@", at-60000), fmt.Sprint(bound, " 0.001@", at),
		fmt.Sprint(`hencedge_result_value{device="pump \"1\"",evaluator="cloud",program="mean",unit="�°C"} 0@`, at),
	}
	if got, err := samples(appendRequest(nil, rows)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, got\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := appendRequest(nil, rows[4:6]); len(got) != 0 {
		t.Errorf("%x", got)
	}
}

// A result whose clock is ahead is left out alone: Prometheus would take nothing else after it.
func TestAhead(t *testing.T) {
	d := &receiver{status: http.StatusOK}
	server := httptest.NewServer(d)
	defer server.Close()
	p, err := newRemote(&config.HTTP{URL: server.URL}, func() time.Time { return noon.Add(5 * time.Minute) })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var rows []store.Row
	for n := range 5 {
		rows = append(rows, store.Row{ID: int64(n + 1), Result: result("mean", n)})
	}
	rows[0].End, rows[3].End = noon.Add(15*time.Minute+1), noon.Add(15*time.Minute)
	rows[1].End = noon.Add(time.Hour)
	done, refused, err := p.send(t.Context(), rows)
	if done != 5 || err != nil || len(refused) != 2 || !errors.Is(refused[0], errAhead) || len(d.samples) != 6 {
		t.Errorf("%d done, %v, %v; the receiver has %v", done, refused, err, d.samples)
	}
	d.set(http.StatusServiceUnavailable)
	if done, refused, err = p.send(t.Context(), rows); done != 2 || err == nil || len(refused) != 2 {
		t.Errorf("%d done, %v, %v", done, refused, err)
	}
}

// A request has no more samples than receivers take, unless one result has.
func TestLargeResults(t *testing.T) {
	var most, requests, all int
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			body, err = snappy.Decode(nil, body)
		}
		got, bad := samples(body)
		if err != nil || bad != nil {
			t.Error(err, bad)
		}
		most, requests, all = max(most, len(got)), requests+1, all+len(got)
	}))
	defer server.Close()
	p, err := newRemote(&config.HTTP{URL: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, c := range []struct{ rows, values, most, requests int }{
		{200, 1, 400, 1}, {20, 256, 7 * 257, 3}, {3, 4096, 4097, 3}, {2, 999, 2000, 1}, {2, 1000, 1001, 2},
	} {
		most, requests, all = 0, 0, 0
		var rows []store.Row
		for n := range c.rows {
			r := result("mean", n)
			r.Start, r.End = time.Unix(int64(n), 0), time.Unix(int64(n+1), 0)
			r.Values = make([]float64, c.values)
			rows = append(rows, store.Row{ID: int64(n + 1), Result: r})
		}
		done, refused, err := p.send(t.Context(), rows)
		if done != c.rows || len(refused) != 0 || err != nil || most != c.most || requests != c.requests ||
			all != c.rows*(c.values+1) {
			t.Errorf("%+v: %d done, %v, %v; %d samples at most in %d requests, %d in all", c, done, refused, err, most,
				requests, all)
		}
	}
}

// prom is a real Prometheus.
type prom struct {
	program, dir, address string
	cmd                   *exec.Cmd
}

func (p *prom) start(t *testing.T, args ...string) {
	t.Helper()
	p.cmd = exec.Command(p.program, append([]string{"--config.file=" + filepath.Join(p.dir, "prometheus.yml"),
		"--storage.tsdb.path=" + filepath.Join(p.dir, "tsdb"), "--web.listen-address=" + p.address}, args...)...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (p *prom) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// has returns the samples of the series that a selector names, with the seconds since start.
func (p *prom) has(selector string, start time.Time) string {
	resp, err := http.Get("http://" + p.address + "/api/v1/query?query=" + url.QueryEscape(selector+"[3h]"))
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err.Error()
	}
	var out []string
	for _, s := range answer.Data.Result {
		out = append(out, fmt.Sprint(s.Metric))
		for _, v := range s.Values {
			at, _ := v[0].(float64)
			out = append(out, fmt.Sprintf("%v@%g", v[1], at-float64(start.Unix())))
		}
	}
	return strings.Join(out, " ")
}

// A real Prometheus gets every result although it is no receiver at first and is killed meanwhile;
// what is out of order it refuses, and gets what comes with it.
func TestPrometheus(t *testing.T) {
	p := &prom{program: testenv.Program(t, "prometheus", "prometheus"), dir: t.TempDir(),
		address: testrig.FreeAddress(t)}
	if err := os.WriteFile(filepath.Join(p.dir, "prometheus.yml"), []byte("global: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, config.Sink{Name: "prometheus",
		RemoteWrite: &config.HTTP{URL: "http://" + p.address + "/api/v1/write"}})
	t.Cleanup(p.kill)
	start := time.Now().Add(-90 * time.Minute).Truncate(time.Minute)
	values, bounds := "map[__name__:hencedge_result_value evaluator:cloud program:mean unit:K]",
		"map[__name__:hencedge_result_bound evaluator:cloud program:mean]"
	grow := func(program string, n int) {
		t.Helper()
		for range n {
			r := result(program, b.made)
			r.Start = start.Add(time.Duration(b.made) * time.Minute)
			r.End = r.Start.Add(time.Minute)
			if err := b.store.Add(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			values += fmt.Sprintf(" %d@%d", b.made, 60*(b.made+1))
			bounds += fmt.Sprintf(" 0.001@%d", 60*(b.made+1))
			b.made++
		}
	}
	complete := func(what string) {
		t.Helper()
		got := ""
		if !testrig.Poll(func() bool {
			got = p.has(`hencedge_result_value{program="mean"}`, start)
			return got == values
		}) {
			t.Fatalf("%s: got\n%s\nwant\n%s", what, got, values)
		}
		if got := p.has("hencedge_result_bound", start); got != bounds {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, bounds)
		}
	}
	p.start(t)
	grow("mean", 10)
	testrig.Eventually(t, "a failure of a Prometheus that answers", func() bool {
		return p.has("up", start) == "" && counted(t, b.sinks)["failures"] > 0
	})
	const receives = "--web.enable-remote-write-receiver"
	p.kill()
	p.start(t, receives)
	complete("results that waited for a receiver")
	p.kill()
	grow("mean", 10)
	p.start(t, receives)
	complete("results that waited")
	if n := counted(t, b.sinks)["refused"]; n != 0 {
		t.Errorf("%v results are refused", n)
	}
	b.end()
	var err error
	if b.store, err = store.Open(t.Context(), store.Options{History: b.h, Logger: testrig.Quiet()}); err != nil {
		t.Fatal(err)
	}
	grow("mean", 5)
	late := result("mean", 1000)
	late.Start, late.End = start, start.Add(90*time.Second)
	if err := b.store.Add(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	grow("mean", 5)
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	complete("all but the late one")
	testrig.Eventually(t, "a refusal", func() bool { return counted(t, b.sinks)["refused"] == 1 })
	b.end()
	if b.store, err = store.Open(t.Context(), store.Options{History: b.h, Logger: testrig.Quiet()}); err != nil {
		t.Fatal(err)
	}
	if err := b.store.SetSent(t.Context(), "prometheus", 0); err != nil { // as if none of it was recorded
		t.Fatal(err)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	testrig.Eventually(t, "the newest result, and refusals of those before", func() bool {
		c := counted(t, b.sinks)
		return c["results"] == 1 && c["refused"] == float64(b.made)
	})
	grow("mean", 3)
	complete("what came after")
	early := result("mean", 1001)
	early.End = time.Now().Add(365 * 24 * time.Hour)
	if err := b.store.Add(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	grow("mean", 3)
	complete("all but the one of a wrong clock")
}
