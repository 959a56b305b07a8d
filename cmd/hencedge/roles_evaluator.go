//go:build evaluatoronly

package main

import (
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/keys"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/systemd"
)

// builtFor says which roles this build has. It holds no code that makes, reads or uses
// secret keys of ciphertexts: package henc/secret is not linked, nor is anything that
// would need it (agents in symmetric mode, key holders, demo, bench, doctor).
const builtFor = "evaluators only"

const rootLong = `hencedge encrypts sensor readings where they are taken, computes on the
ciphertexts elsewhere, and lets only the key holder read the results.

This build is for evaluators: it holds no code that could read what it computes
on. Agents and key holders use the full program.

`

// serviceRoles returns the roles whose services this build can install.
func serviceRoles() []systemd.Role { return []systemd.Role{systemd.Evaluator} }

// roleCommands returns the commands that not every build has.
func (a *app) roleCommands() []*cobra.Command {
	return []*cobra.Command{keys.EvaluatorCommand(a.App)}
}

// absences returns the errors of roles that lack something that may appear without a
// change of their configuration.
func absences() []error { return []error{evaluator.ErrAbsent} }
