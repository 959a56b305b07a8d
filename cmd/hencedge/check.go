//go:build !evaluatoronly

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/compare"
	"github.com/hencedge/hencedge/config"
)

func (a *app) checkCommand() *cobra.Command {
	var f rolesFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "compare the configurations of the roles",
		Long: `check reads the files of two or more roles and lists each field in which they must
agree and do not, with both values and places. It compares devices and their public
keys; streams with parameters, windows, channels, units and ranges; topic prefix and
broker; key sets; evaluators and their keys; programs, receipts and limits. --agent may
be repeated.

Keys are compared if the files that the configurations name can be read here. check
tells what it did not compare. Mistakes within one file are found by "agent check",
"evaluator check" and "keyholder check".

The exit code is 1 if the files differ, and 2 if one of them is not valid.`,
		Example: `  hencedge check --agent agent.yaml --evaluator evaluator.yaml --keyholder keyholder.yaml
  hencedge check --agent board1.yaml --agent board2.yaml --evaluator evaluator.yaml --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, names, err := f.load()
			if err != nil {
				return cli.Usage(err)
			}
			if len(names) < 2 {
				return cli.UsageHint(cmd,
					fmt.Errorf("give the files of two roles or more: --agent, --evaluator, --keyholder"))
			}
			return a.compared(names, compare.Compare(files))
		},
	}
	cmd.Flags().StringArrayVar(&f.agents, "agent", nil, "agent.yaml (may be repeated)")
	cmd.Flags().StringVar(&f.evaluator, "evaluator", "", "evaluator.yaml")
	cmd.Flags().StringVar(&f.keyholder, "keyholder", "", "keyholder.yaml")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

// rolesFlags name the files of the roles.
type rolesFlags struct {
	agents               []string
	evaluator, keyholder string
}

// load reads the files that are named.
func (f *rolesFlags) load() (files compare.Files, names []string, err error) {
	cli.UseCredentials(cli.AnyCredentials(""))
	for _, name := range f.agents {
		cfg, err := config.LoadAgent(name)
		if err != nil {
			return files, nil, err
		}
		files.Agents, names = append(files.Agents, compare.Agent{File: name, Agent: cfg}), append(names, name)
	}
	if f.evaluator != "" {
		cfg, err := config.LoadEvaluator(f.evaluator)
		if err != nil {
			return files, nil, err
		}
		files.Evaluator, names = &compare.Evaluator{File: f.evaluator, Evaluator: cfg}, append(names, f.evaluator)
	}
	if f.keyholder != "" {
		cfg, err := config.LoadKeyHolder(f.keyholder)
		if err != nil {
			return files, nil, err
		}
		files.KeyHolder, names = &compare.KeyHolder{File: f.keyholder, KeyHolder: cfg}, append(names, f.keyholder)
	}
	return files, names, nil
}

// compared prints the outcome of a comparison.
func (a *app) compared(names []string, r compare.Report) error {
	failure := error(nil)
	if n := len(r.Differences); n > 0 {
		failure = fmt.Errorf("%s: %w", cli.Plural(n, "difference"), cli.ErrQuiet)
	}
	if a.JSON {
		out := struct {
			OK          bool                 `json:"ok"`
			Files       []string             `json:"files"`
			Differences []compare.Difference `json:"differences"`
			Warnings    []compare.Difference `json:"warnings,omitempty"`
			Skipped     []string             `json:"not_compared,omitempty"`
		}{failure == nil, names, append([]compare.Difference{}, r.Differences...), r.Warnings, r.Skipped}
		if err := cli.JSONLine(a.Std.Out, out); err != nil {
			return err
		}
		return failure
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(a.Std.Err, "warning: %s\n", cli.Plain(w.Error()))
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(a.Std.Err, "not compared: %s\n", cli.Plain(s))
	}
	var text strings.Builder
	for _, d := range r.Differences {
		text.WriteString(d.Error() + "\n")
	}
	if failure == nil {
		text.WriteString(strings.Join(names, ", ") + ": good, they agree\n")
	} else {
		text.WriteString(cli.Plural(len(r.Differences), "difference") + "\n")
	}
	if _, err := fmt.Fprint(a.Std.Out, cli.Plain(text.String())); err != nil {
		return err
	}
	return failure
}
