package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/broker"
)

// process is a program that is started, killed and started again.
type process struct {
	name string
	args []string
	env  []string
	log  string // file that its standard error is appended to

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan error
	starts int
	began  time.Time
}

func (p *process) start() error {
	if ok, _ := p.alive(); ok { // two faults of a round had it down
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stderr = log
	if strings.HasSuffix(p.name, "holder") {
		out, err := os.OpenFile(p.log+".results", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer out.Close()
		cmd.Stdout = out
	} else {
		cmd.Stdout = log
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.starts++
	p.began = time.Now()
	exited := make(chan error, 1)
	p.cmd, p.exited = cmd, exited
	go func() { exited <- cmd.Wait() }()
	return nil
}

// kill ends the process as a power cut does.
func (p *process) kill() { p.end(syscall.SIGKILL, time.Minute) }

// end signals and waits; a process that takes longer is killed.
func (p *process) end(sig syscall.Signal, wait time.Duration) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case err = <-p.exited:
	case <-time.After(wait):
		_ = p.cmd.Process.Kill()
		<-p.exited
		err = errors.New("it did not stop in time")
	}
	p.cmd = nil
	return err
}

// ready is how long after its start a process is sure to handle signals, also on a slow
// machine. A service manager knows it from READY=1; but where there is one, an agent that
// has finished waits for a reload.
const ready = 4 * time.Second

// signal sends a signal to a process that has run for a while.
func (p *process) signal(sig syscall.Signal) bool {
	if ok, _ := p.alive(); !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && time.Since(p.began) > ready && p.cmd.Process.Signal(sig) == nil
}

// wait waits for the process to end by itself.
func (p *process) wait(limit time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case err := <-p.exited:
		p.cmd = nil
		return err
	case <-time.After(limit):
		return errRuns
	}
}

var errRuns = errors.New("it still runs")

// alive reports whether the process runs; err is how it ended.
func (p *process) alive() (ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false, nil
	}
	select {
	case err := <-p.exited:
		p.exited <- err
		return false, err
	default:
		return true, nil
	}
}

// leg is one broker with one limit.
type leg struct {
	broker string // "mosquitto" or "embedded"
	limit  int    // bytes of a PUBLISH that the proxies let through
	chunk  string // broker.chunk_size
	conf   string // of mosquitto, how much it keeps for those who are away
	size   size
	boards int  // of a class, each enrolled in a file of its own; 0: one board, listed
	gpus   bool // the evaluator computes on two emulated GPUs
	places int  // of the class's stream: windows of several boards are added up; 0: none
	// compact: the boards of the class send compact windows, which are bootstrapped together.
	compact bool
}

// speed returns how many samples a board reads in a second while faults strike, and windows
// how many windows are left for the end. Emulated GPUs are slow.
func (l leg) speed() int {
	if l.gpus {
		return 4
	}
	return 96
}

func (l leg) windows() int {
	switch {
	case l.gpus:
		return 12
	case l.boards > 0:
		return 16
	}
	return 100
}

// size is how large the windows of a leg are.
type size struct {
	params  string
	samples int     // of a window
	disk    int     // MiB of the file systems of spool and store
	pair    counted // what a class computes of both channels
}

// Windows of 57 KB, 321 KB, 1.3 MB, 307 KB and, compact, 300 bytes.
var (
	small  = size{"edge12-d1", 16, 3, gap}
	medium = size{"edge13-d2p", 32, 8, cov}
	large  = size{"std14-d5", 64, 24, cov}
	fused  = size{"edge13-d3", 16, 16, cov}
	tiny   = size{"boot10-insecure", 16, 3, cov}
)

// receiveMaximum is how many messages may be unacknowledged at the strictest brokers.
const receiveMaximum = 10

// What mosquitto keeps for a client that is away or slow: everything, or so little that
// it drops what it has acknowledged.
const (
	roomy = "max_queued_messages 0\n"
	tight = "max_queued_messages 5\nmax_inflight_messages 3\n"
)

// rig is everything that runs in a leg.
type rig struct {
	t       *testing.T
	dir     string
	binary  string
	samples int
	speed   string

	broker, agent, evaluator, holder *process
	toAgent, toEvaluator, toHolder   *proxy
	spool, store                     string // small file systems where they can be mounted
	mounted                          bool

	boards   []*board // agent, toAgent and spool are those of the one that is struck
	struck   *board
	programs []counted
	faults   []fault
	gpus     *gpus // nil: the processor
}

// board is one device.
type board struct {
	*process
	dir    string
	link   *proxy
	absent []span // when it was down or reloaded: a live stream has holes there
}

// strike makes a board the one that faults are about.
func (r *rig) strike(b *board) {
	r.struck, r.agent, r.toAgent, r.spool = b, b.process, b.link, filepath.Join(r.dir, b.dir, "disk")
}

const (
	modulus = 97 // the two channels carry a sample's number in this base
)

// origin is the time of sample 0; sample i is i seconds later.
var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// run runs the program to its end.
func (r *rig) run(args ...string) string {
	r.t.Helper()
	cmd := exec.Command(r.binary, args...)
	cmd.Dir = r.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("hencedge %v: %v\n%s", args, err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// newRig makes keys, configurations, proxies and processes; nothing runs yet.
func newRig(t *testing.T, binary string, l leg, samples int) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), binary: binary, samples: samples, speed: fmt.Sprint(l.speed(), "x"),
		mounted: os.Geteuid() == 0, programs: single, faults: l.faults()}
	if l.boards > 0 {
		r.programs = []counted{single[0], centred, mean, l.size.pair}
	}
	r.mkdir("holder", "cloud", "cloud/enrolled")
	r.store = r.disk("cloud/store", l.size.disk)
	address := testrig.FreeAddress(t)
	for i := range max(l.boards, 1) {
		b := &board{dir: "board", link: newProxy(t, address, l.limit)}
		if i > 0 {
			b.dir = fmt.Sprint("board", i+1)
		}
		b.link.window = receiveMaximum
		r.mkdir(b.dir, b.dir+"/mirror")
		r.disk(b.dir+"/disk", l.size.disk)
		r.boards = append(r.boards, b)
	}
	if !r.mounted {
		testenv.Without(t, "root", "a small file system cannot be mounted")
	}
	r.toEvaluator, r.toHolder = newProxy(t, address, l.limit), newProxy(t, address, l.limit)
	r.newBroker(l, address)
	if l.gpus {
		r.gpus = newGPUs(t)
	}
	cloud := r.run("keys", "identity", "cloud/signing.key")
	evaluatorConfig := fmt.Sprintf(`name: cloud
broker: {url: "tcp://%s", chunk_size: %s, keep_alive: 5s, reconnect_max: 1s}
key_sets: [keys]
signing_key: signing.key
state: store/evaluator.state
%sstore: {dir: store, results: keyholder, receipt_timeout: 1s, retry_min: 100ms, retry_max: 1s}
stop_timeout: 5s
workers: 2
log: {level: warn}
`, r.toEvaluator.Addr(), l.chunk, r.devices(l))
	r.write("cloud/evaluator.yaml", evaluatorConfig)
	r.write("holder/keyholder.yaml", fmt.Sprintf(`name: home
broker: {url: "tcp://%s", chunk_size: %s, keep_alive: 5s, reconnect_max: 1s}
key_set: keys
evaluators: [{name: cloud, public_key: "%s"}]
receipts: true
state: holder.state
`, r.toHolder.Addr(), l.chunk, cloud))
	r.run("keys", "new", "--dir", "holder/keys", "--for", "cloud/evaluator.yaml")
	r.run("results", "approve", "--dir", "holder/keys", "--evaluator", "cloud/evaluator.yaml", "--yes")
	holder := regexp.MustCompile(`(?m)^fingerprint +(\S+)$`).FindStringSubmatch(r.run("keys", "show", "--dir",
		"holder/keys"))
	if holder == nil {
		t.Fatal("keys show prints no fingerprint")
	}
	r.write("cloud/evaluator.yaml", evaluatorConfig+"keys: {holder: "+holder[1]+"}\n")
	for _, b := range r.boards {
		if l.compact { // before the evaluator's export, which has a key for each device
			r.run("keys", "device", b.dir, "--dir", "holder/keys", "--out", b.dir+"/keys")
		}
	}
	r.run("keys", "export", "--dir", "holder/keys", "--role", "evaluator", "--out", "cloud/keys")
	for i, b := range r.boards {
		r.configureAgent(l, b, i, cloud, holder[1])
		name := b.dir
		if i == 0 {
			name = "agent"
		}
		b.process = r.program(name, "agent", "run", "-c", filepath.Join(r.dir, b.dir, "agent.yaml"))
	}
	r.strike(r.boards[0])
	r.evaluator = r.program("evaluator", "evaluator", "run", "--backend", "cpu", "-c",
		filepath.Join(r.dir, "cloud/evaluator.yaml"))
	if l.gpus {
		r.gpus.use(r.evaluator)
	}
	r.holder = r.program("holder", "results", "watch", "-c", filepath.Join(r.dir, "holder/keyholder.yaml"), "--json")
	return r
}

// program is a process that runs the program.
func (r *rig) program(name string, args ...string) *process {
	p := &process{name: name, args: append([]string{r.binary}, args...), log: filepath.Join(r.dir, name+".log"),
		env: []string{"HENCEDGE_CHAOS_CLOCK=" + filepath.Join(r.dir, "clock"), "GOMAXPROCS=2"}}
	r.t.Cleanup(p.kill)
	return p
}

func (r *rig) mkdir(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if err := os.Mkdir(filepath.Join(r.dir, name), 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
}

// disk makes a directory, a file system of its own of some MiB where that can be mounted.
func (r *rig) disk(name string, size int) string {
	r.t.Helper()
	r.mkdir(name)
	dir := filepath.Join(r.dir, name)
	if r.mounted = r.mounted && unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)) == nil; r.mounted {
		r.t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	return dir
}

func (r *rig) newBroker(l leg, address string) {
	r.t.Helper()
	r.broker = &process{name: "broker", log: filepath.Join(r.dir, "broker.log")}
	r.t.Cleanup(r.broker.kill)
	if l.broker == "mosquitto" {
		_, port, _ := net.SplitHostPort(address)
		// Nothing is persisted: a broker that is killed forgets every session and
		// every message that it acknowledged.
		r.write("mosquitto.conf", "listener "+port+" 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type "+
			"error\nuser root\n"+l.conf)
		r.broker.args = []string{testenv.Program(r.t, "mosquitto", "mosquitto"), "-c",
			filepath.Join(r.dir, "mosquitto.conf")}
	} else {
		r.broker.args = []string{os.Args[0]}
		r.broker.env = []string{"HENCEDGE_CHAOS_BROKER=" + address}
	}
}

// window returns what agent and evaluator say of the stream, up to its channels.
func (l leg) window() string {
	more := ""
	if l.places > 0 {
		more = fmt.Sprintf("    places: %d\n", l.places)
	}
	if l.compact {
		more = "    mode: compact\n"
	}
	return fmt.Sprintf("name: counter\n    window: {samples: %d}\n    params: %s\n%s    channels:\n",
		l.size.samples, l.size.params, more)
}

// devices makes the boards' identities and returns what the evaluator's configuration says
// of them and of programs.
func (r *rig) devices(l leg) string {
	r.t.Helper()
	const channels = `      - {name: lo, unit: "1", range: [0, 100]}
      - {name: hi, unit: "1", range: [0, 100]}
`
	if l.boards == 0 {
		key := r.run("keys", "identity", "board/signing.key")
		return "devices: [{name: board, public_key: \"" + key + "\"}]\nstreams:\n  - device: board\n    " +
			l.window() + channels + `programs:
  - {name: lo, expr: 2*x + 1, inputs: {x: board/counter/lo}}
  - {name: hi, expr: 2*x + 1, inputs: {x: board/counter/hi}}
`
	}
	for _, b := range r.boards {
		r.write("cloud/enrolled/"+b.dir+".yaml", fmt.Sprintf("- name: %s\n  class: boards\n  public_key: %q\n", b.dir,
			r.run("keys", "identity", b.dir+"/signing.key")))
	}
	// In a class, a stream is indented once more.
	stream := strings.ReplaceAll("    - "+l.window()+channels, "\n    ", "\n      ")
	return "enrolled: enrolled\nclasses:\n  - name: boards\n    streams:\n" + stream + `programs:
  - {name: lo, for: boards, expr: 2*x + 1, inputs: {x: counter/lo}}
  - {name: hi, for: boards, expr: x - mean(x), inputs: {x: counter/hi}}
  - {name: mean, for: boards, expr: mean(x), inputs: {x: counter/lo}}
  - name: ` + r.programs[3].name + `
    for: boards
    expr: ` + r.programs[3].expr + `
    inputs: {x: counter/lo, "y": counter/hi}
batch: 5
latency: 50ms
` + l.results() + r.gpus.serve()
}

// packs reports whether single values share ciphertexts: edge12-d1 has no level for that.
func (l leg) packs() bool { return l.boards > 0 && l.size.params != small.params }

func (l leg) results() string {
	if l.packs() {
		return "results: {pack: 6, within: 200ms}\n"
	}
	return ""
}

// configureAgent gives a board what it replays, the public key and a configuration.
func (r *rig) configureAgent(l leg, b *board, number int, cloud, holder string) {
	r.t.Helper()
	var csv strings.Builder
	csv.WriteString("t,lo,hi\n")
	for i := range r.samples {
		lo, hi := sample(number, i)
		fmt.Fprintf(&csv, "%d,%d,%d\n", origin.Unix()+int64(i), lo, hi)
	}
	r.write(b.dir+"/counter.csv", csv.String())
	key := "public_key: keys/public.key"
	if l.compact {
		key = "board_key: keys/board.key"
	} else {
		r.run("keys", "export", "--dir", "holder/keys", "--role", "agent", "--out", b.dir+"/keys")
	}
	stream := strings.Replace(l.window(), "}\n",
		"}\n    replay: {file: counter.csv, time: t, time_format: unix, speed: "+r.speed+"}\n", 1)
	r.write(b.dir+"/agent.yaml", fmt.Sprintf(`device: %s
broker: {url: "tcp://%s", chunk_size: %s, keep_alive: 5s, reconnect_max: 1s}
keys: {%s, holder: %s}
signing_key: signing.key
state: disk/agent.state
streams:
  - %s      - {name: lo, unit: "1", range: [0, 100], source: {type: replay, column: lo}}
      - {name: hi, unit: "1", range: [0, 100], source: {type: replay, column: hi}}
spool: {dir: disk/spool, mirror: mirror/spool, bytes: 64MiB}
queue: {full: block}
delivery:
  ack: evaluator
  evaluators: [{name: cloud, public_key: "%s"}]
  receipt_timeout: 1s
  retry_min: 100ms
  retry_max: 1s
stop_timeout: 120s
log: {level: warn}
`, b.dir, b.link.Addr(), l.chunk, key, holder, stream, cloud))
}

// hurry makes the agent read the rest as fast as it can.
func (r *rig) hurry() {
	name := filepath.Join(r.dir, r.struck.dir, "agent.yaml")
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, bytes.Replace(b, []byte("speed: "+r.speed), []byte("speed: fast"), 1), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) start(list ...*process) {
	r.t.Helper()
	for _, p := range list {
		if err := p.start(); err != nil {
			r.t.Fatalf("start %s: %v", p.name, err)
		}
	}
}

// logs returns the last lines of every log.
func (r *rig) logs() string {
	var b strings.Builder
	list := []*process{r.evaluator, r.holder, r.broker}
	for _, p := range r.boards {
		list = append(list, p.process)
	}
	for _, p := range list {
		text, _ := os.ReadFile(p.log)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "--- %s (%d starts)\n%s\n", p.name, p.starts, strings.Join(lines[max(0, len(lines)-12):], "\n"))
	}
	return b.String()
}

// result is what the harness reads of a line of "results watch --json".
type result struct {
	Program string    `json:"program"`
	Device  string    `json:"device"` // of a program for a class
	Start   time.Time `json:"start"`
	Samples int       `json:"samples"`
	Values  []float64 `json:"values"`
	Bound   float64   `json:"bound"`
	Packed  int       `json:"packed"` // results of its pack
	ID      string    `json:"id"`
	Boot    uint64    `json:"boot_epoch"`
	Seq     uint64    `json:"sequence"`
}

// results returns the results so far.
func (r *rig) results() (out []result) {
	r.t.Helper()
	raw, err := os.ReadFile(r.holder.log + ".results")
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var x result
		if err := json.Unmarshal(line, &x); err != nil {
			r.t.Fatalf("%v: %s", err, line)
		}
		out = append(out, x)
	}
	return out
}

// built is the directory of what the tests build.
var built string

func TestMain(m *testing.M) {
	if address := os.Getenv("HENCEDGE_CHAOS_BROKER"); address != "" {
		if _, _, err := broker.Start(broker.Options{Address: address}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {} // until it is killed
	}
	var err error
	if built, err = os.MkdirTemp("", "hencedge-chaos"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}
