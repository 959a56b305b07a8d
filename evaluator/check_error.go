package evaluator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
)

// CheckError lists every program that cannot be served. It wraps ErrConfig, the
// cause of each (a *program.Error where the expression is at fault), and a
// *config.Errors with their places in the file.
type CheckError struct {
	list *config.Errors
	errs []error
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
	c.list.Add(cfg.Problem(path, cause, remedy))
	c.errs = append(c.errs, err)
}

func (c *CheckError) err() error {
	if len(c.errs) == 0 {
		return nil
	}
	return c
}

func newCheckError() *CheckError { return &CheckError{list: new(config.Errors)} }

// Error gives each fault with its place in the file, if it came from one, and
// with the sub-expression marked.
func (c *CheckError) Error() string {
	parts := make([]string, len(c.errs))
	for i, err := range c.errs {
		where := ErrConfig.Error()
		if p := c.list.List[i]; p.Line > 0 {
			where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
		}
		parts[i] = where + ": " + err.Error()
	}
	return strings.Join(parts, "\n")
}

// Unwrap gives ErrConfig, the list of places, and the single faults.
func (c *CheckError) Unwrap() []error { return append([]error{ErrConfig, c.list}, c.errs...) }
