package evaluator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
)

// CheckError lists every program that cannot be served, and of CheckFiles what else
// is missing. It wraps ErrConfig, the cause of each (a *program.Error where the
// expression is at fault), and a *config.Errors with their places in the file.
type CheckError struct {
	faults []fault
	absent int // of the faults, what may be there later
}

type fault struct {
	place *config.Error
	err   error
}

// add notes the fault of program i; i < 0 means the list of programs.
func (c *CheckError) add(cfg *config.Evaluator, i int, err error) {
	path := "programs"
	if i >= 0 {
		path = fmt.Sprintf("programs[%d]", i)
	}
	cause, remedy := err.Error(), ""
	var pe *program.Error
	if errors.As(err, &pe) {
		path, cause, remedy = path+".expr", pe.Message, pe.Hint
	}
	c.faults = append(c.faults, fault{cfg.Problem(path, cause, remedy), err})
}

func (c *CheckError) err() error {
	if len(c.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(c.faults, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.place.File, b.place.File), cmp.Compare(a.place.Line, b.place.Line),
			cmp.Compare(a.place.Column, b.place.Column))
	})
	return c
}

// Error returns each fault with its place in the file, if it came from one, and
// with the sub-expression marked.
func (c *CheckError) Error() string {
	parts := make([]string, min(len(c.faults), maxFaults))
	for i, f := range c.faults[:len(parts)] {
		switch p := f.place; {
		case f.err == p: // of something that the configuration names
			parts[i] = p.Error()
		case p.Line > 0:
			parts[i] = fmt.Sprintf("%s:%d:%d: %v", p.File, p.Line, p.Column, f.err)
		default:
			parts[i] = fmt.Sprintf("%v: %v", ErrConfig, f.err)
		}
	}
	if more := len(c.faults) - maxFaults; more > 0 {
		parts = append(parts, fmt.Sprintf("... and %d more", more))
	}
	return strings.Join(parts, "\n")
}

// maxFaults is the most faults that CheckError.Error writes out.
const maxFaults = 100

// Unwrap returns ErrConfig, the list of places, and the single faults, and ErrAbsent if
// each of them may pass by itself.
func (c *CheckError) Unwrap() []error {
	places := new(config.Errors)
	out := []error{ErrConfig, places}
	for _, f := range c.faults {
		places.Add(f.place)
		out = append(out, f.err)
	}
	if c.absent == len(c.faults) {
		out = append(out, ErrAbsent)
	}
	return out
}
