//go:build nostore

package results

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
)

// ConsoleCommand returns a command that says what is missing.
func ConsoleCommand(*cli.App) *cobra.Command {
	return missing("console", "log in to the page of \"results serve\"")
}

// checkPage checks nothing: there is no page.
func checkPage(*config.KeyHolder) error { return nil }

// storeCommands returns commands that say what is missing: programs for boards hold no
// database.
func (a *app) storeCommands() []*cobra.Command {
	return []*cobra.Command{missing("serve", serveShort), missing("query", queryShort)}
}

func missing(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("this program is built for boards and has no database: take the key holder's " +
				"program (docs/install.md), or build one here with go build ./cmd/hencedge")
		}}
}
