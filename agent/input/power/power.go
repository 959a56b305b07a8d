// Package power reads what a board spends: the rails of power monitors and the
// load and clock of its GPU, from /sys alone. It knows
//
//   - hwmon monitors with labels (INA3221 as on JetPack 5 and later, INA226, ...):
//     inN_label, inN_input in mV, currN_input in mA, powerN_input in uW;
//   - the ina3221x driver of JetPack 4: rail_name_N, in_voltageN_input in mV,
//     in_currentN_input in mA, in_powerN_input in mW;
//   - energy: what the sensor that covers most of the board says was spent;
//   - GPU load of Tegra (tenths of a percent) and of amdgpu, and clocks of
//     devfreq (Hz) and i915 (MHz).
package power

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// file returns a gauge of one file.
func file(path string, factor float64) gauge {
	return func() (float64, error) {
		v, err := input.ReadNumber(path)
		return v * factor, err
	}
}

// Rail is one power rail.
type Rail struct {
	Name  string
	Where string // the directory of its monitor
	read  map[string]gauge
}

// gauge is a quantity that is read from files.
type gauge func() (float64, error)

func (g gauge) Read(ctx context.Context) (float64, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	v, err := g()
	return v, time.Now().Round(0), err
}

// Fields lists what can be read: power, voltage, current.
func (r Rail) Fields() []string {
	var out []string
	for _, f := range []string{"power", "voltage", "current"} {
		if r.read[f] != nil {
			out = append(out, f)
		}
	}
	return out
}

// Source reads a field of the rail.
func (r Rail) Source(field string) config.Source {
	return config.Source{Type: config.SourcePower, Field: field, Point: config.Point{Rail: r.Name}}
}

var railLabel = regexp.MustCompile(`^(?:(in|power)([0-9]{1,3})_label|rail_name_([0-9]{1,3}))$`)

// Rails lists the labelled rails under root ("" is this machine).
func Rails(root string) []Rail {
	var dirs []string
	for _, pattern := range []string{"sys/class/hwmon/hwmon*", "sys/bus/i2c/drivers/ina3221x/*/iio:device*"} {
		d, _ := filepath.Glob(input.Under(root, pattern))
		slices.SortFunc(d, input.ByNumber)
		dirs = append(dirs, d...)
	}
	var out []Rail
	for _, dir := range dirs {
		labels, _ := filepath.Glob(filepath.Join(dir, "*"))
		slices.Sort(labels)
		for _, l := range labels {
			m := railLabel.FindStringSubmatch(filepath.Base(l))
			if m == nil {
				continue
			}
			name, err := input.ReadText(l)
			if name = strings.TrimSpace(name); err != nil || name == "" {
				continue
			}
			r := Rail{Name: name, Where: dir}
			if m[3] != "" {
				r.read = tegraRail(dir, m[3])
			} else {
				r.read = hwmonRail(dir, m[1], m[2])
			}
			if len(r.read) > 0 {
				out = append(out, r)
			}
		}
	}
	return out
}

// add keeps a file that exists and can be read.
func add(read map[string]gauge, field, path string, factor float64) {
	if _, err := input.ReadNumber(path); err == nil && read[field] == nil {
		read[field] = file(path, factor)
	}
}

func hwmonRail(dir, kind, n string) map[string]gauge {
	read := map[string]gauge{}
	at := func(name string) string { return filepath.Join(dir, name) }
	add(read, "power", at("power"+n+"_input"), 1e-6)
	add(read, "power", at("power"+n+"_average"), 1e-6)
	if kind == "power" {
		return read // the numbers of in and curr need not belong to it
	}
	add(read, "voltage", at("in"+n+"_input"), 1e-3)
	add(read, "current", at("curr"+n+"_input"), 1e-3)
	product(read)
	return read
}

func tegraRail(dir, n string) map[string]gauge {
	read := map[string]gauge{}
	at := func(name string) string { return filepath.Join(dir, "in_"+name+n+"_input") }
	add(read, "power", at("power"), 1e-3)
	add(read, "voltage", at("voltage"), 1e-3)
	add(read, "current", at("current"), 1e-3)
	product(read)
	return read
}

// product makes the power of voltage and current where the monitor has none.
func product(read map[string]gauge) {
	v, i := read["voltage"], read["current"]
	if read["power"] != nil || v == nil || i == nil {
		return
	}
	read["power"] = func() (float64, error) {
		volts, err := v()
		if err != nil {
			return 0, err
		}
		amps, err := i()
		return volts * amps, err
	}
}

// OpenRail makes the sensor of a power source.
func OpenRail(root string, src config.Source) (input.Sensor, error) {
	var found []Rail
	var names []string
	for _, r := range Rails(root) {
		if r.Name == src.Rail {
			found = append(found, r)
		} else {
			names = append(names, r.Name)
		}
	}
	switch len(found) {
	case 0:
		return nil, input.Missing("power rail", src.Rail, names)
	case 1:
		if g := found[0].read[src.Field]; g != nil {
			return g, nil
		}
		return nil, input.Missing("field of rail "+src.Rail, src.Field, found[0].Fields())
	}
	return nil, fmt.Errorf("%w: the rail %q is ambiguous (%s, %s); use a hwmon source with the chip's place, such "+
		"as 1-0040", input.ErrNoSensor,
		src.Rail, found[0].Where, found[1].Where)
}

// GPU is a GPU with a field that can be read.
type GPU struct {
	Chip  string
	Field string // load or clock
	read  gauge
}

// Source reads the field.
func (g GPU) Source() config.Source {
	return config.Source{Type: config.SourceGPU, Chip: g.Chip, Field: g.Field}
}

// gpuFiles are where drivers put load and clock; the element that names the
// GPU is counted from the end.
var gpuFiles = []struct {
	pattern, field string
	factor         float64
	name           int
}{
	{"sys/devices/gpu.[0-9]/load", "load", 0.1, 1},
	{"sys/devices/platform/*gpu*/load", "load", 0.1, 1},
	{"sys/devices/platform/bus@0/*gpu*/load", "load", 0.1, 1},
	{"sys/class/drm/card[0-9]/device/gpu_busy_percent", "load", 1, 2},
	{"sys/class/devfreq/*gpu*/cur_freq", "clock", 1e-6, 1},
	{"sys/class/devfreq/*.g[pvam]*/cur_freq", "clock", 1e-6, 1}, // gp10b, gv11b, ga10b, gm20b
	{"sys/class/drm/card[0-9]/gt_cur_freq_mhz", "clock", 1, 1},
}

// GPUs lists what can be read of the GPUs under root.
func GPUs(root string) []GPU {
	var out []GPU
	for _, f := range gpuFiles {
		paths, _ := filepath.Glob(input.Under(root, f.pattern))
		slices.SortFunc(paths, input.ByNumber)
		for _, p := range paths {
			parts := strings.Split(p, "/")
			g := GPU{Chip: parts[len(parts)-1-f.name], Field: f.field, read: file(p, f.factor)}
			same := func(o GPU) bool { return o.Chip == g.Chip && o.Field == g.Field }
			if _, err := input.ReadNumber(p); err == nil && !slices.ContainsFunc(out, same) {
				out = append(out, g)
			}
		}
	}
	return out
}

// OpenGPU makes the sensor of a GPU source. Without a chip it is the only one.
func OpenGPU(root string, src config.Source) (input.Sensor, error) {
	var found []GPU
	var names []string
	for _, g := range GPUs(root) {
		if g.Field == src.Field && (src.Chip == "" || g.Chip == src.Chip) {
			found = append(found, g)
		} else {
			names = append(names, g.Chip+" "+g.Field)
		}
	}
	switch len(found) {
	case 0:
		return nil, input.Missing("GPU", strings.TrimSpace(src.Chip+" "+src.Field), names)
	case 1:
		return found[0].read, nil
	}
	return nil, fmt.Errorf("%w: there are several GPUs (%s, %s); add \"chip\"", input.ErrNoSensor, found[0].Chip,
		found[1].Chip)
}
