package evaluator

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
)

func TestCheck(t *testing.T) {
	x := map[string]string{"x": "d1/count/temp"}
	for name, c := range map[string]struct {
		change func(*config.Evaluator)
		kind   error
		says   []string
	}{
		"too deep": {func(cfg *config.Evaluator) { cfg.Programs[0].Expr = "x^4" }, program.ErrDepth,
			[]string{`program "p"`, "`x^4` needs level 2", "edge12-d1 have 1", "use parameters edge13-d3"}},
		"unknown channel": {func(cfg *config.Evaluator) {
			cfg.Programs[0].Inputs = map[string]string{"x": "d1/count/tmp"}
		},
			config.ErrInvalid, []string{"d1/count/tmp"}},
		"no inputs":   {func(cfg *config.Evaluator) { cfg.Programs[0].Inputs = nil }, nil, []string{"no inputs"}},
		"no programs": {func(cfg *config.Evaluator) { cfg.Programs = nil }, nil, []string{"no programs"}},
		"unknown parameters": {func(cfg *config.Evaluator) { cfg.Streams[0].Params = "edge99" }, nil,
			[]string{"edge99"}},
		"mixed parameters": {func(cfg *config.Evaluator) {
			cfg.Streams[1].Params = "edge13-d3"
			cfg.Programs[0] = prog("p", "mean(x)-mean(y)", map[string]string{"x": "d1/count/temp", "y": "d1/time/temp"})
		}, nil, []string{"edge12-d1", "edge13-d3", "must be under the same"}},
		"small limit": {func(cfg *config.Evaluator) { cfg.Limits.Object = 64 << 10 }, nil,
			[]string{"windows of d1/count have up to 73 KiB", "limits.object is 64 KiB"}},
		"small store": {func(cfg *config.Evaluator) {
			cfg.Store = &config.Store{Dir: "store", Bytes: 1 << 20}
			cfg.Programs[0].Expr = "mean(x) - mean(lag(x, 15))"
		}, nil, []string{`program "p"`, "one result have up to 1154 KiB", "store.bytes is 1024 KiB"}},
		"windows by count of two devices": {func(cfg *config.Evaluator) {
			cfg.Programs[0] = prog("p", "mean(x)-mean(y)",
				map[string]string{"x": "d1/count/temp", "y": "d2/count/temp"})
		}, nil, []string{"d1/count", "d2/count", "do not line up", "every:"}},
		"windows that end differently": {func(cfg *config.Evaluator) {
			cfg.Streams[3].Window.Every = 2 * time.Second
			cfg.Programs[0] = prog("p", "mean(x)-mean(y)", map[string]string{"x": "d1/time/temp", "y": "d2/time/temp"})
		}, nil, []string{"1s", "2s", "same window"}},
	} {
		cfg := testConfig(t, prog("p", "mean(x)", x), prog("q", "sum(x)", x))
		c.change(cfg)
		plan, err := Check(cfg)
		if plan != nil || !errors.Is(err, ErrConfig) || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the message does not say %q:\n%v", name, s, err)
			}
		}
	}
	cfg := testConfig(t, prog("p", "x^4", x), prog("q", "mena(x)", x))
	if _, err := Check(cfg); err == nil || !strings.Contains(err.Error(), `"p"`) ||
		!strings.Contains(err.Error(), `"q"`) {
		t.Errorf("not every program is reported: %v", err)
	}
}

func TestNeeds(t *testing.T) {
	cfg := testConfig(t, prog("p", "mean(x)", map[string]string{"x": "d1/count/temp"}),
		prog("q", "x*y", map[string]string{"x": "d1/count/temp", "y": "d1/count/load"}))
	plan, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	needs := plan.Needs()
	if len(needs) != 1 || needs[0].Params != "edge12-d1" || !needs[0].Relinearise ||
		!slices.Equal(needs[0].Rotations, []int{1, 2, 4, 8}) {
		t.Errorf("needs %+v", needs)
	}
	if plan.Programs[0].Join.String() != "windows by sequence number" {
		t.Errorf("joins %s", plan.Programs[0].Join)
	}
}

func TestExplain(t *testing.T) {
	cfg := testConfig(t, prog("p", "mean(x)", map[string]string{"x": "d1/count/temp"}),
		prog("q", "x + y", map[string]string{"x": "d1/time/temp", "y": "d2/time/temp"}))
	all, err := Explain(cfg)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d explanations, %v", len(all), err)
	}
	one, err := Explain(cfg, "q")
	if err != nil || len(one) != 1 || len(one[0].Inputs) != 2 {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := Explain(cfg, "r"); err == nil || !strings.Contains(err.Error(), "there are p, q") {
		t.Errorf("unknown program: %v", err)
	}
}

// TestCheckShowsPlaces: faults in a file are reported with line and column.
func TestCheckShowsPlaces(t *testing.T) {
	raw, err := os.ReadFile("../config/examples/evaluator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := config.ParseEvaluator("evaluator.yaml", raw); err != nil {
		t.Fatal(err)
	} else if _, err := Check(cfg); err != nil {
		t.Errorf("the example does not check: %v", err)
	}
	text := strings.Replace(string(raw), "expr: var(x)", "expr: vra(x)", 1)
	cfg, err := config.ParseEvaluator("evaluator.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Check(cfg)
	var places *config.Errors
	var fault *program.Error
	if !errors.As(err, &places) || !errors.As(err, &fault) || len(places.List) != 1 {
		t.Fatalf("error %v", err)
	}
	line := 1 + strings.Count(text[:strings.Index(text, "vra(x)")], "\n")
	p := places.List[0]
	if p.Line != line || p.Path != "programs[1].expr" || p.Cause != fault.Message || p.Remedy != fault.Hint {
		t.Errorf("place %+v, want line %d", p, line)
	}
	if want := fmt.Sprintf("evaluator.yaml:%d:%d: program \"cpu-variance\": unknown function", line,
		p.Column); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error\n%v\ndoes not start with %q", err, want)
	}
}
