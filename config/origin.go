package config

import "github.com/hencedge/hencedge/config/internal/yamlx"

// origin remembers the file that a configuration came from.
type origin struct{ doc *yamlx.Document }

// Problem is an error about the field at path ("streams[0].params"), pointing
// at its line when the configuration came from a file. It is for checks that
// need more than this package knows, such as the parameters' number of slots.
func (o origin) Problem(path, cause, remedy string) *Error {
	return o.doc.Problem(path, cause, remedy)
}

// ErrInvalid is wrapped by every error about the contents of a configuration.
var ErrInvalid = yamlx.ErrInvalid

// An Error is one mistake in a configuration.
type Error = yamlx.Error

// Errors are all the mistakes of a configuration, in the order of the file.
type Errors = yamlx.Errors
