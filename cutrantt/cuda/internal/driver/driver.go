// Package driver binds the part of the CUDA driver API that cutrantt/cuda uses.
// The library is opened at run time; nothing here needs cgo or a CUDA toolkit.
package driver

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrNotBuilt: this build or platform has no way to the CUDA driver.
var ErrNotBuilt = errors.New("built without GPU support")

// ErrMemory: the device or pinned host memory is exhausted.
var ErrMemory = errors.New("out of GPU memory")

// Pointer is an address in device memory.
type Pointer uint64

// Handles of the driver.
type (
	Device   int32
	Context  uintptr
	Module   uintptr
	Function uintptr
	Stream   uintptr
	Event    uintptr
)

// Attribute is a CUdevice_attribute.
type Attribute int32

// The attributes that matter here.
const (
	Multiprocessors   Attribute = 16
	Integrated        Attribute = 18
	ComputeMajor      Attribute = 75
	ComputeMinor      Attribute = 76
	SharedOptInMemory Attribute = 97
)

const (
	codeOutOfMemory  = 2
	funcMaxShared    = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	eventTiming      = 0
	streamNonBlocked = 1
)

type symbol int

const (
	symInit symbol = iota
	symDriverGetVersion
	symDeviceGetCount
	symDeviceGet
	symDeviceGetName
	symDeviceGetAttribute
	symDeviceTotalMem
	symPrimaryCtxRetain
	symCtxSetCurrent
	symModuleLoadData
	symModuleGetFunction
	symFuncSetAttribute
	symMemAlloc
	symMemFree
	symMemAllocHost
	symMemFreeHost
	symMemcpyHtoDAsync
	symMemcpyDtoHAsync
	symMemsetD32Async
	symStreamCreate
	symStreamDestroy
	symStreamSynchronize
	symEventCreate
	symEventDestroy
	symEventRecord
	symEventSynchronize
	symEventElapsedTime
	symLaunchKernel
	symGetErrorName
	symGetErrorString
	symbols
)

var names = [symbols]string{
	"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
	"cuDeviceTotalMem_v2", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuModuleLoadData", "cuModuleGetFunction",
	"cuFuncSetAttribute", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocHost_v2", "cuMemFreeHost",
	"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD32Async", "cuStreamCreate", "cuStreamDestroy_v2",
	"cuStreamSynchronize", "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord", "cuEventSynchronize",
	"cuEventElapsedTime", "cuLaunchKernel", "cuGetErrorName", "cuGetErrorString",
}

// Driver is the opened library with every symbol bound.
type Driver struct {
	entry    [symbols]uintptr
	launchEx uintptr // cuLaunchKernelEx, since CUDA 11.8; 0 before
}

// Open opens the driver's library and binds its symbols; the error says which
// of the steps "open" and "symbol" failed.
func Open() (*Driver, error) {
	lookup, err := openLibrary()
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	d := &Driver{}
	for i, name := range names {
		p, err := lookup(name)
		if err == nil && p == 0 {
			err = errors.New("not found")
		}
		if err != nil {
			return nil, fmt.Errorf("symbol: the CUDA driver has no %s, update it: %w", name, err)
		}
		d.entry[i] = p
	}
	if p, err := lookup("cuLaunchKernelEx"); err == nil {
		d.launchEx = p
	}
	return d, nil
}

// Error is a failed call of the driver.
type Error struct {
	Call string // the function, for example cuMemAlloc_v2
	Code int32  // its CUresult
	Name string // for example CUDA_ERROR_INVALID_VALUE
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%s)", e.Call, e.Text, e.Name) }

// Is makes errors.Is(err, ErrMemory) hold for exhausted memory.
func (e *Error) Is(target error) bool { return target == ErrMemory && e.Code == codeOutOfMemory }

// check turns the result of a call into an error.
func (d *Driver) check(s symbol, result uintptr) error {
	code := int32(result)
	if code == 0 {
		return nil
	}
	e := &Error{Call: names[s], Code: code, Name: fmt.Sprintf("error %d", code), Text: "unknown error"}
	for sym, to := range map[symbol]*string{symGetErrorName: &e.Name, symGetErrorString: &e.Text} {
		var p *byte
		if call(d.entry[sym], uintptr(code), uintptr(unsafe.Pointer(&p))) == 0 && p != nil {
			*to = text(p)
		}
	}
	return e
}

// text copies a C string.
func text(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
