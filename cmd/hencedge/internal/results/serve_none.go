//go:build nostore

package results

import (
	"errors"

	"github.com/spf13/cobra"
)

// storeCommands returns commands that say what is missing: programs for boards hold no
// database.
func (a *app) storeCommands() []*cobra.Command {
	missing := func(use, short string) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return errors.New("this program is built for boards and has no database: take the key holder's " +
					"program (docs/install.md), or build one here with go build ./cmd/hencedge")
			}}
	}
	return []*cobra.Command{missing("serve", serveShort), missing("query", queryShort)}
}
