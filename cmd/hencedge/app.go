package main

import (
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/internal/daemon"
)

// app is the command line of one invocation.
type app struct {
	*cli.App
	supervisor *daemon.Supervisor // of the service that runs
}
