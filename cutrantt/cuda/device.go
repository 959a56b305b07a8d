package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/cutrantt"
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
		d.Name, d.Capability/10, d.Capability%10, d.Multiprocessors, d.Memory>>20, d.Driver/1000,
		d.Driver%1000/10, kind)
}

// Devices lists the GPUs of this machine, usable or not. The error names the
// step that failed (open, symbol, init or capability) and wraps
// cutrantt.ErrNotSupported.
func Devices() ([]Device, error) {
	devices, err := enumerate()
	if err != nil {
		return nil, fmt.Errorf("cuda: %w: %w", cutrantt.ErrNotSupported, err)
	}
	return devices, nil
}

func enumerate() ([]Device, error) {
	drv, err := start()
	if err != nil {
		return nil, err
	}
	n, err := drv.Count()
	if err != nil {
		return nil, fmt.Errorf("capability: %w", err)
	}
	list := make([]Device, n)
	for i := range list {
		if list[i], err = describe(drv, i); err != nil {
			return nil, fmt.Errorf("capability: device %d: %w", i, err)
		}
	}
	return list, nil
}

// Select gives the ordinals that a list names: "auto" or nothing for the first
// usable GPU, "all" for every usable one, or ordinals and identifiers as
// nvidia-smi prints them (or their beginnings), separated by commas.
func Select(list string) ([]int, error) {
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	found, err := pick(devices, list)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w: capability: %w", cutrantt.ErrNotSupported, err)
	}
	return found, nil
}

func pick(devices []Device, list string) (found []int, err error) {
	if list == "" || list == "auto" || list == "all" {
		reasons := []error{fmt.Errorf("no device 0, this machine has %d", len(devices))}[min(len(devices), 1):]
		for _, d := range devices {
			if err := d.usable(); err != nil {
				reasons = append(reasons, err)
			} else if found = append(found, d.Ordinal); list != "all" {
				break
			}
		}
		if len(found) == 0 {
			return nil, errors.Join(reasons...)
		}
		return found, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(devices, func(d Device) bool {
			return name == strconv.Itoa(d.Ordinal) || len(name) >= len("GPU-")+4 &&
				strings.HasPrefix(strings.ToLower(d.UUID), strings.ToLower(name))
		})
		if at < 0 {
			return nil, fmt.Errorf(
				"no GPU %q, this machine has %d: give a number from 0, or an identifier as nvidia-smi -L prints it",
				name, len(devices),
			)
		}
		if d := devices[at]; !slices.Contains(found, d.Ordinal) {
			found = append(found, d.Ordinal)
		}
	}
	return found, nil
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
	for i, a := range []driver.Attribute{
		driver.ComputeMajor, driver.ComputeMinor, driver.Multiprocessors, driver.L2Cache, driver.Integrated,
	} {
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
	return fmt.Errorf(
		"%s has compute capability %d.%d, needed is 7.2 (Jetson Xavier) or at least 8.0", d.Name, d.Capability/10,
		d.Capability%10,
	)
}
