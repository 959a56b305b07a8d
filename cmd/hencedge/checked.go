package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
)

// configFlag adds --config.
func configFlag(cmd *cobra.Command, file *string, name string) {
	cmd.Flags().StringVarP(file, "config", "c", name, "configuration file")
}

// thisVersion is the version in status messages.
func thisVersion() string {
	info, _ := debug.ReadBuildInfo()
	return readVersion(info).Version
}

// credentialsFlag adds --credentials.
func credentialsFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "credentials", "", "`directory` to read cred: references from, in place of the one that systemd makes for the service")
}

// credentials makes dir the directory of credentials, if it is given.
func credentials(dir string) {
	if dir != "" {
		os.Setenv("CREDENTIALS_DIRECTORY", dir)
	}
}

// anyCredentials names a directory of credentials, if there is none, for a check
// that does not look into it: what refers to it must be a path.
func anyCredentials(dir string) string {
	if dir == "" && os.Getenv("CREDENTIALS_DIRECTORY") == "" {
		return "/run/credentials"
	}
	return dir
}

// mistake is one error of "check --json".
type mistake struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Path   string `json:"path,omitempty"`
	Cause  string `json:"cause"`
	Remedy string `json:"remedy,omitempty"`
}

// checked reports the outcome of a check command.
func (a *app) checked(file string, err error, warnings []string) error {
	for _, w := range warnings {
		fmt.Fprintf(a.std.Err, "warning: %s: %s\n", file, w)
	}
	if !a.json {
		if err != nil {
			return cli.Usage(err)
		}
		_, err := fmt.Fprintf(a.std.Out, "%s: good\n", file)
		return err
	}
	out := struct {
		OK       bool      `json:"ok"`
		File     string    `json:"file"`
		Errors   []mistake `json:"errors"`
		Warnings []string  `json:"warnings,omitempty"`
	}{err == nil, file, mistakes(err), warnings}
	if werr := cli.JSONLine(a.std.Out, out); werr != nil {
		return werr
	}
	if err != nil {
		return cli.Usagef("%s: %w", file, cli.ErrQuiet)
	}
	return nil
}

// mistakes takes an error apart.
func mistakes(err error) []mistake {
	out := []mistake{}
	if err == nil {
		return out
	}
	var list *config.Errors
	if !errors.As(err, &list) {
		for line := range strings.SplitSeq(err.Error(), "\n\n") {
			out = append(out, mistake{Cause: line})
		}
		return out
	}
	for _, e := range list.List {
		out = append(out, mistake{e.File, e.Line, e.Column, e.Path, e.Cause, e.Remedy})
	}
	return out
}
