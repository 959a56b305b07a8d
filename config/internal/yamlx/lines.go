package yamlx

import "strings"

// Lines is a text that is read line by line, without a parser.
type Lines struct{ doc *Document }

// NewLines returns the lines of data, of a file that errors name.
func NewLines(file string, data []byte) Lines { return Lines{newDocument(file, data)} }

// All returns the lines, without their ends.
func (l Lines) All() []string { return l.doc.lines }

// Error returns a mistake at part of a line, counted from 1; an empty part is the line.
func (l Lines) Error(line int, part, path, cause, remedy string) *Error {
	column := 1
	if line >= 1 && line <= len(l.doc.lines) {
		column = max(len([]rune(l.doc.lines[line-1][:max(strings.Index(l.doc.lines[line-1], part), 0)])), 0) + 1
	}
	return l.doc.ErrorAt(Position{line, column}, path, cause, remedy)
}
