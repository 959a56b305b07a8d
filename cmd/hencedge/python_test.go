//go:build !evaluatoronly

package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// TestPython: the decoder in interop/python, written from docs/ alone, agrees with
// every test vector, and reads what the program makes now.
func TestPython(t *testing.T) {
	python := testenv.Program(t, "python3", "python3")
	check, err := filepath.Abs("../../interop/python/check.py")
	if err != nil {
		t.Fatal(err)
	}
	run := func(dir string, args ...string) ([]byte, error) {
		cmd := exec.Command(python, append([]string{"-B", check}, args...)...)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	t.Run("vectors", func(t *testing.T) {
		if out, err := run("."); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	cmds := (&services{all: map[string]*service{}}).commands()
	cmds["capture"] = capture
	cmds["python"] = func(ts *testscript.TestScript, neg bool, args []string) {
		out, err := run(ts.Getenv("WORK"), args...)
		ts.Check(os.WriteFile(ts.MkAbs("stdout"), out, 0o644))
		if (err != nil) != neg {
			ts.Fatalf("%v\n%s", err, out)
		}
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/python", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: cmds})
}

// capture is "capture FILE": every message at $BROKER from now on becomes a line of FILE.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	files := tlsutil.Files{CA: ts.MkAbs("ca.pem")}
	conf, err := files.Config()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), testrig.Patience)
	defer cancel()
	c, err := mqtt.Dial(ctx, mqtt.Options{URL: ts.Getenv("BROKER"), ClientID: "capture", TLS: conf,
		Logger: testrig.Quiet()})
	ts.Check(err)
	ts.Defer(func() { c.Close(context.Background()) })
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { file.Close() })
	var mu sync.Mutex
	ts.Check(c.Subscribe(ctx, transport.DefaultPrefix+"/#", func(d transport.Delivery) {
		line, err := json.Marshal(map[string]string{"topic": d.Topic, "payload": hex.EncodeToString(d.Payload)})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			_, err = file.Write(append(bytes.TrimSpace(line), '\n'))
		}
		if err == nil && d.Ack != nil {
			d.Ack()
		}
	}))
}
