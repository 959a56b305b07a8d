// Command hencedge computes on sensor data that stays encrypted: the edge
// agent, the evaluator, the key holder's tools and their demo in one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
)

func main() {
	os.Exit(run(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// run executes one command line and returns the exit code. The first SIGINT
// or SIGTERM cancels the command's context, which ends it in good order; the
// second one kills the process as usual.
func run(args []string, std cli.Streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	done := make(chan struct{})
	defer close(done)
	if f, ok := std.Err.(*os.File); ok && cli.IsTerminal(f) {
		context.AfterFunc(ctx, func() { impatient(done, std.Err, time.Second) })
	}

	root := newRoot(std)
	root.SetArgs(args)
	err := classify(root.ExecuteContext(ctx))
	if err != nil && !errors.Is(err, cli.ErrQuiet) {
		report(std.Err, err)
	}
	return cli.ExitCode(err)
}

// impatient tells a user who pressed Ctrl-C how to stop at once, if the work is not done
// after a while.
func impatient(done <-chan struct{}, w io.Writer, after time.Duration) {
	t := time.NewTimer(after)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		fmt.Fprintln(w, "hencedge: finishing the work under way; press Ctrl-C again to stop at once")
	}
}

// classify marks errors in a configuration as wrong usage. What is only missing for now is
// an ordinary failure, so that a service manager tries again.
func classify(err error) error {
	if absent(err) {
		return err
	}
	if errors.Is(err, config.ErrInvalid) || errors.Is(err, evaluator.ErrConfig) {
		return cli.Usage(err)
	}
	return err
}

// absent reports whether a role lacks something that may appear without a change of its
// configuration: a key, a secret, a directory or a sensor.
func absent(err error) bool {
	if slices.ContainsFunc(absences(), func(absence error) bool { return errors.Is(err, absence) }) {
		return true
	}
	return errors.Is(err, evaluator.ErrConfig) && !errors.Is(err, config.ErrInvalid) &&
		(errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, config.ErrSecret))
}

func report(w io.Writer, err error) {
	fmt.Fprintf(w, "hencedge: %s\n", cli.Plain(err.Error()))
	var usage *cli.UsageError
	if errors.As(err, &usage) && usage.Hint != "" {
		fmt.Fprintln(w, usage.Hint)
	}
}
