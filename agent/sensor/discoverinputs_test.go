package sensor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/hencedge/hencedge/config"
)

// A board with IIO, a labelled power monitor, CAN, serial ports, I2C and SPI.
const boardTree = `
-- sys/bus/iio/devices/iio:device0/name --
bme280
-- sys/bus/iio/devices/iio:device0/in_temp_input --
23850
-- sys/bus/iio/devices/iio:device0/in_proximity0_raw --
12
-- sys/class/hwmon/hwmon1/name --
ina3221
-- sys/class/hwmon/hwmon1/in1_label --
VDD_IN
-- sys/class/hwmon/hwmon1/in1_input --
5000
-- sys/class/hwmon/hwmon1/curr1_input --
1200
-- sys/devices/gpu.0/load --
347
-- sys/class/net/can0/type --
280
-- sys/class/net/eth0/type --
1
-- sys/bus/i2c/devices/1-0068/name --
mpu6050
-- sys/bus/i2c/devices/1-0040/name --
ina3221
-- sys/bus/i2c/devices/1-0040/driver/bind --
-- dev/ttyUSB0 --
-- dev/ttyTHS1 --
-- dev/i2c-1 --
-- dev/spidev0.1 --
`

func TestDiscoverInputs(t *testing.T) {
	root := t.TempDir()
	if err := txtar.Write(txtar.Parse([]byte(boardTree)), root); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "dev/serial/by-id"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../ttyUSB0", filepath.Join(root, "dev/serial/by-id/usb-FTDI_FT232R-if00")); err != nil {
		t.Fatal(err)
	}
	m := Machine{Root: root}
	var yaml strings.Builder
	fmt.Fprint(&yaml, "device: b\nbroker: {url: \"tls://h\"}\nkeys: {public_key: p}\nsigning_key: s\nstate: "+
		"st\nstreams:\n  - name: s\n    interval: 1s\n",
		"    window: {samples: 8}\n    params: edge13-d3\n    channels:\n")
	names := ""
	for _, f := range m.Discover() {
		names += f.Name + " "
		fmt.Fprintf(&yaml, "      - {name: %s, unit: %q, range: [%g, %g], source: %s}\n", f.Name, f.Unit, f.Range[0],
			f.Range[1], f.Source.YAML())
	}
	if names != "ina3221_curr1 ina3221_vdd_in bme280_proximity0 bme280_temp vdd_in_power gpu_load " {
		t.Errorf("found %s", names)
	}
	fmt.Fprintln(&yaml, "inputs:")
	for _, in := range m.DiscoverInputs() {
		fmt.Fprintf(&yaml, "  # %s\n  - %s\n", in.Note, in.YAML)
	}
	cfg, err := config.ParseAgent("found.yaml", []byte(yaml.String()))
	if err != nil {
		t.Fatalf("what is found is no valid configuration: %v", err)
	}
	var got []string
	for _, in := range cfg.Inputs {
		text := in.Name + "="
		switch in.Type() {
		case config.SourceCAN:
			text += in.CAN.Interface
		case config.SourceSerial:
			text += in.Serial.Device
		case config.SourceI2C:
			text += fmt.Sprintf("%d/%#x", *in.I2C.Bus, in.I2C.Address)
		case config.SourceSPI:
			text += fmt.Sprintf("%d.%d", *in.SPI.Bus, in.SPI.ChipSelect)
		}
		got = append(got, text)
	}
	const want = "can0=can0 serial_usb-ftdi_ft232r-if00=/dev/serial/by-id/usb-FTDI_FT232R-if00 ttyths1=/dev/ttyTHS1 " +
		"mpu6050=1/0x68 i2c1=1/0x48 spi0_1=0.1"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s", strings.Join(got, " "))
	}
	if list := (Machine{Root: t.TempDir()}).DiscoverInputs(); len(list) != 0 {
		t.Errorf("an empty machine has %v", list)
	}
}
