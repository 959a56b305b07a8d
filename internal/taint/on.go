//go:build taint && linux && amd64

package taint

import "unsafe"

// Client requests of valgrind.h and memcheck.h.
const (
	runningOnValgrind = 0x1001
	countErrors       = 0x1201
	makeMemUndefined  = 'M'<<24 | 'C'<<16 | 1
	makeMemDefined    = 'M'<<24 | 'C'<<16 | 2
)

// request asks valgrind; without it the result is 0. Its arguments are what valgrind
// reads, so they stand one after the other.
//
//go:noescape
func request(code, a, b, c, d, e uintptr) uintptr

// Running reports whether the program runs under valgrind.
func Running() bool { return request(runningOnValgrind, 0, 0, 0, 0, 0) != 0 }

// Errors returns how many uses of undefined memory memcheck has seen so far.
func Errors() int { return int(request(countErrors, 0, 0, 0, 0, 0)) }

// Secret marks x as undefined: what is computed from it must not decide a branch or an
// address.
func Secret[T any](x []T) { mark(makeMemUndefined, x) }

// Public takes the mark off values that are derived from secrets and published on
// purpose, such as the seed of the uniform half of a key.
func Public[T any](x []T) { mark(makeMemDefined, x) }

func mark[T any](code uintptr, x []T) {
	var one T
	request(code, uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(len(x))*unsafe.Sizeof(one), 0, 0, 0)
}

// Outcome returns ok unchanged. It names a place where a property of secrets that everybody learns
// anyway, such as that a message was refused, becomes public on purpose.
func Outcome(ok bool) bool {
	x := []bool{ok}
	Public(x)
	return x[0]
}
