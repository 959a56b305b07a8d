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

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
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
	return input.Started{Sensor: cell, Begin: func() { e.Start(e.run) }, Trouble: e.worker.Trouble}, nil
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

// output runs a command and gives what it printed. When it has ended, at the
// timeout, or when it prints without an end, all that it started is killed.
func output(ctx context.Context, command []string) (string, error) {
	running, kill := context.WithCancel(ctx)
	defer kill()
	cmd := exec.CommandContext(running, command[0], command[1:]...)
	cmd.Env, cmd.Dir = environment, "/"
	out, complaint := &limited{most: input.MaxText, full: kill}, &limited{most: 4096, full: kill}
	cmd.Stdout, cmd.Stderr = out, complaint
	err := role.RunGroup(cmd)
	if err != nil && cmd.Process == nil {
		return "", err
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not end in time and was killed: %w", command[0], ctx.Err())
	case out.total > input.MaxText, complaint.total > input.MaxText:
		return "", fmt.Errorf("%s prints more than %d bytes and was killed", command[0], input.MaxText)
	case err != nil && complaint.Len() > 0:
		return "", fmt.Errorf("%s: %w: %s", command[0], err, input.Clip(complaint.String()))
	case err != nil:
		return "", fmt.Errorf("%s: %w", command[0], err)
	}
	return out.String(), nil
}

// limited keeps the first bytes, throws the rest away, and calls full when there
// are more than input.MaxText in all.
type limited struct {
	strings.Builder
	most  int
	total int
	full  func()
}

func (l *limited) Write(b []byte) (int, error) {
	if l.total += len(b); l.total > input.MaxText {
		l.full()
	}
	l.Builder.Write(b[:min(len(b), l.most-l.Len())])
	return len(b), nil
}

var (
	_ input.Input = (*Input)(nil)
	_ io.Writer   = (*limited)(nil)
)
