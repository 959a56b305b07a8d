package config

import (
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// position is where a key or a value starts, 1-based.
type position struct{ line, column int }

// document is the text of a configuration and where each field stands in it.
type document struct {
	file  string
	dir   string // relative paths are relative to it
	lines []string
	at    map[string]position // by path: the value, or the key where there is none
	keys  map[string]position // by path: the key

	hidden []string // secrets that were written into the file by mistake
}

func newDocument(file string, data []byte) *document {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	return &document{
		file:  file,
		dir:   filepath.Dir(file),
		lines: strings.Split(text, "\n"),
		at:    map[string]position{},
		keys:  map[string]position{},
	}
}

func (d *document) errorAt(p position, path, cause, remedy string) *Error {
	e := &Error{Path: path, Cause: cause, Remedy: remedy}
	if d == nil {
		return e
	}
	e.File = d.file
	e.Line = min(max(p.line, 1), len(d.lines))
	e.Column = max(p.column, 1)
	e.source = d.lines[e.Line-1]
	return e
}

// problem is an error about the value at path, or about the nearest enclosing
// field that is in the file.
func (d *document) problem(path, cause, remedy string) *Error {
	if d == nil {
		return (*document)(nil).errorAt(position{}, path, cause, remedy)
	}
	for p := path; ; p = parentPath(p) {
		if at, ok := d.at[p]; ok {
			return d.errorAt(at, path, cause, remedy)
		}
		if p == "" {
			return d.errorAt(position{1, 1}, path, cause, remedy)
		}
	}
}

// gives reports whether the file has a value at path; true without a file.
func (d *document) gives(path string) bool {
	if d == nil {
		return true
	}
	_, ok := d.keys[path]
	return ok
}

// hide keeps a secret out of the lines that errors show.
func (d *document) hide(secret string) {
	if d != nil && secret != "" {
		d.hidden = append(d.hidden, secret)
	}
}

// mask replaces every hidden secret by asterisks.
func (d *document) mask(errs []*Error) {
	if d == nil {
		return
	}
	for _, secret := range d.hidden {
		stars := strings.Repeat("*", utf8.RuneCountInString(secret))
		for _, e := range errs {
			e.source = strings.ReplaceAll(e.source, secret, stars)
		}
	}
}

// parentPath cuts the last ".key" or "[i]".
func parentPath(p string) string {
	if i := strings.LastIndexAny(p, ".["); i > 0 {
		return p[:i]
	}
	return ""
}

func joinPath(parent, key string) string {
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// origin remembers the file that a configuration came from.
type origin struct{ doc *document }

// Problem is an error about the field at path ("streams[0].params"), pointing
// at its line when the configuration came from a file. It is for checks that
// need more than this package knows, such as the parameters' number of slots.
func (o origin) Problem(path, cause, remedy string) *Error {
	return o.doc.problem(path, cause, remedy)
}
