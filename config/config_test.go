package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %d examples: %v", len(files), err)
	}
	for _, file := range files {
		role, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "-")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := parseAs(t, role, data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestAgentExample(t *testing.T) {
	a, err := LoadAgent("examples/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if a.Broker.CA != "examples/ca.pem" || a.Broker.Password != "file:examples/broker.password" ||
		a.State != "/var/lib/hencedge/agent/state" {
		t.Errorf("paths are not relative to the file: %q %q %q", a.Broker.CA, a.Broker.Password, a.State)
	}
	if a.Broker.ClientID != "agent-board1" || a.Broker.ChunkSize != 112*KiB || a.Broker.TopicPrefix != "hencedge/v1" ||
		a.Keys.Mode != KeyModePublic {
		t.Errorf("defaults: %+v %+v", a.Broker, a.Keys)
	}
	s := a.Streams[1]
	if s.Window.Samples != 30 || s.Window.Every != time.Minute || s.LevelAt(3) != 0 || a.Streams[0].LevelAt(3) != 3 {
		t.Errorf("window %+v level %v", s.Window, s.Level)
	}
	if s.Stride() != 32 || s.Slots() != 96 {
		t.Errorf("stride %d slots %d", s.Stride(), s.Slots())
	}
	if c := s.Channels[1]; c.OnMissing != MissingMark || *c.MissingValue != -40 || c.OnRange != OutsideClamp ||
		c.Source.Scale != 1 {
		t.Errorf("channel %+v", c)
	}
	if err := a.Check(); err != nil {
		t.Errorf("a loaded configuration fails its own check: %v", err)
	}
	p := a.Problem("streams[1].params", "cause", "remedy")
	if p.Line != 44 || p.Column != 13 || !strings.Contains(p.Error(), "params: edge13-d3") {
		t.Errorf("problem at %d:%d: %v", p.Line, p.Column, p)
	}
	if p := a.Problem("streams[1].log_scale", "c", "r"); p.Line != 41 {
		t.Errorf("a field that is not in the file is reported in line %d", p.Line)
	}
}

func TestReplayExampleLosesNothing(t *testing.T) {
	a, err := LoadAgent("examples/agent-replay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if a.Queue.Full != QueueBlock || a.Streams[0].Replay.Format != "csv" || a.Streams[0].Replay.Delimiter != ";" {
		t.Errorf("got %+v, %+v", a.Queue, a.Streams[0].Replay)
	}
}

func TestEvaluatorInput(t *testing.T) {
	e, err := LoadEvaluator("examples/evaluator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, ch, err := e.Input(&e.Programs[0], "board1/system/load")
	if err != nil || s.Name != "system" || ch != 2 {
		t.Fatalf("got %v %d %v", s, ch, err)
	}
	if _, _, err := e.Input(&e.Programs[0], "board1/system/lod"); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(),
			`did you mean "board1/system/load"`) {
		t.Errorf("got %v", err)
	}
}

// The agent and the evaluator examples describe the same stream, so their
// hashes agree, and the agent-only fields do not count.
func TestLayoutHashAgrees(t *testing.T) {
	a, err := LoadAgent("examples/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e, err := LoadEvaluator("examples/evaluator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if a.Streams[0].LayoutHash() != e.Streams[0].LayoutHash() {
		t.Error("the examples' layouts differ")
	}
}

func TestLayoutHashSeparates(t *testing.T) {
	base := func() Stream {
		return Stream{Name: "s", Params: "p", LogScale: 20, Packing: "real", Window: Window{Samples: 8,
			Every: time.Second},
			Channels: []Channel{{Name: "a", Unit: "V", Range: [2]float64{0, 1}}, {Name: "b", Unit: "A",
				Range: [2]float64{0,
					1}}}}
	}
	same := []func(*Stream){
		func(s *Stream) { s.Packing = "" },
		func(s *Stream) { s.Interval = time.Hour },
		func(s *Stream) { s.Level = new(1) },
		func(s *Stream) { s.Channels[0].Source = &Source{Type: SourceCPU} },
		func(s *Stream) { s.Channels[0].OnMissing = MissingSkip },
	}
	for i, f := range same {
		s := base()
		f(&s)
		if s.LayoutHash() != base().LayoutHash() {
			t.Errorf("change %d, of what is not in the layout, changes the hash", i)
		}
	}
	differ := []func(*Stream){
		func(s *Stream) { s.Name = "t" },
		func(s *Stream) { s.Params = "q" },
		func(s *Stream) { s.LogScale = 21 },
		func(s *Stream) { s.Places = 2 },
		func(s *Stream) { s.Places = 4 },
		func(s *Stream) { s.Window.Samples = 9 },
		func(s *Stream) { s.Window.Every = 0 },
		func(s *Stream) { s.Channels = s.Channels[:1] },
		func(s *Stream) { s.Channels[0], s.Channels[1] = s.Channels[1], s.Channels[0] },
		func(s *Stream) { s.Channels[1].Unit = "mA" },
		func(s *Stream) { s.Channels[1].Range[0] = -1 },
		func(s *Stream) { s.Channels[1].Range[1] = 2 },
		func(s *Stream) { s.Channels[0].Name, s.Channels[0].Unit = "aV", "" },
	}
	seen := map[[32]byte]int{base().LayoutHash(): -1}
	for i, f := range differ {
		s := base()
		f(&s)
		h := s.LayoutHash()
		if j, dup := seen[h]; dup {
			t.Errorf("changes %d and %d have the same hash", i, j)
		}
		seen[h] = i
	}
}

// TestPlaces: windows at different places have no slot in common, and a device without a
// configured place has one that follows from its name.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Stream{Places: 1 << rapid.IntRange(1, 6).Draw(t, "places"),
			Window: Window{Samples: rapid.IntRange(1, 64).Draw(t, "samples")}, Channels: make([]Channel, 1)}
		ring := max(4096, s.Slots()*s.Places)
		a := rapid.IntRange(0, s.Places-1).Draw(t, "a")
		b := rapid.IntRange(0, s.Places-1).Draw(t, "b")
		first, second := s.Place(a, ring), s.Place(b, ring)
		if first < 0 || first+s.Slots() > ring || a < b && first+s.Slots() > second || a == b && first != second {
			t.Fatalf("places %d and %d begin at slots %d and %d of %d", a, b, first, second, ring)
		}
		name := rapid.StringMatching(`[A-Za-z0-9_.-]{1,64}`).Draw(t, "name")
		if p := PlaceOf(name, s.Places); p < 0 || p >= s.Places {
			t.Fatalf("%s is at place %d of %d", name, p, s.Places)
		}
	})
	for _, c := range []struct {
		name         string
		places, want int
	}{{"pump-017", 8, 1}, {"pump-008", 8, 0}, {"7", 4, 3}, {"pump", 1, 0}, {"pump-3", 0, 0}, {"board-a", 8, 7},
		{"x99999999999999999999", 8, 4}} {
		if got := PlaceOf(c.name, c.places); got != c.want {
			t.Errorf("%s is at place %d of %d, want %d", c.name, got, c.places, c.want)
		}
	}
	a := Agent{Device: "pump-3"}
	if got := a.PlaceIn(Stream{Places: 8}); got != 3 {
		t.Errorf("place %d by the name", got)
	}
	if a.Place = new(13); a.PlaceIn(Stream{Places: 8}) != 5 || a.PlaceIn(Stream{}) != 0 {
		t.Error("a configured place does not count")
	}
}

func TestStride(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Stream{Window: Window{Samples: rapid.IntRange(1, MaxSamples).Draw(t, "samples")}}
		n := s.Stride()
		if n < s.Window.Samples || n >= 2*s.Window.Samples && n > 1 || n&(n-1) != 0 {
			t.Fatalf("stride %d for %d samples", n, s.Window.Samples)
		}
	})
}

func TestAffine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(-1e12, 1e12).Draw(t, "lo")
		hi := rapid.Float64Range(lo, 1e12+1).Draw(t, "hi")
		mid, half := Channel{Range: [2]float64{lo, hi}}.Affine()
		if eps := 1e-3; math.Abs(mid-half-lo) > eps || math.Abs(mid+half-hi) > eps {
			t.Fatalf("[%g, %g]: mid %g half %g", lo, hi, mid, half)
		}
	})
	if mid, half := (Channel{Range: [2]float64{-math.MaxFloat64, math.MaxFloat64}}).Affine(); mid != 0 ||
		half != math.MaxFloat64 {
		t.Errorf("the widest range overflows: %g %g", mid, half)
	}
}

func TestSecret(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("c", "from a credential")
	t.Setenv("HENCEDGE_TEST_SECRET", "from env")
	t.Setenv("HENCEDGE_TEST_EMPTY", "")
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	good := map[Secret]string{
		"": "", Secret("file:" + write("a", " s3 cret\n")): " s3 cret", "env:HENCEDGE_TEST_SECRET": "from env",
		"cred:c":                                 "from a credential",
		Secret("file:" + write("crlf", "x\r\n")): "x",
	}
	for s, want := range good {
		if got, err := s.Resolve(); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", s, got, err)
		}
	}
	bad := []Secret{"plain", "vault:x", "file:", "env:HENCEDGE_TEST_EMPTY", "env:HENCEDGE_TEST_NOT_SET", "cred:none",
		Secret("file:" + filepath.Join(dir, "none")), Secret("file:" + write("e", "\n")),
		Secret("file:" + write("big", strings.Repeat("x", maxSecret+1)))}
	for _, s := range bad {
		got, err := s.Resolve()
		if !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %q %v", s, got, err)
		} else if s == "plain" && strings.Contains(err.Error(), "plain") {
			t.Error("the error shows a secret that was written out")
		}
	}
}

func TestEndpoint(t *testing.T) {
	for url, want := range map[string]Endpoint{
		"tls://h": {true, "h", 8883}, "mqtts://h:1": {true, "h", 1}, "ssl://1.2.3.4/": {true, "1.2.3.4", 8883},
		"tcp://[::1]:99": {false, "::1", 99}, "mqtt://localhost": {false, "localhost", 1883},
	} {
		got, err := Broker{URL: url}.Endpoint()
		if err != nil || got != want {
			t.Errorf("%s: %+v %v", url, got, err)
		}
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.9": true, "::1": true, "10.0.0.1": false,
		"localhost.example.org": false} {
		if got := (Endpoint{Host: host}).Loopback(); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}

func TestReplayFactor(t *testing.T) {
	for in, want := range map[string]float64{"": 1, "realtime": 1, "fast": 0, "10x": 10, "0.5x": 0.5} {
		if got, err := (Replay{Speed: in}).ReplayFactor(); err != nil || got != want {
			t.Errorf("%q: %g %v", in, got, err)
		}
	}
	for _, in := range []string{"x", "0x", "-1x", "NaNx", "1e9x", "10", "quick"} {
		if got, err := (Replay{Speed: in}).ReplayFactor(); err == nil {
			t.Errorf("%q: accepted as %g", in, got)
		}
	}
}

// Hostile text must give an error in bounded time, never a crash.
func TestHostile(t *testing.T) {
	deep := func(s string, n int) string { return "a: " + strings.Repeat(s, n) }
	for name, text := range map[string]string{
		"flow lists": deep("[", 100000), "flow maps": deep("{a: ", 100000), "block lists": strings.Repeat("- ", 100000),
		"complex keys": strings.Repeat("? ", 100000), "tags": deep("!!a ", 100000),
		"lists over lines": strings.Repeat("[\n",
			100000),
		"too large": strings.Repeat("# "+strings.Repeat("x", 60000)+"\n", 20),
		"too many lines": strings.Repeat("a: b\n",
			30000),
		"many errors": strings.Repeat("a: b\n", 300), "bad utf8": "device: \xff\n", "nul": "device: \x00\n",
		"long line": "device: " + strings.Repeat("x", 100000), "bom": "\xef\xbb\xbf", "indent": deeper(300),
	} {
		for _, role := range []string{"agent", "evaluator", "keyholder"} {
			err := parseAs(t, role, []byte(text))
			var all *Errors
			if !errors.As(err, &all) {
				t.Errorf("%s as %s: %v", name, role, err)
			}
		}
	}
}

func deeper(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// A configuration that was built in code reports problems without a position.
func TestCheckWithoutFile(t *testing.T) {
	a := &Agent{Device: "b/1"}
	a.SetDefaults()
	err := a.Check()
	if err == nil || !strings.Contains(err.Error(), `device: invalid name "b/1"`) || strings.Contains(err.Error(),
		" | ") {
		t.Errorf("got %v", err)
	}
	for _, c := range []interface{ Check() error }{&Evaluator{}, &KeyHolder{}} {
		if c.Check() == nil {
			t.Errorf("an empty %T passes", c)
		}
	}
}

func TestLoadMissingFile(t *testing.T) {
	if _, err := LoadAgent(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// Every key of the schema is explained in docs/configuration.md.
func TestEveryKeyIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var walk func(rt reflect.Type)
	walk = func(rt reflect.Type) {
		switch rt.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(rt.Elem())
		case reflect.Struct:
			for i := range rt.NumField() {
				f := rt.Field(i)
				tag, ok := f.Tag.Lookup("yaml")
				if ok && tag != ",inline" && !strings.Contains(string(doc), "| `"+tag+"` |") {
					t.Errorf("%s.%s: no table row for `%s`", rt.Name(), f.Name, tag)
				}
				if ok {
					walk(f.Type)
				}
			}
		}
	}
	for _, v := range []any{Agent{}, Evaluator{}, KeyHolder{}} {
		walk(reflect.TypeOf(v))
	}
	for _, u := range units {
		if !strings.Contains(string(doc), "`"+u.unit+"`") {
			t.Errorf("the unit %s is not listed", u.unit)
		}
	}
	for typ, kind := range sourceKinds {
		for field := range kind.fields {
			if !strings.Contains(string(doc), "`"+field+"`") {
				t.Errorf("the %s field %s is not listed", typ, field)
			}
		}
	}
}

// The socket of a file is found although the rest is wrong; a file that is no YAML, or
// not there, has none.
func TestControlSocket(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"control: {socket: c.sock}":                   filepath.Join(dir, "c.sock"),
		"streams: 7\ncontrol: {socket: /run/c, x: 1}": "/run/c",
		"control: {socket: 5}":                        "",
		"control: 5":                                  "",
		"device: b":                                   "",
		"control: {socket: /run/c":                    "",
		"":                                            "",
	} {
		file := filepath.Join(dir, "f.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ControlSocket(file); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := ControlSocket(filepath.Join(dir, "none")); got != "" {
		t.Errorf("got %q", got)
	}
}

// Where a text is data for a device or a file, white space is as good as any: columns
// that a space divides, a device that answers to the Enter key, a blank argument.
func TestBlankTexts(t *testing.T) {
	schema := compiled(t, "agent")
	for _, c := range []struct {
		file, old, blank string
		got              func(a *Agent) string
	}{
		{"agent-serial.yaml", `delimiter: ";"`, " ",
			func(a *Agent) string { return a.Input("weather").Serial.Delimiter }},
		{"agent-serial.yaml", `request: "MEAS?\n"`, "\r\n",
			func(a *Agent) string { return a.Input("meter").Serial.Request }},
		{"agent-replay.yaml", `delimiter: ";"`, " ", func(a *Agent) string { return a.Streams[0].Replay.Delimiter }},
		{"agent-exec.yaml", `--json`, " ", func(a *Agent) string { return a.Inputs[0].Exec.Command[1] }},
	} {
		data, err := os.ReadFile("examples/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{c.blank, ""} {
			key, _, found := strings.Cut(c.old, " ")
			if !found {
				key = ""
			}
			edited := strings.Replace(string(data), c.old, strings.TrimSpace(key+" "+fmt.Sprintf("%q", text)), 1)
			if edited == string(data) {
				t.Fatalf("%s has no %s", c.file, c.old)
			}
			a, err := ParseAgent(c.file, []byte(edited))
			v, ok := instance([]byte(edited))
			if good := text != ""; (err == nil) != good || !ok || (schema.Validate(v) == nil) != good {
				t.Errorf("%s, %q: %v, %v", c.file, text, err, schema.Validate(v))
			} else if good && c.got(a) != text {
				t.Errorf("%s: got %q", c.file, c.got(a))
			}
		}
	}
}
