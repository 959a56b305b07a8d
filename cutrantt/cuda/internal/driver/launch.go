package driver

import "unsafe"

// Launcher holds what a launch passes to the driver, so that launching
// allocates nothing. It is used by one goroutine at a time.
type Launcher struct {
	drv       *Driver
	stream    Stream
	config    launchConfig
	attribute launchAttribute
	params    [1]unsafe.Pointer
	waiting   waiting
	node      nodeParams
}

// launchConfig mirrors CUlaunchConfig.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      Stream
	attributes  *launchAttribute
	count       uint32
}

// launchAttribute mirrors CUlaunchAttribute; its value is a union of 64 bytes.
type launchAttribute struct {
	id    uint32
	_     uint32
	value [16]uint32
}

const attributeProgrammatic = 6 // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

// NewLauncher launches on a stream. With early set, a kernel may be placed on
// the device while the one before it runs; every kernel then has to wait for
// that one itself (griddepcontrol.wait). Drivers that cannot do so ignore it.
func (d *Driver) NewLauncher(s Stream, early bool) *Launcher {
	l := &Launcher{drv: d, stream: s}
	l.config.stream = s
	if early && d.entry[symLaunchKernelEx] != 0 {
		l.attribute.id, l.attribute.value[0] = attributeProgrammatic, 1
		l.config.attributes, l.config.count = &l.attribute, 1
	}
	return l
}

// Launch starts f on a grid of x*y blocks of threads, with one argument: the
// structure of size bytes that args points to, which is copied.
func (l *Launcher) Launch(f Function, x, y, threads, shared int, args unsafe.Pointer, size int) error {
	if l.waiting.on {
		if len(l.waiting.nodes) == mostNodes {
			if err := l.Flush(); err != nil {
				return err
			}
		}
		l.waiting.add(
			node{f: f, x: uint32(x), y: uint32(y), threads: uint32(threads), shared: uint32(shared), n: uint32(size)},
			args,
		)
		return nil
	}
	return l.launch(f, x, y, threads, shared, args)
}

func (l *Launcher) launch(f Function, x, y, threads, shared int, args unsafe.Pointer) error {
	l.params[0] = args
	defer func() { l.params[0] = nil }() // args may lie in what refers to l, which then would never be finalised
	if l.config.count == 0 {
		return l.drv.check(symLaunchKernel, call(l.drv.entry[symLaunchKernel], uintptr(f), uintptr(x), uintptr(y), 1,
			uintptr(threads), 1, 1,
			uintptr(shared), uintptr(l.stream), uintptr(unsafe.Pointer(&l.params)), 0))
	}
	l.config.grid, l.config.block = [3]uint32{uint32(x), uint32(y), 1}, [3]uint32{uint32(threads), 1, 1}
	l.config.shared = uint32(shared)
	return l.drv.check(symLaunchKernel, call(
		l.drv.entry[symLaunchKernelEx], uintptr(unsafe.Pointer(&l.config)), uintptr(f),
		uintptr(unsafe.Pointer(&l.params)), 0,
	))
}
