package agent

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
)

// A command and a web server feed a window: what is decrypted is what they said.
func TestInputsToCiphertext(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, `{"air": [{"t": 70.7}]}`)
	}))
	defer web.Close()
	cfg := testConfig(t)
	cfg.Inputs = []config.Input{
		{Name: "tool", Every: 10 * time.Millisecond, Exec: &config.Exec{Command: []string{"/bin/echo", "T=21.5"}}},
		{Name: "web", Every: 10 * time.Millisecond, HTTP: &config.HTTP{URL: web.URL}},
	}
	s := &cfg.Streams[0]
	s.Interval = 20 * time.Millisecond
	s.Channels = []config.Channel{
		{Name: "tool", Unit: "degC", Range: [2]float64{-40, 125},
			Source: &config.Source{Type: config.SourceExec, Point: config.Point{From: "tool", Pattern: "T=([0-9.]+)"}}},
		{Name: "web", Unit: "degF", Range: [2]float64{0, 100},
			Source: &config.Source{Type: config.SourceHTTP, Scale: 0.5, Offset: 1,
				Point: config.Point{From: "web", Path: "air.0.t"}}},
	}
	cfg.SetDefaults()
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	deps.Clock = role.SystemClock()
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	readings, _ := opened(t, k, cfg.Device, client.messages)
	if len(readings) != 1 {
		t.Fatalf("%d readings", len(readings))
	}
	for i, want := range []float64{21.5, 36.35} {
		for _, got := range decrypted(t, k, *s, readings[0])[i] {
			if math.Abs(got-want) > 0.1 {
				t.Errorf("channel %d: got %v, want %v", i, got, want)
			}
		}
	}
	if st := a.Stats().Inputs; st["tool"].Values == 0 || st["web"].Values == 0 || st["web"].Failures != 0 {
		t.Errorf("got %+v", st)
	}
}
