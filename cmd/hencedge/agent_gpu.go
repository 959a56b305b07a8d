//go:build !evaluatoronly

package main

import (
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/arith"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// gpuFlags choose the device of an agent.
type gpuFlags struct{ backend, device string }

func (g *gpuFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.backend, "backend", "cpu", arith.Help)
	cmd.Flags().StringVar(&g.device, "device", arith.Auto,
		"GPU to use: auto (the first), its number or its identifier (GPU-...)")
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
