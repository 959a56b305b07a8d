package source

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ErrReplay is wrapped by every error about the contents of a replay file. The
// message starts with file and line.
var ErrReplay = errors.New("invalid replay file")

// timeColumn stands for the timestamp among the columns of a record.
const timeColumn = -1

// recordReader reads the records of one format, io.EOF at the end. offset is where in
// the file the last one ended.
type recordReader interface {
	next() (record, error)
	offset() int64
	// cell is where a column stands in a table, such as "D4"; "" in other formats.
	cell(line, column int) string
	// shift says that n lines come before those that are read, the header aside.
	shift(n int)
}

// record is one row of a replay file.
type record struct {
	line   int
	time   string   // text of the timestamp
	values []string // text per column asked for; "" is missing
}

// replayError returns an ErrReplay at a line.
func replayError(file string, line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w: %s", file, line, ErrReplay, fmt.Sprintf(format, args...))
}

// badCell is an error about the contents of one row, after which the file can be read
// on.
type badCell struct{ error }

func (b badCell) Unwrap() error { return b.error }

// trimCell removes the white space around a cell, also the kinds that spreadsheets write.
func trimCell(s string) string { return strings.TrimFunc(s, unicode.IsSpace) }
