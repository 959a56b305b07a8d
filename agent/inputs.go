package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

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

// inputs are the open inputs of an agent by name.
type inputs struct {
	open  map[string]input.Input
	count map[string]*input.Counters
}

// openInputs makes the inputs of a configuration. Nothing is connected before a
// sensor is read. fail is told of each input that cannot be made.
func openInputs(list []config.Input, log *slog.Logger, fail func(i int, err error)) *inputs {
	all := &inputs{open: map[string]input.Input{}, count: map[string]*input.Counters{}}
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

// inputWarnings are inputs that nobody reads, that travel in clear, or whose
// device is not there now.
func inputWarnings(cfg *config.Agent) []string {
	used := map[string]bool{}
	for _, s := range cfg.Streams {
		for _, ch := range s.Channels {
			if ch.Source != nil {
				used[ch.Source.From] = true
			}
		}
	}
	var out []string
	for _, in := range cfg.Inputs {
		if !used[in.Name] {
			out = append(out, fmt.Sprintf("input %s: no channel reads it", in.Name))
		}
		device, clear := "", ""
		switch {
		case in.Serial != nil:
			device = in.Serial.Device
		case in.I2C != nil:
			device = fmt.Sprintf("/dev/i2c-%d", *in.I2C.Bus)
		case in.SPI != nil:
			device = fmt.Sprintf("/dev/spidev%d.%d", *in.SPI.Bus, in.SPI.ChipSelect)
		case in.CAN != nil:
			device = "/sys/class/net/" + in.CAN.Interface
		case in.HTTP != nil && in.HTTP.Insecure:
			clear, _, _ = strings.Cut(in.HTTP.URL, "?") // secrets may follow
		case in.MQTT != nil && in.MQTT.Insecure:
			clear = in.MQTT.URL
		case in.Modbus != nil:
			device, _ = strings.CutPrefix(in.Modbus.URL, "rtu://")
			if device == in.Modbus.URL {
				device = ""
			}
		}
		if why := unusable(device, in); why != "" {
			out = append(out, fmt.Sprintf("input %s: %s", in.Name, why))
		}
		if clear != "" {
			out = append(out, fmt.Sprintf("input %s: no TLS to %s: its readings travel in clear, and anybody on the way can change them", in.Name, clear))
		}
	}
	return out
}

// unusable says why the device of an input, or its command, cannot be used by this
// process now; "" when it can.
func unusable(device string, in config.Input) string {
	if in.Exec != nil {
		command := in.Exec.Command[0]
		if info, err := os.Stat(command); err != nil {
			return fmt.Sprintf("the command %s is not there now", command)
		} else if info.IsDir() || unix.Access(command, unix.X_OK) != nil {
			return fmt.Sprintf("this user may not run %s", command)
		}
		return ""
	}
	if device == "" {
		return ""
	}
	if _, err := os.Stat(device); err != nil {
		return device + " is not there now; the agent waits for it"
	}
	if in.CAN == nil && unix.Access(device, unix.R_OK|unix.W_OK) != nil {
		return fmt.Sprintf("this user may not open %s; the packaged service needs the drop-in devices.conf and the device's group (docs/operations.md)", device)
	}
	return ""
}

// sensor makes the sensor of a source that names an input.
func (a *inputs) sensor(src config.Source) (Sensor, error) {
	if a == nil || a.open[src.From] == nil {
		return nil, fmt.Errorf("%w: the input %q is not open", ErrNoSensor, src.From)
	}
	return a.open[src.From].Sensor(src)
}

// input gives an open input, or nil.
func (a *inputs) input(name string) input.Input {
	if a == nil {
		return nil
	}
	return a.open[name]
}

// close stops all inputs, at the same time: some take a moment.
func (a *inputs) close() error {
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
