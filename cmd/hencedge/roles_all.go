//go:build !evaluatoronly

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/systemd"
	"github.com/hencedge/hencedge/transport"
)

// builtFor says which roles this build has: all of them. See roles_evaluator.go.
const builtFor = "every role"

const rootLong = `hencedge encrypts sensor readings where they are taken, computes on the
ciphertexts elsewhere, and lets only the key holder read the results.

  edge operator    hencedge agent       reads sensors, encrypts, publishes over MQTT
  cloud operator   hencedge evaluator   multiplies and sums ciphertexts, holds no secret key
  key holder       hencedge keys        makes keys and hands out the public ones
                   hencedge results     decrypts and checks what comes back
                   hencedge keyholder   checks the configuration of both
  all of them      hencedge check       compares their configurations

Start with "hencedge demo": it runs all of it on this machine.

`

// serviceRoles are the roles whose services this build can install.
func serviceRoles() []systemd.Role { return systemd.Roles() }

// roleCommands are the commands that not every build has.
func (a *app) roleCommands() []*cobra.Command {
	return []*cobra.Command{a.demoCommand(), a.keysCommand(), a.agentCommand(), a.resultsCommand(), a.keyholderCommand(), a.checkCommand(), a.benchCommand(), a.doctorCommand()}
}

// absences are the errors of roles that lack only what may appear without a change of
// their configuration.
func absences() []error { return []error{agent.ErrAbsent, evaluator.ErrAbsent} }

// remark is a note on standard error, for commands whose output is not a log.
func (a *app) remark(message string) { fmt.Fprintf(a.std.Err, "hencedge: %s\n", message) }

// closeClient says goodbye to the broker; what was published is acknowledged
// by then or lost.
func closeClient(c transport.Client) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	c.Close(ctx)
}
