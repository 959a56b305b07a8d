//go:build nostore

package invite

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// Command returns an "invite" that only says where there is one.
func Command(*cli.App) *cobra.Command { return missing("invite", inviteShort) }

// EnrollCommand returns an "enroll" that only says where there is one.
func EnrollCommand(*cli.App) *cobra.Command { return missing("enroll", enrollShort) }

func missing(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short + " (not in this program)",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("%s: this program is for boards (build tag nostore): use the one for amd64, "+
				"hencedge-evaluator or hencedge-keyholder", name)
		},
	}
}
