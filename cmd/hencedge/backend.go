package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent"
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

// remark is a note on standard error, for commands whose output is not a log.
func (a *app) remark(message string) { fmt.Fprintf(a.std.Err, "hencedge: %s\n", message) }

// gpuFlags choose the device of an agent.
type gpuFlags struct{ backend, device string }

func (g *gpuFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.backend, "backend", "cpu", arith.Help)
	cmd.Flags().StringVar(&g.device, "device", arith.Auto, "GPU to use: auto (the first), its number or its identifier (GPU-...)")
}

// encrypt makes an agent encrypt on the chosen device. The processor, the
// default, is opened by the agent itself.
func (g *gpuFlags) encrypt(d *agent.Deps) error {
	if g.backend == "cpu" {
		return nil
	}
	b, err := backends(g.backend, g.device, func(message string) { d.Logger.Info(message) })
	if err != nil {
		return err
	}
	on := func(p henc.Parameters, b cutrantt.Backend) (*henc.Context, error) {
		return henc.NewContext(p, henc.WithBackend(b))
	}
	d.NewContext = func(p henc.Parameters) (*henc.Context, error) {
		chosen, err := b.For(p)
		if err != nil {
			return nil, err
		}
		return on(p, chosen)
	}
	d.Reopen = func(failed *henc.Context) (*henc.Context, error) {
		fresh, err := arith.Reopen(failed.Ring().Backend())
		if err != nil {
			return nil, err
		}
		return on(failed.Parameters(), fresh)
	}
	return nil
}
