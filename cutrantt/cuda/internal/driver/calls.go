package driver

import (
	"errors"
	"unsafe"
)

// Init initialises the driver. It has to be called before anything else.
func (d *Driver) Init() error { return d.check(symInit, call(d.entry[symInit], 0)) }

// Version is the CUDA version of the driver: 1000*major + 10*minor.
func (d *Driver) Version() (int, error) {
	var v int32
	err := d.check(symDriverGetVersion, call(d.entry[symDriverGetVersion], uintptr(unsafe.Pointer(&v))))
	return int(v), err
}

// Count is the number of devices.
func (d *Driver) Count() (int, error) {
	var n int32
	err := d.check(symDeviceGetCount, call(d.entry[symDeviceGetCount], uintptr(unsafe.Pointer(&n))))
	return int(n), err
}

// Device is the device with an ordinal.
func (d *Driver) Device(ordinal int) (Device, error) {
	var dev Device
	err := d.check(symDeviceGet, call(d.entry[symDeviceGet], uintptr(unsafe.Pointer(&dev)), uintptr(ordinal)))
	return dev, err
}

// Name is the device's marketing name.
func (d *Driver) Name(dev Device) (string, error) {
	var buf [256]byte
	err := d.check(
		symDeviceGetName,
		call(d.entry[symDeviceGetName], uintptr(unsafe.Pointer(&buf)), uintptr(len(buf)-1), uintptr(dev)),
	)
	return text(&buf[0]), err
}

// Attribute is a property of the device.
func (d *Driver) Attribute(dev Device, a Attribute) (int, error) {
	var v int32
	err := d.check(
		symDeviceGetAttribute,
		call(d.entry[symDeviceGetAttribute], uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(dev)),
	)
	return int(v), err
}

// TotalMemory is the device's memory in bytes.
func (d *Driver) TotalMemory(dev Device) (uint64, error) {
	var v uint64
	err := d.check(symDeviceTotalMem, call(d.entry[symDeviceTotalMem], uintptr(unsafe.Pointer(&v)), uintptr(dev)))
	return v, err
}

// UUID is the device's unique identifier.
func (d *Driver) UUID(dev Device) (id [16]byte, err error) {
	err = d.check(symDeviceGetUUID, call(d.entry[symDeviceGetUUID], uintptr(unsafe.Pointer(&id)), uintptr(dev)))
	return id, err
}

// PrimaryContext retains the device's primary context.
func (d *Driver) PrimaryContext(dev Device) (Context, error) {
	var c Context
	err := d.check(symPrimaryCtxRetain, call(d.entry[symPrimaryCtxRetain], uintptr(unsafe.Pointer(&c)), uintptr(dev)))
	return c, err
}

// ResetContext destroys the device's primary context, with everything in it,
// for this process; PrimaryContext makes it anew.
func (d *Driver) ResetContext(dev Device) error {
	return d.check(symPrimaryCtxReset, call(d.entry[symPrimaryCtxReset], uintptr(dev)))
}

// SetCurrent makes c the context of the calling thread, which has to stay
// locked to its goroutine while the context is used.
func (d *Driver) SetCurrent(c Context) error {
	return d.check(symCtxSetCurrent, call(d.entry[symCtxSetCurrent], uintptr(c)))
}

// LoadModule loads an image for the current context's device.
func (d *Driver) LoadModule(image []byte) (Module, error) {
	var m Module
	err := d.check(
		symModuleLoadData,
		call(d.entry[symModuleLoadData], uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&image[0]))),
	)
	return m, err
}

// Function finds a kernel.
func (d *Driver) Function(m Module, name string) (Function, error) {
	var f Function
	z := append([]byte(name), 0)
	err := d.check(
		symModuleGetFunction,
		call(d.entry[symModuleGetFunction], uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&z[0]))),
	)
	return f, err
}

// AllowShared lets f use up to n bytes of dynamic shared memory.
func (d *Driver) AllowShared(f Function, n int) error {
	return d.check(symFuncSetAttribute, call(d.entry[symFuncSetAttribute], uintptr(f), funcMaxShared, uintptr(n)))
}

// FunctionAttribute is a property of a kernel on the current device.
func (d *Driver) FunctionAttribute(f Function, a FunctionAttribute) (int, error) {
	var v int32
	err := d.check(
		symFuncGetAttribute, call(d.entry[symFuncGetAttribute], uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(f)),
	)
	return int(v), err
}

// Occupancy is how many blocks of f, of so many threads and bytes of dynamic
// shared memory, a multiprocessor holds at once.
func (d *Driver) Occupancy(f Function, threads, shared int) (int, error) {
	var v int32
	err := d.check(
		symOccupancy,
		call(d.entry[symOccupancy], uintptr(unsafe.Pointer(&v)), uintptr(f), uintptr(threads), uintptr(shared)),
	)
	return int(v), err
}

// Alloc allocates n bytes of device memory.
func (d *Driver) Alloc(n int) (Pointer, error) {
	var p Pointer
	err := d.check(symMemAlloc, call(d.entry[symMemAlloc], uintptr(unsafe.Pointer(&p)), uintptr(n)))
	return p, err
}

// Free gives device memory back; it waits for the device.
func (d *Driver) Free(p Pointer) error {
	return d.check(symMemFree, call(d.entry[symMemFree], uintptr(p)))
}

// AllocHost allocates n bytes of pinned host memory.
func (d *Driver) AllocHost(n int) ([]byte, error) {
	var p *byte
	if err := d.check(
		symMemAllocHost, call(d.entry[symMemAllocHost], uintptr(unsafe.Pointer(&p)), uintptr(n)),
	); err != nil {
		return nil, err
	}
	return unsafe.Slice(p, n), nil
}

// AllocMapped allocates n bytes of host memory that the device reads and writes
// in place. With unified addressing both use one address; where they would not,
// it fails.
func (d *Driver) AllocMapped(n int) (Pointer, error) {
	var host uintptr
	if err := d.check(
		symMemHostAlloc, call(d.entry[symMemHostAlloc], uintptr(unsafe.Pointer(&host)), uintptr(n), hostMapped),
	); err != nil {
		return 0, err
	}
	var p Pointer
	err := d.check(
		symMemHostGetDevicePointer, call(d.entry[symMemHostGetDevicePointer], uintptr(unsafe.Pointer(&p)), host, 0),
	)
	if err == nil && p != Pointer(host) {
		err = errNotUnified
	}
	if err != nil {
		_ = d.FreeMapped(Pointer(host))
		return 0, err
	}
	return p, nil
}

var errNotUnified = errors.New("mapped memory has another address on the GPU than on the processor")

// FreeMapped gives memory of AllocMapped back.
func (d *Driver) FreeMapped(p Pointer) error {
	return d.check(symMemFreeHost, call(d.entry[symMemFreeHost], uintptr(p)))
}

// FreeHost gives pinned memory back.
func (d *Driver) FreeHost(b []byte) error {
	return d.check(symMemFreeHost, call(d.entry[symMemFreeHost], uintptr(unsafe.Pointer(&b[0]))))
}

// CopyIn copies to the device, in the order of the stream. For memory that is
// not pinned, src may be used again when the call returns.
func (d *Driver) CopyIn(dst Pointer, src []byte, s Stream) error {
	if err := d.flush(s); err != nil {
		return err
	}
	return d.check(symMemcpyHtoDAsync, call(
		d.entry[symMemcpyHtoDAsync], uintptr(dst), uintptr(unsafe.Pointer(&src[0])), uintptr(len(src)), uintptr(s),
	))
}

// CopyOut copies to pinned host memory, in the order of the stream.
func (d *Driver) CopyOut(dst []byte, src Pointer, s Stream) error {
	if err := d.flush(s); err != nil {
		return err
	}
	return d.check(symMemcpyDtoHAsync, call(
		d.entry[symMemcpyDtoHAsync], uintptr(unsafe.Pointer(&dst[0])), uintptr(src), uintptr(len(dst)), uintptr(s),
	))
}

// Fill sets n 32-bit words to v, in the order of the stream.
func (d *Driver) Fill(dst Pointer, v uint32, n int, s Stream) error {
	if err := d.flush(s); err != nil {
		return err
	}
	return d.check(
		symMemsetD32Async, call(d.entry[symMemsetD32Async], uintptr(dst), uintptr(v), uintptr(n), uintptr(s)),
	)
}

// NewStream makes a stream that does not wait for the default one.
func (d *Driver) NewStream() (Stream, error) {
	var s Stream
	err := d.check(symStreamCreate, call(d.entry[symStreamCreate], uintptr(unsafe.Pointer(&s)), streamNonBlocked))
	return s, err
}

// DestroyStream destroys s when its work is done.
func (d *Driver) DestroyStream(s Stream) error {
	if err := d.flush(s); err != nil {
		return err
	}
	return d.check(symStreamDestroy, call(d.entry[symStreamDestroy], uintptr(s)))
}

// Wait waits for the work of a stream and reports what failed in it.
func (d *Driver) Wait(s Stream) error {
	if err := d.flush(s); err != nil {
		return err
	}
	return d.check(symStreamSynchronize, call(d.entry[symStreamSynchronize], uintptr(s)))
}

// NewEvent makes an event that can be timed.
func (d *Driver) NewEvent() (Event, error) {
	var e Event
	err := d.check(symEventCreate, call(d.entry[symEventCreate], uintptr(unsafe.Pointer(&e)), eventTiming))
	return e, err
}

// DestroyEvent destroys e.
func (d *Driver) DestroyEvent(e Event) error {
	return d.check(symEventDestroy, call(d.entry[symEventDestroy], uintptr(e)))
}

// Record records e after the work now in the stream.
func (d *Driver) Record(e Event, s Stream) error {
	if err := d.flush(s); err != nil {
		return err
	}
	return d.record(e, s)
}

// record is Record before what waits.
func (d *Driver) record(e Event, s Stream) error {
	return d.check(symEventRecord, call(d.entry[symEventRecord], uintptr(e), uintptr(s)))
}

// WaitEvent waits until e has happened.
func (d *Driver) WaitEvent(e Event) error {
	return d.check(symEventSynchronize, call(d.entry[symEventSynchronize], uintptr(e)))
}

// Elapsed is the time between two events in milliseconds.
func (d *Driver) Elapsed(from, to Event) (float32, error) {
	var ms float32
	err := d.check(
		symEventElapsedTime,
		call(d.entry[symEventElapsedTime], uintptr(unsafe.Pointer(&ms)), uintptr(from), uintptr(to)),
	)
	return ms, err
}
