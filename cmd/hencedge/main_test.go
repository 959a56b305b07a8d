//go:build !evaluatoronly

package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hencedge": func() {
			os.Exit(run(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
		},
	})
}

// TestImpatient: a user who pressed Ctrl-C is told how to stop at once, and only while work goes on.
func TestImpatient(t *testing.T) {
	var b strings.Builder
	done := make(chan struct{})
	impatient(done, &b, time.Millisecond)
	if !strings.Contains(b.String(), "press Ctrl-C again") {
		t.Errorf("told %q", b.String())
	}
	b.Reset()
	close(done)
	impatient(done, &b, time.Hour)
	if b.Len() > 0 {
		t.Errorf("told %q after the end", b.String())
	}
}

// TestScripts runs the command lines in testdata.
func TestScripts(t *testing.T) {
	s := &services{all: map[string]*service{}}
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: s.commands()})
}

// commands are what scripts can do besides the commands of testscript.
func (s *services) commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exit": exitCode, "becomes": becomes,
		"gpu":    onGPU,
		"result": makeResult,
		"mode":   checkMode,
		"broker": startBroker, "stopbroker": stopBroker, "atmost": atMost, "setenv": setenv, "expand": expand,
		"lastline": lastLine, "rename": rename,
		"start": s.start, "appears": appears, "ended": s.ended, "interrupt": s.interrupt, "crash": s.crash,
		"reload": s.reload, "manager": manager, "publish": publish,
		"readings": makeReadings, "alarms": compareAlarms, "json": setJSON, "fingerprint": setFingerprint,
		"collector": startCollector, "traced": checkTraces, "tracedsums": checkSums,
		"truncate": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.ParseInt(args[0], 10, 64)
			ts.Check(err)
			ts.Check(os.Truncate(ts.MkAbs(args[1]), n))
		},
	}
}
