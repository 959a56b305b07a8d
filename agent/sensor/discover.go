package sensor

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/agent/input/iio"
	"github.com/hencedge/hencedge/agent/input/power"
	"github.com/hencedge/hencedge/config"
)

// Discover lists the sensors of this machine that can be read: thermal zones and hwmon
// inputs first, then IIO devices, power rails and GPUs, then processor, memory, load,
// network and disks.
func Discover() []Found { return Machine{}.Discover() }

// Discover lists the sensors under m.Root.
func (m Machine) Discover() []Found {
	m.Clock = m.clock()
	d := discovery{m: m, taken: map[string]bool{}}
	zones := map[string]int{}
	for _, z := range m.thermalZones() {
		zones[z.kind]++
	}
	for _, z := range m.thermalZones() {
		name := z.kind
		if zones[z.kind] > 1 {
			name = z.entry
		}
		d.add(z.kind, "degC", fixed(-40, 125), config.Source{Type: config.SourceThermal, Zone: name})
	}
	d.hwmon()
	d.board()
	d.proc()
	return d.list
}

// Found is a sensor that exists and answers.
type Found struct {
	// Name is unique among what was found and fit for a channel.
	Name string
	Unit string
	// Range is a plausible range in Unit, wide enough for normal operation.
	Range  [2]float64
	Source config.Source
	// Value is a first reading; NaN for rates, which need two.
	Value float64
}

// Channel returns a channel that reads this sensor, with default policies.
func (f Found) Channel() config.Channel {
	src := f.Source
	return config.Channel{Name: f.Name, Unit: f.Unit, Range: f.Range, Source: &src, OnMissing: config.MissingHold,
		OnRange: config.OutsideClamp}
}

type discovery struct {
	m     Machine
	list  []Found
	taken map[string]bool
}

// fixed returns a range that does not depend on the reading.
func fixed(lo, hi float64) func(float64) [2]float64 {
	return func(float64) [2]float64 { return [2]float64{lo, hi} }
}

// headroom returns [0, h] with h one, two or five times a power of ten, at least
// twice the reading and at least floor.
func headroom(floor float64) func(float64) [2]float64 {
	return func(v float64) [2]float64 {
		want := max(2*math.Abs(v), floor)
		h := math.Pow(10, math.Floor(math.Log10(want)))
		for _, f := range []float64{1, 2, 5, 10} {
			if f*h >= want*(1-1e-12) {
				h *= f
				break
			}
		}
		if v < 0 {
			return [2]float64{-h, h}
		}
		return [2]float64{0, h}
	}
}

// add takes a sensor that opens and reads, and does not hang.
func (d *discovery) add(name, unit string, span func(float64) [2]float64, src config.Source) {
	src.Scale = 1
	v, err := within(openPatience, func() (float64, error) {
		s, err := d.m.Open(src)
		if err != nil {
			return 0, err
		}
		first, _, err := s.Read(context.Background())
		if errors.Is(err, ErrNoBaseline) {
			first, err = math.NaN(), nil
		}
		return first, err
	})
	if err != nil {
		return
	}
	d.list = append(d.list, Found{Name: d.unique(name), Unit: unit, Range: span(v), Source: src, Value: v})
}

var notName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// unique makes a channel name of any text.
func (d *discovery) unique(text string) string {
	name := strings.Trim(notName.ReplaceAllString(strings.ToLower(text), "_"), "_.")
	if name == "" {
		name = "sensor"
	}
	name = name[:min(len(name), 48)]
	for base, i := name, 2; d.taken[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	d.taken[name] = true
	return name
}

func (d *discovery) hwmon() {
	chips := d.m.hwmonChips()
	count := map[string]int{} // of names and places
	for _, c := range chips {
		count[c.name]++
		if c.at != c.name {
			count[c.at]++
		}
	}
	spans := map[string]func(float64) [2]float64{
		"temp": fixed(-40, 125), "in": headroom(1), "curr": headroom(1), "power": headroom(10), "fan": headroom(5000),
		"humidity": fixed(0, 100), "freq": headroom(1000)}
	for _, c := range chips {
		chip := c.name
		if count[chip] > 1 {
			if chip = c.entry; c.at != "" && count[c.at] == 1 {
				chip = c.at
			}
		}
		for _, in := range d.m.inputs(c) {
			if in.kind == "energy" { // it only grows; a board may have one for each core
				continue
			}
			name := c.name + "_" + in.id
			if in.label != "" {
				name = c.name + "_" + in.label
			}
			d.add(name, hwmonKinds[in.kind].unit, spans[in.kind],
				config.Source{Type: config.SourceHwmon, Chip: chip, Input: in.id})
		}
	}
}

// realInterface leaves out loopback, bridges, tunnels and virtual pairs.
var realInterface = regexp.MustCompile(`^(eth|en|wlan|wl|ww|usb|can)[a-z0-9]*$`)

// wholeDisk leaves out partitions, loop devices and memory disks.
var wholeDisk = regexp.MustCompile(`^(sd[a-z]+|hd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+|md[0-9]+)$`)

func (d *discovery) proc() {
	cpus := 1.0
	if list, _ := filepath.Glob(d.m.path("proc/stat")); len(list) == 1 {
		if _, others, _ := d.m.cpuTimes("none"); len(others) > 1 {
			cpus = float64(len(others) - 1)
		}
	}
	d.add("cpu", "%", fixed(0, 100), config.Source{Type: config.SourceCPU, CPU: "total", Field: "busy"})
	d.add("cpu_system", "%", fixed(0, 100), config.Source{Type: config.SourceCPU, CPU: "total", Field: "system"})
	d.add("memory", "%", fixed(0, 100), config.Source{Type: config.SourceMemory, Field: "used_percent"})
	d.add("load", "1", func(v float64) [2]float64 { return headroom(4 * cpus)(v) },
		config.Source{Type: config.SourceLoad, Field: "1m"})
	_, nets, _ := d.m.columns(d.m.path("proc/net/dev"), "", 0, splitNet)
	for _, n := range nets {
		if !realInterface.MatchString(n) {
			continue
		}
		for _, field := range []string{"rx_bytes", "tx_bytes"} {
			d.add(n+"_"+field, "B/s", fixed(0, 125e6),
				config.Source{Type: config.SourceNet, Interface: n, Field: field})
		}
	}
	_, disks, _ := d.m.columns(d.m.path("proc/diskstats"), "", 2, strings.Fields)
	for _, n := range disks {
		if !wholeDisk.MatchString(n) {
			continue
		}
		for _, field := range []string{"read_bytes", "write_bytes"} {
			d.add(n+"_"+field, "B/s", fixed(0, 500e6), config.Source{Type: config.SourceDisk, Device: n, Field: field})
		}
		d.add(n+"_busy", "%", fixed(0, 100), config.Source{Type: config.SourceDisk, Device: n, Field: "busy"})
	}
}

// iioSpans are plausible ranges by the kind of an IIO channel, in our units.
var iioSpans = map[string]func(float64) [2]float64{
	"temp": fixed(-40, 125), "humidityrelative": fixed(0, 100), "pressure": fixed(30, 110), "accel": fixed(-160, 160),
	"gravity": fixed(-20, 20),
	"anglvel": fixed(-35, 35), "magn": fixed(-5000, 5000), "ph": fixed(0, 14), "concentration": fixed(0, 100)}

// board adds what IIO devices and power monitors have.
func (d *discovery) board() {
	for _, c := range iio.List(d.m.Root) {
		src := c.Source()
		span := iioSpans[config.IIOKind(c.Input)]
		if span == nil {
			span = headroom(1)
		}
		unit := src.NativeUnit()
		if unit == "" {
			unit = "1"
		}
		d.add(c.Chip+"_"+c.Input, unit, span, src)
	}
	for _, r := range power.Rails(d.m.Root) {
		if slices.Contains(r.Fields(), "power") {
			d.add(r.Name+"_power", "W", headroom(10), r.Source("power"))
		}
	}
	for _, g := range power.GPUs(d.m.Root) {
		if g.Field == "load" {
			d.add("gpu_load", "%", fixed(0, 100), g.Source())
		} else {
			d.add("gpu_clock", "MHz", headroom(1000), g.Source())
		}
	}
}
