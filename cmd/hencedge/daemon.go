package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/systemd"
)

// supervise runs a role as a service: SIGHUP and what comes from more reload it, the
// service manager is kept informed, and the control socket answers.
func (a *app) supervise(ctx context.Context, role systemd.Role, load func() (*daemon.Candidate, error),
	more <-chan string) error {
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
			a.TellProtection(c.Log)
		}
		return c, err
	}, Notify: daemon.NewNotifier(), Reload: reload, Protection: a.Protection}
	a.supervisor = s
	return s.Run(ctx)
}

// loadService reads the configuration of a service. It also returns the SHA-256 of the
// file's text, in hexadecimal, and the log that logOf configures.
func loadService[C any](a *app, cmd *cobra.Command, file string, load func(string) (*C, error),
	logOf func(*C) config.Log) (cfg *C, hash string, log *slog.Logger, err error) {
	if cfg, err = load(file); err != nil {
		return nil, "", nil, cli.NotLoaded(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, "", nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	sum := sha256.Sum256(b)
	log, err = a.ServiceLogger(cmd, logOf(cfg))
	return cfg, hex.EncodeToString(sum[:]), log, err
}

// controlSocket returns where a service answers: the configured path, or one in the
// directory that the service manager made for it. It returns "" if there is neither.
func controlSocket(c config.Control) string {
	switch {
	case c.Socket != "":
		return c.Socket
	case os.Getenv("RUNTIME_DIRECTORY") != "":
		return filepath.Join(filepath.SplitList(os.Getenv("RUNTIME_DIRECTORY"))[0], "control.sock")
	}
	return ""
}

// evaluatorCandidate reads and checks an evaluator's configuration.
func (a *app) evaluatorCandidate(cmd *cobra.Command, file, backendName, devices string) (*daemon.Candidate, error) {
	cfg, hash, log, err := loadService(a, cmd, file, config.LoadEvaluator,
		func(c *config.Evaluator) config.Log { return c.Log })
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
			evaluator.TuneMemory(cfg) // this process is nothing else
			var err error
			s.Service, err = evaluator.New(cfg,
				evaluator.Deps{Logger: log, Context: contextOn(b), More: moreContexts(b),
					Reopen: reopen, Version: thisVersion(), Metrics: a.supervisor,
					OnStart: func() { s.ready() }})
			return s, err
		}}, nil
}

// evaluatorService is an evaluator under a supervisor. It is ready before it is connected
// to the broker.
type evaluatorService struct {
	*evaluator.Service
	ready func()
}

func (s *evaluatorService) Run(ctx context.Context, ready func()) error {
	s.ready = ready
	return s.Service.Run(ctx)
}

func (s *evaluatorService) Status() any { return s.State() }
