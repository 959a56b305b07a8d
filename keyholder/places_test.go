package keyholder

import (
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// TestPlacesAgree: the value of a device may stand at any place of an approved program, and
// nowhere else. All else must be as the program gives it, and the key holder finds the same
// promise as the evaluator.
func TestPlacesAgree(t *testing.T) {
	params, err := henc.Named("edge13-d3")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		class, expr string
		places      int
		slots       []int // besides that of place 0
	}{
		{"pump", "mean(y)", 8, []int{512, 1024, 1536, 2048, 2560, 3072, 3584}},
		{"pump", "y", 2, []int{2048}},
		{"", "mean(y)", 4, []int{1024, 2048, 3072}},
		{"pump", "mean(y)", 0, nil},
		{"pump", "fleet.mean(y)", 8, nil},
	} {
		st := config.Stream{Name: "s", Params: "edge13-d3", Places: c.places, Packing: config.PackingReal,
			Window: config.Window{Samples: 100, Every: time.Second}, Channels: []config.Channel{
				{Name: "x", Unit: "u", Range: [2]float64{0, 1}}, {Name: "y", Unit: "u", Range: [2]float64{0, 1}}}}
		v := program.Var{Stream: st, Channel: 1}
		if c.class == "" {
			v.Device = "a"
		}
		src := program.Source{Name: "p", Class: c.class, Expr: c.expr, Vars: map[string]program.Var{"y": v}}
		own, err := program.Compile(src, params)
		if err != nil {
			t.Fatal(err)
		}
		_, approved, err := NewApproval("cloud", program.Publish(src, params, "u", ""), time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if approved.Output() != own.Output() || approved.Hash() != own.Hash() {
			t.Errorf("%s at %d places: the key holder expects %+v, the evaluator gives %+v", c.expr, c.places,
				approved.Output(), own.Output())
		}
		if own.Capacity() > 0 {
			if approved, err = approved.Across(1, 100); err != nil {
				t.Fatal(err)
			}
		}
		out := approved.Output()
		header := func(slot int) *transport.Meta {
			return &transport.Meta{Level: approved.Level(), Scale: approved.Scale(), Post: &transport.Post{A: out.A,
				B: out.B, Sqrt: out.Sqrt, Slot: slot, Count: out.Count, Bound: out.Bound}}
		}
		allowed := map[int]bool{out.Slot: true}
		for _, s := range c.slots {
			allowed[out.Slot+s] = true
		}
		for slot := range params.Slots() + 600 {
			err := agrees(header(slot), approved)
			if (err == nil) != allowed[slot] || err != nil && !strings.Contains(err.Error(), "slot is") {
				t.Fatalf("%s at %d places, slot %d: %v", c.expr, c.places, slot, err)
			}
		}
		other := header(out.Slot)
		if other.Post.Bound *= 0.9; agrees(other, approved) == nil {
			t.Errorf("%s at %d places: a smaller promise is taken", c.expr, c.places)
		}
	}
}
