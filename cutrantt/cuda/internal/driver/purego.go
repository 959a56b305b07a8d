//go:build linux && (amd64 || arm64) && !nogpu

package driver

import (
	"os"
	"runtime"

	"github.com/ebitengine/purego"
)

// libraries are where the GPU's driver lies: by the dynamic linker's search,
// then where JetPack 5 and 6 and WSL put it, should that search not know of it.
var libraries = []string{
	"libcuda.so.1",
	"/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
	"/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
}

// openLibrary opens the driver's library, or the one that LibraryVariable names. If a
// library exists but cannot be loaded, as in containers that lack its dependencies, the
// error is that of the first such file. Otherwise it is that of the search.
func openLibrary() (func(name string) (uintptr, error), error) {
	names := libraries
	if name := os.Getenv(LibraryVariable); name != "" {
		names = []string{name}
	}
	// The dynamic linker keeps the message of a failure for the thread that asked,
	// and purego fetches it with a second call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var first error
	there := false // first is of a file that is there
	for _, name := range names {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err == nil {
			return func(name string) (uintptr, error) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				return purego.Dlsym(handle, name)
			}, nil
		}
		_, missing := os.Stat(name)
		if first == nil || !there && missing == nil {
			first, there = err, missing == nil
		}
	}
	return nil, first
}

// call calls a C function of up to 11 integer or pointer arguments. Memory that
// an argument points to stays where it is until the call returns.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
