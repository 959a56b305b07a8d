package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
)

// app is what the commands of one invocation share.
type app struct {
	std        cli.Streams
	json       bool
	logLevel   string
	logFormat  string
	supervisor *daemon.Supervisor // of run

	protection  daemon.Protection // of this process's memory
	unprotected error             // what could not be protected and is not told yet
}

func newRoot(std cli.Streams) *cobra.Command {
	a := &app{std: std}
	root := &cobra.Command{
		Use:   "hencedge",
		Short: "compute on sensor data that you never see",
		Long: rootLong + `Exit codes: 0 good, 1 failed, 2 wrong usage or invalid configuration. Machine
output goes to standard output, everything else to standard error.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          group,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.protect(cmd)
			_, err := a.logger()
			return err
		},
	}
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageHint(cmd, flagError(err))
	})
	root.SetHelpCommand(helpCommand(root))
	root.PersistentFlags().StringVar(&a.logLevel, "log-level", "info", "least severe log line shown: debug, info, warn or error")
	root.PersistentFlags().StringVar(&a.logFormat, "log-format", "text", "log lines on standard error: text or json")
	root.AddCommand(a.roleCommands()...)
	root.AddCommand(a.evaluatorCommand(), a.serviceCommand(), a.configCommand(), a.versionCommand(), a.packageFiles())
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Short = "print the completion script of a shell"
	}
	complete(root)
	return root
}

// logger makes the logger that the flags ask for.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, cli.Usagef("--log-level %q: use debug, info, warn or error", a.logLevel)
	}
	switch a.logFormat {
	case "text", "json":
		return daemon.NewLogger(a.std.Err, a.logFormat, level), nil
	}
	return nil, cli.Usagef("--log-format %q: use text or json", a.logFormat)
}

// serviceLogger is the logger of a service: its configuration says how it logs,
// flags that are given win.
func (a *app) serviceLogger(cmd *cobra.Command, c config.Log) (*slog.Logger, error) {
	if !cmd.Flags().Changed("log-level") && c.Level != "" {
		a.logLevel = c.Level
	}
	if !cmd.Flags().Changed("log-format") && c.Format != "" {
		a.logFormat = c.Format
	}
	return a.logger()
}

// jsonFlag adds --json to a command.
func (a *app) jsonFlag(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&a.json, "json", false, what)
}

// groupCommand is a command that only holds others.
func groupCommand(use, short, long string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: noArgs, RunE: group}
	cmd.AddCommand(children...)
	return cmd
}

// group is the action of a command line that stops at a group of commands.
func group(cmd *cobra.Command, _ []string) error {
	names := make([]string, 0, len(cmd.Commands()))
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usageHint(cmd, fmt.Errorf("%q needs a command: %s", cmd.CommandPath(), strings.Join(names, ", ")))
}

// wantedValues says what flags take, by the type of their value.
var wantedValues = map[string]string{
	"int": "a whole number", "uint32": "a whole number from 0", "uint64": "a whole number from 0", "float64": "a number",
	"intSlice": "whole numbers with commas between them, such as 1,2,4",
	"duration": "a duration, such as 250ms, 30s or 24h", "bool": "true or false",
}

// flagError says what a flag takes where its value is not that: in words, not in those
// of the function that could not parse it.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	want, ok := wantedValues[bad.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %q: use %s", bad.GetFlag().Name, bad.GetValue(), want)
}

// helpCommand is "help COMMAND...", which refuses what is no command.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return noArgs(cmd, rest)
			}
			cmd.InitDefaultHelpFlag() // so that it is shown
			return cmd.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if cmd, rest, err := root.Find(args); err == nil && len(rest) == 0 {
				for _, c := range cmd.Commands() {
					if c.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		msg := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2 // of Levenshtein; only cobra's own message would set it
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			msg += fmt.Sprintf(", did you mean %s?", strings.Join(near, " or "))
		}
		return usageHint(cmd, fmt.Errorf("%s", msg))
	}
	if cmd.Flags().Lookup("config") != nil {
		return usageHint(cmd, fmt.Errorf("%q takes no arguments, got %q; a configuration is named with -c", cmd.CommandPath(), args[0]))
	}
	return usageHint(cmd, fmt.Errorf("%q takes no arguments, got %q", cmd.CommandPath(), args[0]))
}

// exactArgs demands the named arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return usageHint(cmd, fmt.Errorf("%q takes %d argument(s) (%s), got %d",
			cmd.CommandPath(), len(names), strings.Join(names, ", "), len(args)))
	}
}

func usageHint(cmd *cobra.Command, err error) error {
	return &cli.UsageError{Err: err, Hint: fmt.Sprintf("run \"%s --help\" for usage", cmd.CommandPath())}
}
