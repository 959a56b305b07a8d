package sensor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/config"
)

// cpuFields are the columns of /proc/stat that make up the time of a processor
// (proc_stat(5)). Guest time is part of user and nice already.
var cpuFields = []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"}

// cpuTimes reads one processor's line of /proc/stat, in ticks.
func (m Machine) cpuTimes(cpu string) (times []float64, others []string, err error) {
	path := m.path("proc/stat")
	text, err := m.read(path)
	if err != nil {
		return nil, nil, err
	}
	want := cpu
	if cpu == "total" {
		want = "cpu"
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if f[0] != want {
			if f[0] == "cpu" {
				f[0] = "total" // as it is written in a source
			}
			others = append(others, f[0])
			continue
		}
		// Before Linux 2.6.11 there was no steal column; four are always there.
		if len(f) < 5 {
			return nil, nil, fmt.Errorf("%w: %s: the line of %s is too short", ErrReading, path, cpu)
		}
		times = make([]float64, len(cpuFields))
		for i := range times {
			if i+1 >= len(f) {
				break
			}
			v, err := strconv.ParseUint(f[i+1], 10, 64)
			if err != nil {
				return nil, nil, fmt.Errorf("%w: %s: %s of %s is not a number", ErrReading, path, cpuFields[i], cpu)
			}
			times[i] = float64(v)
		}
		return times, nil, nil
	}
	return nil, others, noSensor("processor", cpu, others)
}

func (m Machine) openCPU(src config.Source) (Sensor, error) {
	if _, _, err := m.cpuTimes(src.CPU); err != nil {
		return nil, err
	}
	var last []float64
	index := slices.Index(cpuFields, src.Field)
	if index < 0 && src.Field != "busy" {
		return nil, noSensor("cpu field", src.Field, append([]string{"busy"}, cpuFields...))
	}
	return gauge{m, func() (float64, error) {
		now, _, err := m.cpuTimes(src.CPU)
		if err != nil {
			return 0, err
		}
		before := last
		last = now
		if before == nil {
			return 0, ErrNoBaseline
		}
		return cpuShare(before, now, index)
	}}, nil
}

// cpuShare returns the share of field index between two readings, in percent; index
// -1 is all but idle and iowait. The kernel documents that idle and iowait may
// go backwards by a little; such a step counts as zero.
func cpuShare(before, now []float64, index int) (float64, error) {
	var total, part float64
	for i := range now {
		d := now[i] - before[i]
		idle := cpuFields[i] == "idle" || cpuFields[i] == "iowait"
		if d < 0 && !idle {
			return 0, fmt.Errorf("%w: the processor's %s time went backwards", ErrReading, cpuFields[i])
		}
		d = max(d, 0)
		total += d
		if i == index || index < 0 && !idle {
			part += d
		}
	}
	if total <= 0 {
		return 0, fmt.Errorf("%w: no processor time has passed since the last reading; use an interval of 20ms or more",
			ErrReading)
	}
	return 100 * part / total, nil
}

// memInfo reads /proc/meminfo, in bytes.
func (m Machine) memInfo() (map[string]float64, error) {
	path := m.path("proc/meminfo")
	text, err := m.read(path)
	if err != nil {
		return nil, err
	}
	info := map[string]float64{}
	for line := range strings.Lines(text) {
		key, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || len(f) == 0 {
			continue
		}
		v, err := strconv.ParseUint(f[0], 10, 53)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %s is not a number", ErrReading, path, key)
		}
		factor := 1.0
		if len(f) > 1 && f[1] == "kB" {
			factor = 1024
		}
		info[key] = float64(v) * factor
	}
	if info["MemTotal"] <= 0 {
		return nil, fmt.Errorf("%w: %s has no MemTotal", ErrReading, path)
	}
	if _, ok := info["MemAvailable"]; !ok { // before Linux 3.14
		info["MemAvailable"] = info["MemFree"] + info["Buffers"] + info["Cached"]
	}
	return info, nil
}

// TotalMemory returns the memory of the machine in bytes, 0 where it cannot be read.
func (m Machine) TotalMemory() int64 {
	info, err := m.memInfo()
	if err != nil {
		return 0
	}
	return int64(info["MemTotal"])
}

// BootID returns what the kernel calls its present start, or nil where it does not say.
func (m Machine) BootID() []byte {
	id, err := m.read(m.path("proc/sys/kernel/random/boot_id"))
	if err != nil {
		return nil
	}
	return []byte(id)
}

func memoryField(info map[string]float64, field string) (float64, error) {
	used := info["MemTotal"] - info["MemAvailable"]
	swapUsed := info["SwapTotal"] - info["SwapFree"]
	switch field {
	case "used_percent":
		return 100 * used / info["MemTotal"], nil
	case "total":
		return info["MemTotal"], nil
	case "free":
		return info["MemFree"], nil
	case "available":
		return info["MemAvailable"], nil
	case "used":
		return used, nil
	case "buffers":
		return info["Buffers"], nil
	case "cached":
		return info["Cached"], nil
	case "swap_total":
		return info["SwapTotal"], nil
	case "swap_free":
		return info["SwapFree"], nil
	case "swap_used":
		return swapUsed, nil
	case "swap_used_percent":
		if info["SwapTotal"] == 0 {
			return 0, nil
		}
		return 100 * swapUsed / info["SwapTotal"], nil
	}
	return 0, noSensor("memory field", field, config.FieldsOf(config.SourceMemory))
}

func (m Machine) openMemory(src config.Source) (Sensor, error) {
	read := func() (float64, error) {
		info, err := m.memInfo()
		if err != nil {
			return 0, err
		}
		return memoryField(info, src.Field)
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	return gauge{m, read}, nil
}

func (m Machine) openLoad(src config.Source) (Sensor, error) {
	index := slices.Index([]string{"1m", "5m", "15m"}, src.Field)
	if index < 0 {
		return nil, noSensor("load field", src.Field, config.FieldsOf(config.SourceLoad))
	}
	path := m.path("proc/loadavg")
	read := func() (float64, error) {
		text, err := m.read(path)
		if err != nil {
			return 0, err
		}
		f := strings.Fields(text)
		if len(f) < 3 {
			return 0, fmt.Errorf("%w: %s holds no load averages", ErrReading, path)
		}
		v, err := strconv.ParseFloat(f[index], 64)
		if err != nil || !(v >= 0) || v > 1e9 {
			return 0, fmt.Errorf("%w: %s holds no load averages", ErrReading, path)
		}
		return v, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	return gauge{m, read}, nil
}
