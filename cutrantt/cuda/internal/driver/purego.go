//go:build linux && (amd64 || arm64) && !nogpu

package driver

import "github.com/ebitengine/purego"

// openLibrary opens libcuda.so.1, which comes with the GPU's driver.
func openLibrary() (func(name string) (uintptr, error), error) {
	handle, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	return func(name string) (uintptr, error) { return purego.Dlsym(handle, name) }, nil
}

// call calls a C function of up to 11 integer or pointer arguments. Memory that
// an argument points to stays where it is until the call returns.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
