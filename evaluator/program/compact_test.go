package program

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// compactVars are the windows of a compact stream with one channel.
func compactVars(params string, samples, precision int) map[string]Var {
	st := config.Stream{Name: "s", Mode: config.ModeCompact, Precision: precision, Params: params,
		Window:   config.Window{Samples: samples},
		Channels: []config.Channel{{Name: "c", Unit: "V", Range: [2]float64{0, 10}}}}
	st.SetDefaults()
	return map[string]Var{"x": {Stream: st}}
}

// TestCompactCircuit: what follows for a program from the mode of its stream.
func TestCompactCircuit(t *testing.T) {
	p := mustParams(t, "boot15")
	c, err := Compile(Source{Name: "p", Expr: "mean(x)", Class: "k", Vars: compactVars("boot15", 60, 12)}, p)
	if err != nil {
		t.Fatal(err)
	}
	if c.Compact() != 256 || c.Merge() != 32 || !c.NeedsRelin() || c.Bootstraps() != 0 ||
		fmt.Sprint(c.Rotations()) != "[1 2 4 8 16 32]" {
		t.Errorf("%d windows, merged by %d, relinearisation %t, rotations %v", c.Compact(), c.Merge(), c.NeedsRelin(),
			c.Rotations())
	}
	// A mean is as exact as a sample, and not much worse: 2^-12 of half of 0..10.
	if b := c.Output().Bound; b < 5*0x1p-12 || b > 5*1.3*0x1p-12 {
		t.Errorf("the promise is %g", b)
	}
	e := c.Explain()
	if e.Compact == nil || e.Compact.Windows != 256 || e.Compact.Error != 0x1p-12 || e.Compact.Memory < 1<<30 ||
		!e.Keys.Bootstrap || e.Inputs[0].Bytes != 158 || e.Inputs[0].Readings != 64 || e.Least != nil {
		t.Errorf("%+v", e)
	}
	if text := e.Text(); !strings.Contains(text, "up to 256 devices are bootstrapped together") ||
		!strings.Contains(text, "64 readings at 12 bits in 158 B") {
		t.Error(text)
	}
	alone, err := Compile(Source{Name: "p", Expr: "mean(x)", Vars: named(compactVars("boot15", 60, 12))}, p)
	if err != nil || alone.Compact() != 1 || alone.Form() == c.Form() {
		t.Errorf("for no class: %v", err)
	}
	for readings, want := range map[int]int{64: 158, 128: 302} {
		st := compactVars("boot15", readings, 12)["x"].Stream
		if got := CompactBytes(st); got != want {
			t.Errorf("%d readings have %d bytes", readings, got)
		}
	}
	deep, err := Compile(Source{Name: "p", Expr: "mean(x^9)", Class: "k", Vars: compactVars("boot15", 60, 12)}, p)
	if err != nil || deep.Bootstraps() < 1 {
		t.Errorf("a deep program: %v", err)
	}
	fleet, err := Compile(Source{Name: "p", Expr: "fleet.mean(x)", Class: "k", Vars: compactVars("boot15", 60, 12)}, p)
	if err != nil || fleet.Parts().Compact() != 256 {
		t.Fatalf("across devices: %v", err)
	}
	if e := fleet.Explain(); e.Compact == nil || e.Compact.Windows != 256 || e.Keys.Count < 26 {
		t.Errorf("across devices: %+v, %d keys", e.Compact, e.Keys.Count)
	}
	across, err := fleet.Across(100, 6000)
	if err != nil {
		t.Fatal(err)
	}
	if b := across.Output().Bound; across.Compact() != 0 || b < 5*0x1p-12 || b > 5*1.6*0x1p-12 {
		t.Errorf("across 100 windows the promise is %g", b)
	}
}

// named gives the variables a device.
func named(vars map[string]Var) map[string]Var {
	for name, v := range vars {
		v.Device = "d"
		vars[name] = v
	}
	return vars
}

func TestCompactRefuses(t *testing.T) {
	for _, c := range []struct {
		params             string
		samples, precision int
		want               string
	}{
		{"boot15", 64, 16, "too large for precision 16"},
		{"edge12-d1", 64, 12, "no levels for bootstrapping"},
		{"boot15", 5000, 12, "each of 4 places has 4096"},
		{"boot10-insecure", 513, 12, "boot10-insecure"},
	} {
		p, err := henc.NamedInsecure(c.params)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Compile(Source{Name: "p", Expr: "mean(x)", Class: "k",
			Vars: compactVars(c.params, c.samples, c.precision)}, p)
		wantHint(t, err)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	vars := compactVars("boot15", 64, 12)
	large := vars["x"].Stream
	large.Name, large.Mode, large.Packing = "l", config.ModeSamples, config.PackingReal
	vars["y"] = Var{Stream: large}
	_, err := Compile(Source{Name: "p", Expr: "mean(x) + mean(y)", Class: "k", Vars: vars}, mustParams(t, "boot15"))
	if err == nil || !strings.Contains(err.Error(), "compact") {
		t.Errorf("both kinds of windows: %v", err)
	}
}
