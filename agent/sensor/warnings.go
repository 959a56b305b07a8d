package sensor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/config"
)

// Warnings returns what deserves thought about the sensors and inputs of a configuration.
func Warnings(cfg *config.Agent) []string {
	return append(inputWarnings(cfg), powerWarnings(cfg)...)
}

// inputWarnings warns of inputs that no channel reads, that travel in clear, or whose
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
		device, plain := "", "" // plain: what travels without TLS
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
			plain, _, _ = strings.Cut(in.HTTP.URL, "?") // secrets may follow
		case in.MQTT != nil && in.MQTT.Insecure:
			plain = in.MQTT.URL
		case in.Modbus != nil:
			device, _ = strings.CutPrefix(in.Modbus.URL, "rtu://")
			if device == in.Modbus.URL {
				device = ""
			}
		}
		if why := unusable(device, in); why != "" {
			out = append(out, fmt.Sprintf("input %s: %s", in.Name, why))
		}
		if plain != "" {
			out = append(out, fmt.Sprintf("input %s: no TLS to %s: readings travel unencrypted, and anybody on the "+
				"network can change them", in.Name, plain))
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
		return fmt.Sprintf("this user may not open %s; the packaged service needs the drop-in devices.conf and the "+
			"device's group (docs/operations.md)", device)
	}
	return ""
}

// powerWarnings warns of channels that encrypt the power of the board, which the metrics
// and the status tell in clear.
func powerWarnings(cfg *config.Agent) []string {
	if cfg.Energy == config.EnergyOff {
		return nil
	}
	var out []string
	for _, s := range cfg.Streams {
		for _, ch := range s.Channels {
			if src := ch.Source; src != nil &&
				(src.Type == config.SourcePower || src.Type == config.SourceHwmon &&
					strings.HasPrefix(src.Input, "power")) {
				out = append(out, fmt.Sprintf("stream %s: channel %s encrypts a power reading, but the metrics and "+
					"the status may publish the board's energy in clear; write \"energy: off\" if it is secret", s.Name,
					ch.Name))
			}
		}
	}
	return out
}
