package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

const withRemote = "\nremote:\n  operator_key: ed25519:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n"

func remoteBase(t *testing.T, more string) *Agent {
	t.Helper()
	data, err := os.ReadFile("examples/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a, err := ParseAgent("examples/agent.yaml", append(data, more...))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWithRemote(t *testing.T) {
	base := remoteBase(t, withRemote)
	if base.Remote.Trial != DefaultTrial || len(base.Remote.Sections) != len(RemoteSections()) {
		t.Errorf("defaults %+v", base.Remote)
	}
	before := len(base.Streams)
	got, err := base.WithRemote("remote-3", []byte(`
log: {level: debug}
stop_timeout: 7s
streams:
  - name: fast
    interval: 10ms
    window: {samples: 32}
    params: edge13-d3
    channels:
      - {name: cpu, unit: "%", range: [0, 100], source: {type: cpu}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Log.Level != "debug" || got.Log.Format != "text" || got.StopTimeout != 7*time.Second ||
		len(got.Streams) != 1 || got.Streams[0].Channels[0].OnMissing != MissingHold {
		t.Errorf("%+v", got)
	}
	if got.Device != base.Device || got.Broker.URL != base.Broker.URL || got.Queue != base.Queue ||
		got.SigningKey != base.SigningKey {
		t.Error("more was changed than the message says")
	}
	if len(base.Streams) != before || base.Log.Level != "info" {
		t.Error("the base was changed")
	}
	// Later checks point into the message.
	if e := got.Problem("streams[0].params", "x", "y"); e.File != "remote-3" || e.Line != 8 {
		t.Errorf("%+v", e)
	}
}

// The configuration that results passes the check that services repeat, although most of it
// stands in another file than the one that it came from last.
func TestWithRemoteChecks(t *testing.T) {
	a, err := remoteBase(t, withRemote).WithRemote("remote", []byte("log: {level: debug}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
}

func TestRemoteRefused(t *testing.T) {
	base := remoteBase(t, withRemote+"  sections: [log, queue]\n")
	for name, c := range map[string]struct{ text, want string }{
		"whom it trusts":    {"broker: {url: \"tls://evil:8883\"}", `1:1: unknown key "broker"`},
		"itself":            {"remote: {operator_key: x}", `unknown key "remote"`},
		"another identity":  {"device: other", `unknown key "device"`},
		"programs to run":   {"inputs: []", `unknown key "inputs"`},
		"a closed section":  {"log: {level: debug}\nstop_timeout: 5s", "2:1: stop_timeout: this section is not open"},
		"a wrong value":     {"log: {level: loud}", `1:14: log.level: unknown value "loud"`},
		"nothing":           {"", "the file is empty"},
		"no YAML":           {"log: {", "the brace '{' is not closed"},
		"two mistakes":      {"log: {level: loud}\nqueue: {objects: 0}", "2 errors"},
		"values across":     {"queue: {bytes: 1KiB}", "queue.bytes"},
		"a control message": {"log: {level: \"\x00\"}", "control character"},
	} {
		got, err := base.WithRemote("remote", []byte(c.text))
		if got != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	open := remoteBase(t, withRemote)
	if _, err := open.WithRemote("remote", []byte(`
streams:
  - name: s
    window: {samples: 8}
    params: edge13-d3
    replay: {file: /etc/passwd, format: csv, time: t}
    channels:
      - {name: c, unit: "1", range: [0, 1], source: {type: replay, column: x}}
`)); err == nil || !strings.Contains(err.Error(), "cannot replay files") {
		t.Errorf("a file of the sender's choice: %v", err)
	}
	closed := remoteBase(t, "")
	if _, err := closed.WithRemote("remote", []byte("log: {level: debug}")); !errors.Is(err, ErrInvalid) {
		t.Errorf("a device without the section: %v", err)
	}
}

func FuzzWithRemote(f *testing.F) {
	data, err := os.ReadFile("examples/agent.yaml")
	if err != nil {
		f.Fatal(err)
	}
	base, err := ParseAgent("a", append(data, withRemote...))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("log: {level: debug}"))
	f.Add([]byte("streams: []"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := base.WithRemote("remote", text)
		if err != nil {
			return
		}
		if got.Device != base.Device || got.Broker.URL != base.Broker.URL || got.Remote != base.Remote ||
			got.SigningKey != base.SigningKey {
			t.Error("a remote configuration changed what it must not")
		}
	})
}

// What follows from the streams follows from those of the message: how often inputs are
// polled, how old their values may be, what a full queue does. What the file says stays.
func TestWithRemoteDerived(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/data.csv", []byte("t,v\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := ParseAgent(dir+"/agent.yaml", []byte(`
device: b
broker: {url: "tls://h"}
keys: {public_key: p}
signing_key: k
state: s
inputs:
  - {name: plc, modbus: {url: "tcp://h"}}
  - {name: own, every: 20s, max_age: 2m, http: {url: "https://h/x"}}
  - {name: slow, max_age: 30s, modbus: {url: "tcp://slow"}}
  - {name: probe, serial: {device: /dev/ttyS0, format: text, request: "?"}}
streams:
  - name: file
    params: edge12-d1
    window: {samples: 8}
    replay: {file: data.csv, time: t}
    channels: [{name: v, unit: V, range: [0, 1], source: {type: replay, column: v}}]
`+withRemote))
	if err != nil {
		t.Fatal(err)
	}
	plain := a.Inputs[0]
	if a.Queue.Full != QueueBlock || plain.Every != DefaultEvery {
		t.Fatalf("got %+v, %+v", a.Queue, plain)
	}
	got, err := a.WithRemote("remote", []byte(`
streams:
  - name: fast
    interval: 100ms
    window: {samples: 8}
    params: edge12-d1
    channels:
      - {name: p, unit: V, range: [0, 1], source: {type: modbus, from: plc, register: 0}}
      - {name: o, unit: V, range: [0, 1], source: {type: http, from: own}}
      - {name: q, unit: V, range: [0, 1], source: {type: serial, from: probe, pattern: "(.*)"}}
  - name: slow
    interval: 5m
    window: {samples: 8}
    params: edge12-d1
    channels: [{name: p, unit: V, range: [0, 1], source: {type: modbus, from: slow, register: 0}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	plc, own, probe := got.Input("plc"), got.Input("own"), got.Input("probe")
	if plc.Every != 100*time.Millisecond || plc.MaxAge != 300*time.Millisecond+DefaultModbusTimeout {
		t.Errorf("polled every %v, max age %v", plc.Every, plc.MaxAge)
	}
	if own.Every != 20*time.Second || own.MaxAge != 2*time.Minute || probe.Every != 100*time.Millisecond {
		t.Errorf("got %v, %v, %v", own.Every, own.MaxAge, probe.Every)
	}
	if slow := got.Input("slow"); slow.Every != DefaultEvery || slow.MaxAge != 30*time.Second {
		t.Errorf("got %v, %v", slow.Every, slow.MaxAge)
	}
	if got.Queue.Full != QueueDropOldest {
		t.Errorf("a full queue of sensors: %s", got.Queue.Full)
	}
	if a.Inputs[0].Every != DefaultEvery || a.Queue.Full != QueueBlock {
		t.Error("the base was changed")
	}
	if got, err = a.WithRemote("remote", []byte("log: {level: debug}")); err != nil || got.Queue.Full != QueueBlock ||
		got.Inputs[0].Every != DefaultEvery {
		t.Errorf("got %+v, %v", got, err)
	}
}
