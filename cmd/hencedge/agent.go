//go:build !evaluatoronly

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/access"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/invite"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/remote"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/systemd"
)

func (a *app) agentCommand() *cobra.Command {
	return cli.Group("agent", "the edge service: read sensors, encrypt, publish",
		`The agent reads the sensors of its configuration, collects samples into windows,
encrypts each window under the key holder's public key, signs it, and publishes
it over MQTT. It holds no key that could decrypt anything.`,
		a.agentRun(), a.agentOnce(), a.agentCheck(), a.agentPlan(), a.agentDiscover(), a.agentEnroll(),
		invite.JoinCommand(a.App), a.statusCommand(systemd.Agent, describeAgentState), a.reloadCommand(systemd.Agent))
}

func (a *app) agentRun() *cobra.Command {
	var file string
	var on gpuFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "run until stopped",
		Long: `run samples, encrypts and publishes until it is interrupted (SIGINT, SIGTERM) or
every replay file has ended. When it stops it sends what is still waiting, for at
most the configured stop_timeout.

SIGHUP reloads the configuration. It is checked first, and a bad one changes
nothing. Under systemd the agent reports readiness, state and signs of life
(Type=notify, WatchdogSec). "hencedge agent status" asks it what it does.

The processor encrypts unless --backend says otherwise. backend_fallback in the
configuration says what happens if a GPU fails.`,
		Example: "  hencedge agent run -c /etc/hencedge/agent.yaml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, first := remote.New(), true
			return a.supervise(cmd.Context(), systemd.Agent, func() (*daemon.Candidate, error) {
				defer func() { first = false }()
				return a.agentCandidate(cmd, file, on, r, first)
			}, r.Tell)
		},
	}
	cli.ConfigFlag(cmd, &file, "agent.yaml")
	on.add(cmd)
	return cmd
}

func (a *app) agentOnce() *cobra.Command {
	var file, dir string
	var on gpuFlags
	cmd := &cobra.Command{
		Use:   "once",
		Short: "send one window of every stream and stop",
		Long: `once samples one window of every stream, encrypts and delivers it, and stops. It
tries everything on the way: sensors, keys, the broker and, with ack: evaluator, the
evaluator. It also delivers what waits in the spool.

It fails if the broker cannot be reached, if nothing is acknowledged within
stop_timeout, or if a stream gets no data for half a minute. Stop the service first:
both use the same state.`,
		Example: "  hencedge agent once -c agent.yaml --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cli.UseCredentials(dir)
			ag, err := a.openAgent(cmd, file, on)
			if err != nil {
				return err
			}
			if err := ag.Once(cmd.Context()); err != nil {
				return err
			}
			s := ag.Stats()
			if a.JSON {
				return cli.JSONLine(a.Std.Out, struct {
					OK      bool   `json:"ok"`
					Windows uint64 `json:"windows"`
					Bytes   uint64 `json:"bytes"`
				}{true, s.Sent, s.SentBytes})
			}
			_, err = fmt.Fprintf(a.Std.Out, "sent %s, %s\n", cli.Plural(int(s.Sent), "window"),
				cli.Bytes(int64(s.SentBytes)))
			return err
		},
	}
	cli.ConfigFlag(cmd, &file, "agent.yaml")
	cli.CredentialsFlag(cmd, &dir)
	a.JSONFlag(cmd, "one JSON object")
	on.add(cmd)
	return cmd
}

// openAgent loads a configuration and returns its agent.
func (a *app) openAgent(cmd *cobra.Command, file string, on gpuFlags) (*agent.Agent, error) {
	cfg, err := config.LoadAgent(file)
	if err != nil {
		return nil, cli.Usage(err)
	}
	log, err := a.ServiceLogger(cmd, cfg.Log)
	if err != nil {
		return nil, err
	}
	deps := agent.Deps{Logger: log, Version: thisVersion()}
	if err := on.encrypt(&deps); err != nil {
		return nil, err
	}
	plan.TuneMemory(cfg)
	plan.TuneProcessors(cfg)
	return agent.New(cfg, deps)
}

func (a *app) agentCheck() *cobra.Command {
	var file, dir string
	var alone bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "find every mistake in a configuration, without connecting",
		Long: `check reads a configuration and everything that it names: parameters, keys,
sensors, replay files, TLS files, secrets and the state file. Every mistake is
shown with file, line and column, the line itself, and what to do. It changes
nothing. The exit code is 2 when something is wrong.

--no-files checks the configuration alone, for example on another machine than the
board.`,
		Example: "  hencedge agent check -c agent.yaml --json\n  hencedge agent check -c board7/agent.yaml --no-files",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if alone {
				dir = cli.AnyCredentials(dir)
			}
			cli.UseCredentials(dir)
			cfg, err := config.LoadAgent(file)
			var warnings []string
			switch {
			case err != nil:
			case alone:
				err = plan.CheckAlone(cfg)
			default:
				warnings = append(plan.Warnings(cfg), access.Unreadable(systemd.Agent, file, agentReads(cfg)...)...)
				warnings = append(warnings, access.Unwritable(systemd.Agent, file, agentWrites(cfg)...)...)
				err = plan.Check(cfg, plan.Options{})
			}
			return a.Checked(file, err, warnings)
		},
	}
	cmd.Flags().BoolVar(&alone, "no-files", false,
		"open nothing that the configuration names: no keys, secrets or sensors")
	cli.ConfigFlag(cmd, &file, "agent.yaml")
	cli.CredentialsFlag(cmd, &dir)
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

// agentWrites returns the files and directories that an agent writes. An existing signing
// key is only read.
func agentWrites(cfg *config.Agent) []string {
	out := []string{cfg.State}
	if seal.FirstStart(cfg) {
		out = append(out, cfg.SigningKey)
	}
	if s := cfg.Spool; s != nil {
		out = append(out, s.Dir, s.Mirror)
	}
	return out
}

// agentReads returns the files that an agent reads.
func agentReads(cfg *config.Agent) []string {
	out := []string{cfg.Keys.PublicKey, cfg.Keys.SecretKey, cfg.Keys.BoardKey, cfg.Broker.CA, cfg.Broker.Cert,
		cfg.Broker.Key, cfg.SigningKey}
	for _, n := range cfg.Secrets() {
		out = append(out, n.Secret.File())
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY") // systemd hands these over
	return slices.DeleteFunc(out, func(p string) bool { return dir != "" && filepath.Dir(p) == filepath.Clean(dir) })
}
