//go:build !evaluatoronly

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var o doctor.Options
	var dir string
	cmd := &cobra.Command{
		Use:         "doctor",
		Annotations: map[string]string{unlockedMemory: ""}, // it opens the GPU's driver
		Short:       "find what would make hencedge fail or leak on this machine",
		Long: `doctor examines processor, GPU, memory, clock, entropy, swap and core dumps. For each
role whose configuration is given it also examines the configuration, the permissions of
its files, certificates and the broker, and looks for secrets where none belong.

For an agent in public-key mode it shows that there is nothing to steal. It looks for
secret keys in every file that this user can read, for half a minute at most: in all
directories but the system's own, or in those of --walk. Run it as the agent's user:
sudo -u hencedge-agent hencedge doctor --agent /etc/hencedge/agent.yaml

The exit code is 1 if a check failed. Warnings do not count.`,
		Example: `  hencedge doctor
  hencedge doctor --agent agent.yaml
  hencedge doctor --agent /etc/hencedge/agent.yaml --credentials /etc/hencedge/credentials/hencedge-agent
  hencedge doctor --keyholder keyholder.yaml --offline --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Timeout <= 0 {
				return cli.UsageHint(cmd, errors.New("--timeout must be above zero"))
			}
			if len(o.Roots) > 0 && o.Agent == "" {
				return cli.UsageHint(cmd, errors.New("--walk needs --agent"))
			}
			for _, root := range o.Roots {
				// In one that this user may not look at is nothing that it can read.
				if info, err := os.Stat(root); err != nil && !errors.Is(err, fs.ErrPermission) ||
					err == nil && !info.IsDir() {
					return cli.UsageHint(cmd, fmt.Errorf("--walk %s: there is no such directory", root))
				}
			}
			cli.UseCredentials(dir)
			var done func()
			o.Progress, done = a.doctorProgress(cmd.Context())
			r, err := doctor.Examine(cmd.Context(), o)
			done()
			if err != nil {
				return err
			}
			if err := a.printReport(r); err != nil {
				return err
			}
			if !r.OK {
				return fmt.Errorf("doctor: %w", cli.ErrQuiet)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Agent, "agent", "", "agent.yaml to examine")
	fs.StringVar(&o.Evaluator, "evaluator", "", "evaluator.yaml to examine")
	fs.StringVar(&o.KeyHolder, "keyholder", "", "keyholder.yaml to examine")
	fs.BoolVar(&o.Offline, "offline", false, "do not connect to the broker")
	fs.DurationVar(&o.Timeout, "timeout", 10*time.Second, "how long to wait for the broker")
	fs.StringSliceVar(&o.Roots, "walk", nil,
		"`directories` in which to look for keys that decrypt, with --agent (default all below / but the system's own)")
	cli.CredentialsFlag(cmd, &dir)
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

// doctorProgress returns what shows how far doctor is and fails once ctx has ended. done removes
// the line.
func (a *app) doctorProgress(ctx context.Context) (tell func(what string, done, total int64) error, done func()) {
	var p *cli.Progress
	done = func() {
		if p != nil {
			p.Done()
		}
	}
	return func(what string, n, total int64) error {
		if p == nil || p.What != what {
			done()
			p = a.Progress(what)
		}
		p.Update(n, total)
		return ctx.Err()
	}, done
}

func (a *app) printReport(r *doctor.Report) error {
	if a.JSON {
		return cli.JSONLine(a.Std.Out, r)
	}
	for _, c := range r.Checks {
		// Details of several lines (configuration errors) are indented.
		detail := strings.ReplaceAll(cli.Plain(c.Detail), "\n", "\n      ")
		if _, err := fmt.Fprintf(a.Std.Out, "%-4s  %s: %s\n", c.Status, c.Name, detail); err != nil {
			return err
		}
		if c.Remedy != "" {
			if _, err := fmt.Fprintf(a.Std.Out, "      -> %s\n", c.Remedy); err != nil {
				return err
			}
		}
	}
	return nil
}
