package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/access"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/arith"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/systemd"
)

func (a *app) evaluatorCommand() *cobra.Command {
	group := cli.Group("evaluator", "the cloud subscriber: compute on ciphertexts",
		`The evaluator subscribes to encrypted windows, runs the programs of its
configuration on them, and publishes encrypted results. It holds evaluation keys
and no secret key.`,
		a.evaluatorRun(), a.evaluatorCheck(), a.evaluatorExplain(), a.evaluatorLevels(), a.evaluatorEnroll(),
		a.statusCommand(systemd.Evaluator, describeEvaluator), a.reloadCommand(systemd.Evaluator))
	group.Annotations = map[string]string{unlockedMemory: ""} // the gigabytes that an evaluator holds are public keys
	return group
}

func (a *app) evaluatorRun() *cobra.Command {
	var file, backendName, devices string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "run until stopped",
		Long: `run subscribes and evaluates until it is interrupted (SIGINT, SIGTERM). When it stops
it finishes what it has taken, for at most the configured stop_timeout. SIGHUP reloads
the configuration. It is checked first, and a bad one changes nothing.

--backend auto times the processor and the GPU, if there is one, on every parameter set.
It takes the faster one, and logs which and why. --backend cuda fails with the step that
failed if the GPU cannot be used. With several GPUs in --device, windows and programs
are spread over them. backend_fallback in the configuration says what happens if a GPU
fails.`,
		Example: `  hencedge evaluator run -c /etc/hencedge/evaluator.yaml
  hencedge evaluator run -c evaluator.yaml --backend cuda --device all`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.supervise(cmd.Context(), systemd.Evaluator, func() (*daemon.Candidate,
				error) {
				return a.evaluatorCandidate(cmd, file, backendName, devices)
			}, nil)
		},
	}
	cli.ConfigFlag(cmd, &file, "evaluator.yaml")
	cmd.Flags().StringVar(&backendName, "backend", arith.Auto, arith.Help)
	cmd.Flags().StringVar(&devices, "device", arith.Auto, arith.DeviceHelp)
	return cmd
}

func (a *app) evaluatorCheck() *cobra.Command {
	var file, dir string
	var noKeys bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "find every mistake in a configuration, without connecting",
		Long: `check reads a configuration, compiles its programs, and loads the key sets to see that
they serve every program. It also checks the signing key, TLS files, the password and
directories. If a program does not fit its parameters, check names the sub-expression.
The exit code is 2 if the evaluator would not start.

--no-keys checks the configuration and its programs alone, before there are keys or on
another machine.`,
		Example: `  hencedge evaluator check -c evaluator.yaml
  hencedge evaluator check -c evaluator.yaml --no-keys --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if noKeys {
				dir = cli.AnyCredentials(dir)
			}
			cli.UseCredentials(dir)
			cfg, err := config.LoadEvaluator(file)
			var warnings, packs, alone []string
			if err == nil {
				warnings = access.Unreadable(systemd.Evaluator, file, cfg.Broker.CA, cfg.Broker.Cert, cfg.SigningKey)
				writes := []string{cfg.State}
				if cfg.Store != nil {
					writes = append(writes, cfg.Store.Dir)
				}
				warnings = append(warnings, access.Unwritable(systemd.Evaluator, file, writes...)...)
				warnings = append(warnings, evaluator.Warnings(cfg)...)
				if noKeys {
					_, err = evaluator.Check(cfg)
				} else {
					err = evaluator.CheckFiles(cfg, true)
				}
				packs, alone, _ = evaluator.ExplainPacks(cfg) // err says what is wrong
				warnings = append(warnings, alone...)
			}
			if cerr := a.Checked(file, err, warnings); cerr != nil || a.JSON {
				return cerr
			}
			for _, line := range packs {
				if _, err := fmt.Fprintln(a.Std.Out, line); err != nil {
					return err
				}
			}
			if err := a.tellCosts(cfg); err != nil {
				return err
			}
			if err := a.tellPlaces(cfg); err != nil {
				return err
			}
			return a.tellFleets(cfg)
		},
	}
	cli.ConfigFlag(cmd, &file, "evaluator.yaml")
	cli.CredentialsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&noKeys, "no-keys", false,
		"open nothing that the configuration names: no keys, secrets or directories")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

func (a *app) evaluatorExplain() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "explain [PROGRAM...]",
		Short: "show a program's circuit, keys, cost and promised precision",
		Long: `explain compiles the programs of a configuration, or those that are named. For each it
prints the inputs, the operations on ciphertexts with level, scale and remaining room,
the keys that it needs, and the error that it promises. If no program is named, it also
prints what programs over the same windows cost together. It needs no keys and no broker.`,
		Example: `  hencedge evaluator explain -c evaluator.yaml
  hencedge evaluator explain -c evaluator.yaml cpu-variance --json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			cfg, err := config.LoadEvaluator(file)
			if err != nil {
				return cli.Usage(err)
			}
			list, err := evaluator.Explain(cfg, names...)
			var all []explanation
			for _, e := range list {
				all = append(all, e)
			}
			if err == nil && len(names) == 0 {
				sets, serr := evaluator.ExplainSets(cfg)
				for _, e := range sets {
					all = append(all, e)
				}
				err = serr
			}
			for i, e := range all {
				var werr error
				if a.JSON {
					werr = cli.JSONLine(a.Std.Out, e)
				} else {
					sep := ""
					if i > 0 {
						sep = "\n"
					}
					_, werr = fmt.Fprintf(a.Std.Out, "%s%s\n", sep, strings.TrimRight(e.Text(), "\n"))
				}
				if werr != nil {
					return errors.Join(err, werr)
				}
			}
			return cli.Usage(err)
		},
	}
	cli.ConfigFlag(cmd, &file, "evaluator.yaml")
	a.JSONFlag(cmd, "one JSON object a line")
	return cmd
}

// tellCosts prints what a batch takes of a GPU, and what programs over the same windows save by
// running together.
func (a *app) tellCosts(cfg *config.Evaluator) error {
	costs, err := evaluator.Estimate(cfg)
	if err != nil {
		return err
	}
	batch := cli.Plural(cfg.Batch, "window")
	if costs.Places > 1 {
		batch = fmt.Sprintf("%d sums of up to %d windows", cfg.Batch, costs.Places)
	}
	if _, err := fmt.Fprintf(a.Std.Out, "a batch of %s takes up to %s of a GPU's memory (%s)\n", batch,
		cli.Bytes(costs.Batch), strings.Join(costs.Of, ", ")); err != nil {
		return err
	}
	if b := costs.Bootstrap; len(b.Of) > 0 {
		if _, err := fmt.Fprintf(a.Std.Out, "bootstrapping takes %s and about %s of each device's memory (%s)\n",
			cli.Plural(b.Keys, "key"), cli.Bytes(b.Memory), strings.Join(b.Of, ", ")); err != nil {
			return err
		}
	}
	if b := costs.Bootstrap; b.Windows > 0 {
		_, err := fmt.Fprintf(a.Std.Out, "up to %s are bootstrapped together; the key of each of their devices "+
			"takes %s of the host's memory\n", cli.Plural(b.Windows, "compact window"), cli.Bytes(b.DeviceMemory))
		if err != nil {
			return err
		}
	}
	if err := a.tellHeld(costs); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Std.Out, "up to %s of garbage, or a 64th of its memory if that is more, gather on the "+
		"host before they are collected, at most an eighth of its memory; or as much as is in use, if that is more\n",
		cli.Bytes(costs.Garbage))
	if err != nil {
		return err
	}
	sets := costs.Sets
	if len(sets) == 0 {
		return nil
	}
	programs, together, alone := 0, 0, 0
	for _, s := range sets {
		programs, together, alone = programs+len(s.Programs), together+s.KeySwitch, alone+s.AloneKey
	}
	_, err = fmt.Fprintf(a.Std.Out, "%d programs share their windows with others: %d key switches for one result of "+
		"each, %d one by one\n", programs, together, alone)
	return err
}

// tellHeld prints the memory of windows that are being computed, and of their results.
func (a *app) tellHeld(c evaluator.Costs) error {
	_, err := fmt.Fprintf(a.Std.Out, "windows that are being computed take up to %s of each GPU and as much of the "+
		"host (%d at a time), on their way there up to %s more of the host, their results up to %s of it; on the "+
		"processor up to %s (%d) and %s\n", cli.Bytes(c.GPU.Windows), c.GPU.Runs, cli.Bytes(cutrantt.MostStaged),
		cli.Bytes(c.GPU.Results), cli.Bytes(c.Processor.Windows), c.Processor.Runs, cli.Bytes(c.Processor.Results))
	if err != nil || c.KeptStreams == 0 {
		return err
	}
	_, err = fmt.Fprintf(a.Std.Out, "windows of %s that programs look back at, or that wait for others, take up to "+
		"%s: at most join.windows of each, and as many as programs look back\n", cli.Plural(c.KeptStreams, "stream"),
		cli.Bytes(c.Kept))
	return err
}

// tellPlaces prints which classes share ciphertexts.
func (a *app) tellPlaces(cfg *config.Evaluator) error {
	for _, c := range cfg.Classes {
		for _, st := range c.Streams {
			if st.Places == 0 {
				continue
			}
			_, err := fmt.Fprintf(a.Std.Out, "windows of %s of up to %d devices of the class %s, each at another "+
				"place, are computed as one\n", st.Name, st.Places, c.Name)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tellFleets prints what programs across devices add up.
func (a *app) tellFleets(cfg *config.Evaluator) error {
	plan, err := evaluator.Check(cfg)
	if err != nil {
		return err
	}
	for i := range plan.Programs {
		c := plan.Programs[i].Circuit
		if c.Capacity() == 0 {
			continue
		}
		_, err := fmt.Fprintf(a.Std.Out, "%s adds up at most %d windows of the class %s, those under one key: devices "+
			"under another key have a result of their own\n", c.Name(), c.Capacity(), c.Class())
		if err != nil {
			return err
		}
	}
	return nil
}

// explanation is of a program, or of programs together.
type explanation interface{ Text() string }
