package iio

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
)

func source(chip, in string) config.Source {
	return config.Source{Type: config.SourceIIO, Chip: chip, Input: in}
}

func TestRead(t *testing.T) {
	root := inputtest.Tree(t, "testdata/devices.txtar")
	for _, c := range []struct {
		chip, in string
		want     float64
		unit     string
	}{
		{"bme280", "temp", 23.85, "degC"},
		{"bme280", "pressure", 100.92409375, "kPa"},
		{"bme280", "humidityrelative", 46.532, "%RH"},
		{"mpu6050", "accel_x", -1204 * 0.000598, "m/s2"},
		{"iio:device1", "accel_z", 16100 * 0.000598, "m/s2"},
		{"mpu6050", "anglvel_x", -37 * 0.001064724, "rad/s"},
		{"mpu6050", "temp", (-3824 + 12420) * 2.941176e-3, "degC"}, // 25.28
		{"iio:device2", "voltage0", 1.5, "V"},
		{"iio:device10", "voltage0-voltage1", -0.125, "V"},
		{"battery-adc", "voltage0-voltage1", -0.125, "V"},
		{"tsl2583", "illuminance", 203, "lx"},
	} {
		src := source(c.chip, c.in)
		s, err := Open(root, src)
		if err != nil {
			t.Fatalf("%s %s: %v", c.chip, c.in, err)
		}
		v, at, err := s.Read(t.Context())
		if err != nil || math.Abs(v-c.want) > 1e-9 || at.IsZero() {
			t.Errorf("%s %s: got %v, %v, want %v", c.chip, c.in, v, err, c.want)
		}
		if src.NativeUnit() != c.unit {
			t.Errorf("%s: unit %q, want %q", c.in, src.NativeUnit(), c.unit)
		}
	}
}

// A driver that changes its range while the agent runs changes the scale too.
func TestScaleIsReadAgain(t *testing.T) {
	root := inputtest.Tree(t, "testdata/devices.txtar")
	s, err := Open(root, source("tsl2583", "illuminance"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "sys/bus/iio/devices/iio:device11/in_illuminance_scale"), []byte("2\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if v, _, err := s.Read(t.Context()); err != nil || v != 1624 {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestOpenFailures(t *testing.T) {
	root := inputtest.Tree(t, "testdata/devices.txtar")
	for _, c := range []struct{ chip, in, want string }{
		{"bmp280", "temp", "bme280"},
		{"bme280", "tempo", "humidityrelative"},
		{"mcp3424", "voltage7", "voltage0-voltage1"},
	} {
		if _, err := Open(root, source(c.chip, c.in)); !errors.Is(err, input.ErrNoSensor) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: got %v, want it to name %q", c.chip, c.in, err, c.want)
		}
	}
	if _, err := Open(t.TempDir(), source("bme280", "temp")); !errors.Is(err, input.ErrNoSensor) {
		t.Errorf("got %v", err)
	}
	s, err := Open(root, source("iio:device2", "voltage1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(t.Context()); !errors.Is(err, input.ErrReading) {
		t.Errorf("got %v", err)
	}
}

func TestList(t *testing.T) {
	var got []string
	for _, c := range List(inputtest.Tree(t, "testdata/devices.txtar")) {
		got = append(got, c.Chip+"/"+c.Input)
	}
	const want = "bme280/humidityrelative bme280/pressure bme280/temp mpu6050/accel_x mpu6050/accel_z " +
		"mpu6050/anglvel_x mpu6050/temp " +
		"iio:device2/voltage0 iio:device2/voltage1 iio:device10/voltage0-voltage1 tsl2583/illuminance"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s", got)
	}
}
