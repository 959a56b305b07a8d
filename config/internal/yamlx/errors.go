// Package yamlx reads YAML into structs, strictly.
//
// Unknown and repeated keys, wrong types, missing keys and bad units are errors, and so are
// anchors, aliases, merge keys, tags and a second document. Every mistake of a file is
// reported at once (Errors), with file, line and column, what is wrong and what to do.
package yamlx

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by every error about the contents of a configuration.
var ErrInvalid = errors.New("invalid configuration")

// Errors are all the mistakes of a configuration, in the order of the file.
type Errors struct{ List []*Error }

// maxShown is the most mistakes that Errors.Error writes out; List has all.
const maxShown = 100

// Error returns the mistakes and how many there are.
func (e *Errors) Error() string {
	parts := make([]string, 0, len(e.List)+1)
	for _, x := range e.List[:min(len(e.List), maxShown)] {
		parts = append(parts, x.Error())
	}
	if len(e.List) > maxShown {
		parts = append(parts, fmt.Sprintf("... and %d more", len(e.List)-maxShown))
	}
	if n := len(e.List); n == 1 {
		parts = append(parts, "1 error")
	} else {
		parts = append(parts, fmt.Sprintf("%d errors", n))
	}
	return strings.Join(parts, "\n")
}

// Unwrap returns the single errors; errors.Is(e, ErrInvalid) is true.
func (e *Errors) Unwrap() []error {
	out := make([]error, len(e.List))
	for i, x := range e.List {
		out[i] = x
	}
	return out
}

// Add appends mistakes found later, such as those of an agent's own checks.
func (e *Errors) Add(more ...*Error) { e.List = append(e.List, more...) }

// Err sorts by position and returns e, or nil when there is no mistake.
func (e *Errors) Err() error {
	if e == nil || len(e.List) == 0 {
		return nil
	}
	slices.SortStableFunc(e.List, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// An Error is one mistake in a configuration.
type Error struct {
	File   string // as given to Load or Parse; empty for one built in code
	Line   int    // 1-based; 0 when there is no file
	Column int    // 1-based, in characters
	Path   string // the field, such as "streams[0].channels[1].range"
	Cause  string // what is wrong
	Remedy string // what to do

	source string // the offending line
}

// Error returns the position, field, cause, the offending line with a caret, and the
// remedy, on several lines.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Cause)
	if e.Line > 0 {
		gutter := fmt.Sprintf("%5d | ", e.Line)
		line, caret := excerpt(e.source, e.Column)
		fmt.Fprintf(&b, "\n%s%s\n%s| %s", gutter, line, strings.Repeat(" ", len(gutter)-2), caret)
	}
	if e.Remedy != "" {
		b.WriteString("\n      fix: " + e.Remedy)
	}
	return b.String()
}

// Unwrap makes errors.Is(e, ErrInvalid) true.
func (e *Error) Unwrap() error { return ErrInvalid }

// excerptWidth is the most characters of a line that an error shows.
const excerptWidth = 100

// excerpt cuts a window out of a long line and points at column (1-based).
// Control characters are replaced, so that a file cannot drive a terminal.
func excerpt(source string, column int) (line, caret string) {
	r := []rune(source)
	at := min(max(column-1, 0), len(r))
	lo := 0
	if len(r) > excerptWidth && at > excerptWidth*3/4 {
		lo = min(at-excerptWidth/2, len(r)-excerptWidth)
	}
	hi := min(lo+excerptWidth, len(r))
	var pad strings.Builder
	out := make([]rune, 0, hi-lo)
	for i := lo; i < hi; i++ {
		c := r[i]
		if c != '\t' && (c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0)) {
			c = '\uFFFD'
		}
		out = append(out, c)
		if i < at {
			if c != '\t' {
				c = ' '
			}
			pad.WriteRune(c)
		}
	}
	return string(out), pad.String() + "^"
}
