package agent

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	modbus "github.com/simonvetter/modbus"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// example is a file of config/examples with what its inputs talk to: run starts
// that, points the configuration at it, and gives what feeds it until the test is
// over. want is what the channels must say, by "stream/channel".
type example struct {
	file string
	root string // of /sys and /proc; a txtar file or a directory
	run  func(t *testing.T, cfg *config.Agent, root string) (feed func())
	want map[string]float64
}

func examples() []example {
	return []example{
		{file: "agent.yaml", root: "testdata/board", run: runProc,
			want: map[string]float64{"system/cpu": 25, "system/memory": 100 * 4000000.0 / 15825956, "system/load": 0.52,
				"thermal/soc": 47.843, "thermal/board": 41.25, "thermal/rail": 19.032}},
		// The last samples of the last windows of the files.
		{file: "agent-replay.yaml", want: map[string]float64{"vibration/x": -0.7856, "vibration/y": 4.9343}},
		{file: "agent-replay-ndjson.yaml",
			want: map[string]float64{"meters/flow": 12 + 0.25*3, "meters/pressure": 5.24}},
		{file: "agent-board.yaml", root: "testdata/jetson.txtar",
			want: map[string]float64{"board/gpu_power": 5 * 1.2, "board/gpu_load": 34.7,
				"board/gpu_clock": 510, "board/air": 23.85, "board/pressure": 1009.24, "board/tilt": -1204 * 0.000598}},
		{file: "agent-modbus.yaml", run: runModbus,
			want: map[string]float64{"energy/voltage": 230.25, "energy/power": 12345, "energy/running": 1,
				"energy/fault": 5, "store/level": 3.25}},
		{file: "agent-serial.yaml", run: runSerial,
			want: map[string]float64{"field/wind": 7.5, "field/latitude": 48.1173, "field/speed": 22.4 * 0.514444,
				"field/weight": 123.4, "field/resistance": 4712.5}},
		{file: "agent-exec.yaml", run: runExec, want: map[string]float64{"cabinet/charge": 87}},
		{file: "agent-http.yaml", run: runHTTP,
			want: map[string]float64{"solar/power": 4.2, "solar/exported": 1234.5, "solar/context_switches": 3e11}},
		{file: "agent-mqtt.yaml", run: runMQTT,
			want: map[string]float64{"pumps/speed": 1450.5, "pumps/on": 1, "pumps/level": 2.5}},
		{file: "agent-events.yaml", run: runEvents,
			want: map[string]float64{"meter/voltage": 229.5, "meter/power": 7.25}},
	}
}

// Every example of an input runs against what it is made for: servers and brokers
// of others, pseudo terminals, commands, recorded trees of /sys. What is decrypted
// is what they said. (I2C, SPI and CAN need buses that machines for tests do not
// have; their packages have tests of their own.)
func TestExamplesRun(t *testing.T) {
	keysFor(t)
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for _, e := range examples() {
		t.Run(e.file, func(t *testing.T) { e.test(t) })
		// The agent, and the test's own servers, leave nothing behind.
		if !testrig.Poll(func() bool { return runtime.NumGoroutine() <= goroutines && openFiles(t) <= files }) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%s: %d goroutines where there were %d, %d files where there were %d\n%s", e.file,
				runtime.NumGoroutine(), goroutines, openFiles(t), files,
				buf[:runtime.Stack(buf, true)])
		}
	}
}

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func (e example) test(t *testing.T) {
	cfg, err := config.LoadAgent("../config/examples/" + e.file)
	if err != nil {
		t.Fatal(err)
	}
	root, feed := tree(t, e.root), func() {}
	if e.run != nil {
		feed = e.run(t, cfg, root)
	}
	cfg.State, cfg.Metrics.Listen, cfg.Energy = filepath.Join(t.TempDir(), "state"), "", config.EnergyOff
	hasten(cfg)
	client := &fakeClient{}
	deps, k := testDeps(t, client)
	deps.Clock, deps.Root = role.SystemClock(), root
	ctx, stop := context.WithTimeout(t.Context(), testrig.Patience)
	defer stop()
	var mu sync.Mutex
	missing := maps.Clone(e.want)
	seen := map[string]uint64{} // sequence number of a window with the value, by channel
	deps.Observer = func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		for i, values := range o.Values {
			name := o.Meta.Stream + "/" + channelOf(cfg, o.Meta.Stream, i)
			if want, ok := missing[name]; ok && near(values[len(values)-1], want) {
				delete(missing, name)
				seen[name] = o.Meta.Sequence
			}
		}
		if len(missing) == 0 {
			stop()
		}
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for running := true; running; {
		select {
		case err := <-done:
			if running = false; err != nil {
				t.Fatal(err)
			}
		case <-time.After(5 * time.Millisecond):
			feed()
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(missing) > 0 {
		t.Fatalf("never seen: %v; %+v; %+v", missing, a.Report().Troubles, a.Stats().Inputs)
	}
	e.decrypt(t, cfg, k, client, seen)
}

// hasten makes windows come sooner, in the parameters of the tests' keys.
func hasten(cfg *config.Agent) {
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		s.Params = "edge12-d1"
		switch {
		case s.Interval > 0:
			s.Interval, s.Window = 50*time.Millisecond, config.Window{Samples: 2}
		case s.Events != nil:
			s.Window, s.Lateness = config.Window{Every: time.Second, Samples: 4}, 10*time.Millisecond
		}
	}
	for i := range cfg.Inputs {
		if in := &cfg.Inputs[i]; in.Asked() {
			in.Every, in.Retry = 20*time.Millisecond, 10*time.Millisecond
			if in.Polled() {
				in.Timeout = 10 * time.Second
			}
		}
		cfg.Inputs[i].MaxAge = time.Minute
	}
}

// decrypt decrypts what was published and compares each channel, in the window in which it
// was seen, with what it must say.
func (e example) decrypt(t *testing.T, cfg *config.Agent, k *testKeys, client *fakeClient, seen map[string]uint64) {
	t.Helper()
	readings, _ := opened(t, k, cfg.Device, client.messages)
	checked := 0
	for _, r := range readings {
		i := slices.IndexFunc(cfg.Streams, func(s config.Stream) bool { return s.Name == r.Meta.Stream })
		s := cfg.Streams[i]
		if r.Meta.Level != s.LevelAt(1) {
			t.Errorf("stream %s is encrypted at level %d, not %d", s.Name, r.Meta.Level, s.LevelAt(1))
		}
		for c, values := range decrypted(t, k, s, r) {
			name := s.Name + "/" + s.Channels[c].Name
			if n, ok := seen[name]; ok && n == r.Meta.Sequence {
				_, half := s.Channels[c].Affine()
				if got, want := values[len(values)-1], e.want[name]; math.Abs(got-want) > 1e-3*half {
					t.Errorf("%s: decrypted %v, want %v", name, got, want)
				}
				checked++
			}
		}
	}
	if checked != len(e.want) {
		t.Errorf("%d of %d channels were decrypted", checked, len(e.want))
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b)) }

func channelOf(cfg *config.Agent, stream string, i int) string {
	for _, s := range cfg.Streams {
		if s.Name == stream {
			return s.Channels[i].Name
		}
	}
	return ""
}

// tree is the directory of a recorded tree; "" is this machine.
func tree(t *testing.T, root string) string {
	t.Helper()
	switch {
	case root == "":
		return ""
	case filepath.Ext(root) != ".txtar":
		return inputtest.CopyTree(t, "testdata/board")
	}
	return inputtest.Tree(t, root)
}

// runProc makes the counters of /proc move: a quarter of the processor's time is
// busy.
func runProc(t *testing.T, _ *config.Agent, root string) func() {
	n := 1000
	replace := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Error(err)
		}
	}
	return func() {
		n++
		replace("proc/stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\ncpu0 %[1]d 0 0 %[2]d 0 0 0 0 0 0\n", n, 3*n))
		replace("proc/net/dev", fmt.Sprintf("  eth0: %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", 100*n))
	}
}

// registers is the data of one Modbus unit, for a server of another library.
type registers struct {
	holding, analog [64]uint16
	coils           [8]bool
}

func (r *registers) HandleCoils(q *modbus.CoilsRequest) ([]bool, error) {
	return r.coils[q.Addr : q.Addr+q.Quantity], nil
}
func (r *registers) HandleDiscreteInputs(*modbus.DiscreteInputsRequest) ([]bool, error) {
	return nil, modbus.ErrIllegalFunction
}
func (r *registers) HandleHoldingRegisters(q *modbus.HoldingRegistersRequest) ([]uint16, error) {
	return r.holding[q.Addr : q.Addr+q.Quantity], nil
}
func (r *registers) HandleInputRegisters(q *modbus.InputRegistersRequest) ([]uint16, error) {
	return r.analog[q.Addr : q.Addr+q.Quantity], nil
}

func runModbus(t *testing.T, cfg *config.Agent, _ string) func() {
	meter, pump, tank := &registers{}, &registers{}, &registers{}
	f := math.Float32bits(230.25)
	meter.analog[0], meter.analog[1] = uint16(f>>16), uint16(f)
	meter.holding[12], meter.holding[13] = uint16(123450&0xffff), uint16(123450>>16) // low word first, tenths
	pump.coils[4], pump.holding[40] = true, 0xffdf                                   // bits 4 to 6: 101
	tank.analog[2] = 3250
	port, path := inputtest.PTY(t)
	units := map[byte]string{3: inputtest.ModbusServer(t, pump), 4: inputtest.ModbusServer(t, tank)}
	go func() { _ = inputtest.ModbusBus(port, units) }()
	cfg.Input("meter").Modbus.URL = "tcp://" + inputtest.ModbusServer(t, meter)
	cfg.Input("pump").Modbus.URL, cfg.Input("tank").Modbus.URL = "rtu://"+path, "rtu://"+path
	return func() {}
}

func runSerial(t *testing.T, cfg *config.Agent, _ string) func() {
	var ports []*os.File
	for _, name := range []string{"weather", "gps", "scale", "meter"} {
		port, path := inputtest.PTY(t)
		cfg.Input(name).Serial.Device = path
		ports = append(ports, port)
	}
	return func() {
		for i, text := range []string{"21.5;7.5;180\r\n",
			"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n" +
				"$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n",
			"ST,GS,  123.4 kg\r\n"} {
			_ = ports[i].SetWriteDeadline(time.Now().Add(time.Millisecond)) // nobody reads yet, or not fast enough
			_, _ = ports[i].WriteString(text)
		}
		b := make([]byte, 64)
		_ = ports[3].SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, _ := ports[3].Read(b); strings.Contains(string(b[:n]), "MEAS?\n") {
			_, _ = ports[3].WriteString("+4.7125E+03\r\n")
		}
	}
}

func runExec(t *testing.T, cfg *config.Agent, _ string) func() {
	tool := filepath.Join(t.TempDir(), "ups-status")
	script := "#!/bin/sh\n[ \"$1\" = --json ] && echo '{\"battery\": {\"charge\": 87}}'\n"
	if err := os.WriteFile(tool, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.Input("ups").Exec.Command[0] = tool
	return func() {}
}

func runHTTP(t *testing.T, cfg *config.Agent, _ string) func() {
	authority, err := tlsutil.NewDevCA("inverter")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inverter := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/status" || r.Header.Get("Authorization") != "Bearer abc" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"phases": [{"name": "L2", "power": 1}, {"name": "L1", "power": 4200}],
			"energy": {"exported": 1234.5}}`)
	}))
	if inverter.TLS, err = authority.ServerConfig(false, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	inverter.StartTLS()
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# HELP\nnode_context_switches_total 3e+11\nnode_intr_total 5\n")
	}))
	t.Cleanup(inverter.Close)
	t.Cleanup(exporter.Close)
	h := cfg.Input("inverter").HTTP
	h.URL, h.CA, h.Token = inverter.URL+"/api/v1/status", filepath.Join(dir, "ca.pem"),
		config.Secret("file:"+filepath.Join(dir, "token"))
	cfg.Input("exporter").HTTP.URL = exporter.URL + "/metrics"
	return func() {}
}

func runMQTT(t *testing.T, cfg *config.Agent, _ string) func() {
	plant, local := inputtest.MosquittoFor(t, "board1", "secret"), inputtest.Mosquitto(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := cfg.Input("plant").MQTT
	m.URL, m.CA, m.Password = plant.URL, plant.CA, config.Secret("file:"+file)
	m = cfg.Input("local").MQTT
	m.URL, m.CA = local.URL, local.CA
	tell, tank := plant.Publisher(t), local.Publisher(t)
	return func() {
		tell("plant/pump1/state", `{"pump": {"speed": 1450.5, "on": true}}`, false)
		tank("tank/7/level", "2.5", false)
	}
}

func runEvents(t *testing.T, cfg *config.Agent, _ string) func() {
	b := inputtest.Mosquitto(t)
	m := cfg.Input("plant").MQTT
	m.URL, m.CA = b.URL, b.CA
	tell := b.Publisher(t)
	return func() {
		tell("meter/main", fmt.Sprintf(`{"timestamp": %d, "voltage": 229.5, "power": {"total": 7250}}`,
			time.Now().UnixMilli()), false)
	}
}
