// Package exec takes values from the output of a command that is run again and
// again. The command has no shell, no input, a small environment and a time
// limit, at which it is killed with everything that it started.
package exec

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// environment is all that a command sees.
var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", "LC_ALL=C"}

// Input is one command.
type Input struct {
	cfg    config.Input
	worker *input.Worker
	texts  *input.Texts

	input.Background
}

// New makes the input; it runs nothing.
func New(in config.Input, env input.Env) (*Input, error) {
	if in.Exec == nil || len(in.Exec.Command) == 0 {
		return nil, fmt.Errorf("%w: input %s has no command", input.ErrNoSensor, in.Name)
	}
	return &Input{cfg: in, worker: input.NewWorker(in, env), texts: input.NewTexts(env.Counters())}, nil
}

// Sensor adds a quantity.
func (e *Input) Sensor(src config.Source) (input.Sensor, error) {
	cell, err := e.texts.Add(src, e.cfg)
	if err != nil {
		return nil, err
	}
	return input.Started{Sensor: cell, Begin: func() { e.Start(e.run) }}, nil
}

func (e *Input) run(ctx context.Context) { e.worker.Poll(ctx, e.cfg.Every, e.cfg.Timeout, e.poll) }

func (e *Input) poll(ctx context.Context) error {
	out, err := output(ctx, e.cfg.Exec.Command)
	if err != nil {
		return err
	}
	e.texts.Take(out)
	return nil
}

// output runs a command and gives what it printed.
func output(ctx context.Context, command []string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Dir = environment, "/"
	// A group of its own can be killed with all its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for children that left the group and hold the pipe
	out, complaint := &limited{most: input.MaxText}, &limited{most: 4096}
	cmd.Stdout, cmd.Stderr = out, complaint
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w", command[0], ctx.Err())
	case out.over:
		return "", fmt.Errorf("%s: it prints more than %d bytes", command[0], out.most)
	case err != nil && complaint.Len() > 0:
		return "", fmt.Errorf("%s: %w: %s", command[0], err, input.Clip(complaint.String()))
	case err != nil:
		return "", fmt.Errorf("%s: %w", command[0], err)
	}
	return out.String(), nil
}

// limited keeps the first bytes and throws the rest away.
type limited struct {
	strings.Builder
	most int
	over bool
}

func (l *limited) Write(b []byte) (int, error) {
	if room := l.most - l.Len(); len(b) > room {
		l.over = true
		l.Builder.Write(b[:room])
		return len(b), nil
	}
	return l.Builder.Write(b)
}

var (
	_ input.Input = (*Input)(nil)
	_ io.Writer   = (*limited)(nil)
)
