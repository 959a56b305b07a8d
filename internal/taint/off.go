//go:build !(taint && linux && amd64)

package taint

// Outcome returns ok unchanged. It names a place where a property of secrets that everybody learns
// anyway, such as that a message was refused, becomes public on purpose.
func Outcome(ok bool) bool { return ok }

// Public names values that are derived from secrets and published on purpose, such as
// the seed of the uniform half of a key.
func Public[T any](x []T) {}
