package config

import (
	"maps"
	"slices"
	"time"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Duration is a length of time; in YAML a number with a unit: "250ms", "1s",
// "1m30s", "2h".
type Duration = time.Duration

// Size is a number of bytes; in YAML a number with a unit: "112KiB", "1MB",
// "4096B".
type Size = yamlx.Size

// Sizes.
const (
	KiB = yamlx.KiB
	MiB = yamlx.MiB
	GiB = yamlx.GiB
)

// sortedKeys returns the keys of m in a fixed order.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// ErrInvalid is wrapped by every error about the contents of a configuration.
var ErrInvalid = yamlx.ErrInvalid

// An Error is one mistake in a configuration.
type Error = yamlx.Error

// Errors are all the mistakes of a configuration, in the order of the file.
type Errors = yamlx.Errors

// origin remembers the file that a configuration came from.
type origin struct{ doc *yamlx.Document }

// Problem returns an error about the field at path ("streams[0].params"), pointing
// at its line when the configuration came from a file. It is for checks that
// need more than this package knows, such as the parameters' number of slots.
func (o origin) Problem(path, cause, remedy string) *Error {
	return o.doc.Problem(path, cause, remedy)
}
