package plan

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// agentWith is an agent with one stream of two channels.
func agentWith(edit func(*config.Agent, *config.Stream)) *config.Agent {
	s := config.Stream{
		Name: "system", Interval: time.Second, Window: config.Window{Samples: 100}, Params: "edge12-d1",
		Channels: []config.Channel{{Name: "a", Unit: "degC", Range: [2]float64{-40, 60}}, {Name: "b", Unit: "%", Range: [2]float64{0, 100}}},
	}
	a := &config.Agent{Device: "board"}
	if edit != nil {
		edit(a, &s)
	}
	a.Streams = []config.Stream{s}
	a.SetDefaults()
	return a
}

func TestPlan(t *testing.T) {
	p, err := New(context.Background(), agentWith(nil), Options{Link: 1e6, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	params, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	s := p.Streams[0]
	if s.Slots != 256 || s.MaxSlots != 2048 || s.Window != 100 || s.Level != 1 || s.Mode != "public" || s.Messages != 1 || s.Encrypt <= 0 {
		t.Errorf("%+v", s)
	}
	least := 2 * params.PackedBytes(1)
	if s.Body < least || s.Body > least+200 || s.Sealed <= s.Body || s.Sent <= s.Sealed || s.Sent > s.Sealed+300 {
		t.Errorf("sizes %d, %d, %d; the residues have %d", s.Body, s.Sealed, s.Sent, least)
	}
	if got, want := p.BytesPerDay, float64(s.Sent)*864; math.Abs(got-want) > 1 {
		t.Errorf("%g bytes a day, want %g", got, want)
	}
	if p.MessagesPerDay != 864 || p.StateWrites != 864.0/256 || math.Abs(p.Link-float64(s.Sent)*8/100/1e6) > 1e-12 || len(p.Refusals) != 0 {
		t.Errorf("%+v", p)
	}
	sd := params.Noise().FreshPK(params.ScaleAt(1))
	for _, c := range s.Precision {
		if math.Abs(c.StdDev-50*sd) > 1e-12 || c.Bound < 5*c.StdDev || c.Bound > 20*c.StdDev {
			t.Errorf("%+v", c)
		}
	}
}

func TestPlanSymmetricSendsHalf(t *testing.T) {
	pub, err := New(context.Background(), agentWith(nil), Options{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	sym, err := New(context.Background(), agentWith(func(a *config.Agent, _ *config.Stream) { a.Keys.Mode = config.KeyModeSymmetric }), Options{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if ratio := float64(sym.Streams[0].Body) / float64(pub.Streams[0].Body); ratio > 0.51 || sym.Streams[0].Mode != "symmetric" {
		t.Errorf("symmetric windows have %.2f of the bytes", ratio)
	}
	if sym.Streams[0].Precision[0].Bits <= pub.Streams[0].Precision[0].Bits {
		t.Error("symmetric encryption is not more precise")
	}
}

func TestPlanRefusesTheImpossible(t *testing.T) {
	// A window of 2 ms at 1 kbit/s.
	a := agentWith(func(_ *config.Agent, s *config.Stream) { s.Interval, s.Window.Samples = time.Microsecond, 2 })
	p, err := New(context.Background(), a, Options{Link: 1000, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(p.Refusals, "\n")
	for _, want := range []string{"to encrypt", "processors", "uplink"} {
		if !strings.Contains(all, want) {
			t.Errorf("no refusal about %q in %q", want, all)
		}
	}
	if _, err := New(context.Background(), agentWith(func(_ *config.Agent, s *config.Stream) { s.Window.Samples = 2000 }), Options{}); err == nil || !strings.Contains(err.Error(), "slots") {
		t.Errorf("4096 of 2048 slots: %v", err)
	}
	if _, err := New(context.Background(), agentWith(func(_ *config.Agent, s *config.Stream) { s.Params = "edge99" }), Options{}); err == nil {
		t.Error("unknown parameters")
	}
}

func TestPlanWithoutARate(t *testing.T) {
	p, err := New(context.Background(), agentWith(func(_ *config.Agent, s *config.Stream) {
		s.Interval, s.Replay = 0, &config.Replay{File: "x.csv", Time: "t"}
	}), Options{Link: 1, Rounds: 1})
	if err != nil || p.BytesPerDay != 0 || p.Streams[0].Window != 0 || len(p.Refusals) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestVarintLen(t *testing.T) {
	for n, want := range map[int]int{0: 1, 127: 1, 128: 2, 16383: 2, 16384: 3, 2097151: 3, 2097152: 4} {
		if got := varintLen(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
}
