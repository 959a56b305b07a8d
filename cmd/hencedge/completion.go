package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/systemd"
)

// flagValues returns the values that shells offer for flags, by the flag's name.
func flagValues() map[string][]string {
	var roles, dropins []string
	for _, r := range serviceRoles() {
		roles = append(roles, string(r))
	}
	for name := range systemd.DropIns() {
		dropins = append(dropins, strings.TrimSuffix(name, ".conf"))
	}
	slices.Sort(dropins)
	return map[string][]string{
		"role": roles, "drop-in": dropins, "params": append(henc.Names(), henc.BootstrapNames()...),
		"backend": {"auto", "cpu", "cuda", "reference"},
		"format":  {"table", "ndjson", "csv"}, "log-level": {"debug", "info", "warn", "error"},
		"log-format": {"text", "json"}, "progress": {cli.ProgressAuto, cli.ProgressJSON, cli.ProgressNone},
	}
}

// Flags that name files of YAML, and directories.
var (
	yamlFlags      = []string{"config", "agent", "evaluator", "keyholder", "programs", "for", "check"}
	directoryFlags = []string{"credentials", "walk", "dir", "save"}
)

// complete tells shells what the flags of cmd and of the commands below it take.
func complete(cmd *cobra.Command) {
	values := flagValues()
	set := func(f *pflag.Flag) {
		var as func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)
		switch text := f.Value.Type() != "bool"; {
		case !text:
			return
		case values[f.Name] != nil:
			as = cobra.FixedCompletions(values[f.Name], cobra.ShellCompDirectiveNoFileComp)
		case slices.Contains(yamlFlags, f.Name):
			as = cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
		case slices.Contains(directoryFlags, f.Name):
			as = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		default:
			return
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, as) // fails for a flag that has one: that one stays
	}
	cmd.LocalNonPersistentFlags().VisitAll(set)
	cmd.PersistentFlags().VisitAll(set)
	for _, c := range cmd.Commands() {
		complete(c)
	}
}
