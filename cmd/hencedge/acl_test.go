//go:build !evaluatoronly

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker/mosquitto"
	"github.com/hencedge/hencedge/transport/mqtt"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

const (
	brokerExamples = "../../config/examples/broker/"
	aclPassword    = "s3cret"
)

// users are those of the shipped rules, a second board, and two of the test, who may
// read or write everything.
var users = []string{"board1", "board2", "cloud1", "home", "approver", "operator", "join", "reader", "writer"}

// startRestricted starts a mosquitto with the shipped configuration and rules.
func startRestricted(t *testing.T) *mosquitto.Broker {
	t.Helper()
	dir := t.TempDir()
	example := func(name string) string {
		b, err := os.ReadFile(brokerExamples + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	acl := example("mosquitto.acl") + "\nuser reader\ntopic read #\n\nuser writer\ntopic write #\n"
	if err := os.WriteFile(filepath.Join(dir, "hencedge.acl"), []byte(acl), 0o600); err != nil {
		t.Fatal(err)
	}
	passwords := filepath.Join(dir, "hencedge.passwd")
	for i, user := range users {
		args := []string{"-b", passwords, user, aclPassword}
		if i == 0 {
			args = slices.Insert(args, 0, "-c")
		}
		if out, err := exec.Command(testenv.Program(t, "mosquitto", "mosquitto_passwd"),
			args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	// What the test cannot have: the port, the certificate, directories.
	conf := regexp.MustCompile(`(?m)^(#|listener|cafile|certfile|keyfile) .*$`).
		ReplaceAllString(example("mosquitto.conf"), "")
	conf = strings.NewReplacer("/etc/mosquitto/hencedge.", dir+"/hencedge.", "/var/lib/mosquitto/",
		dir+"/").Replace(conf)
	if strings.Contains(conf, "/etc/") || strings.Contains(conf, "/var/") {
		t.Fatalf("paths are left in\n%s", conf)
	}
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	return mosquitto.Start(t, ca, conf)
}

// dialAs connects as a user.
func dialAs(t *testing.T, b *mosquitto.Broker, user string) transport.Client {
	t.Helper()
	files := tlsutil.Files{CA: b.CA}
	conf, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	c, err := mqtt.Dial(t.Context(), mqtt.Options{URL: b.URL, ClientID: "test-" + user, TLS: conf, Username: user,
		Live:     true,
		Password: func() (string, error) { return aclPassword, nil }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// collector notes the topics of messages until one of topic "end".
type collector struct {
	mu     sync.Mutex
	topics map[string]bool
	end    chan struct{}
	last   string
}

func (c *collector) take(d transport.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.Ack()
	if d.Topic == c.last && !c.topics[d.Topic] {
		defer close(c.end)
	}
	c.topics[d.Topic] = true
}

// TestBrokerRules: under the shipped rules a board publishes and reads its own topics
// only, and so do the evaluator, the key holder and the operator. What somebody else
// publishes there gets nowhere.
func TestBrokerRules(t *testing.T) {
	b := startRestricted(t)
	var topics []string
	for _, name := range []string{"board1", "board2", "cloud1", "home", "reader", "operator", "approver"} {
		for _, kind := range []string{"st", "ask", "rcp", "cfg", "res"} {
			topics = append(topics, "hencedge/v1/"+kind+"/"+name)
		}
		topics = append(topics, "hencedge/v1/up/"+name+"/system", "hencedge/v1/up/"+name+"/system/more",
			"hencedge/v2/up/"+name+"/system", "hencedge/v1/prg/"+name+"/mean")
	}
	for _, last := range []string{"ask", "answer", "part/1", "other"} {
		topics = append(topics, "hencedge/v1/join/3f0c/91ab/"+last)
	}
	topics = append(topics, "plant7/results/cpu-load", "plant7/results/other", "$SYS/x", "other")
	own := func(name string) []string {
		return []string{`up/` + name + `/system`, `st/` + name, `ask/` + name}
	}
	for user, may := range map[string]struct{ write, read []string }{
		"board1": {own("board1"), []string{"rcp/board1", "cfg/board1", "st/board1"}},
		"board2": {own("board2"), []string{"rcp/board2", "cfg/board2", "st/board2"}},
		"cloud1": {append(own("cloud1"), `rcp/\w+`, `res/\w+`, "prg/cloud1/mean", "plant"),
			[]string{`up/\w+/system`, `st/\w+`, `ask/\w+`, "rcp/cloud1", "cfg/cloud1"}},
		"home": {append(own("home"), "rcp/cloud1"), []string{`res/\w+`, "ask/cloud1", "prg/cloud1/mean", "rcp/home",
			"cfg/home", `st/\w+`, "plant"}},
		"approver": {own("approver"), []string{"prg/cloud1/mean", "rcp/approver", "cfg/approver", "st/approver"}},
		"operator": {append(own("operator"), `cfg/\w+`, `join/.*`), []string{"rcp/operator", "cfg/operator",
			"st/operator", `join/\w+/\w+/ask`}},
		"join": {[]string{`join/\w+/\w+/ask`}, []string{`join/\w+/\w+/(answer|part/1)`}},
	} {
		t.Run(user, func(t *testing.T) {
			matching := func(list []string) (out []string) {
				pattern := regexp.MustCompile(`^(hencedge/v1/(` + strings.Join(list, "|") + `))$`)
				for _, topic := range topics {
					if pattern.MatchString(topic) || slices.Contains(list, "plant") &&
						topic == "plant7/results/cpu-load" {
						out = append(out, topic)
					}
				}
				slices.Sort(out)
				return out
			}
			c := dialAs(t, b, user)
			for what, side := range map[string]struct {
				from, to transport.Client
				want     []string
			}{
				"writes": {c, dialAs(t, b, "reader"), matching(may.write)},
				"reads":  {dialAs(t, b, "writer"), c, matching(may.read)},
			} {
				last := side.want[0]
				got := &collector{topics: map[string]bool{}, end: make(chan struct{}), last: last}
				filters := []string{"#"}
				if what == "reads" { // one that a rule names, and each of its topics
					filters = append(filters, topics[:len(topics)-2]...)
				}
				for _, f := range filters { // refused or granted: what comes counts
					if err := side.to.Subscribe(t.Context(), f, got.take); err != nil &&
						!errors.Is(err, transport.ErrRefused) {
						t.Fatal(err)
					}
				}
				for _, topic := range append(slices.DeleteFunc(slices.Clone(topics), func(s string) bool {
					return s == last
				}),
					last) {
					if err := side.from.Publish(t.Context(), topic, []byte("x"), false); err != nil {
						t.Fatal(err)
					}
				}
				<-got.end
				got.mu.Lock()
				var seen []string
				for topic := range got.topics {
					seen = append(seen, topic)
				}
				got.mu.Unlock()
				slices.Sort(seen)
				if !slices.Equal(seen, side.want) {
					t.Errorf("%s %q, want %q", what, seen, side.want)
				}
			}
		})
	}
}

// TestBrokerSessions: who connects with the client id of another user neither ends that
// connection nor gets its messages.
func TestBrokerSessions(t *testing.T) {
	b := startRestricted(t)
	lost := make(chan error, 10)
	dial := func(user string) transport.Client {
		files := tlsutil.Files{CA: b.CA}
		conf, err := files.Config()
		if err != nil {
			t.Fatal(err)
		}
		c, err := mqtt.Dial(t.Context(), mqtt.Options{URL: b.URL, ClientID: "evaluator-cloud1", TLS: conf,
			Username: user,
			Password: func() (string, error) { return aclPassword, nil }, Logger: slog.New(slog.DiscardHandler),
			OnLost: func(err error) { lost <- err }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
	cloud := dial("cloud1")
	got := make(chan transport.Delivery, 1)
	if err := cloud.Subscribe(t.Context(), "hencedge/v1/up/+/+", func(d transport.Delivery) { got <- d }); err != nil {
		t.Fatal(err)
	}
	if err := dial("board1").Publish(t.Context(), "hencedge/v1/up/board1/system", []byte("x"), false); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case err := <-lost:
		t.Fatal(err)
	}
	if !cloud.Connected() || len(lost) > 0 {
		t.Error("the evaluator lost its connection")
	}
}

// TestBrokerFlow runs all roles under the shipped rules.
func TestBrokerFlow(t *testing.T) { runRestricted(t, "testdata/acl") }

// TestBrokerJoin lets a board join under the shipped rules.
func TestBrokerJoin(t *testing.T) { runRestricted(t, "testdata/join") }

// runRestricted runs the scripts of a directory with a broker under the shipped rules.
func runRestricted(t *testing.T, dir string) {
	t.Helper()
	b := startRestricted(t)
	s := &services{all: map[string]*service{}}
	commands := s.commands()
	commands["publishas"] = func(ts *testscript.TestScript, _ bool, args []string) { // USER TOPIC FILE
		ts.Check(dialAs(t, b, args[0]).Publish(t.Context(), args[1], []byte(readFile(ts, args[2])), true))
	}
	testscript.Run(t, testscript.Params{Dir: dir, RequireExplicitExec: true, Cmds: commands,
		Setup: func(e *testscript.Env) error {
			e.Setenv("BROKER", b.URL)
			ca, err := os.ReadFile(b.CA)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(e.WorkDir, "password"), []byte(aclPassword+"\n"), 0o600); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "ca.pem"), ca, 0o600)
		}})
}

// TestEMQXRules: the rules for EMQX name the same topics as those for mosquitto. It
// reads both files, no broker runs.
func TestEMQXRules(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(brokerExamples + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	type rule struct{ user, action, topic string }
	var want, got []rule
	user := "all"
	for line := range strings.Lines(read("mosquitto.acl")) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "#"):
		case f[0] == "user":
			user = f[1]
		case f[0] == "pattern":
			want = append(want, rule{"all", f[1], strings.ReplaceAll(f[2], "%u", "${username}")})
		default:
			want = append(want, rule{user, f[1], f[2]})
		}
	}
	form := regexp.MustCompile(`^\{allow, (?:all|\{username, "(\w+)"\}), ` +
		`(?:subscribe|\{(publish), \[\{qos, 1\}(?:, \{retain, false\})?\]\}), \[(("[^"]+"(, )?)+)\]\}\.$`)
	for line := range strings.Lines(read("emqx-acl.conf")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "%%") || line == "{deny, all}." {
			continue
		}
		m := form.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a rule: %s", line)
			continue
		}
		r := rule{"all", "read", ""}
		if m[1] != "" {
			r.user = m[1]
		}
		if m[2] != "" {
			r.action = "write"
		}
		for _, topic := range strings.Split(m[3], ", ") {
			r.topic = strings.Trim(topic, `"`)
			got = append(got, r)
		}
	}
	for _, list := range [][]rule{want, got} {
		slices.SortFunc(list, func(a, b rule) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	if !slices.Equal(got, want) {
		t.Errorf("EMQX has\n%v\nmosquitto has\n%v", got, want)
	}
	if text := strings.TrimSpace(read("emqx-acl.conf")); !strings.HasSuffix(text, "{deny, all}.") {
		t.Error("the last rule does not deny")
	}
}
