package agent

import (
	"errors"
	"fmt"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/traces"
)

// New prepares an agent, in the order in which each part needs the ones before:
//
//  1. the configuration is checked, keys are loaded, sensors and files opened
//  2. the signing key of a first start is made
//  3. the state is locked, with a new boot epoch
//  4. the spool is opened: only now, since it belongs to the state
//  5. each source goes on where the spool ends
//  6. the energy meter finds its sensor
//
// Mistakes that belong to a field are a *config.Errors. Call Close when neither Run nor
// Once is called.
func New(cfg *config.Agent, deps Deps) (_ *Agent, err error) {
	p, err := plan.Prepare(cfg, deps.options(), false)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, deps: deps, log: deps.logger().With("device", cfg.Device), clock: p.Machine.Clock,
		keys:   p.Keys,
		inputs: p.Machine.Inputs, bootID: p.Machine.BootID()}
	for _, s := range p.Streams {
		a.streams = append(a.streams, &stream{Stream: s})
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.keys.Missing {
		if err := a.keys.MakeSigning(cfg.SigningKey); err != nil {
			return nil, err
		}
		deps.logger().Warn("created this device's signing key; the evaluator refuses windows until it is enrolled",
			"file", cfg.SigningKey, "public_key", a.keys.Signing.PublicText(), "enrol", "hencedge agent enroll")
	}
	a.guard()
	a.since = a.now()
	if a.state, err = seal.OpenState(cfg.State, cfg.Device, a.since.wall); err != nil {
		return nil, err
	}
	if err := a.state.Health(); err != nil {
		a.log.Error("cannot write the state file; using a boot epoch taken from the clock", "boot_epoch",
			a.state.Boot(), "error", err)
	}
	if err := a.openSpool(); err != nil {
		return nil, err
	}
	for _, s := range a.streams {
		if err := a.resume(s); err != nil {
			return nil, fmt.Errorf("stream %s: %w", s.Config.Name, err)
		}
	}
	if a.tracing.out, err = traces.New(cfg.Traces, traces.Options{Role: "agent", Name: cfg.Device,
		Version: deps.Version, Logger: a.log}); err != nil {
		return nil, err
	}
	a.openMeter(p.Machine)
	for _, w := range plan.Warnings(cfg) {
		a.log.Warn(w)
	}
	a.log.Info("agent is ready", "boot_epoch", a.state.Boot(), "params", cfg.Streams[0].Params, "streams",
		len(a.streams))
	return a, nil
}

// openSpool takes the given spool, or opens the configured one.
func (a *Agent) openSpool() (err error) {
	if a.spool = a.deps.Spool; a.spool != nil {
		return nil
	}
	if a.spool, err = openSpool(a.cfg, a.clock, a.log); err != nil || a.cfg.Spool == nil {
		return err
	}
	return foreign(a.spool, a.cfg.Device, a.cfg.Spool.Dir)
}

// resume lets a stream go on after the last window that the spool has or had.
func (a *Agent) resume(s *stream) error {
	if !a.spool.Durable() {
		return nil
	}
	kept := a.spool.Cursor(s.Config.Name)
	if len(kept) == 0 {
		return nil
	}
	return s.Source.Resume(kept)
}

// openMeter finds what counts the board's energy.
func (a *Agent) openMeter(m sensor.Machine) {
	if a.cfg.Energy == config.EnergyOff {
		a.meter = sensor.NoMeter("off")
		return
	}
	work := func() (w sensor.Work) {
		for _, s := range a.streams {
			w.Readings += s.Count.Samples()
			w.Windows += s.sealed.windows.Load()
		}
		return w
	}
	a.meter = sensor.OpenMeter(m, work, func() bool { return a.current().Context.Ring().Backend().Name() == "cuda" })
	if e := a.meter.Report(); e.Sensor != "" {
		a.log.Info("measuring energy", "sensor", e.Sensor, "scope", string(e.Scope))
	}
}

// Close lets go of what New opened: sources and inputs, the spool, then the state that it
// belongs to. It wipes the keys that the agent loaded itself. Run and Once call it.
func (a *Agent) Close() error {
	var errs []error
	for _, s := range a.streams {
		errs = append(errs, s.Source.Close())
	}
	errs = append(errs, a.inputs.Close())
	if a.spool != nil && a.deps.Spool == nil { // then it is ours
		a.spool.Release()
	}
	if a.state != nil {
		errs = append(errs, a.state.Close())
	}
	a.tracing.out.Close()
	a.device.Lock()
	a.keys.Wipe()
	a.device.Unlock()
	return errors.Join(errs...)
}
