// Package keys is the command "keys": key sets, what of them each role may hold, and
// signing keys.
package keys

import (
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// DefaultDir is the key set directory where no --dir is given.
const DefaultDir = "keys"

// EvaluatorCommand returns the part of "keys" that evaluators need. It links no code
// for secret keys.
func EvaluatorCommand(c *cli.App) *cobra.Command {
	a := &app{c}
	return cli.Group("keys", "check evaluation keys, and make the signing key of an evaluator",
		`Key sets are made, rotated and exported by the key holder, with the full program.`,
		a.verifyCommand(), a.identityCommand())
}
