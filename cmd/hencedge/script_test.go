package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// exitCode is "exit CODE ARGS...": hencedge with ARGS must exit with CODE. Its
// output goes to the files stdout and stderr of the work directory.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exit CODE ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	exe, err := exec.LookPath("hencedge")
	if err != nil {
		exe = filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "hencedge")
	}
	cmd := exec.Command(exe, args[1:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = []string{"HOME=" + ts.Getenv("WORK"), "PATH=" + ts.Getenv("PATH")}
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
	ts.Logf("[stdout]\n%s[stderr]\n%s", out.String(), errs.String())
	if code != want {
		ts.Fatalf("hencedge %q exits with %d, want %d", args[1:], code, want)
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

// makeResult is "result KEYS/public.key NAME FILE VALUE": a sealed result of an
// evaluator called NAME, whose signing key is NAME.key (made when it is not
// there; its public text goes to NAME.pub).
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
	ct, err := enc.EncryptReal([]float64{value}, 0, 0, nil)
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
		Kind: transport.KindResult, Device: args[1], Program: "mean", KeyID: pub.KeyID, KeyEpoch: pub.Epoch, BootEpoch: 1, Sequence: 1,
		Params: p.Hash(), Level: ct.Level, Scale: ct.Scale, Start: start.UnixNano(), End: start.Add(time.Minute).UnixNano(), Samples: 60,
		Post: &transport.Post{A: 100, Count: 1, Bound: 0.5},
	}, body, key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), sealed, 0o644))
}
