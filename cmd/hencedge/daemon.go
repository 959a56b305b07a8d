package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/systemd"
)

// supervise runs a role as a service: SIGHUP reloads, the service manager is
// kept informed, and the control socket answers.
func (a *app) supervise(ctx context.Context, role systemd.Role, load func() (*daemon.Candidate, error), more <-chan string) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	reload := make(chan string)
	go func() {
		for {
			reason := "SIGHUP"
			select {
			case <-hup:
			case reason = <-more:
			case <-ctx.Done():
				return
			}
			select {
			case reload <- reason:
			case <-ctx.Done():
				return
			}
		}
	}()
	s := &daemon.Supervisor{Role: string(role), Version: thisVersion(), Load: func() (*daemon.Candidate, error) {
		c, err := load()
		if err == nil {
			a.tellProtection(c.Log)
		}
		return c, err
	}, Notify: daemon.NewNotifier(), Reload: reload, Protection: a.protection}
	a.supervisor = s
	return s.Run(ctx)
}

// notLoaded is the failure to load a service's configuration: invalid, unless its
// user may not read it, which a change of modes mends while systemd tries again.
func notLoaded(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	return cli.Usage(err)
}

// fileHash names the text of a configuration: SHA-256, hexadecimal.
func fileHash(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the configuration: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// controlSocket is where a service answers: as configured, else in the directory
// that the service manager made for it, else nowhere.
func controlSocket(c config.Control) string {
	switch {
	case c.Socket != "":
		return c.Socket
	case os.Getenv("RUNTIME_DIRECTORY") != "":
		return filepath.Join(filepath.SplitList(os.Getenv("RUNTIME_DIRECTORY"))[0], "control.sock")
	}
	return ""
}

// agentService is an agent under a supervisor.
type agentService struct {
	*agent.Agent
	remote *remote
	ready  func()
}

func (s *agentService) Run(ctx context.Context, ready func()) error {
	s.ready = ready
	return s.Agent.Run(ctx)
}

// agentState is the agent's part of `agent status`.
type agentState struct {
	agent.Report
	Remote *remoteStatus `json:"remote,omitempty"`
}

func (s *agentService) Status() any { return agentState{s.Report(), s.remote.status()} }

// agentCandidate reads and checks an agent's configuration, with what r has on top
// of it. first says that no agent runs yet: then a file that is alone is checked by
// opening the candidate, which comes next and loads the same keys.
func (a *app) agentCandidate(cmd *cobra.Command, file string, on gpuFlags, r *remote, first bool) (*daemon.Candidate, error) {
	cfg, err := config.LoadAgent(file)
	if err != nil {
		return nil, notLoaded(err)
	}
	hash, err := fileHash(file)
	if err != nil {
		return nil, err
	}
	log, err := a.serviceLogger(cmd, cfg.Log)
	if err != nil {
		return nil, err
	}
	own := cfg
	cfg, sealed, pending, err := r.apply(own, log)
	if err != nil {
		return nil, err
	}
	if first && sealed != nil {
		if err := unusable(cfg, own); err != nil {
			r.leaveOut(err)
			cfg, sealed = own, nil
		}
	}
	if sealed != nil {
		if log, err = a.serviceLogger(cmd, cfg.Log); err != nil {
			return nil, err
		}
	}
	if !first {
		if err := agent.Check(cfg, agent.Deps{}); err != nil {
			if pending {
				r.discard(err)
			}
			return nil, err
		}
	}
	deps := agent.Deps{Logger: log, Version: thisVersion(), OnRemote: r.receive, WaitForSensors: true}
	if err := on.encrypt(&deps); err != nil {
		return nil, err
	}
	c := &daemon.Candidate{Hash: hashWith(hash, sealed), Stop: cfg.StopTimeout, Control: controlSocket(cfg.Control), Log: log}
	c.Open = func() (daemon.Service, error) {
		s := &agentService{remote: r}
		var err error
		deps := deps
		deps.OnReady, deps.Metrics = func() { s.ready() }, a.supervisor
		agent.TuneMemory(cfg)
		agent.TuneProcessors(cfg)
		s.Agent, err = agent.New(cfg, deps)
		return s, err
	}
	if pending {
		r.onTrial(c, sealed, cfg.Remote.Trial)
	}
	return c, nil
}

// unusable is why no agent starts with cfg although one starts with own, the device's
// file alone; nil otherwise. A board must not stay silent for what came from afar.
func unusable(cfg, own *config.Agent) error {
	deps := agent.Deps{Logger: slog.New(slog.DiscardHandler), WaitForSensors: true}
	err := agent.Check(cfg, deps)
	if err == nil || errors.Is(err, agent.ErrAbsent) || agent.Check(own, deps) != nil {
		return nil
	}
	return err
}

// evaluatorService is an evaluator under a supervisor. It is ready without the broker,
// for which it waits.
type evaluatorService struct {
	*evaluator.Service
	ready func()
}

func (s *evaluatorService) Run(ctx context.Context, ready func()) error {
	s.ready = ready
	return s.Service.Run(ctx)
}

func (s *evaluatorService) Status() any { return s.State() }

// evaluatorCandidate reads and checks an evaluator's configuration.
func (a *app) evaluatorCandidate(cmd *cobra.Command, file, backendName, devices string) (*daemon.Candidate, error) {
	cfg, err := config.LoadEvaluator(file)
	if err != nil {
		return nil, notLoaded(err)
	}
	hash, err := fileHash(file)
	if err != nil {
		return nil, err
	}
	log, err := a.serviceLogger(cmd, cfg.Log)
	if err != nil {
		return nil, err
	}
	if err := evaluator.CheckFiles(cfg, false); err != nil { // the service loads the keys itself
		return nil, err
	}
	b, err := backends(backendName, devices, func(message string) { log.Info(message) })
	if err != nil {
		return nil, err
	}
	return &daemon.Candidate{Hash: hash, Stop: cfg.StopTimeout, Control: controlSocket(cfg.Control), Log: log,
		Open: func() (daemon.Service, error) {
			s := &evaluatorService{}
			var err error
			s.Service, err = evaluator.New(cfg, evaluator.Deps{Logger: log, Context: contextOn(b), More: moreContexts(b), Reopen: reopen, Version: thisVersion(), Metrics: a.supervisor,
				OnStart: func() { s.ready() }})
			return s, err
		}}, nil
}
