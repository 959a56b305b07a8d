package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Column is one column of a Table.
type Column struct {
	Title string
	Width int  // least width in characters; wider cells push the row out
	Right bool // align right (numbers)
}

// Table writes rows of aligned text as they come, so that it can follow a
// running process: widths are fixed at the start.
type Table struct {
	w    io.Writer
	cols []Column
}

// NewTable makes a table; nothing is written before Header or Row.
func NewTable(w io.Writer, cols ...Column) *Table {
	for i := range cols {
		cols[i].Width = max(cols[i].Width, utf8.RuneCountInString(cols[i].Title))
	}
	return &Table{w: w, cols: cols}
}

// Header writes the titles and a rule below them.
func (t *Table) Header() error {
	titles := make([]string, len(t.cols))
	rules := make([]string, len(t.cols))
	for i, c := range t.cols {
		titles[i] = c.Title
		rules[i] = strings.Repeat("-", c.Width)
	}
	if err := t.Row(titles...); err != nil {
		return err
	}
	return t.Row(rules...)
}

// Row writes one row. Missing cells stay empty, and surplus cells are dropped.
func (t *Table) Row(cells ...string) error {
	var b strings.Builder
	for i, c := range t.cols {
		cell := ""
		if i < len(cells) {
			cell = clean(cells[i])
		}
		pad := strings.Repeat(" ", max(0, c.Width-utf8.RuneCountInString(cell)))
		if i > 0 {
			b.WriteString("  ")
		}
		if c.Right {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	_, err := fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
	return err
}

// clean replaces control characters, with which a name from the network could drive the
// terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}

// Plain returns text without control characters, except line breaks and tabs. A part that
// came from the network, such as a name in a certificate, could drive the terminal with them.
func Plain(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		fields := strings.Split(l, "\t")
		for k, f := range fields {
			fields[k] = clean(f)
		}
		lines[i] = strings.Join(fields, "\t")
	}
	return strings.Join(lines, "\n")
}

// Bytes returns n with a unit: "812 B", "28.0 KiB", "1.3 MiB".
func Bytes(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n)/step, []string{"KiB", "MiB", "GiB", "TiB"}
	i := 0
	for v >= step && i < len(units)-1 {
		v, i = v/step, i+1
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
