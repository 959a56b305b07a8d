//go:build !evaluatoronly

package main

import (
	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/systemd"
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

// serviceRoles returns the roles whose services this build can install.
func serviceRoles() []systemd.Role { return systemd.Roles() }

// absences returns the errors of roles that lack something that may appear without a
// change of their configuration.
func absences() []error { return []error{plan.ErrAbsent, evaluator.ErrAbsent} }
