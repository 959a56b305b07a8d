// Package rule holds the rules that a configuration must fulfil in a form from which both
// follow: the check, which tells mistakes with their place and their remedy, and the JSON
// Schema for editors.
//
// A Value is a rule for the value of one key. A Relation is a rule between the keys of one
// block. A Table holds those of all types: Table.Check applies it, Table.Schema writes it.
package rule

import (
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// A Checker collects the mistakes that the decoder cannot find.
type Checker struct {
	Doc  *yamlx.Document // nil for a configuration that was built in code
	Role string
	// ByValue says that a configuration may have changed since it was read, so that a key
	// counts as given when its value is not zero.
	ByValue bool

	Bad  []string // paths that failed already, so that nothing is reported twice
	Errs []*yamlx.Error
}

// byValue reports whether values tell which keys are given.
func (c *Checker) byValue() bool { return c.ByValue || c.Doc == nil }

// Sound reports whether nothing at, below or above any of the paths has failed already.
func (c *Checker) Sound(paths ...string) bool {
	for _, p := range paths {
		for _, b := range c.Bad {
			if p == b || within(p, b) || within(b, p) {
				return false
			}
		}
	}
	return true
}

// within reports whether path inner lies below path outer.
func within(inner, outer string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (outer == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// decoded reports whether neither path nor what it lies in failed already.
func (c *Checker) decoded(path string) bool {
	return !slices.ContainsFunc(c.Bad, func(b string) bool { return path == b || within(path, b) })
}

// Given reports whether the file has a value at path. It is true without a file.
func (c *Checker) Given(path string) bool { return c.Doc.Gives(path) }

// Fail reports a mistake in the value at path.
func (c *Checker) Fail(path, cause, remedy string) {
	if c.decoded(path) {
		c.Errs = append(c.Errs, c.Doc.Problem(path, cause, remedy))
	}
}

// FailKey reports a mistake in the key at path.
func (c *Checker) FailKey(path, cause, remedy string) {
	at, ok := c.Doc.Key(path)
	if !ok {
		c.Fail(path, cause, remedy)
	} else if c.decoded(path) {
		c.Errs = append(c.Errs, c.Doc.ErrorAt(at, path, cause, remedy))
	}
}

// Failed reports whether a mistake in the value at path itself was reported.
func (c *Checker) Failed(path string) bool {
	return !c.decoded(path) || slices.ContainsFunc(c.Errs, func(e *yamlx.Error) bool { return e.Path == path })
}

// misspelt reports whether the block at path has an unknown key.
func (c *Checker) misspelt(path string) bool {
	return slices.ContainsFunc(c.Errs, func(e *yamlx.Error) bool {
		return e.Path == path && strings.HasPrefix(e.Cause, "unknown key")
	})
}
