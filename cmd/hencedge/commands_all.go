//go:build !evaluatoronly

package main

import (
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/keys"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/results"
)

// roleCommands returns the commands that not every build has.
func (a *app) roleCommands() []*cobra.Command {
	return []*cobra.Command{
		a.demoCommand(), keys.Command(a.App), a.agentCommand(), results.Command(a.App), results.KeyHolderCommand(a.App),
		results.ConsoleCommand(a.App),
		a.checkCommand(), a.benchCommand(), a.doctorCommand(),
	}
}
