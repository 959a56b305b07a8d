package sensor

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// Every example's inputs can be made, with every sensor that its channels ask
// for. Nothing is connected.
func TestExampleInputsOpen(t *testing.T) {
	files, err := filepath.Glob("../../config/examples/agent*.yaml")
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
		all := OpenInputs(cfg.Inputs, testrig.Quiet(),
			func(i int, err error) { t.Errorf("%s: %s: %v", file, cfg.Inputs[i].Name, err) })
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
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, typ := range []config.SourceType{config.SourceI2C, config.SourceSPI, config.SourceModbus, config.SourceCAN,
		config.SourceSerial,
		config.SourceExec, config.SourceHTTP, config.SourceMQTT} {
		if !types[typ] {
			t.Errorf("no example reads %s", typ)
		}
	}
}

func TestInputWarnings(t *testing.T) {
	cfg := inputtest.Config(t)
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
	for _, want := range []string{"gps: /dev/none/ttyX is not there", "pump: /dev/none/ttyY is not",
		"pump: no channel", "plc: no channel", "nocan9 is not there",
		"web: no TLS to http://192.0.2.1/x", "/dev/i2c-250 is not there",
		"tool: the command /no/such/tool is not there", "text: this user may not run /proc/version"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "hunter2") || strings.Contains(got, "gps: no channel") ||
		strings.Count(got, "plc") != 1 || strings.Count(got, "fine") != 1 {
		t.Errorf("got\n%s", got)
	}
}

// Power that is encrypted is not told in clear without a word.
func TestPowerWarning(t *testing.T) {
	cfg := inputtest.Config(t)
	if got := powerWarnings(cfg); got != nil {
		t.Errorf("got %q", got)
	}
	cfg.Streams[0].Channels[0].Source = &config.Source{Type: config.SourcePower, Point: config.Point{Rail: "VDD_IN"}}
	if got := strings.Join(Warnings(cfg), "\n"); !strings.Contains(got, `channel soc encrypts a power`) ||
		!strings.Contains(got, "energy: off") {
		t.Errorf("got %q", got)
	}
	cfg.Energy = config.EnergyOff
	if got := powerWarnings(cfg); got != nil {
		t.Errorf("got %q", got)
	}
}
