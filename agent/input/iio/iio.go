// Package iio reads Linux IIO devices (converters, accelerometers, gyroscopes,
// light, pressure, humidity, ...) through sysfs, one conversion a sample. A
// channel is in_<name>_input, which the kernel has converted, or
// (in_<name>_raw + offset) * scale; offset and scale are those of the channel or
// those that its kind shares, and are read with every sample because drivers
// change them (ranges, integration times). Values are converted to the units in
// kinds. Source: Documentation/ABI/testing/sysfs-bus-iio.
package iio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// kinds are the factors from the kernel's units to ours (config.Source.NativeUnit):
// millidegrees, millivolts, milliamperes, milliwatts, millipercent and gauss;
// other kinds are in SI units already.
var kinds = map[string]float64{"temp": 1e-3, "voltage": 1e-3, "current": 1e-3, "power": 1e-3, "humidityrelative": 1e-3,
	"magn": 100}

var channelFile = regexp.MustCompile(`^in_([a-z][a-z0-9_-]*)_(raw|input)$`)

// Channel is one channel of a device.
type Channel struct {
	Chip  string // the device's name; its place or directory where two have the same
	Input string // "temp", "voltage0", "accel_x"
	dir   string
}

// place returns where a device is on its bus, such as 1-0076, "" where that is not
// known. Unlike the number of its directory it is the same after every start.
func place(dir string) string {
	target, err := os.Readlink(dir)
	if err != nil {
		return ""
	}
	return filepath.Base(filepath.Dir(target))
}

// Source reads the channel.
func (c Channel) Source() config.Source {
	return config.Source{Type: config.SourceIIO, Chip: c.Chip, Input: c.Input}
}

// List returns every channel under root ("" is this machine), by device and name.
func List(root string) []Channel {
	dirs, _ := filepath.Glob(input.Under(root, "sys/bus/iio/devices/iio:device*"))
	slices.SortFunc(dirs, input.ByNumber)
	names, count := map[string]string{}, map[string]int{}
	for _, dir := range dirs {
		text, err := input.ReadText(filepath.Join(dir, "name"))
		if err != nil {
			continue
		}
		names[dir] = strings.TrimSpace(text)
		count[names[dir]]++
		if at := place(dir); at != "" && at != names[dir] {
			count[at]++
		}
	}
	var out []Channel
	for _, dir := range dirs {
		name, ok := names[dir]
		if !ok {
			continue
		}
		if count[name] > 1 {
			if name = place(dir); name == "" || count[name] > 1 {
				name = filepath.Base(dir)
			}
		}
		for _, in := range inputsOf(dir) {
			out = append(out, Channel{name, in, dir})
		}
	}
	return out
}

func inputsOf(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "in_*"))
	var out []string
	for _, f := range files {
		if m := channelFile.FindStringSubmatch(filepath.Base(f)); m != nil && !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	slices.SortFunc(out, input.ByNumber)
	return out
}

// Open makes the sensor of a source under root.
func Open(root string, src config.Source) (input.Sensor, error) {
	var found []Channel
	var chips, inputs []string
	for _, c := range List(root) {
		name, _ := input.ReadText(filepath.Join(c.dir, "name"))
		label, _ := input.ReadText(filepath.Join(c.dir, "label")) // of the device tree
		if c.Chip != src.Chip && strings.TrimSpace(name) != src.Chip && strings.TrimSpace(label) != src.Chip &&
			filepath.Base(c.dir) != src.Chip &&
			place(c.dir) != src.Chip {
			if !slices.Contains(chips, c.Chip) {
				chips = append(chips, c.Chip)
			}
			continue
		}
		if c.Input == src.Input {
			found = append(found, c)
		} else {
			inputs = append(inputs, c.Input)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%w: the IIO device %q is ambiguous (%s, %s); name it by its place", input.ErrNoSensor,
			src.Chip, found[0].Chip, found[1].Chip)
	case len(inputs) > 0:
		return nil, input.Missing("channel of IIO device "+src.Chip, src.Input, inputs)
	}
	return nil, input.Missing("IIO device", src.Chip, chips)
}

// Read takes one sample.
func (c Channel) Read(ctx context.Context) (float64, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	v, err := c.value()
	return v, time.Now().Round(0), err
}

func (c Channel) value() (float64, error) {
	kind := config.IIOKind(c.Input)
	factor, ok := kinds[kind]
	if !ok {
		factor = 1
	}
	v, err := input.ReadNumber(filepath.Join(c.dir, "in_"+c.Input+"_input"))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return v * factor, err
	}
	if v, err = input.ReadNumber(filepath.Join(c.dir, "in_"+c.Input+"_raw")); err != nil {
		return 0, err
	}
	offset, err := c.attribute("offset", kind, 0)
	if err != nil {
		return 0, err
	}
	scale, err := c.attribute("scale", kind, 1)
	if err != nil {
		return 0, err
	}
	return (v + offset) * scale * factor, nil
}

// attribute returns a property of the channel, or of all channels of its kind, or
// absent.
func (c Channel) attribute(name, kind string, absent float64) (float64, error) {
	for _, of := range []string{c.Input, kind, kind + "-" + kind} {
		v, err := input.ReadNumber(filepath.Join(c.dir, "in_"+of+"_"+name))
		if !errors.Is(err, fs.ErrNotExist) {
			return v, err
		}
	}
	return absent, nil
}

var _ input.Sensor = Channel{}
