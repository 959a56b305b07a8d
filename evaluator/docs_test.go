package evaluator

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
)

var update = flag.Bool("update", false, "rewrite the generated parts of docs/programs.md")

const programsDoc = "../docs/programs.md"

// block is a fenced block: its info string and its text.
type block struct{ info, text string }

func blocks(t *testing.T, doc string) (out []block) {
	t.Helper()
	lines := strings.Split(doc, "\n")
	for i := 0; i < len(lines); i++ {
		info, ok := strings.CutPrefix(lines[i], "```")
		if !ok {
			continue
		}
		var text []string
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			text = append(text, lines[i])
		}
		if i == len(lines) {
			t.Fatalf("the block %q does not end", info)
		}
		out = append(out, block{info, strings.Join(text, "\n")})
	}
	return out
}

// TestProgramsDocument compiles every example of docs/programs.md, provokes
// every refusal, and compares the explanation that it shows.
func TestProgramsDocument(t *testing.T) {
	raw, err := os.ReadFile(programsDoc)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	var cfg *config.Evaluator
	seen := map[string]int{}
	for _, b := range blocks(t, doc) {
		kind, arg, _ := strings.Cut(b.info, " ")
		seen[kind]++
		switch kind {
		case "yaml":
			if cfg, err = config.ParseEvaluator("programs.md", []byte(b.text)); err != nil {
				t.Fatal(err)
			}
			if _, err := Check(cfg); err != nil {
				t.Error(err)
			}
		case "program":
			for _, line := range strings.Split(b.text, "\n") {
				if _, err := compileExample(t, cfg, line); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		case "compared":
			for _, line := range strings.Split(b.text, "\n") {
				if _, err := compileCompared(t, cfg, line); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		case "refused":
			for _, line := range strings.Split(b.text, "\n") {
				expr, says, _ := strings.Cut(line, "//")
				var e *program.Error
				if _, err := compileExample(t, cfg, expr); !errors.As(err, &e) ||
					!strings.Contains(err.Error(), strings.TrimSpace(says)) {
					t.Errorf("%s: %v", line, err)
				}
			}
		case "message":
			expr := strings.TrimSpace(strings.Split(b.text, "\n")[1])
			if _, err := compileExample(t, cfg, expr); err == nil || err.Error() != b.text {
				t.Errorf("message\n%v\nthe document shows\n%s", err, b.text)
			}
		case "explain":
			list, err := Explain(cfg, arg)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.TrimRight(trimLines(list[0].Text()), "\n")
			if b.text == want {
				continue
			}
			if !*update {
				t.Errorf("explain %s is now\n%s\nrun go test ./evaluator -run Document -update", arg, want)
				continue
			}
			old := "```" + b.info + "\n" + b.text + "\n```"
			if b.text == "" {
				old = "```" + b.info + "\n```"
			}
			if err := os.WriteFile(programsDoc, []byte(strings.Replace(doc, old, "```"+b.info+"\n"+want+"\n```", 1)),
				0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range []string{"yaml", "program", "compared", "refused", "message", "explain"} {
		if seen[kind] == 0 {
			t.Errorf("the document has no block of kind %q", kind)
		}
	}
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// compileExample compiles an expression over the document's variables.
func compileExample(t *testing.T, cfg *config.Evaluator, expr string) (*program.Circuit, error) {
	t.Helper()
	return compileUnder(t, cfg, "edge13-d3", 0, expr)
}

// compileCompared is compileExample for an expression that compares.
func compileCompared(t *testing.T, cfg *config.Evaluator, expr string) (*program.Circuit, error) {
	t.Helper()
	return compileUnder(t, cfg, "deep16-d23", 0.5, expr)
}

func compileUnder(t *testing.T, cfg *config.Evaluator, params string, resolution float64, expr string) (
	*program.Circuit, error) {
	t.Helper()
	src := program.Source{Name: "example", Expr: strings.TrimSpace(expr), Resolution: resolution,
		Vars: map[string]program.Var{}}
	for name, ref := range map[string]string{"i": "pump/motor/current", "u": "pump/motor/voltage",
		"v": "pump/motor/vibration", "h": "tank/level/height", "t": "pump/heat/temp"} {
		s, channel, err := cfg.Input(&config.Program{}, ref)
		if err != nil {
			t.Fatal(err)
		}
		st := s.Stream
		st.Params = params
		src.Vars[name] = program.Var{Device: s.Device, Stream: st, Channel: channel}
	}
	p, err := henc.Named(params)
	if err != nil {
		t.Fatal(err)
	}
	return program.Compile(src, p)
}

// TestEveryReasonIsDocumented keeps docs/evaluator.md complete.
func TestEveryReasonIsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../docs/evaluator.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range Reasons() {
		if !strings.Contains(string(raw), "`"+reason+"`") {
			t.Errorf("docs/evaluator.md does not explain the reason %s", reason)
		}
	}
}

// fits are the programs of the table "What fits" in docs/parameters.md.
var fits = []string{"2*x + 1", "mean(x)", "x*x", "mean(x^2)", "var(x)", "rms(x)"}

// promised are the bits that a program over 64 samples of [0, 100] promises, or "-".
func promised(params string, logScale int, expr string) string {
	cfg := &config.Evaluator{
		Name: "cloud", Broker: config.Broker{URL: "tls://h"}, KeySets: []string{"k"}, SigningKey: "s", State: "st",
		Devices: []config.Device{{Name: "d", PublicKey: "ed25519:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="}},
		Streams: []config.DeviceStream{{Device: "d", Stream: config.Stream{Name: "s",
			Window: config.Window{Samples: 64}, Params: params, LogScale: logScale,
			Channels: []config.Channel{{Name: "c", Unit: "%", Range: [2]float64{0, 100}}}}}},
		Programs: []config.Program{{Name: "p", Expr: expr, Inputs: map[string]string{"x": "d/s/c"}}},
	}
	cfg.SetDefaults()
	list, err := Explain(cfg)
	if err != nil || len(list) != 1 {
		return "-"
	}
	return fmt.Sprintf("%.1f", list[0].Result.Bits)
}

// TestParametersDocument keeps what docs/parameters.md says of each set true.
func TestParametersDocument(t *testing.T) {
	raw, err := os.ReadFile("../docs/parameters.md")
	if err != nil {
		t.Fatal(err)
	}
	want := func(text string) {
		if !strings.Contains(string(raw), text) {
			t.Errorf("docs/parameters.md lacks %q", text)
		}
	}
	for _, name := range henc.Names() {
		row := "| " + name + " |"
		for _, expr := range fits {
			row += " " + promised(name, 0, expr) + " |"
		}
		want(row)
	}
	want(fmt.Sprintf("with `log_scale: 23` `mean(x^2)` has %s bits and `rms(x)` %s",
		promised("edge12-d1", 23, "mean(x^2)"), promised("edge12-d1", 23, "rms(x)")))
	want(fmt.Sprintf("with `log_scale: 21` `var(x)` has %s", promised("edge12-d1", 21, "var(x)")))
}
