package sensor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// hwmonKinds are the inputs of the hwmon interface that are read, with the
// factor from the kernel's unit to ours
// (Documentation/hwmon/sysfs-interface.rst: millidegrees, millivolts,
// milliamperes, microwatts, revolutions per minute).
var hwmonKinds = map[string]struct {
	factor float64
	unit   string
}{
	"temp":  {1e-3, "degC"},
	"in":    {1e-3, "V"},
	"curr":  {1e-3, "A"},
	"power": {1e-6, "W"},
	"fan":   {1, "rpm"},
	// Millipercent, microjoules, hertz.
	"humidity": {1e-3, "%RH"},
	"energy":   {1e-6, "J"},
	"freq":     {1e-6, "MHz"},
}

var hwmonFile = regexp.MustCompile(`^(temp|in|curr|power|fan|humidity|energy|freq)([0-9]{1,3})_(input|average)$`)

func (m Machine) openHwmon(src config.Source) (Sensor, error) {
	var found []hwmonInput
	var chips, inputs []string
	for _, c := range m.hwmonChips() {
		if !c.is(src.Chip) {
			chips = append(chips, c.name)
			continue
		}
		for _, in := range m.inputs(c) {
			if src.Input != "" && in.id == src.Input || src.Label != "" && in.label == src.Label {
				found = append(found, in)
			} else {
				inputs = append(inputs, strings.TrimSpace(in.id+" "+in.label))
			}
		}
	}
	want := cmp.Or(src.Input, src.Label)
	switch {
	case len(found) == 0 && len(inputs) == 0:
		return nil, noSensor("hwmon chip", src.Chip, chips)
	case len(found) == 0:
		return nil, noSensor("input of chip "+src.Chip, want, inputs)
	case len(found) > 1:
		var where []string
		for _, in := range found {
			where = append(where, cmp.Or(in.chip.at, in.chip.entry)+"/"+in.id)
		}
		return nil, fmt.Errorf("%w: %q of chip %q is ambiguous (%s); name the chip by its place and the input by "+
			"its number",
			ErrNoSensor, want, src.Chip, strings.Join(where, ", "))
	}
	in := found[0]
	return gauge{m, func() (float64, error) { return m.readHwmon(in) }}, nil
}

func (m Machine) readHwmon(in hwmonInput) (float64, error) {
	fault := filepath.Join(in.chip.dir, in.id+"_fault")
	if v, err := m.readNumber(fault); err == nil && v != 0 {
		return 0, fmt.Errorf("%w: %s reports a fault", ErrReading, fault)
	}
	v, err := m.readNumber(in.file)
	return v * hwmonKinds[in.kind].factor, err
}

// hwmonInput is one input of a chip.
type hwmonInput struct {
	chip  hwmonChip
	id    string // temp1
	kind  string // temp
	label string
	file  string
}

// hwmonChip is one chip of /sys/class/hwmon.
type hwmonChip struct {
	dir   string // where its inputs are
	entry string // hwmonN, which may change at every start
	name  string
	at    string // the device on its bus, such as 1-0048, which stays; "" where there is none
}

// is reports whether a source means this chip.
func (c hwmonChip) is(chip string) bool {
	return c.name == chip || c.entry == chip || c.at != "" && c.at == chip
}

// hwmonChips lists the chips in the order of their numbers.
func (m Machine) hwmonChips() []hwmonChip {
	entries, _ := filepath.Glob(m.path("sys/class/hwmon/hwmon*"))
	slices.SortFunc(entries, byNumber)
	var chips []hwmonChip
	for _, dir := range entries {
		c := hwmonChip{dir: dir, entry: filepath.Base(dir)}
		name, err := m.read(filepath.Join(dir, "name"))
		if err != nil {
			// Drivers from before Linux 3.0 keep everything one level down.
			if name, err = m.read(filepath.Join(dir, "device/name")); err != nil {
				continue
			}
			c.dir = filepath.Join(dir, "device")
		}
		c.name = strings.TrimSpace(name)
		if target, err := os.Readlink(filepath.Join(dir, "device")); err == nil {
			c.at = filepath.Base(target)
		}
		chips = append(chips, c)
	}
	return chips
}

// inputs lists the inputs of a chip, sorted by kind and number.
func (m Machine) inputs(c hwmonChip) []hwmonInput {
	files, _ := filepath.Glob(filepath.Join(c.dir, "*"))
	var list []hwmonInput
	for _, f := range files {
		part := hwmonFile.FindStringSubmatch(filepath.Base(f))
		if part == nil {
			continue
		}
		in := hwmonInput{chip: c, id: part[1] + part[2], kind: part[1], file: f}
		// Some power meters have an average and no momentary input.
		if part[3] == "average" &&
			(part[1] != "power" || slices.ContainsFunc(list, func(o hwmonInput) bool { return o.id == in.id }) ||
				slices.Contains(files, filepath.Join(c.dir, in.id+"_input"))) {
			continue
		}
		if label, err := m.read(filepath.Join(c.dir, in.id+"_label")); err == nil {
			in.label = strings.TrimSpace(label)
		}
		list = append(list, in)
	}
	slices.SortFunc(list, func(a, b hwmonInput) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), byNumber(a.id, b.id))
	})
	return list
}

// byNumber orders names by the number that they end in.
func byNumber(a, b string) int { return input.ByNumber(a, b) }

func (m Machine) thermalZones() []thermalZone {
	entries, _ := filepath.Glob(m.path("sys/class/thermal/thermal_zone*"))
	slices.SortFunc(entries, byNumber)
	var zones []thermalZone
	for _, dir := range entries {
		kind, err := m.read(filepath.Join(dir, "type"))
		if err != nil {
			continue
		}
		zones = append(zones, thermalZone{dir, filepath.Base(dir), strings.TrimSpace(kind)})
	}
	return zones
}

func (m Machine) openThermal(src config.Source) (Sensor, error) {
	var found []thermalZone
	var others []string
	for _, z := range m.thermalZones() {
		if z.kind == src.Zone || z.entry == src.Zone {
			found = append(found, z)
		} else {
			others = append(others, z.kind)
		}
	}
	switch len(found) {
	case 0:
		return nil, noSensor("thermal zone", src.Zone, others)
	case 1:
		return gauge{m, func() (float64, error) { return m.readThermal(found[0]) }}, nil
	}
	return nil, fmt.Errorf("%w: thermal zone %q is ambiguous (%s, %s); name it by its directory", ErrNoSensor,
		src.Zone, found[0].entry, found[1].entry)
}

// readThermal reads a zone in degrees; the kernel gives millidegrees.
func (m Machine) readThermal(z thermalZone) (float64, error) {
	v, err := m.readNumber(filepath.Join(z.dir, "temp"))
	return v * 1e-3, err
}

// thermalZone is one zone of /sys/class/thermal.
type thermalZone struct{ dir, entry, kind string }
