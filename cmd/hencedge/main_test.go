package main

import (
	"os"
	"strconv"
	"testing"

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

// TestScripts runs the command lines in testdata.
func TestScripts(t *testing.T) {
	s := &services{all: map[string]*service{}}
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true, Cmds: map[string]func(*testscript.TestScript, bool, []string){
		"exit":   exitCode,
		"gpu":    onGPU,
		"result": makeResult,
		"mode":   checkMode,
		"broker": startBroker, "stopbroker": stopBroker, "atmost": atMost, "setenv": setenv, "expand": expand, "lastline": lastLine, "rename": rename,
		"start": s.start, "appears": appears, "ended": s.ended, "interrupt": s.interrupt,
		"reload": s.reload, "manager": manager, "publish": publish,
		"truncate": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.ParseInt(args[0], 10, 64)
			ts.Check(err)
			ts.Check(os.Truncate(ts.MkAbs(args[1]), n))
		},
	}})
}
