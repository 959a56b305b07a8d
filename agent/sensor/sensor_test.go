package sensor

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

func board() Machine { return Machine{Root: "../testdata/board", Clock: testrig.NewClock()} }

func TestGauges(t *testing.T) {
	type src = config.Source
	for name, c := range map[string]struct {
		src  src
		want float64
	}{
		"temperature":           {src{Type: "hwmon", Chip: "tmp451", Input: "temp1"}, 41.25},
		"negative temperature":  {src{Type: "hwmon", Chip: "hwmon0", Label: "remote"}, -5.5},
		"voltage by label":      {src{Type: "hwmon", Chip: "ina3221", Label: "VDD_IN"}, 19.032},
		"current":               {src{Type: "hwmon", Chip: "ina3221", Input: "curr1"}, 0.512},
		"power, average only":   {src{Type: "hwmon", Chip: "ina3221", Input: "power1"}, 9.744},
		"fan":                   {src{Type: "hwmon", Chip: "pwmfan", Input: "fan1"}, 1503},
		"humidity":              {src{Type: "hwmon", Chip: "sht4x", Input: "humidity1"}, 41.23},
		"old layout":            {src{Type: "hwmon", Chip: "hwmon3", Input: "temp1"}, 23},
		"zone by type":          {src{Type: "thermal", Zone: "CPU-therm"}, 47.843},
		"zone by directory":     {src{Type: "thermal", Zone: "thermal_zone10"}, 2},
		"memory used":           {src{Type: "memory", Field: "used"}, 4000000 * 1024},
		"memory used percent":   {src{Type: "memory", Field: "used_percent"}, 100 * 4000000.0 / 15825956},
		"memory total":          {src{Type: "memory", Field: "total"}, 15825956 * 1024},
		"memory free":           {src{Type: "memory", Field: "free"}, 9000000 * 1024},
		"memory available":      {src{Type: "memory", Field: "available"}, 11825956 * 1024},
		"memory buffers":        {src{Type: "memory", Field: "buffers"}, 100000 * 1024},
		"memory cached":         {src{Type: "memory", Field: "cached"}, 2000000 * 1024},
		"memory swap total":     {src{Type: "memory", Field: "swap_total"}, 7912976 * 1024},
		"memory swap free":      {src{Type: "memory", Field: "swap_free"}, 7912000 * 1024},
		"memory swap used":      {src{Type: "memory", Field: "swap_used"}, 976 * 1024},
		"memory swap used in %": {src{Type: "memory", Field: "swap_used_percent"}, 100 * 976.0 / 7912976},
		"load 1":                {src{Type: "load", Field: "1m"}, 0.52},
		"load 5":                {src{Type: "load", Field: "5m"}, 1.25},
		"load 15":               {src{Type: "load", Field: "15m"}, 2.75},
	} {
		m := board()
		s, err := m.Open(c.src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, at, err := s.Read(t.Context())
		if err != nil || math.Abs(got-c.want) > 1e-9*math.Abs(c.want) || !at.Equal(m.Clock.Now()) {
			t.Errorf("%s: got %v at %v, %v; want %v", name, got, at, err, c.want)
		}
	}
}

func TestNoSuchSensor(t *testing.T) {
	type src = config.Source
	for name, c := range map[string]struct {
		src  src
		want string
	}{
		"chip":            {src{Type: "hwmon", Chip: "coretemp", Input: "temp1"}, "tmp451"},
		"input":           {src{Type: "hwmon", Chip: "tmp451", Input: "temp7"}, "temp2 remote"},
		"label":           {src{Type: "hwmon", Chip: "ina3221", Label: "VDD"}, "in1 VDD_IN"},
		"ambiguous chip":  {src{Type: "hwmon", Chip: "lm75", Input: "temp1"}, "hwmon3/temp1, hwmon10/temp1"},
		"zone":            {src{Type: "thermal", Zone: "soc"}, "GPU-therm"},
		"ambiguous zone":  {src{Type: "thermal", Zone: "spare"}, "thermal_zone2, thermal_zone10"},
		"processor":       {src{Type: "cpu", CPU: "cpu7", Field: "busy"}, "cpu1"},
		"cpu field":       {src{Type: "cpu", CPU: "total", Field: "busi"}, "iowait"},
		"memory field":    {src{Type: "memory", Field: "x"}, "used_percent"},
		"load field":      {src{Type: "load", Field: "2m"}, "15m"},
		"disk":            {src{Type: "disk", Device: "sda", Field: "reads"}, "mmcblk0"},
		"disk field":      {src{Type: "disk", Device: "mmcblk0", Field: "x"}, "write_bytes"},
		"interface":       {src{Type: "net", Interface: "wlan0", Field: "rx_bytes"}, "eth0"},
		"interface field": {src{Type: "net", Interface: "eth0", Field: "x"}, "rx_bytes"},
		"replay":          {src{Type: "replay", Column: "x"}, "cannot be opened"},
	} {
		_, err := board().Open(c.src)
		if !errors.Is(err, ErrNoSensor) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it to name %q", name, err, c.want)
		}
	}
	for _, typ := range config.SourceTypes() {
		m := Machine{Root: t.TempDir()}
		if _, err := m.Open(src{Type: typ, Chip: "x", Input: "temp1", Zone: "x", CPU: "total", Device: "x",
			Interface: "x", Field: config.FieldsOf(config.SourceCPU)[0]}); err == nil {
			t.Errorf("%s opens on a machine with nothing", typ)
		}
	}
}

func TestBadReadings(t *testing.T) {
	m := board()
	for name, src := range map[string]config.Source{
		"fault":   {Type: "hwmon", Chip: "tmp451", Input: "temp3"},
		"garbage": {Type: "hwmon", Chip: "hwmon10", Label: "bad"},
	} {
		s, err := m.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		if v, _, err := s.Read(t.Context()); !errors.Is(err, ErrReading) {
			t.Errorf("%s: got %v, %v", name, v, err)
		}
	}
	for file, text := range map[string]string{
		"proc/loadavg": "0.5 high 1 1/2 3\n", "proc/meminfo": "MemTotal: many kB\n", "proc/stat": "cpu 1 2 x 4 5\n",
		"proc/diskstats": "8 0 sda x\n", "proc/net/dev": "eth0: 1 x\n",
	} {
		m := Machine{Root: t.TempDir()}
		put(t, m, file, text)
		for _, src := range []config.Source{{Type: "load", Field: "5m"}, {Type: "memory", Field: "used"},
			{Type: "cpu", CPU: "total", Field: "busy"},
			{Type: "disk", Device: "sda", Field: "reads"}, {Type: "net", Interface: "eth0", Field: "rx_packets"}} {
			if s, err := m.Open(src); err == nil {
				t.Errorf("%s from %q: opened as %v", src.Type, text, s)
			}
		}
	}
}

func put(t testing.TB, m Machine, file, text string) {
	t.Helper()
	p := m.path(file)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCancelledRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := board()
	for _, src := range []config.Source{{Type: "load", Field: "1m"},
		{Type: "net", Interface: "eth0", Field: "rx_bytes"}} {
		s, err := m.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", src.Type, err)
		}
	}
}

// Each step is a file, the time that passes before it is read, and the rate
// that must come out; NaN stands for an error.
func TestRates(t *testing.T) {
	type step struct {
		text string
		dt   time.Duration
		want float64
	}
	nan := math.NaN()
	net := func(rx, tx string) string {
		return "Inter-|\n face |\neth0:" + rx + " 5 0 0 0 0 0 0 " + tx + " 7 0 0 0 0 0 0\n"
	}
	disk := func(sectors, busy string) string {
		return " 8 0 sda 10 0 " + sectors + " 0 20 0 4000 0 0 " + busy + " 0\n"
	}
	for name, c := range map[string]struct {
		file  string
		src   config.Source
		steps []step
	}{
		"bytes received": {"proc/net/dev", config.Source{Type: "net", Interface: "eth0", Field: "rx_bytes"}, []step{
			{net("1000", "1"), time.Second, nan}, {net("3000", "1"), 2 * time.Second, 1000},
			{net("3000", "1"), time.Second, 0},
			{net("10", "1"), time.Second, nan}, {net("20", "1"), time.Second, 10}, {net("25", "1"), 0, nan},
			{"eth1: 1\n", time.Second, nan}, {net("55", "1"), 2 * time.Second, 10}}},
		"bytes sent": {"proc/net/dev", config.Source{Type: "net", Interface: "eth0", Field: "tx_bytes"}, []step{
			{net("0", "18446744073709551000"), time.Second, nan},
			{net("0", "18446744073709551500"), 500 * time.Millisecond, 1000}, {net("0", "5"), time.Second, nan}}},
		"bytes read": {"proc/diskstats", config.Source{Type: "disk", Device: "sda", Field: "read_bytes"}, []step{
			{disk("100", "0"), time.Second, nan}, {disk("300", "0"), time.Second, 200 * 512}}},
		"busy": {"proc/diskstats", config.Source{Type: "disk", Device: "sda", Field: "busy"}, []step{
			{disk("1", "1000"), time.Second, nan}, {disk("1", "1250"), time.Second, 25}}},
		"cpu busy": {"proc/stat", config.Source{Type: "cpu", CPU: "total", Field: "busy"}, []step{
			{"cpu 100 0 100 800 0 0 0 0 0 0\n", time.Second, nan}, {"cpu 130 0 120 850 0 0 0 0 9 9\n", time.Second, 50},
			{"cpu 130 0 120 850 0 0 0 0\n", time.Second, nan}, {"cpu 140 0 120 840 10 0 0 0\n", time.Second, 50},
			{"cpu 1 0 1 1 1 0 0 0\n", time.Second, nan}}},
		"cpu iowait": {"proc/stat", config.Source{Type: "cpu", CPU: "cpu1", Field: "iowait"}, []step{
			{"cpu 0 0 0 0 0\ncpu1 1 1 1 1 1 1 1 1\n", time.Second, nan},
			{"cpu 0 0 0 0 0\ncpu1 2 2 2 2 5 2 2 2\n", time.Second, 100 * 4.0 / 11}}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testrig.NewClock()
			m := Machine{Root: t.TempDir(), Clock: clock}
			put(t, m, c.file, c.steps[0].text)
			s, err := m.Open(c.src)
			if err != nil {
				t.Fatal(err)
			}
			for i, st := range c.steps {
				put(t, m, c.file, st.text)
				_ = clock.Sleep(t.Context(), st.dt)
				clock.Step(-time.Hour) // rates must not depend on the wall clock
				got, _, err := s.Read(t.Context())
				if math.IsNaN(st.want) {
					if err == nil {
						t.Errorf("step %d: got %v, want an error", i, got)
					}
				} else if err != nil || math.Abs(got-st.want) > 1e-9*st.want {
					t.Errorf("step %d: got %v, %v; want %v", i, got, err, st.want)
				}
			}
		})
	}
}

func TestRateProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := testrig.NewClock()
		var counter uint64
		r := &rate{m: Machine{Clock: clock}, factor: 1, read: func() (uint64, error) { return counter, nil }}
		if _, _, err := r.Read(t.Context()); !errors.Is(err, ErrNoBaseline) {
			t.Fatalf("first reading: %v", err)
		}
		var total float64
		var elapsed time.Duration
		for range rapid.IntRange(1, 20).Draw(t, "readings") {
			dt := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "dt"))
			add := rapid.Uint64Range(0, 1<<40).Draw(t, "add")
			counter += add
			_ = clock.Sleep(t.Context(), dt)
			v, _, err := r.Read(t.Context())
			if err != nil || v < 0 {
				t.Fatalf("got %v, %v", v, err)
			}
			total += v * dt.Seconds()
			elapsed += dt
		}
		if want := float64(counter); math.Abs(total-want) > 1e-6*(want+1) {
			t.Fatalf("rates add up to %v over %v, the counter to %v", total, elapsed, want)
		}
	})
}

func TestCPUShareProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := make([]float64, len(cpuFields))
		now := make([]float64, len(cpuFields))
		for i := range before {
			before[i] = float64(rapid.IntRange(0, 1000).Draw(t, "before"))
			now[i] = before[i] + float64(rapid.IntRange(0, 1000).Draw(t, "add"))
		}
		now[3]++
		sum := 0.0
		for i := range cpuFields {
			v, err := cpuShare(before, now, i)
			if err != nil || v < 0 || v > 100 {
				t.Fatalf("%s: %v %v", cpuFields[i], v, err)
			}
			sum += v
		}
		busy, _ := cpuShare(before, now, -1)
		idle, _ := cpuShare(before, now, 3)
		iowait, _ := cpuShare(before, now, 4)
		if math.Abs(sum-100) > 1e-9 || math.Abs(busy+idle+iowait-100) > 1e-9 {
			t.Fatalf("shares add up to %v, busy %v idle %v iowait %v", sum, busy, idle, iowait)
		}
	})
}

func TestDiscoverBoard(t *testing.T) {
	found := board().Discover()
	byName := map[string]Found{}
	for i, f := range found {
		if !config.ValidName(f.Name) {
			t.Errorf("%q is no channel name", f.Name)
		}
		if _, dup := byName[f.Name]; dup {
			t.Errorf("%q is there twice", f.Name)
		}
		if v := f.Value; f.Range[0] >= f.Range[1] || v < f.Range[0] || v > f.Range[1] {
			t.Errorf("%s: %v is not in %v", f.Name, v, f.Range)
		}
		if i == 0 && f.Source.Type != config.SourceThermal {
			t.Errorf("the first is %v, not a temperature", f)
		}
		byName[f.Name] = f
	}
	for _, want := range []string{"cpu-therm", "gpu-therm", "spare", "spare_2", "tmp451_temp1", "tmp451_remote",
		"ina3221_vdd_in", "ina3221_power1", "pwmfan_fan1",
		"lm75_temp1", "lm75_temp1_2", "cpu", "memory", "load", "eth0_rx_bytes", "mmcblk0_write_bytes"} {
		if _, ok := byName[want]; !ok {
			t.Errorf("%s was not found", want)
		}
	}
	for name := range byName {
		if strings.Contains(name, "loop") || strings.Contains(name, "mmcblk0p1") || strings.HasPrefix(name, "lo_") ||
			name == "tmp451_temp3" || name == "lm75_bad" {
			t.Errorf("%s should not be offered", name)
		}
	}
	// What is found makes a valid configuration.
	cfg := inputtest.Config(t)
	cfg.Streams[0].Channels = nil
	for _, f := range found {
		cfg.Streams[0].Channels = append(cfg.Streams[0].Channels, f.Channel())
	}
	cfg.SetDefaults()
	if err := cfg.Check(); err != nil {
		t.Error(err)
	}
}

// This machine's own /proc must work, whatever else it has.
func TestThisMachine(t *testing.T) {
	found := Discover()
	types := map[config.SourceType]bool{}
	for _, f := range found {
		types[f.Source.Type] = true
	}
	for _, want := range []config.SourceType{config.SourceCPU, config.SourceMemory, config.SourceLoad} {
		if !types[want] {
			t.Errorf("no %s sensor among %v", want, found)
		}
	}
	l, errs := Machine{}.OpenChannels(config.Stream{Interval: 50 * time.Millisecond, Channels: []config.Channel{
		{Source: &config.Source{Type: config.SourceCPU, CPU: "total", Field: "busy"}},
		{Source: &config.Source{Type: config.SourceMemory, Field: "used_percent"}}}})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var values [2]float64
		var errs [2]error
		if err := l.Read(t.Context(), func(i int, v float64, err error) { values[i], errs[i] = v, err }); err != nil ||
			errs[1] != nil ||
			values[1] <= 0 || values[1] >= 100 {
			t.Fatalf("got %v, %v, %v", values, errs, err)
		}
		if errs[0] == nil && (values[0] < 0 || values[0] > 100) {
			t.Errorf("processor at %v %%", values[0])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestHeadroom(t *testing.T) {
	for _, c := range []struct{ floor, v, want float64 }{{1, 0, 1}, {1, 5.008, 20}, {1, 0.4, 1}, {5000, 1503, 5000},
		{10, 9.744, 20}, {16, 1, 20}} {
		if got := headroom(c.floor)(c.v); got != [2]float64{0, c.want} {
			t.Errorf("headroom(%v)(%v) = %v, want %v", c.floor, c.v, got, c.want)
		}
	}
	if got := headroom(1)(-3); got != [2]float64{-10, 10} {
		t.Errorf("got %v", got)
	}
}
