package sensor

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/can"
)

// DiscoverInputs lists the devices of this machine that inputs could read. It
// opens nothing.
func DiscoverInputs() []FoundInput { return Machine{}.DiscoverInputs() }

// DiscoverInputs lists the devices under m.Root.
func (m Machine) DiscoverInputs() []FoundInput {
	d := inputDiscovery{m: m, taken: map[string]bool{}}
	for _, name := range can.Interfaces(m.Root) {
		d.add(name, fmt.Sprintf("can: {interface: %s}", name),
			"a CAN interface: add sources with id, start and length of the signals")
	}
	d.serial()
	d.i2c()
	d.spi()
	return d.list
}

// FoundInput is a device that needs a description before it can be read: what
// its registers, frames or lines mean is not known to the machine.
type FoundInput struct {
	// YAML is the entry for "inputs:", without the leading "- ".
	YAML string
	// Note says what stands there and what is left to write.
	Note string
}

type inputDiscovery struct {
	m     Machine
	list  []FoundInput
	taken map[string]bool
}

func (d *inputDiscovery) add(name, block, note string) {
	names := discovery{taken: d.taken}
	d.list = append(d.list, FoundInput{fmt.Sprintf("{name: %s, %s}", names.unique(name), block), note})
}

func (d *inputDiscovery) glob(pattern string) []string {
	paths, _ := filepath.Glob(d.m.path(pattern))
	slices.SortFunc(paths, input.ByNumber)
	return paths
}

// device returns the path that a file under the root has on the machine itself.
func (d *inputDiscovery) device(path string) string {
	return "/" + strings.TrimPrefix(strings.TrimPrefix(path, d.m.path()), "/")
}

// serial lists ports by the names that stay the same, or else by number; those
// of the board itself only where a driver stands behind them.
func (d *inputDiscovery) serial() {
	const note = "a serial port: set baud and format (csv, json, nmea or text)"
	known := map[string]bool{}
	for _, p := range d.glob("dev/serial/by-id/*") {
		if target, err := filepath.EvalSymlinks(p); err == nil {
			known[filepath.Base(target)] = true
		}
		d.add("serial_"+filepath.Base(p), fmt.Sprintf("serial: {device: %q, format: csv, baud: 9600}", d.device(p)),
			note)
	}
	for _, pattern := range []string{"dev/ttyUSB*", "dev/ttyACM*", "dev/ttyTHS*", "dev/ttyAMA*"} {
		for _, p := range d.glob(pattern) {
			if name := filepath.Base(p); !known[name] {
				d.add(name, fmt.Sprintf("serial: {device: %q, format: csv, baud: 9600}", d.device(p)), note)
			}
		}
	}
}

var i2cClient = regexp.MustCompile(`^([0-9]+)-00([0-7][0-9a-f])$`)

// i2c lists the devices that the kernel knows of and that have no driver; those
// with one are found as what the driver makes of them. Buses are not probed:
// that can disturb devices.
func (d *inputDiscovery) i2c() {
	for _, p := range d.glob("sys/bus/i2c/devices/*-00*") {
		part := i2cClient.FindStringSubmatch(filepath.Base(p))
		if part == nil {
			continue
		}
		if _, err := filepath.EvalSymlinks(filepath.Join(p, "driver")); err == nil {
			continue
		}
		name, err := d.m.read(filepath.Join(p, "name"))
		if name = strings.TrimSpace(name); err != nil || name == "" || name == "dummy" {
			continue
		}
		d.add(name, fmt.Sprintf("i2c: {bus: %s, address: 0x%s}", part[1], part[2]),
			"an I2C device without a driver: add sources with its registers")
	}
	for _, p := range d.glob("dev/i2c-*") {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(p), "i2c-"))
		if err != nil {
			continue
		}
		d.add("i2c"+strconv.Itoa(n), fmt.Sprintf("i2c: {bus: %d, address: 0x48}", n),
			"an I2C bus: write the address of your device (`i2cdetect` lists them)")
	}
}

var spiDevice = regexp.MustCompile(`^spidev([0-9]+)\.([0-9]+)$`)

func (d *inputDiscovery) spi() {
	for _, p := range d.glob("dev/spidev*") {
		if part := spiDevice.FindStringSubmatch(filepath.Base(p)); part != nil {
			d.add("spi"+part[1]+"_"+part[2], fmt.Sprintf("spi: {bus: %s, chip_select: %s}", part[1], part[2]),
				"an SPI device: add sources with its registers")
		}
	}
}
