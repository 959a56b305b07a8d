//go:build !evaluatoronly

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// otlp is what a collector of a script has got.
type otlp struct {
	mu    sync.Mutex
	all   []byte // all bodies
	spans []tracedSpan
	err   error
}

// tracedSpan is a span as OTLP/JSON has it, written here anew from the format's documents, and the
// service that sent it.
type tracedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Attributes                          []tracedAttribute
	Links                               []struct{ TraceID, SpanID string }
	service, version                    string
}

type tracedAttribute struct {
	Key   string
	Value struct{ StringValue, IntValue *string }
}

// attribute returns the text or number of an attribute.
func attribute(list []tracedAttribute, key string) string {
	for _, a := range list {
		switch {
		case a.Key != key:
		case a.Value.StringValue != nil:
			return *a.Value.StringValue
		case a.Value.IntValue != nil:
			return *a.Value.IntValue
		}
	}
	return ""
}

// tracesOf has the collectors of scripts that run, by their URL.
var tracesOf sync.Map

// startCollector is "collector": a server for OTLP/JSON at $COLLECTOR.
func startCollector(ts *testscript.TestScript, _ bool, _ []string) {
	c := new(otlp)
	s := httptest.NewServer(http.HandlerFunc(c.take))
	ts.Defer(s.Close)
	ts.Setenv("COLLECTOR", s.URL+"/v1/traces")
	tracesOf.Store(s.URL+"/v1/traces", c)
}

func (c *otlp) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []tracedAttribute }
			ScopeSpans []struct {
				Scope struct{ Name string }
				Spans []tracedSpan
			}
		}
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		err = d.Decode(&in)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		c.err = err
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.all = append(c.all, body...)
	for _, rs := range in.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				s.service = attribute(rs.Resource.Attributes, "service.name")
				s.version = attribute(rs.Resource.Attributes, "service.version")
				c.spans = append(c.spans, s)
			}
		}
	}
	_, _ = w.Write([]byte("{}"))
}

// steps are the spans of a result, in the order in which they begin.
var steps = []string{"hencedge-agent read", "hencedge-agent encrypt", "hencedge-agent publish",
	"hencedge-evaluator receive", "hencedge-evaluator queue", "hencedge-evaluator compute",
	"hencedge-evaluator publish", "hencedge-keyholder receive", "hencedge-keyholder verify",
	"hencedge-keyholder decrypt", "hencedge-keyholder store"}

// checkTraces is "traced RESULTS TEXT...": the collector must have a trace of every result in a file
// of NDJSON, and nowhere a TEXT.
func checkTraces(ts *testscript.TestScript, _ bool, args []string) {
	found, _ := tracesOf.Load(ts.Getenv("COLLECTOR"))
	c := found.(*otlp)
	c.mu.Lock()
	defer c.mu.Unlock()
	ts.Check(c.err)
	for _, line := range strings.Split(strings.TrimSpace(readFile(ts, args[0])), "\n") {
		var r struct {
			Program, ID string
			Inputs      []string
		}
		ts.Check(json.Unmarshal([]byte(line), &r))
		c.check(ts, r.Program, r.ID, r.Inputs)
	}
	for _, text := range args[1:] {
		if bytes.Contains(c.all, []byte(text)) {
			ts.Fatalf("the spans hold %q", text)
		}
	}
	allowed := []string{"hencedge.object", "hencedge.device", "hencedge.stream", "hencedge.program",
		"hencedge.sequence", "hencedge.bytes"}
	for _, s := range c.spans {
		if s.version != thisVersion() {
			ts.Fatalf("%s %s is of the version %q", s.service, s.Name, s.version)
		}
		for _, a := range s.Attributes {
			if !slices.Contains(allowed, a.Key) {
				ts.Fatalf("the span %q has the attribute %q", s.Name, a.Key)
			}
		}
	}
}

// sumSteps are the spans of a sum across devices, in the order in which they begin.
var sumSteps = []string{"hencedge-evaluator collect", "hencedge-evaluator queue", "hencedge-evaluator compute",
	"hencedge-evaluator publish", "hencedge-keyholder receive", "hencedge-keyholder verify",
	"hencedge-keyholder decrypt", "hencedge-keyholder store"}

// checkSums is "tracedsums RESULTS": the collector must have a trace of each sum across devices in a
// file of NDJSON, which leads to those of its windows.
func checkSums(ts *testscript.TestScript, _ bool, args []string) {
	found, _ := tracesOf.Load(ts.Getenv("COLLECTOR"))
	c := found.(*otlp)
	c.mu.Lock()
	defer c.mu.Unlock()
	ts.Check(c.err)
	sums := 0
	for _, line := range strings.Split(strings.TrimSpace(readFile(ts, args[0])), "\n") {
		var r struct {
			Program, ID string
			Inputs      []string
			Fleet       *struct {
				Digest string `json:"inputs_digest"`
			}
		}
		ts.Check(json.Unmarshal([]byte(line), &r))
		if r.Fleet == nil {
			continue
		}
		sums++
		at := map[string]tracedSpan{}
		for _, s := range c.spans {
			if s.TraceID == r.Fleet.Digest[:32] && attribute(s.Attributes, "hencedge.program") == r.Program {
				at[s.service+" "+s.Name] = s
			}
		}
		collect, sent := at[sumSteps[0]], at["hencedge-evaluator publish"]
		for _, name := range sumSteps {
			s, parent := at[name], collect.SpanID
			switch {
			case name == sumSteps[0]:
				parent = ""
			case s.service == "hencedge-keyholder":
				parent = sent.SpanID
			}
			if s.SpanID == "" || s.ParentSpanID != parent || attribute(s.Attributes, "hencedge.object") != r.ID ||
				s.StartTimeUnixNano < collect.StartTimeUnixNano || s.EndTimeUnixNano < s.StartTimeUnixNano {
				ts.Fatalf("%s: %s is %+v, its parent should be %q", r.Program, name, s, parent)
			}
		}
		var windows []string
		for _, l := range collect.Links {
			i := slices.IndexFunc(c.spans, func(s tracedSpan) bool {
				return s.TraceID == l.TraceID && s.SpanID == l.SpanID && s.Name == "read"
			})
			if i >= 0 {
				windows = append(windows, attribute(c.spans[i].Attributes, "hencedge.object"))
			}
		}
		slices.Sort(windows)
		if len(r.Inputs) < 2 || !slices.Equal(windows, r.Inputs) {
			ts.Fatalf("%s: the sum leads to the windows %v, want %v", r.Program, windows, r.Inputs)
		}
	}
	if sums == 0 {
		ts.Fatalf("there is no sum")
	}
}

// check looks for the spans of one result in the trace of its first input.
func (c *otlp) check(ts *testscript.TestScript, program, id string, inputs []string) {
	var got []tracedSpan
	for _, s := range c.spans {
		about := attribute(s.Attributes, "hencedge.program")
		if s.TraceID == inputs[0][:32] && (about == "" || about == program) {
			got = append(got, s)
		}
	}
	slices.SortStableFunc(got, func(a, b tracedSpan) int {
		return strings.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano)
	})
	var names []string
	at := map[string]tracedSpan{}
	for _, s := range got {
		name := s.service + " " + s.Name
		names = append(names, name)
		at[name] = s
		start, err := strconv.ParseInt(s.StartTimeUnixNano, 10, 64)
		ts.Check(err)
		end, err := strconv.ParseInt(s.EndTimeUnixNano, 10, 64)
		ts.Check(err)
		if end < start || s.Kind != 1 || len(s.SpanID) != 16 {
			ts.Fatalf("span %+v", s)
		}
	}
	if len(got) != len(steps) || len(at) != len(steps) {
		ts.Fatalf("the trace of %s has the spans %q, want %q", program, names, steps)
	}
	root, sent := at[steps[0]], at["hencedge-evaluator publish"]
	for i, name := range steps {
		s := at[name]
		want := root.SpanID
		switch {
		case i == 0:
			want = ""
		case s.service == "hencedge-keyholder":
			want = sent.SpanID
		}
		if s.ParentSpanID != want {
			ts.Fatalf("%s: %s has the parent %q, want %q", program, name, s.ParentSpanID, want)
		}
		object := inputs[0]
		if i > 3 { // of the result
			object = id
			if len(s.Links) != len(inputs)-1 || len(inputs) > 1 && s.Links[0].TraceID != inputs[1][:32] {
				ts.Fatalf("%s: %s has links to %v, want the other windows of %v", program, name, s.Links, inputs)
			}
		}
		if got := attribute(s.Attributes, "hencedge.object"); got != object {
			ts.Fatalf("%s: %s is about %s, want %s", program, name, got, object)
		}
		if i > 0 && s.StartTimeUnixNano < at[steps[i-1]].StartTimeUnixNano {
			ts.Fatalf("%s: %s begins before %s", program, name, steps[i-1])
		}
	}
}
