package agent

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"

	"github.com/hencedge/hencedge/config"
)

// Every example's inputs can be made, with every sensor that its channels ask
// for. Nothing is connected.
func TestExampleInputsOpen(t *testing.T) {
	files, err := filepath.Glob("../config/examples/agent*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d examples: %v", len(files), err)
	}
	types := map[config.SourceType]bool{}
	for _, file := range files {
		cfg, err := config.LoadAgent(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cfg.Inputs { // the files that it names are not there
			if h := cfg.Inputs[i].HTTP; h != nil {
				h.CA = ""
			}
			if m := cfg.Inputs[i].MQTT; m != nil {
				m.CA = ""
			}
		}
		all := openInputs(cfg.Inputs, testrig.Quiet(), func(i int, err error) { t.Errorf("%s: %s: %v", file, cfg.Inputs[i].Name, err) })
		for _, s := range cfg.Streams {
			for _, ch := range s.Channels {
				if ch.Source.From == "" {
					continue
				}
				types[ch.Source.Type] = true
				if _, err := all.sensor(*ch.Source); err != nil {
					t.Errorf("%s: %s: %v", file, ch.Name, err)
				}
			}
		}
		if err := all.close(); err != nil {
			t.Error(err)
		}
	}
	for _, typ := range []config.SourceType{config.SourceI2C, config.SourceSPI, config.SourceModbus, config.SourceCAN, config.SourceSerial,
		config.SourceExec, config.SourceHTTP, config.SourceMQTT} {
		if !types[typ] {
			t.Errorf("no example reads %s", typ)
		}
	}
}

// A command and a web server feed a window: what is decrypted is what they said.
func TestInputsToCiphertext(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"air": [{"t": 70.7}]}`) }))
	defer web.Close()
	cfg := testConfig(t)
	cfg.Inputs = []config.Input{
		{Name: "tool", Every: 10 * time.Millisecond, Exec: &config.Exec{Command: []string{"/bin/echo", "T=21.5"}}},
		{Name: "web", Every: 10 * time.Millisecond, HTTP: &config.HTTP{URL: web.URL}},
	}
	s := &cfg.Streams[0]
	s.Interval = 20 * time.Millisecond
	s.Channels = []config.Channel{
		{Name: "tool", Unit: "degC", Range: [2]float64{-40, 125}, Source: &config.Source{Type: config.SourceExec, Point: config.Point{From: "tool", Pattern: "T=([0-9.]+)"}}},
		{Name: "web", Unit: "degF", Range: [2]float64{0, 100}, Source: &config.Source{Type: config.SourceHTTP, Scale: 0.5, Offset: 1, Point: config.Point{From: "web", Path: "air.0.t"}}},
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

func TestInputWarnings(t *testing.T) {
	cfg := testConfig(t)
	cfg.Inputs = []config.Input{
		{Name: "gps", Serial: &config.Serial{Device: "/dev/none/ttyX", Format: "nmea"}},
		{Name: "pump", Modbus: &config.Modbus{URL: "rtu:///dev/none/ttyY"}},
		{Name: "plc", Modbus: &config.Modbus{URL: "tcp://192.0.2.1"}},
		{Name: "bus", CAN: &config.CAN{Interface: "nocan9"}},
		{Name: "web", HTTP: &config.HTTP{URL: "http://192.0.2.1/x?key=hunter2", Insecure: true}},
		{Name: "tool", Exec: &config.Exec{Command: []string{"/no/such/tool"}}},
		{Name: "text", Exec: &config.Exec{Command: []string{"/proc/version"}}},
		{Name: "fine", Exec: &config.Exec{Command: []string{"/bin/sh"}}},
		{Name: "imu", I2C: &config.I2C{Bus: new(250), Address: 0x68}},
	}
	cfg.Streams[0].Channels[0].Source = &config.Source{Type: config.SourceSerial, Point: config.Point{From: "gps"}}
	got := strings.Join(inputWarnings(cfg), "\n")
	for _, want := range []string{"gps: /dev/none/ttyX is not there", "pump: /dev/none/ttyY is not", "pump: no channel", "plc: no channel", "nocan9 is not there",
		"web: no TLS to http://192.0.2.1/x", "/dev/i2c-250 is not there",
		"tool: the command /no/such/tool is not there", "text: this user may not run /proc/version"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "hunter2") || strings.Contains(got, "gps: no channel") || strings.Count(got, "plc") != 1 || strings.Count(got, "fine") != 1 {
		t.Errorf("got\n%s", got)
	}
}
