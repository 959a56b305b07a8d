// Package driver binds the part of the CUDA driver API that cutrantt/cuda uses.
// The library is opened at run time; nothing here needs cgo or a CUDA toolkit.
package driver

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
)

// ErrNotBuilt: this build or platform has no way to the CUDA driver.
var ErrNotBuilt = errors.New("built without GPU support")

// LibraryVariable is the environment variable that names the driver's library
// where it lies in an unusual place.
const LibraryVariable = "CUTRANTT_CUDA_LIBRARY"

// Pointer is an address in device memory.
type Pointer uint64

// Words views n words of mapped host memory at p.
func (p Pointer) Words(n int) []uint32 {
	at := uintptr(p)
	return unsafe.Slice(*(**uint32)(unsafe.Pointer(&at)), n) // memory that Go does not manage
}

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
	Multiprocessors     Attribute = 16
	Integrated          Attribute = 18
	MapHostMemory       Attribute = 19
	L2Cache             Attribute = 38 // bytes
	ThreadsPerProcessor Attribute = 39
	UnifiedAddressing   Attribute = 41
	ComputeMajor        Attribute = 75
	ComputeMinor        Attribute = 76
	SharedOptInMemory   Attribute = 97
)

// FunctionAttribute is a CUfunction_attribute.
type FunctionAttribute int32

// The attributes of a kernel that reports show.
const (
	FuncStaticShared FunctionAttribute = 1 // bytes of shared memory, without the dynamic ones
	FuncLocal        FunctionAttribute = 3 // bytes of local memory a thread: spills and stack
	FuncRegisters    FunctionAttribute = 4 // registers a thread
	FuncBinary       FunctionAttribute = 6 // architecture of the machine code, times 10
)

const (
	funcMaxShared    = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	eventTiming      = 0
	streamNonBlocked = 1
	hostMapped       = 1 | 2 // CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
)

// Results of the driver that mean more than that one call failed.
const codeOutOfMemory = 2

// lost are the results after which the context cannot be used any more, as
// cuda.h says of each: the process has to make a new one, or end.
var lost = map[int32]bool{
	3: true, 4: true, // not initialised, deinitialised
	46: true, 100: true, // device unavailable, no device
	201: true, 709: true, // invalid context, context is destroyed
	214: true, 220: true, 226: true, // uncorrectable ECC error, uncorrectable NVLink error, contained error
	304: true, 719: true, 999: true, // operating system, launch failed, unknown
	700: true, 702: true, // illegal address, launch timeout
	// assert, hardware stack, illegal instruction, misaligned, address space, program counter
	710: true, 714: true, 715: true, 716: true, 717: true, 718: true,
	721: true, 802: true, // exited, system not ready
	810: true, 911: true, // MPS client terminated, external device
}

type symbol int

const (
	symInit symbol = iota
	symDriverGetVersion
	symDeviceGetCount
	symDeviceGet
	symDeviceGetName
	symDeviceGetAttribute
	symDeviceTotalMem
	symDeviceGetUUID
	symPrimaryCtxRetain
	symPrimaryCtxReset
	symCtxSetCurrent
	symModuleLoadData
	symModuleGetFunction
	symFuncSetAttribute
	symFuncGetAttribute
	symOccupancy
	symMemAlloc
	symMemFree
	symMemAllocHost
	symMemHostAlloc
	symMemHostGetDevicePointer
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
	required // the symbols from here on came with later drivers
)

const (
	symLaunchKernelEx symbol = iota + required // CUDA 11.8
	symGraphCreate                             // all graphs: CUDA 12.3
	symGraphDestroy
	symGraphAddKernelNode
	symGraphAddDependencies
	symGraphInstantiate
	symGraphExecKernelNodeSetParams
	symGraphExecDestroy
	symGraphLaunch
	symbols
)

var names = [symbols]string{
	"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
	"cuDeviceTotalMem_v2", "cuDeviceGetUuid", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxReset_v2",
	"cuCtxSetCurrent", "cuModuleLoadData", "cuModuleGetFunction",
	"cuFuncSetAttribute", "cuFuncGetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuMemAlloc_v2",
	"cuMemFree_v2",
	"cuMemAllocHost_v2", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuMemFreeHost",
	"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD32Async", "cuStreamCreate", "cuStreamDestroy_v2",
	"cuStreamSynchronize", "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord", "cuEventSynchronize",
	"cuEventElapsedTime", "cuLaunchKernel", "cuGetErrorName", "cuGetErrorString",
	"cuLaunchKernelEx", "cuGraphCreate", "cuGraphDestroy", "cuGraphAddKernelNode_v2", "cuGraphAddDependencies_v2",
	"cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams_v2", "cuGraphExecDestroy", "cuGraphLaunch",
}

// Symbols are the entry points that a driver must have.
func Symbols() []string { return slices.Clone(names[:required]) }

// Driver is the opened library with every symbol bound.
type Driver struct {
	entry [symbols]uintptr // 0 for what is not required and not there

	mu   sync.Mutex
	held map[Stream]*Launcher // with launches that wait, see Launcher.Hold
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
		if symbol(i) >= required {
			if err == nil {
				d.entry[i] = p
			}
			continue
		}
		if err == nil && p == 0 {
			err = errors.New("not found")
		}
		if err != nil {
			return nil, fmt.Errorf("symbol: the CUDA driver has no %s, update it: %w", name, err)
		}
		d.entry[i] = p
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

// Is makes errors.Is(err, cutrantt.ErrMemory) hold for exhausted memory, and
// errors.Is(err, cutrantt.ErrDevice) after what no later call of the context
// survives.
func (e *Error) Is(target error) bool {
	return target == cutrantt.ErrMemory && e.Code == codeOutOfMemory || target == cutrantt.ErrDevice && lost[e.Code]
}

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
