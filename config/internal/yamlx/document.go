package yamlx

import (
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// A Document is the text of a configuration and where each field stands in it.
type Document struct {
	file  string
	dir   string // relative paths are relative to it
	lines []string
	at    map[string]Position // by path: the value, or the key where there is none
	keys  map[string]Position // by path: the key

	hidden []string // secrets that were written into the file by mistake
}

// A Position is where a key or a value starts, 1-based.
type Position struct{ Line, Column int }

func newDocument(file string, data []byte) *Document {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	return &Document{
		file:  file,
		dir:   filepath.Dir(file),
		lines: strings.Split(text, "\n"),
		at:    map[string]Position{},
		keys:  map[string]Position{},
	}
}

func (d *Document) ErrorAt(p Position, path, cause, remedy string) *Error {
	e := &Error{Path: path, Cause: cause, Remedy: remedy}
	if d == nil {
		return e
	}
	e.File = d.file
	e.Line = min(max(p.Line, 1), len(d.lines))
	e.Column = max(p.Column, 1)
	e.source = d.lines[e.Line-1]
	return e
}

// Problem returns an error about the value at path, or about the nearest enclosing
// field that is in the file.
func (d *Document) Problem(path, cause, remedy string) *Error {
	if d == nil {
		return (*Document)(nil).ErrorAt(Position{}, path, cause, remedy)
	}
	for p := path; ; p = Parent(p) {
		if at, ok := d.at[p]; ok {
			return d.ErrorAt(at, path, cause, remedy)
		}
		if p == "" {
			return d.ErrorAt(Position{1, 1}, path, cause, remedy)
		}
	}
}

// Key returns where the key at path stands; ok is false where the file has none.
func (d *Document) Key(path string) (at Position, ok bool) {
	if d == nil {
		return Position{}, false
	}
	at, ok = d.keys[path]
	return at, ok
}

// Gives reports whether the file has a value at path; true without a file.
func (d *Document) Gives(path string) bool {
	if d == nil {
		return true
	}
	_, ok := d.keys[path]
	return ok
}

// Hide keeps a secret out of the lines that errors show.
func (d *Document) Hide(secret string) {
	if d != nil && secret != "" {
		d.hidden = append(d.hidden, secret)
	}
}

// Mask replaces every hidden secret by asterisks.
func (d *Document) Mask(errs []*Error) {
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

// Parent cuts the last ".key" or "[i]".
func Parent(p string) string {
	if i := strings.LastIndexAny(p, ".["); i > 0 {
		return p[:i]
	}
	return ""
}

func Join(parent, key string) string {
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// lastKey returns the last key of a path, without indices.
func lastKey(path string) string {
	path = path[strings.LastIndexByte(path, '.')+1:]
	key, _, _ := strings.Cut(path, "[")
	return key
}
