//go:build !evaluatoronly

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// hencedge is the program under test with arguments, in the script's directory.
func hencedge(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "hencedge"), args...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = []string{"HOME=" + ts.Getenv("WORK"), "PATH=" + ts.Getenv("PATH"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "RUNTIME_DIRECTORY", "CREDENTIALS_DIRECTORY",
		"SOURCE_DATE_EPOCH", "GODEBUG"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

// exitCode is "exit CODE ARGS...": hencedge with ARGS must exit with CODE. Its
// output goes to the files stdout and stderr of the work directory.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exit CODE ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := runHencedge(ts, args[1:])
	// So that "cmp stdout" and "cp stdout" mean this output too.
	io.WriteString(ts.Stdout(), readFile(ts, "stdout"))
	io.WriteString(ts.Stderr(), readFile(ts, "stderr"))
	if code != want {
		ts.Fatalf("hencedge %q exits with %d, want %d", args[1:], code, want)
	}
}

// becomes is "becomes CODE PATTERN ARGS...": runs hencedge until it exits with CODE and
// its output matches PATTERN, for what a service reaches only some time after its start.
func becomes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: becomes CODE PATTERN ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var code int
	if !testrig.Poll(func() bool {
		code = runHencedge(ts, args[2:])
		return code == want && pattern.MatchString(readFile(ts, "stdout"))
	}) {
		ts.Fatalf("hencedge %q exits with %d, want %d and %q in\n%s%s", args[2:], code, want, args[1],
			readFile(ts, "stdout"), readFile(ts, "stderr"))
	}
}

// runHencedge runs hencedge, leaves its output in the files stdout and stderr and
// returns its exit code.
func runHencedge(ts *testscript.TestScript, args []string) int {
	cmd := hencedge(ts, args)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	code := 0
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs("stdout"), out.Bytes(), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("stderr"), errs.Bytes(), 0o644))
	return code
}

// onGPU is "gpu CODE ARGS...": as exit where there is a GPU. Elsewhere hencedge
// must name the step that failed, print nothing and exit with 1.
func onGPU(ts *testscript.TestScript, neg bool, args []string) {
	_, err := cuda.New()
	if err == nil {
		exitCode(ts, neg, args)
		return
	}
	exitCode(ts, neg, append([]string{"1"}, args[1:]...))
	if out := readFile(ts, "stdout"); out != "" {
		ts.Fatalf("it printed %s", out)
	}
	step := regexp.MustCompile(`--backend cuda: .*(open|symbol|init|capability|module|self-test): `)
	if text := readFile(ts, "stderr"); !step.MatchString(text) {
		ts.Fatalf("no step in %s", text)
	}
}

// checkMode is "mode 0600 FILE".
func checkMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode MODE FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// makeResult is "result KEYS/public.key NAME FILE VALUE": a sealed result of the program
// "mean", as testdata/results.txtar describes it, of an evaluator called NAME, whose signing key is
// NAME.key (made when it is not there; its public text goes to NAME.pub).
func makeResult(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: result PUBLIC-KEY NAME FILE VALUE")
	}
	value, err := strconv.ParseFloat(args[3], 64)
	ts.Check(err)
	p, err := henc.Named("edge12-add")
	ts.Check(err)
	ctx, err := henc.NewContext(p)
	ts.Check(err)
	raw, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	pub, err := ctx.UnmarshalPublicKey(raw)
	ts.Check(err)
	enc, err := henc.NewEncryptor(ctx, pub)
	ts.Check(err)
	stream := config.Stream{Name: "s", Params: p.Name(), Window: config.Window{Samples: 1},
		Channels: []config.Channel{{Name: "c", Unit: "1", Range: [2]float64{-100, 100}}}}
	circuit, err := program.Compile(program.Source{Name: "mean", Expr: "x",
		Vars: map[string]program.Var{"x": {Device: "board", Stream: stream}}}, p)
	ts.Check(err)
	ct, err := enc.EncryptReal([]float64{value}, circuit.Level(), circuit.Scale(), nil)
	ts.Check(err)
	body, err := ctx.MarshalCiphertext(ct)
	ts.Check(err)

	keyFile := ts.MkAbs(args[1] + ".key")
	key, err := transport.LoadSigningKey(keyFile)
	if err != nil {
		key, err = transport.NewSigningKey()
		ts.Check(err)
		ts.Check(key.Save(keyFile))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]+".pub"), []byte(key.PublicText()), 0o644))
	ts.Setenv("PUB_"+args[1], key.PublicText())
	start := time.Unix(1700000000, 0)
	sealed, err := transport.Seal(transport.Meta{
		Kind: transport.KindResult, Device: args[1], Program: "mean", KeyID: pub.KeyID,
		KeyEpoch: pub.Epoch, BootEpoch: 1,
		Sequence: 1,
		Params:   p.Hash(), Level: ct.Level, Scale: ct.Scale, Start: start.UnixNano(),
		End:     start.Add(time.Minute).UnixNano(),
		Samples: 60,
		Layout:  circuit.Hash(), Inputs: [][32]byte{{1}},
		Post: &transport.Post{A: circuit.Output().A, B: circuit.Output().B, Count: 1, Bound: circuit.Output().Bound},
	}, body, key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), sealed, 0o644))
}

// startBroker is "broker": a TLS broker for the rest of the script. Its URL goes
// to $BROKER, its authority to ca.pem.
func startBroker(ts *testscript.TestScript, _ bool, _ []string) {
	ca, err := tlsutil.NewDevCA("test")
	ts.Check(err)
	server, err := ca.ServerConfig(false)
	ts.Check(err)
	b, _, err := broker.Start(broker.Options{TLS: server})
	ts.Check(err)
	ts.Defer(func() { b.Close() })
	brokers.Store(b.URL(), b)
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), ca.PEM(), 0o644))
	ts.Setenv("BROKER", b.URL())
}

// brokers are those that scripts started, by URL.
var brokers sync.Map

// stopBroker is "stopbroker": the script's broker goes away with all connections.
func stopBroker(ts *testscript.TestScript, _ bool, _ []string) {
	b, ok := brokers.LoadAndDelete(ts.Getenv("BROKER"))
	if !ok {
		ts.Fatalf("there is no broker")
	}
	b.(*broker.Broker).Close()
}

// readFile reads a file of the script, whatever its name (testscript's own
// ReadFile takes "stdout" for something else).
func readFile(ts *testscript.TestScript, name string) string {
	b, err := os.ReadFile(ts.MkAbs(name))
	ts.Check(err)
	return string(b)
}

// setenv is "setenv NAME FILE": the file's text without its final newline.
func setenv(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(readFile(ts, args[1])))
}

// expand is "expand FILE...": writes FILE from FILE.in with $NAME replaced.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name+".in"), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}

// atMost is "atmost N FILE PATTERN UNIT": the pattern matches at most N times for each match
// of the pattern UNIT, so that it does not matter how long the program ran.
func atMost(ts *testscript.TestScript, _ bool, args []string) {
	most, err := strconv.Atoi(args[0])
	ts.Check(err)
	text := readFile(ts, args[1])
	count := func(pattern string) int { return len(regexp.MustCompile(pattern).FindAllString(text, -1)) }
	n, units := count(args[2]), count(args[3])
	ts.Logf("%s matches %d times, %s %d times", args[2], n, args[3], units)
	if n > most*units {
		ts.Fatalf("%s matches %d times in %s, want at most %d for each of %d matches of %s",
			args[2], n, args[1], most, units, args[3])
	}
}

// lastLine is "lastline FILE TEXT": the last line must hold TEXT.
func lastLine(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(strings.TrimSpace(readFile(ts, args[0])), "\n")
	if !strings.Contains(lines[len(lines)-1], args[1]) {
		ts.Fatalf("the last line of %s is %q", args[0], lines[len(lines)-1])
	}
}

// services are the background processes of a script, by name.
type services struct {
	mu  sync.Mutex
	all map[string]*service
}

type service struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// watched is a file that reports when a text was written to it.
type watched struct {
	mu    sync.Mutex
	file  *os.File
	text  []byte
	want  string
	found chan struct{}
	once  sync.Once
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.file.Write(b) // first: a script reads the file as soon as the text is found
	w.text = append(w.text, b...)
	if bytes.Contains(w.text, []byte(w.want)) {
		w.once.Do(func() { close(w.found) })
	}
	return n, err
}

// start is "start NAME TEXT ARGS...": runs hencedge in the background and waits
// until TEXT is on its standard error. Output goes to NAME.stdout, NAME.stderr.
func (s *services) start(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]
	out, err := os.Create(ts.MkAbs(name + ".stdout"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(name + ".stderr"))
	ts.Check(err)
	w := &watched{file: errs, want: args[1], found: make(chan struct{})}
	cmd := hencedge(ts, args[2:])
	cmd.Stdout, cmd.Stderr = out, w
	ts.Check(cmd.Start())
	p := &service{cmd: cmd, done: make(chan struct{})}
	go func() { p.err = cmd.Wait(); out.Close(); errs.Close(); close(p.done) }()
	ts.Defer(func() { cmd.Process.Kill(); <-p.done })
	s.mu.Lock()
	s.all[ts.Getenv("WORK")+name] = p
	s.mu.Unlock()
	select {
	case <-w.found:
	case <-p.done:
		ts.Fatalf("%s ended: %v\n%s", name, p.err, ts.ReadFile(name+".stderr"))
	case <-time.After(testrig.Patience):
		ts.Fatalf("%s does not say %q\n%s", name, args[1], ts.ReadFile(name+".stderr"))
	}
}

// appears is "appears FILE TEXT": waits until FILE holds TEXT.
func appears(ts *testscript.TestScript, _ bool, args []string) {
	if !testrig.Poll(func() bool { return strings.Contains(readFile(ts, args[0]), args[1]) }) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
}

// ended is "ended NAME CODE": NAME must end by itself with CODE.
func (s *services) ended(ts *testscript.TestScript, _ bool, args []string) {
	s.mu.Lock()
	p := s.all[ts.Getenv("WORK")+args[0]]
	s.mu.Unlock()
	if p == nil {
		ts.Fatalf("no service %q", args[0])
	}
	select {
	case <-p.done:
	case <-time.After(testrig.Patience):
		ts.Fatalf("%s does not end\n%s", args[0], ts.ReadFile(args[0]+".stderr"))
	}
	if got := p.cmd.ProcessState.ExitCode(); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s exits with %d, want %s\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".stderr"))
	}
}

// interrupt is "interrupt NAME CODE": interrupts NAME, which must end with CODE.
func (s *services) interrupt(ts *testscript.TestScript, neg bool, args []string) {
	s.mu.Lock()
	p := s.all[ts.Getenv("WORK")+args[0]]
	s.mu.Unlock()
	if p == nil {
		ts.Fatalf("no service %q", args[0])
	}
	ts.Check(p.cmd.Process.Signal(os.Interrupt))
	s.ended(ts, neg, args)
}

// crash is "crash NAME": kills NAME at once and waits for its end.
func (s *services) crash(ts *testscript.TestScript, _ bool, args []string) {
	s.mu.Lock()
	p := s.all[ts.Getenv("WORK")+args[0]]
	s.mu.Unlock()
	if p == nil {
		ts.Fatalf("no service %q", args[0])
	}
	ts.Check(p.cmd.Process.Kill())
	<-p.done
}

// publish is "publish TOPIC FILE": a retained message, at $BROKER.
func publish(ts *testscript.TestScript, _ bool, args []string) {
	files := tlsutil.Files{CA: ts.MkAbs("ca.pem")}
	conf, err := files.Config()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), testrig.Patience)
	defer cancel()
	c, err := mqtt.Dial(ctx, mqtt.Options{URL: ts.Getenv("BROKER"), ClientID: "publisher", TLS: conf,
		Logger: testrig.Quiet()})
	ts.Check(err)
	defer c.Close(ctx)
	ts.Check(c.Publish(ctx, args[0], []byte(readFile(ts, args[1])), true))
}

// reload is "reload NAME": sends SIGHUP to NAME.
func (s *services) reload(ts *testscript.TestScript, _ bool, args []string) {
	s.mu.Lock()
	p := s.all[ts.Getenv("WORK")+args[0]]
	s.mu.Unlock()
	if p == nil {
		ts.Fatalf("no service %q", args[0])
	}
	ts.Check(p.cmd.Process.Signal(syscall.SIGHUP))
}

// manager is "manager FILE": a service manager that writes what it is told,
// by sd_notify(3), to FILE. Programs find it by $NOTIFY_SOCKET.
func manager(ts *testscript.TestScript, _ bool, args []string) {
	address := fmt.Sprintf("@hencedge-%d-%d", os.Getpid(), time.Now().UnixNano())
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	ts.Check(err)
	out, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	go func() {
		defer out.Close()
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			fmt.Fprintf(out, "%s\n", b[:n])
		}
	}()
	ts.Defer(func() { c.Close() })
	ts.Setenv("NOTIFY_SOCKET", address)
}

// rename is "rename DIR PREFIX FILE": the one file of DIR whose name starts with
// PREFIX becomes FILE.
func rename(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), args[1]+"*"))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%d files %s/%s*: %v", len(found), args[0], args[1], found)
	}
	ts.Check(os.Rename(found[0], ts.MkAbs(args[2])))
}
