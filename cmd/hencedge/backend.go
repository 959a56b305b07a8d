package main

import (
	"errors"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/arith"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// backends opens what the flags --backend and --device ask for. An explicit name never falls
// back to another one.
func backends(name, devices string, note arith.Note) (*arith.Backends, error) {
	b, err := arith.Open(name, devices, note)
	if errors.Is(err, arith.ErrName) {
		return nil, cli.Usage(err)
	}
	return b, err
}
