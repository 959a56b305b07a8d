package sensor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
)

func (m Machine) openDisk(src config.Source) (Sensor, error) {
	c, ok := diskCounters[src.Field]
	if !ok {
		return nil, noSensor("disk field", src.Field, config.FieldsOf(config.SourceDisk))
	}
	return m.openCounter(c, func() (uint64, error) {
		return m.column("disk", m.path("proc/diskstats"), src.Device, 2, c.index, strings.Fields)
	})
}

func (m Machine) openNet(src config.Source) (Sensor, error) {
	c, ok := netCounters[src.Field]
	if !ok {
		return nil, noSensor("network field", src.Field, config.FieldsOf(config.SourceNet))
	}
	return m.openCounter(c, func() (uint64, error) {
		return m.column("network interface", m.path("proc/net/dev"), src.Interface, 0, c.index, splitNet)
	})
}

func (m Machine) openCounter(c counter, read func() (uint64, error)) (Sensor, error) {
	if _, err := read(); err != nil {
		return nil, err
	}
	return &rate{m: m, factor: c.factor, read: read}, nil
}

// counter is a field of a table: its column and the factor to its unit.
type counter struct {
	index  int
	factor float64
}

// diskCounters are columns of /proc/diskstats (Documentation/admin-guide/
// iostats.rst); a sector is 512 bytes there whatever the device says, and busy
// is milliseconds per second, as a percentage.
var diskCounters = map[string]counter{
	"reads": {3, 1}, "read_bytes": {5, 512}, "writes": {7, 1}, "write_bytes": {9, 512}, "busy": {12, 0.1},
}

// netCounters are columns of /proc/net/dev, the interface being column 0.
var netCounters = map[string]counter{
	"rx_bytes": {1, 1}, "rx_packets": {2, 1}, "rx_errors": {3, 1}, "rx_dropped": {4, 1},
	"tx_bytes": {9, 1}, "tx_packets": {10, 1}, "tx_errors": {11, 1}, "tx_dropped": {12, 1},
}

// splitNet takes "  eth0: 1 2 ..." apart; header lines have no colon.
func splitNet(line string) []string {
	name, rest, ok := strings.Cut(line, ":")
	if !ok {
		return nil
	}
	return append([]string{strings.TrimSpace(name)}, strings.Fields(rest)...)
}

// rate turns a counter into a rate per second over monotonic time.
type rate struct {
	m      Machine
	factor float64 // from the counter's unit per second
	read   func() (uint64, error)

	primed bool
	last   uint64
	at     time.Duration
}

// Read returns the rate since the last successful reading. The first gives
// ErrNoBaseline. A counter that went backwards (a wrap, or a device that was
// replaced) gives ErrReading and starts anew.
func (r *rate) Read(ctx context.Context) (float64, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	v, err := r.read()
	now, mono := r.m.Clock.Now(), r.m.Clock.Mono()
	if err != nil {
		return 0, now, err
	}
	primed, last, dt := r.primed, r.last, mono-r.at
	r.primed, r.last, r.at = true, v, mono
	switch {
	case !primed:
		return 0, now, ErrNoBaseline
	case v < last:
		return 0, now, fmt.Errorf("%w: a counter went backwards", ErrReading)
	case dt <= 0:
		return 0, now, fmt.Errorf("%w: no time has passed since the last reading", ErrReading)
	}
	return float64(v-last) * r.factor / dt.Seconds(), now, nil
}

// columns finds the line of a table whose column key holds name and gives its
// fields, or the names that there are.
func (m Machine) columns(path, name string, key int, split func(line string) []string) (fields, names []string,
	err error) {
	text, err := m.read(path)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(text) {
		f := split(line)
		if len(f) <= key {
			continue
		}
		if f[key] == name {
			return f, nil, nil
		}
		names = append(names, f[key])
	}
	return nil, names, nil
}

// column returns a counter in column index of the line for name.
func (m Machine) column(what, path, name string, key, index int, split func(string) []string) (uint64, error) {
	f, names, err := m.columns(path, name, key, split)
	if err != nil {
		return 0, err
	}
	if f == nil {
		return 0, noSensor(what, name, names)
	}
	if len(f) <= index {
		return 0, fmt.Errorf("%w: %s: the line of %s has %d columns, want %d", ErrReading, path, name, len(f), index+1)
	}
	v, err := strconv.ParseUint(f[index], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: column %d of %s is not a number", ErrReading, path, index+1, name)
	}
	return v, nil
}
