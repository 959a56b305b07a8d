package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group returns a command that only holds others.
func Group(use, short, long string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: NoArgs, RunE: NeedsCommand}
	cmd.AddCommand(children...)
	return cmd
}

// NeedsCommand is the action of a command line that stops at a group of commands.
func NeedsCommand(cmd *cobra.Command, _ []string) error {
	names := make([]string, 0, len(cmd.Commands()))
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return UsageHint(cmd, fmt.Errorf("%q needs a command: %s", cmd.CommandPath(), strings.Join(names, ", ")))
}

// UsageHint marks err as wrong usage of cmd and says where its help is.
func UsageHint(cmd *cobra.Command, err error) error {
	return &UsageError{Err: err, Hint: fmt.Sprintf("run \"%s --help\" for usage", cmd.CommandPath())}
}

// NoArgs refuses arguments, and says which commands there are where one was meant.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		msg := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2 // of Levenshtein; only cobra's own message would set it
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			msg += fmt.Sprintf(", did you mean %s?", strings.Join(near, " or "))
		}
		return UsageHint(cmd, fmt.Errorf("%s", msg))
	}
	if cmd.Flags().Lookup("config") != nil {
		return UsageHint(cmd, fmt.Errorf("%q takes no arguments, got %q; a configuration is named with -c",
			cmd.CommandPath(), args[0]))
	}
	return UsageHint(cmd, fmt.Errorf("%q takes no arguments, got %q", cmd.CommandPath(), args[0]))
}

// ExactArgs demands the named arguments.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return UsageHint(cmd, fmt.Errorf("%q takes %d argument(s) (%s), got %d",
			cmd.CommandPath(), len(names), strings.Join(names, ", "), len(args)))
	}
}

// wantedValues says what flags take, by the type of their value.
var wantedValues = map[string]string{
	"int": "a whole number", "uint32": "a whole number from 0", "uint64": "a whole number from 0",
	"float64":  "a number",
	"intSlice": "whole numbers with commas between them, such as 1,2,4",
	"duration": "a duration, such as 250ms, 30s or 24h", "bool": "true or false",
}

// FlagError returns err in words of its own if a flag was given a value that it does not
// take: what it takes, rather than what the parsing function said.
func FlagError(err error) error {
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

// ConfigFlag adds --config.
func ConfigFlag(cmd *cobra.Command, file *string, name string) {
	cmd.Flags().StringVarP(file, "config", "c", name, "configuration file")
}

// CredentialsFlag adds --credentials.
func CredentialsFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "credentials", "",
		"`directory` to read cred: references from, in place of the one that systemd makes for the service")
}

// UseCredentials makes dir the directory of credentials, if it is given.
func UseCredentials(dir string) {
	if dir != "" {
		os.Setenv("CREDENTIALS_DIRECTORY", dir)
	}
}

// AnyCredentials names a directory of credentials, if there is none, for a check
// that does not look into it: what refers to it must be a path.
func AnyCredentials(dir string) string {
	if dir == "" && os.Getenv("CREDENTIALS_DIRECTORY") == "" {
		return "/run/credentials"
	}
	return dir
}
