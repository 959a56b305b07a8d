package main

import (
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/invite"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/packaging"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/units"
)

func newRoot(std cli.Streams) *cobra.Command {
	a := &app{App: &cli.App{Std: std, Version: thisVersion()}}
	root := &cobra.Command{
		Use:   "hencedge",
		Short: "compute on sensor data that you never see",
		Long: rootLong + `Exit codes: 0 for success, 1 for failure, 2 for wrong usage or an invalid configuration.
Output for machines goes to standard output, everything else to standard error.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cli.NoArgs,
		RunE:          cli.NeedsCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.protect(cmd)
			if _, err := a.Logger(); err != nil {
				return err
			}
			return a.CheckProgress()
		},
	}
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.UsageHint(cmd, cli.FlagError(err))
	})
	root.SetHelpCommand(helpCommand(root))
	root.PersistentFlags().StringVar(&a.LogLevel, "log-level", "info",
		"least severe log line shown: debug, info, warn or error")
	root.PersistentFlags().StringVar(&a.LogFormat, "log-format", "text", "log lines on standard error: text or json")
	root.PersistentFlags().StringVar(&a.ProgressForm, "progress", cli.ProgressAuto,
		"how long work tells how far it is, on standard error: auto (a bar or lines), json or none")
	root.AddCommand(a.roleCommands()...)
	root.AddCommand(a.evaluatorCommand(), invite.Command(a.App), invite.EnrollCommand(a.App),
		units.Command(a.App, units.Roles{List: serviceRoles(), For: builtFor}),
		a.configCommand(), a.versionCommand(), packaging.Command(thisVersion(), serviceRoles()))
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Short = "print the completion script of a shell"
	}
	complete(root)
	return root
}

// helpCommand returns "help COMMAND...", which refuses unknown commands.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return cli.NoArgs(cmd, rest)
			}
			cmd.InitDefaultHelpFlag() // so that it is shown
			return cmd.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion,
			_ cobra.ShellCompDirective) {
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
