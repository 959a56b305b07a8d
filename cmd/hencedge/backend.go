package main

import (
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/reference"
)

// backendHelp is the text of every --backend flag.
const backendHelp = "arithmetic: auto, cpu, or reference (slow, for checking)"

// backend makes the backend of a --backend flag. An explicit name never falls
// back to another one.
func backend(name string) (cutrantt.Backend, error) {
	switch name {
	case "auto", "cpu":
		return cpu.New(), nil
	case "reference":
		return reference.New(), nil
	}
	return nil, cli.Usagef("--backend %q: use auto, cpu or reference", name)
}
