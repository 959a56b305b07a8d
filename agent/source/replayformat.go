package source

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// maxReplayLine bounds one line of a replay file, in bytes.
const maxReplayLine = 1 << 20

// csvRecords reads CSV (RFC 4180) with a header line. Every line must have as
// many cells as the header.
type csvRecords struct {
	file    string
	limit   *lineLimit
	line    int // of the last record
	before  int // lines that are not read
	r       *csv.Reader
	mark    int64 // bytes of a byte order mark
	time    int
	columns []int
}

func newCSV(in io.Reader, cfg config.Replay, names []string) (*csvRecords, error) {
	limit := &lineLimit{r: in, file: cfg.File, most: maxRecord}
	b := bufio.NewReader(limit)
	skipped := 0
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		skipped, _ = b.Discard(3)
	} else if len(mark) > 1 && (mark[0] == 0xff && mark[1] == 0xfe || mark[0] == 0xfe && mark[1] == 0xff) {
		return nil, replayError(cfg.File, 1, "the file is UTF-16; write it as UTF-8")
	}
	r := csv.NewReader(b)
	r.ReuseRecord = true
	switch cfg.Delimiter {
	case "":
	case "tab":
		r.Comma = '\t'
	default:
		r.Comma = []rune(cfg.Delimiter)[0]
	}
	c := &csvRecords{file: cfg.File, limit: limit, r: r, mark: int64(skipped)}
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, replayError(cfg.File, 1, "the file is empty; CSV starts with a line of column names")
	}
	if err != nil {
		return nil, c.wrap(err)
	}
	header = slices.Clone(header)
	for i := range header {
		header[i] = trimCell(header[i])
	}
	find := func(name string) (int, error) {
		name = trimCell(name)
		at := slices.Index(header, name)
		if at < 0 {
			return 0, replayError(cfg.File, 1, "no column %q; there are %s", name, list(header))
		}
		if slices.Contains(header[at+1:], name) {
			return 0, replayError(cfg.File, 1, "the column %q appears twice", name)
		}
		return at, nil
	}
	if c.time, err = find(cfg.Time); err != nil {
		return nil, err
	}
	for _, n := range names {
		at, err := find(n)
		if err != nil {
			return nil, err
		}
		c.columns = append(c.columns, at)
	}
	return c, nil
}

// columnName returns a name for messages; one that begins like a number is a reading, in
// a file without a header.
func columnName(n string) string {
	if strings.ContainsAny(n[:min(len(n), 1)], "+-.0123456789") {
		return input.Shape(n)
	}
	return input.Clip(n)
}

// list quotes at most a dozen names.
func list(names []string) string {
	var out []string
	for i, n := range names {
		if i == 12 {
			out = append(out, "...")
			break
		}
		out = append(out, fmt.Sprintf("%q", columnName(n)))
	}
	return strings.Join(out, ", ")
}

func (c *csvRecords) offset() int64 { return c.mark + c.r.InputOffset() }

func (c *csvRecords) shift(n int) {
	c.before = n
	c.limit.line += n
}

func (c *csvRecords) cell(line, column int) string {
	at := c.time
	if column != timeColumn {
		at = c.columns[column]
	}
	return columnLetters(at) + strconv.Itoa(line)
}

func (c *csvRecords) next() (record, error) {
	c.limit.record = 0
	cells, err := c.r.Read()
	if err != nil {
		return record{}, c.wrap(err)
	}
	line, _ := c.r.FieldPos(0)
	line += c.before
	c.line = line
	rec := record{line: line, time: cells[c.time], values: make([]string, len(c.columns))}
	for i, at := range c.columns {
		rec.values[i] = cells[at]
	}
	return rec, nil
}

// wrap adds file and line to the reader's errors.
func (c *csvRecords) wrap(err error) error {
	var pe *csv.ParseError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, ErrReplay):
		return err
	case errors.Is(err, errLongRecord):
		return replayError(c.file, c.line+1,
			"the record that starts here is longer than %d bytes; is there an extra quote?", maxRecord)
	case errors.As(err, &pe) && errors.Is(pe.Err, csv.ErrFieldCount):
		return badCell{replayError(c.file, pe.Line+c.before,
			"the number of cells differs from the header; check the delimiter")}
	case errors.As(err, &pe):
		return replayError(c.file, pe.Line+c.before, "%v", pe.Err)
	}
	return fmt.Errorf("read %s: %w", c.file, err)
}

// lineLimit fails when a line is longer than maxReplayLine, or a record of CSV
// several times that (a quote that is not closed runs to the end of the file), so
// that a broken file cannot take all memory.
type lineLimit struct {
	r      io.Reader
	file   string
	line   int
	run    int
	most   int // bytes of a record; 0: a record is a line
	record int // bytes read since the last record
}

var errLongRecord = errors.New("the record is too long")

// maxRecord bounds a record of CSV, with what is read ahead, in bytes.
const maxRecord = 4 * maxReplayLine

func (l *lineLimit) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for b := p[:n]; ; {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.run += len(b)
			break
		}
		l.line, l.run, b = l.line+1, 0, b[i+1:]
	}
	if l.record += n; l.most > 0 && l.record > l.most {
		return 0, errLongRecord
	}
	if l.run > maxReplayLine {
		return 0, replayError(l.file, l.line+1, "the line is longer than %d bytes", maxReplayLine)
	}
	return n, err
}

// ndjsonRecords reads one JSON object per line. Fields are found by dotted
// path; blank lines are skipped.
type ndjsonRecords struct {
	file    string
	r       *bufio.Reader
	line    int
	read    int64 // bytes of the lines so far
	time    []string
	columns [][]string
}

func newNDJSON(in io.Reader, cfg config.Replay, names []string) *ndjsonRecords {
	n := &ndjsonRecords{file: cfg.File, r: bufio.NewReader(&lineLimit{r: in, file: cfg.File}),
		time: strings.Split(cfg.Time, ".")}
	for _, name := range names {
		n.columns = append(n.columns, strings.Split(name, "."))
	}
	return n
}

func (n *ndjsonRecords) offset() int64 { return n.read }

func (n *ndjsonRecords) shift(lines int) { n.line += lines }

func (n *ndjsonRecords) cell(int, int) string { return "" }

func (n *ndjsonRecords) next() (record, error) {
	for {
		line, err := n.r.ReadBytes('\n')
		n.line++
		n.read += int64(len(line))
		if err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, ErrReplay) {
				return record{}, err
			}
			return record{}, fmt.Errorf("read %s: %w", n.file, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return n.parse(line)
		}
		if err != nil {
			return record{}, io.EOF
		}
	}
}

func (n *ndjsonRecords) parse(line []byte) (record, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return record{}, badCell{replayError(n.file, n.line, "not a JSON object")}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return record{}, badCell{replayError(n.file, n.line, "more than one JSON value in the line")}
	}
	rec := record{line: n.line, values: make([]string, len(n.columns))}
	var err error
	if rec.time, err = n.field(object, n.time, true); err != nil {
		return record{}, err
	}
	for i, path := range n.columns {
		if rec.values[i], err = n.field(object, path, false); err != nil {
			return record{}, err
		}
	}
	return rec, nil
}

// field returns the text of a scalar, "" when it is absent or null. Only timestamps may be
// JSON strings; a number in quotes is taken as a mistake in the data, and keeps them.
func (n *ndjsonRecords) field(object map[string]any, path []string, text bool) (string, error) {
	var v any = object
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return "", nil
		}
		v = m[key]
	}
	switch x := v.(type) {
	case nil:
		return "", nil
	case json.Number:
		return x.String(), nil
	case string:
		if text {
			return x, nil
		}
		return strconv.Quote(x), nil
	}
	if text {
		return "", badCell{replayError(n.file, n.line, "%s is neither a string nor a number", strings.Join(path, "."))}
	}
	return fmt.Sprintf("%T", v), nil
}

// columnLetters returns the name that spreadsheets give a column, from 0: A, ..., Z, AA, ...
func columnLetters(n int) string {
	var b strings.Builder
	if n >= 26 {
		b.WriteString(columnLetters(n/26 - 1))
	}
	b.WriteByte(byte('A' + n%26))
	return b.String()
}
