package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
)

// What sensors say is in the ciphertext and nowhere else: not in a log at its
// chattiest, not in the metrics, not in the status or the health, whether the reading
// is good, out of range, or no number at all.
func TestReadingsStaySecret(t *testing.T) {
	cfg := chattyConfig(t)
	deps, _ := testDeps(t, &fakeClient{})
	log := &testrig.Log{}
	deps.Clock, deps.Logger = role.SystemClock(),
		slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(a); err != nil {
		t.Fatal(err)
	}
	// The troubles themselves are told, sooner or later: commands take what they take.
	ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
	defer cancel()
	missing := make(chan []string, 1)
	go func() {
		defer cancel()
		var untold []string
		defer func() { missing <- untold }()
		for ctx.Err() == nil {
			untold = slices.DeleteFunc([]string{"a value is out of range", "channel=outside", "9 9", "9,9 a"},
				func(s string) bool { return strings.Contains(log.String(), s) })
			if len(untold) == 0 && a.Stats().Sent > 0 {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	report, err := json.Marshal(a.Report())
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the log": log.String(), "the report": string(report),
		"the metrics": metricsText(t, registry),
		"the health":  strings.Join(a.Health(), "\n"), "the state in a line": a.Line()} {
		// no figure of a report has such digits by chance
		for _, secret := range []string{"313373133", "271828182", "161803398", "141421356"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s tells a reading, %s:\n%s", where, secret, text)
			}
		}
	}
	if untold := <-missing; len(untold) > 0 {
		t.Errorf("no %q in the log:\n%s", untold, log)
	}
	if st := a.Stats().Streams["system"]; st.Outside == 0 || st.Missing == 0 {
		t.Errorf("got %+v", st)
	}
}

// chattyConfig describes an agent whose inputs say the secrets: as a good reading, out of
// range, and as no number.
func chattyConfig(t *testing.T) *config.Agent {
	t.Helper()
	gps := filepath.Join(t.TempDir(), "gps")
	if err := os.WriteFile(gps, []byte("#!/bin/sh\necho '{\"at\": \"313373133,25 N\"}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t)
	cfg.Inputs = []config.Input{
		{Name: "broken", Every: 10 * time.Millisecond,
			Exec: &config.Exec{Command: []string{"/bin/echo", "141421356 161803398"}}},
		{Name: "outside", Every: 10 * time.Millisecond,
			Exec: &config.Exec{Command: []string{"/bin/echo", "271828182.5"}}},
		{Name: "good", Every: 10 * time.Millisecond, Exec: &config.Exec{Command: []string{"/bin/echo", "161803398"}}},
		{Name: "gps", Every: 10 * time.Millisecond, Exec: &config.Exec{Command: []string{gps}}},
	}
	s := &cfg.Streams[0]
	s.Interval, s.Channels = 20*time.Millisecond, nil
	for _, in := range cfg.Inputs {
		src := &config.Source{Type: config.SourceExec, Point: config.Point{From: in.Name}}
		if in.Name == "gps" {
			src.Path = "at"
		}
		limits := [2]float64{0, 100}
		if in.Name == "good" {
			limits[1] = 1e9
		}
		s.Channels = append(s.Channels,
			config.Channel{Name: in.Name, Unit: "1", Range: limits, Source: src, OnMissing: config.MissingMark,
				MissingValue: new(0.0)})
	}
	cfg.SetDefaults()
	return cfg
}

func metricsText(t *testing.T, from prometheus.Gatherer) string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
