package cuda

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// Device describes a GPU of this machine.
type Device struct {
	Ordinal         int
	Name            string // marketing name
	UUID            string // "GPU-" and 32 hexadecimal digits in groups, as nvidia-smi prints it
	Capability      int    // compute capability times 10
	Multiprocessors int
	Memory          uint64 // bytes
	L2              int    // bytes of the cache that all multiprocessors share
	Integrated      bool   // shares the processor's memory
	Driver          int    // CUDA version of the driver, 1000*major + 10*minor
}

// String is the device as reports name it.
func (d Device) String() string {
	kind := ""
	if d.Integrated {
		kind = ", integrated"
	}
	return fmt.Sprintf("%s, compute capability %d.%d, %d multiprocessors, %d MiB, CUDA %d.%d%s",
		d.Name, d.Capability/10, d.Capability%10, d.Multiprocessors, d.Memory>>20, d.Driver/1000, d.Driver%1000/10, kind)
}

// Devices lists the GPUs of this machine, usable or not. The error names the
// step that failed: open, symbol, init or capability.
func Devices() ([]Device, error) {
	drv, err := start()
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	n, err := drv.Count()
	if err != nil {
		return nil, fmt.Errorf("cuda: capability: %w", err)
	}
	list := make([]Device, n)
	for i := range list {
		if list[i], err = describe(drv, i); err != nil {
			return nil, fmt.Errorf("cuda: capability: device %d: %w", i, err)
		}
	}
	return list, nil
}

// describe asks the driver about a device.
func describe(drv *driver.Driver, ordinal int) (Device, error) {
	d := Device{Ordinal: ordinal}
	dev, err := drv.Device(ordinal)
	if err != nil {
		return d, err
	}
	if d.Name, err = drv.Name(dev); err != nil {
		return d, err
	}
	id, err := drv.UUID(dev)
	if err != nil {
		return d, err
	}
	d.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	var value [5]int
	for i, a := range []driver.Attribute{driver.ComputeMajor, driver.ComputeMinor, driver.Multiprocessors, driver.L2Cache, driver.Integrated} {
		if value[i], err = drv.Attribute(dev, a); err != nil {
			return d, err
		}
	}
	d.Capability, d.Multiprocessors, d.L2, d.Integrated = 10*value[0]+value[1], value[2], value[3], value[4] != 0
	if d.Memory, err = drv.TotalMemory(dev); err != nil {
		return d, err
	}
	d.Driver, err = drv.Version()
	return d, err
}

// usable fails for GPUs that the kernels are not compiled for. Machine code for
// Xavier (7.2) does not run on other GPUs of its generation.
func (d Device) usable() error {
	if d.Capability == 72 || d.Capability >= 80 {
		return nil
	}
	return fmt.Errorf("%s has compute capability %d.%d, needed is 7.2 (Jetson Xavier) or at least 8.0", d.Name, d.Capability/10, d.Capability%10)
}
