package agent

import (
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// The names of all parameter sets tell their slots, and a window that fills
// them is the largest that fits.
func TestFill(t *testing.T) {
	for _, name := range henc.Names() {
		p, err := henc.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if config.SlotsOf(name) != p.Slots() {
			t.Errorf("%s: %d slots by its name, %d in fact", name, config.SlotsOf(name), p.Slots())
		}
		for _, channels := range []int{1, 3, 32, p.Slots()} {
			s := config.Stream{Params: name, Window: config.Window{Fill: true},
				Channels: make([]config.Channel, channels)}
			s.SetDefaults()
			if s.Slots() > p.Slots() || 2*s.Slots() <= p.Slots() {
				t.Errorf("%s, %d channels: %d samples take %d of %d slots", name, channels, s.Window.Samples,
					s.Slots(), p.Slots())
			}
		}
	}
	agent, evaluator := config.Stream{Name: "s", Params: "edge12-d1", Interval: time.Second,
		Window: config.Window{Fill: true}, Channels: make([]config.Channel, 3)},
		config.Stream{Name: "s", Params: "edge12-d1", Window: config.Window{Samples: 512},
			Channels: make([]config.Channel, 3)}
	agent.SetDefaults()
	if agent.LayoutHash() != evaluator.LayoutHash() {
		t.Error("a filled window is not the window of its samples")
	}
}
