package main

import (
	"errors"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/arith"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
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

// contextOn returns a function that makes contexts, each on the backend for its parameters.
func contextOn(b *arith.Backends) func(henc.Parameters) (*henc.Context, error) {
	return func(p henc.Parameters) (*henc.Context, error) {
		chosen, err := b.For(p)
		if err != nil {
			return nil, err
		}
		return fastContext(p, chosen)
	}
}

func fastContext(p henc.Parameters, b cutrantt.Backend) (*henc.Context, error) {
	return henc.NewContext(p, henc.WithBackend(b), henc.WithFastestN2())
}

// moreContexts returns a function that makes contexts on all devices but that of contextOn.
func moreContexts(b *arith.Backends) func(henc.Parameters) ([]*henc.Context, error) {
	return func(p henc.Parameters) ([]*henc.Context, error) {
		all, err := b.All(p)
		if err != nil {
			return nil, err
		}
		var out []*henc.Context
		for _, one := range all[1:] {
			ctx, err := fastContext(p, one)
			if err != nil {
				return nil, err
			}
			out = append(out, ctx)
		}
		return out, nil
	}
}

// reopen returns a new context on the device of one that failed.
func reopen(failed *henc.Context) (*henc.Context, error) {
	b, err := arith.Reopen(failed.Ring().Backend())
	if err != nil {
		return nil, err
	}
	return fastContext(failed.Parameters(), b)
}
