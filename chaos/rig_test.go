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

// ready is how long after its start a process is sure to handle signals; a service
// manager knows it from READY=1.
const ready = 2 * time.Second

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
		return fmt.Errorf("%s still runs after %v", p.name, limit)
	}
}

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
}

// size is how large the windows of a leg are.
type size struct {
	params  string
	samples int // of a window
	disk    int // MiB of the file systems of spool and store
}

// Windows of 57 KB, 321 KB and 1.3 MB.
var (
	small  = size{"edge12-d1", 16, 3}
	medium = size{"edge13-d2p", 32, 8}
	large  = size{"std14-d5", 64, 24}
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
	r := &rig{t: t, dir: t.TempDir(), binary: binary, samples: samples, speed: "96x"}
	for _, d := range []string{"holder", "board", "cloud", "cloud/store", "board/mirror", "board/disk"} {
		if err := os.Mkdir(filepath.Join(r.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.spool, r.store = filepath.Join(r.dir, "board/disk"), filepath.Join(r.dir, "cloud/store")
	r.mounted = os.Geteuid() == 0
	for _, dir := range []string{r.spool, r.store} {
		if r.mounted = r.mounted && unix.Mount("tmpfs", dir, "tmpfs", 0,
			fmt.Sprintf("size=%dm", l.size.disk)) == nil; r.mounted {
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		}
	}
	if !r.mounted {
		testenv.Without(t, "root", "a small file system cannot be mounted")
	}
	address := testrig.FreeAddress(t)
	r.toAgent, r.toEvaluator, r.toHolder = newProxy(t, address, l.limit), newProxy(t, address, l.limit),
		newProxy(t, address, l.limit)
	r.toAgent.window = receiveMaximum
	r.broker = &process{name: "broker", log: filepath.Join(r.dir, "broker.log")}
	if l.broker == "mosquitto" {
		_, port, _ := net.SplitHostPort(address)
		// Nothing is persisted: a broker that is killed forgets every session and
		// every message that it acknowledged.
		r.write("mosquitto.conf", "listener "+port+" 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type "+
			"error\nuser root\n"+l.conf)
		r.broker.args = []string{testenv.Program(t, "mosquitto", "mosquitto"), "-c",
			filepath.Join(r.dir, "mosquitto.conf")}
	} else {
		r.broker.args = []string{os.Args[0]}
		r.broker.env = []string{"HENCEDGE_CHAOS_BROKER=" + address}
	}
	board, cloud := r.run("keys", "identity", "board/signing.key"), r.run("keys", "identity", "cloud/signing.key")
	channels := `
    params: ` + l.size.params + `
    channels:
`
	evaluatorConfig := fmt.Sprintf(`name: cloud
broker: {url: "tcp://%s", chunk_size: %s, keep_alive: 5s, reconnect_max: 1s}
key_sets: [keys]
signing_key: signing.key
state: store/evaluator.state
devices: [{name: board, public_key: "%s"}]
streams:
  - device: board
    name: counter
    window: {samples: %d}%s      - {name: lo, unit: "1", range: [0, 100]}
      - {name: hi, unit: "1", range: [0, 100]}
programs:
  - {name: lo, expr: 2*x + 1, inputs: {x: board/counter/lo}}
  - {name: hi, expr: 2*x + 1, inputs: {x: board/counter/hi}}
store: {dir: store, results: keyholder, receipt_timeout: 1s, retry_min: 100ms, retry_max: 1s}
stop_timeout: 5s
workers: 2
log: {level: warn}
`, r.toEvaluator.Addr(), l.chunk, board, l.size.samples, channels)
	r.write("cloud/evaluator.yaml", evaluatorConfig)
	r.write("holder/keyholder.yaml", fmt.Sprintf(`name: home
broker: {url: "tcp://%s", chunk_size: %s, keep_alive: 5s, reconnect_max: 1s}
key_set: keys
evaluators: [{name: cloud, public_key: "%s"}]
receipts: true
state: holder.state
`, r.toHolder.Addr(), l.chunk, cloud))
	var csv strings.Builder
	csv.WriteString("t,lo,hi\n")
	for i := range samples {
		fmt.Fprintf(&csv, "%d,%d,%d\n", origin.Unix()+int64(i), i%modulus, i/modulus%modulus)
	}
	r.write("board/counter.csv", csv.String())
	r.run("keys", "new", "--dir", "holder/keys", "--for", "cloud/evaluator.yaml")
	r.run("results", "approve", "--dir", "holder/keys", "--evaluator", "cloud/evaluator.yaml", "--yes")
	r.run("keys", "export", "--dir", "holder/keys", "--role", "agent", "--out", "board/keys")
	holder := regexp.MustCompile(`(?m)^fingerprint +(\S+)$`).FindStringSubmatch(r.run("keys", "show", "--dir",
		"holder/keys"))
	if holder == nil {
		t.Fatal("keys show prints no fingerprint")
	}
	r.configureAgent(l, cloud, channels, holder[1])
	r.write("cloud/evaluator.yaml", evaluatorConfig+"keys: {holder: "+holder[1]+"}\n")
	r.run("keys", "export", "--dir", "holder/keys", "--role", "evaluator", "--out", "cloud/keys")
	program := func(name string, args ...string) *process {
		return &process{name: name, args: append([]string{binary}, args...), log: filepath.Join(r.dir, name+".log"),
			env: []string{"HENCEDGE_CHAOS_CLOCK=" + filepath.Join(r.dir, "clock"), "GOMAXPROCS=2"}}
	}
	r.agent = program("agent", "agent", "run", "-c", filepath.Join(r.dir, "board/agent.yaml"))
	r.evaluator = program("evaluator", "evaluator", "run", "--backend", "cpu", "-c",
		filepath.Join(r.dir, "cloud/evaluator.yaml"))
	r.holder = program("holder", "results", "watch", "-c", filepath.Join(r.dir, "holder/keyholder.yaml"), "--json")
	t.Cleanup(func() {
		for _, p := range []*process{r.agent, r.evaluator, r.holder, r.broker} {
			p.kill()
		}
	})
	return r
}

func (r *rig) configureAgent(l leg, cloud, channels, holder string) {
	r.write("board/agent.yaml", fmt.Sprintf(`device: board
broker: {url: "tcp://%s", chunk_size: %s, keep_alive: 5s, reconnect_max: 1s}
keys: {public_key: keys/public.key, holder: %s}
signing_key: signing.key
state: disk/agent.state
streams:
  - name: counter
    window: {samples: %d}
    replay: {file: counter.csv, time: t, time_format: unix, speed: %s}%s`+
		`      - {name: lo, unit: "1", range: [0, 100], source: {type: replay, column: lo}}
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
`, r.toAgent.Addr(), l.chunk, holder, l.size.samples, r.speed, channels, cloud))
}

// hurry makes the agent read the rest as fast as it can.
func (r *rig) hurry() {
	name := filepath.Join(r.dir, "board/agent.yaml")
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
	for _, p := range []*process{r.agent, r.evaluator, r.holder, r.broker} {
		text, _ := os.ReadFile(p.log)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "--- %s (%d starts)\n%s\n", p.name, p.starts, strings.Join(lines[max(0, len(lines)-12):], "\n"))
	}
	return b.String()
}

// result is what the harness reads of a line of "results watch --json".
type result struct {
	Program string    `json:"program"`
	Start   time.Time `json:"start"`
	Samples int       `json:"samples"`
	Values  []float64 `json:"values"`
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

func TestMain(m *testing.M) {
	if address := os.Getenv("HENCEDGE_CHAOS_BROKER"); address != "" {
		if _, _, err := broker.Start(broker.Options{Address: address}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {} // until it is killed
	}
	code := m.Run()
	if binary, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}
