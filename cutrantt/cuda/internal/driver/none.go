//go:build !linux || (!amd64 && !arm64) || nogpu

package driver

func openLibrary() (func(name string) (uintptr, error), error) { return nil, ErrNotBuilt }

// call is never reached: Open fails first. 3 is CUDA_ERROR_NOT_INITIALIZED.
//
//go:uintptrescapes
func call(uintptr, ...uintptr) uintptr { return 3 }
