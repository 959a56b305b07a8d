package sensor

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/bus"
	"github.com/hencedge/hencedge/agent/input/can"
	"github.com/hencedge/hencedge/agent/input/exec"
	"github.com/hencedge/hencedge/agent/input/httppoll"
	"github.com/hencedge/hencedge/agent/input/modbus"
	"github.com/hencedge/hencedge/agent/input/mqttin"
	"github.com/hencedge/hencedge/agent/input/serial"
	"github.com/hencedge/hencedge/config"
)

// Inputs are the open inputs of an agent by name.
type Inputs struct {
	open  map[string]input.Input
	count map[string]*input.Counters
}

// OpenInputs makes the inputs of a configuration. Nothing is connected before a
// sensor is read. fail is told of each input that cannot be made.
func OpenInputs(list []config.Input, log *slog.Logger, fail func(i int, err error)) *Inputs {
	all := &Inputs{open: map[string]input.Input{}, count: map[string]*input.Counters{}}
	lines := new(modbus.Lines)
	for i, in := range list {
		env := input.Env{Log: log, Count: new(input.Counters)}
		opened, err := openInput(in, env, lines)
		if err != nil {
			fail(i, err)
			continue
		}
		all.open[in.Name], all.count[in.Name] = opened, env.Count
	}
	return all
}

func openInput(in config.Input, env input.Env, lines *modbus.Lines) (input.Input, error) {
	switch in.Type() {
	case config.SourceI2C, config.SourceSPI:
		return bus.New(in, env)
	case config.SourceModbus:
		return lines.New(in, env)
	case config.SourceCAN:
		return can.New(in, env)
	case config.SourceSerial:
		return serial.New(in, env)
	case config.SourceExec:
		return exec.New(in, env)
	case config.SourceHTTP:
		return httppoll.New(in, env)
	case config.SourceMQTT:
		return mqttin.New(in, env)
	}
	return nil, fmt.Errorf("%w: an input of type %q cannot be opened", ErrNoSensor, in.Type())
}

// sensor makes the sensor of a source that names an input.
func (a *Inputs) sensor(src config.Source) (Sensor, error) {
	if a == nil || a.open[src.From] == nil {
		return nil, fmt.Errorf("%w: the input %q is not open", ErrNoSensor, src.From)
	}
	return a.open[src.From].Sensor(src)
}

// Messenger returns the open input of that name, which gives messages.
func (a *Inputs) Messenger(name string) (input.Messenger, error) {
	if a != nil {
		if in, ok := a.open[name].(input.Messenger); ok {
			return in, nil
		}
	}
	return nil, fmt.Errorf("%w: the input %q gives no messages", ErrNoSensor, name)
}

// InputStats are the counts of one input since the start.
type InputStats struct {
	Values   uint64 // values received
	Bad      uint64 // of what was received, what held no usable value
	Failures uint64 // polls and connections that failed
}

func (a *Inputs) Stats() map[string]InputStats {
	out := map[string]InputStats{}
	for name, c := range a.count {
		out[name] = InputStats{c.Values.Load(), c.Bad.Load(), c.Failures.Load()}
	}
	return out
}

// Close stops all inputs, at the same time: some take a moment.
func (a *Inputs) Close() error {
	if a == nil {
		return nil
	}
	errs := make([]error, 0, len(a.open))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, in := range a.open {
		wg.Go(func() {
			err := in.Close()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	a.open = nil
	return errors.Join(errs...)
}
