// Package cli holds what every hencedge command shares: exit codes, the
// streams, JSON lines and text tables.
package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Exit codes of the program.
const (
	ExitOK     = 0 // done
	ExitFailed = 1 // the work failed
	ExitUsage  = 2 // wrong usage or an invalid configuration
)

// UsageError marks an error of the caller: a wrong flag, argument or
// configuration. The program exits with ExitUsage. Hint, where set, is a line
// that says what to do.
type UsageError struct {
	Err  error
	Hint string
}

// Error returns the text of the wrapped error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the wrapped error.
func (e *UsageError) Unwrap() error { return e.Err }

// Usage wraps err as a UsageError; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{Err: err}
}

// Usagef returns Usage(fmt.Errorf(...)).
func Usagef(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// ErrQuiet is wrapped by failures whose text is already on standard error or
// is the command's own output; the program exits without printing it again.
var ErrQuiet = errors.New("failed")

// ExitCode maps an error of a command to the exit code.
func ExitCode(err error) int {
	var usage *UsageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	}
	return ExitFailed
}

// Streams are the standard streams of one invocation.
type Streams struct {
	In  io.Reader
	Out io.Writer // machine output and asked-for reports only
	Err io.Writer // everything else
}

// JSONLine writes v as one line of JSON.
func JSONLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
