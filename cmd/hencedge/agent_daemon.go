//go:build !evaluatoronly

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/arith"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/remote"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/daemon"
)

// agentCandidate reads and checks an agent's configuration, with the remote configuration
// of r on top. If first is set, no agent runs yet and the file is not checked here: the
// caller opens the candidate next, which loads the same keys and fails for the same faults.
func (a *app) agentCandidate(cmd *cobra.Command, file string, on gpuFlags, r *remote.Remote,
	first bool) (*daemon.Candidate, error) {
	own, hash, log, err := loadService(a, cmd, file, config.LoadAgent,
		func(c *config.Agent) config.Log { return c.Log })
	if err != nil {
		return nil, err
	}
	cfg, sealed, pending, err := r.Apply(own, log)
	if err != nil {
		return nil, err
	}
	if first && sealed != nil {
		if err := unusable(cfg, own); err != nil {
			r.LeaveOut(err)
			cfg, sealed = own, nil
		}
	}
	if sealed != nil {
		if log, err = a.ServiceLogger(cmd, cfg.Log); err != nil {
			return nil, err
		}
	}
	if !first {
		if err := plan.Check(cfg, plan.Options{}); err != nil {
			if pending {
				r.Discard(err)
			}
			return nil, err
		}
	}
	deps := agent.Deps{Logger: log, Version: thisVersion(), OnRemote: r.Receive, WaitForSensors: true}
	if err := on.encrypt(&deps); err != nil {
		return nil, err
	}
	c := &daemon.Candidate{Hash: remote.Hash(hash, sealed), Stop: cfg.StopTimeout, Control: controlSocket(cfg.Control),
		Log: log}
	c.Open = func() (daemon.Service, error) {
		s := &agentService{remote: r}
		var err error
		deps := deps
		deps.OnReady, deps.Metrics = func() { s.ready() }, a.supervisor
		plan.TuneMemory(cfg)
		plan.TuneProcessors(cfg)
		s.Agent, err = agent.New(cfg, deps)
		return s, err
	}
	if pending {
		r.OnTrial(c, sealed, cfg.Remote.Trial)
	}
	return c, nil
}

// agentService is an agent under a supervisor.
type agentService struct {
	*agent.Agent
	remote *remote.Remote
	ready  func()
}

func (s *agentService) Run(ctx context.Context, ready func()) error {
	s.ready = ready
	return s.Agent.Run(ctx)
}

func (s *agentService) Status() any { return agentState{s.Report(), s.remote.Status()} }

// agentState is what an agent tells `agent status`.
type agentState struct {
	agent.Report
	Remote *remote.Status `json:"remote,omitempty"`
}

// unusable returns why no agent starts with cfg, if one does start with own, the device's
// own file. Otherwise it returns nil. A remote configuration must not silence a board.
func unusable(cfg, own *config.Agent) error {
	o := plan.Options{Machine: sensor.Machine{Log: slog.New(slog.DiscardHandler), Wait: true}}
	err := plan.Check(cfg, o)
	if err == nil || errors.Is(err, plan.ErrAbsent) || plan.Check(own, o) != nil {
		return nil
	}
	return err
}

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
