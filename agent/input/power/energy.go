package power

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/agent/input"
)

// MaxGap is the longest time between two readings of a power over which it is
// integrated. Energy counters count by themselves and have no such bound.
const MaxGap = 15 * time.Second

// Energy adds up what one sensor of the board, or the sum of several that do not
// overlap, says was spent. It is not safe for concurrent use.
type Energy struct {
	Sensor  string
	Scope   Scope
	Counter bool // the hardware or its driver counts; else powers are integrated

	meters []meter
	at     time.Duration
	primed bool
	counts []uint64 // at at, uJ
	watts  float64  // at at
}

// Scope is what an energy covers.
type Scope string

const (
	ScopeBoard     Scope = "board"     // everything behind the board's input
	ScopeRails     Scope = "rails"     // the sum of the monitored rails
	ScopeProcessor Scope = "processor" // packages of processors and their memory
)

// meter is one sensor: a counter in uJ that starts anew after span, or a power.
type meter struct {
	name  string
	count func() (uint64, error)
	span  uint64 // largest value; 0: not known
	power gauge  // W
}

// Add reads the sensor at the monotonic time now. It gives the energy in J since
// the last reading that succeeded and the seconds that it covers: 0 and 0 for the
// first reading, after a gap longer than MaxGap between readings of powers, and
// after a counter started anew at an unknown place. A counter that went backwards
// and states its span has wrapped around once. Powers are integrated by the
// trapezoidal rule. Where one of several sensors fails, nothing is added and the
// next reading covers the time since, if it may.
func (e *Energy) Add(now time.Duration) (joules, seconds float64, err error) {
	counts, watts := make([]uint64, len(e.meters)), 0.0
	for i, m := range e.meters {
		if e.Counter {
			counts[i], err = m.count()
		} else {
			var w float64
			w, err = m.power()
			watts += w
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	last, before, dt, primed := e.counts, e.watts, now-e.at, e.primed
	if primed && dt <= 0 {
		return 0, 0, nil
	}
	e.at, e.primed, e.counts, e.watts = now, true, counts, watts
	switch {
	case !primed || !e.Counter && dt > MaxGap:
		return 0, 0, nil
	case !e.Counter:
		return (before + watts) / 2 * dt.Seconds(), dt.Seconds(), nil
	}
	micro := 0.0
	for i, m := range e.meters {
		d, ok := advance(last[i], counts[i], m.span)
		if !ok {
			return 0, 0, nil
		}
		micro += float64(d)
	}
	return micro * 1e-6, dt.Seconds(), nil
}

// advance returns how far a counter went from last to now, and whether that is known.
func advance(last, now, span uint64) (uint64, bool) {
	switch {
	case now >= last:
		return now - last, true
	case span >= last:
		return span - last + now, true
	}
	return 0, false
}

// Names of rails that feed a whole board, monitors whose rails may be summed, and
// the sockets of amd_energy, whose other counters are parts of them.
var (
	inputRail  = regexp.MustCompile(`^(?i:VDD_IN|VIN|DC_IN|5V_IN|VDD_5V_IN|POM_5V_IN)$`)
	sumChip    = regexp.MustCompile(`^(ina[0-9]|isl28022|pac19|ltc294)`)
	hwmonMeter = regexp.MustCompile(`^(energy|power)([0-9]{1,3})_(input|average)$`)
)

// OpenEnergy finds the sensor under root ("" is this machine) that covers most:
// the rail of the board's input, the platform's counter of powercap or the ACPI
// power meter; else the sum of the rails of power monitors; else the counters of
// the processor's packages. It fails with input.ErrNoSensor, and says what there
// is that cannot be read.
func OpenEnergy(root string) (*Energy, error) {
	hw, caps := hwmonMeters(root), powercap(root)
	var unread []error
	for _, c := range []struct {
		scope Scope
		from  map[string][]meter
		key   string
	}{
		{ScopeBoard, hw, "input"}, {ScopeBoard, caps, "platform"}, {ScopeBoard, hw, "machine"},
		{ScopeRails, hw, "rails"}, {ScopeProcessor, hw, "sockets"}, {ScopeProcessor, caps, "packages"},
	} {
		e := &Energy{Scope: c.scope, meters: c.from[c.key]}
		if len(e.meters) == 0 {
			continue
		}
		// A sum is of one kind: counters are kept only where all are.
		e.Counter = !slices.ContainsFunc(e.meters, func(m meter) bool { return m.count == nil })
		if !e.Counter {
			e.meters = slices.DeleteFunc(e.meters, func(m meter) bool { return m.power == nil })
		}
		if _, _, err := e.Add(0); err != nil {
			unread = append(unread, err)
			continue
		}
		e.primed = false
		var names []string
		for _, m := range e.meters {
			names = append(names, m.name)
		}
		e.Sensor = strings.Join(names, " + ")
		return e, nil
	}
	if len(unread) > 0 {
		return nil, fmt.Errorf("%w: no power sensor that can be read: %w", input.ErrNoSensor, errors.Join(unread...))
	}
	return nil, fmt.Errorf("%w: no power sensor", input.ErrNoSensor)
}

// hwmonMeters sorts what hwmon and the drivers of JetPack 4 have.
func hwmonMeters(root string) map[string][]meter {
	out := map[string][]meter{}
	rails := map[string]bool{} // directories with labelled rails
	seen := map[string]bool{}
	for _, r := range Rails(root) {
		chip := chipName(r.Where)
		m := meter{name: fmt.Sprintf("%s (%s)", r.Name, filepath.Base(r.Where)), power: r.read["power"]}
		id := r.Where + "/" + r.Name
		if m.power == nil || seen[id] || !sumChip.MatchString(chip) {
			continue
		}
		seen[id], rails[r.Where] = true, true
		if inputRail.MatchString(r.Name) && len(out["input"]) == 0 {
			out["input"] = append(out["input"], m)
		}
		out["rails"] = append(out["rails"], m)
	}
	dirs, _ := filepath.Glob(input.Under(root, "sys/class/hwmon/hwmon*"))
	slices.SortFunc(dirs, input.ByNumber)
	for _, dir := range dirs {
		chip := chipName(dir)
		if rails[dir] {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		slices.Sort(files)
		var own *meter // of a monitor without labels
		for _, f := range files {
			part := hwmonMeter.FindStringSubmatch(filepath.Base(f))
			if part == nil {
				continue
			}
			m := meter{name: fmt.Sprintf("%s %s%s (%s)", chip, part[1], part[2], filepath.Base(dir))}
			if part[1] == "energy" {
				m.count = counter(f)
			} else {
				m.power = file(f, 1e-6)
			}
			label, _ := input.ReadText(filepath.Join(dir, part[1]+part[2]+"_label"))
			switch {
			case chip == "amd_energy" && strings.HasPrefix(label, "Esocket"):
				out["sockets"] = append(out["sockets"], m)
			case chip == "power_meter" && len(out["machine"]) == 0 && m.power != nil:
				out["machine"] = append(out["machine"], m)
			case !sumChip.MatchString(chip):
			case own == nil:
				own = &m
			case own.power == nil && m.power != nil:
				own.power = m.power // to be summed with others that do not count
			}
		}
		if own != nil {
			out["rails"] = append(out["rails"], *own)
		}
	}
	return out
}

// powercap sorts the zones of the kernel's power capping framework
// (Documentation/power/powercap/powercap.rst): packages with their memory, which
// they do not include, and the platform. Other zones are parts of a package.
func powercap(root string) map[string][]meter {
	out := map[string][]meter{}
	dirs, _ := filepath.Glob(input.Under(root, "sys/class/powercap/intel-rapl:*"))
	slices.Sort(dirs) // parts after what they are parts of
	for _, dir := range dirs {
		name := chipName(dir)
		m := meter{name: fmt.Sprintf("%s (%s)", name, filepath.Base(dir)),
			count: counter(filepath.Join(dir, "energy_uj"))}
		m.span, _ = counter(filepath.Join(dir, "max_energy_range_uj"))()
		switch {
		case name == "psys":
			out["platform"] = append(out["platform"], m)
		case strings.HasPrefix(name, "package-") || name == "dram":
			out["packages"] = append(out["packages"], m)
		}
	}
	return out
}

// chipName returns what the driver calls the device in dir.
func chipName(dir string) string {
	if strings.Contains(dir, "/ina3221x/") {
		return "ina3221x" // has no name file of its own on JetPack 4
	}
	text, _ := input.ReadText(filepath.Join(dir, "name"))
	return strings.TrimSpace(text)
}

// counter reads a file with a counter.
func counter(path string) func() (uint64, error) {
	return func() (uint64, error) {
		text, err := input.ReadText(path)
		if err != nil {
			return 0, err
		}
		v, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %s holds text of the form %q, not a counter", input.ErrReading, path,
				input.Shape(text))
		}
		return v, nil
	}
}
