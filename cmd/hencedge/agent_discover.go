//go:build !evaluatoronly

package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
)

func (a *app) agentDiscover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "list this machine's sensors and devices, as YAML to paste",
		Long: `discover reads once every sensor that describes itself: thermal zones, hwmon, IIO,
power rails, GPUs, processor, memory, network and disks. It prints each as an entry
for the channels of a stream. Ranges are guesses: narrow them to what the sensor can
give.

It also lists devices that need a description (CAN interfaces, serial ports, I2C
and SPI), as entries for the inputs of a configuration. It does not open or probe
these.`,
		Example: "  hencedge agent discover\n  hencedge agent discover --json",
		Args:    cli.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.sensors() },
	}
	a.JSONFlag(cmd, "one JSON object a line")
	return cmd
}

// sensors prints the sensors and devices that are found, as YAML to paste.
func (a *app) sensors() error {
	found, inputs := sensor.Discover(), sensor.DiscoverInputs()
	if len(found)+len(inputs) == 0 {
		return errors.New("no sensor was found under /sys and /proc")
	}
	if a.JSON {
		return a.sensorsJSON(found, inputs)
	}
	out := a.Std.Out
	if len(found) > 0 {
		fmt.Fprintln(out, "channels:")
	}
	for _, f := range found {
		fmt.Fprintf(out, "  - {name: %s, unit: %q, range: [%s, %s], source: %s}\n", f.Name, f.Unit,
			config.FormatNumber(f.Range[0]), config.FormatNumber(f.Range[1]), f.Source.YAML())
	}
	if len(inputs) > 0 {
		fmt.Fprintln(out, "\n# Devices whose data must be described, for the top level:\ninputs:")
	}
	for _, in := range inputs {
		if _, err := fmt.Fprintf(out, "  # %s\n  - %s\n", in.Note, in.YAML); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) sensorsJSON(found []sensor.Found, inputs []sensor.FoundInput) error {
	for _, f := range found {
		var value *float64
		if !math.IsNaN(f.Value) {
			value = &f.Value
		}
		if err := cli.JSONLine(a.Std.Out, struct {
			Name   string     `json:"name"`
			Unit   string     `json:"unit"`
			Range  [2]float64 `json:"range"`
			Value  *float64   `json:"value"` // null for rates, which need two readings
			Source string     `json:"source"`
		}{f.Name, f.Unit, f.Range, value, f.Source.YAML()}); err != nil {
			return err
		}
	}
	for _, in := range inputs {
		if err := cli.JSONLine(a.Std.Out, struct {
			Input string `json:"input"`
			Note  string `json:"note"`
		}{in.YAML, in.Note}); err != nil {
			return err
		}
	}
	return nil
}
