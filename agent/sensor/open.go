package sensor

import (
	"fmt"

	"github.com/hencedge/hencedge/agent/input/iio"
	"github.com/hencedge/hencedge/agent/input/power"
	"github.com/hencedge/hencedge/config"
)

// Open makes the sensor that src describes. It fails with ErrNoSensor, naming
// what there is instead, when this machine has no such thing. Replay columns
// are not sensors.
func (m Machine) Open(src config.Source) (Sensor, error) {
	m.Clock = m.clock()
	switch src.Type {
	case config.SourceHwmon:
		return m.openHwmon(src)
	case config.SourceThermal:
		return m.openThermal(src)
	case config.SourceCPU:
		return m.openCPU(src)
	case config.SourceMemory:
		return m.openMemory(src)
	case config.SourceLoad:
		return m.openLoad(src)
	case config.SourceDisk:
		return m.openDisk(src)
	case config.SourceNet:
		return m.openNet(src)
	case config.SourceIIO:
		return iio.Open(m.Root, src)
	case config.SourcePower:
		return power.OpenRail(m.Root, src)
	case config.SourceGPU:
		return power.OpenGPU(m.Root, src)
	}
	if src.From != "" {
		return m.Inputs.sensor(src)
	}
	return nil, fmt.Errorf("%w: a source of type %q cannot be opened", ErrNoSensor, src.Type)
}
