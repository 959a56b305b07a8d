package yamlx

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

var (
	keyWithoutSpace = regexp.MustCompile(`^\s*(?:- )?([A-Za-z_][A-Za-z0-9_]*):([^\s/:].*)$`)
	keyWithoutColon = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*$`)
	equalsForColon  = regexp.MustCompile(`^\s*(?:- )?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(\S.*)$`)
)

// syntaxError turns a parser's error into ours. A parser names the place where it gave up, in
// terms of its grammar. syntaxError looks for the most common slips in the lines there.
func syntaxError(doc *Document, err error) *Error {
	var ye yaml.Error
	at, cause := Position{1, 1}, err.Error()
	if errors.As(err, &ye) {
		cause = ye.GetMessage()
		if t := ye.GetToken(); t != nil && t.Position != nil {
			at = Position{t.Position.Line, t.Position.Column}
		}
	}
	cause, _, _ = strings.Cut(cause, "\n")
	if e := doc.slip(at); e != nil {
		return e
	}
	if p, ok := doc.openQuote(`"`); ok && p.Line <= at.Line {
		return doc.ErrorAt(p, "", `the quote " is never closed`, "close it, or write the text without quotes")
	}
	remedy := "check indentation, quotes, brackets and the colon with its space after each key"
	line := doc.lines[min(max(at.Line, 1), len(doc.lines))-1]
	switch {
	case strings.Contains(cause, "sequence end token"):
		cause, remedy = "the bracket '[' is never closed",
			"close it with ']', or start each entry in a line of its own with \"- \""
	case strings.Contains(cause, "mapping end token"), strings.Contains(cause, "'}'"):
		cause, remedy = "the brace '{' is not closed, or a comma is missing within",
			"close it with '}', and put commas between the entries"
		if p, ok := doc.openBrace(at.Line); ok {
			at, cause, remedy = p, "the brace '{' is not closed in its line", "close it with '}'"
		}
	case strings.Contains(cause, "end character of single-quoted"):
		cause, remedy = "the quote ' is never closed",
			"close it, or write the text without quotes; within double quotes an apostrophe is an apostrophe"
		if p, ok := doc.openQuote("'"); ok {
			at = p
		}
	case strings.Contains(cause, "not allowed in this context"), strings.Contains(cause, "unexpected key name"),
		strings.Contains(cause, "invalid indent"), strings.Contains(cause, "non-map value"):
		if want, ok := doc.indentBefore(at.Line); ok && want != indent(line) {
			cause = fmt.Sprintf("indented by %s, the lines before it by %d", Plural(indent(line), "space"), want)
			remedy = fmt.Sprintf("indent it like its neighbours, by %s", Plural(want, "space"))
			return doc.ErrorAt(Position{at.Line, indent(line) + 1}, "", cause, remedy)
		}
		cause = "not valid YAML: " + cause
	default:
		cause = "not valid YAML: " + cause
	}
	return doc.ErrorAt(at, "", cause, remedy)
}

// slip finds a key without a colon or without the space after it, at or shortly
// before the place where the parser gave up.
func (d *Document) slip(at Position) *Error {
	for _, n := range []int{at.Line, at.Line - 1, at.Line + 1} {
		if n < 1 || n > len(d.lines) {
			continue
		}
		line, _, _ := strings.Cut(d.lines[n-1], " #")
		from := func(part string) Position { return Position{n, len([]rune(line[:strings.Index(line, part)])) + 1} }
		if m := keyWithoutSpace.FindStringSubmatch(line); m != nil && !strings.ContainsAny(line, `"'{[`) {
			return d.ErrorAt(from(m[1]+":"), "", fmt.Sprintf("no space after the colon of %q", m[1]),
				fmt.Sprintf("write %s: %s", m[1], strings.TrimSpace(m[2])))
		}
		if m := equalsForColon.FindStringSubmatch(line); m != nil {
			return d.ErrorAt(from(m[1]), "", fmt.Sprintf("%q is followed by '='", m[1]),
				fmt.Sprintf("write %s: %s", m[1], strings.TrimSpace(m[2])))
		}
		if m := keyWithoutColon.FindStringSubmatch(line); m != nil && n <= at.Line {
			return d.ErrorAt(from(m[1]), "", fmt.Sprintf("no colon after %q", m[1]),
				fmt.Sprintf("write %s: and its value", m[1]))
		}
	}
	return nil
}

// openQuote finds the first line with an odd number of quotes, where one is missing. Parsers
// notice it later, at the quotes of other lines.
func (d *Document) openQuote(mark string) (Position, bool) {
	for i, line := range d.lines {
		line, _, _ = strings.Cut(strings.ReplaceAll(line, `\"`, "  "), " #")
		if n := strings.Count(line, mark); n%2 == 1 {
			return Position{i + 1, len([]rune(line[:strings.LastIndex(line, mark)])) + 1}, true
		}
	}
	return Position{}, false
}

// openBrace finds the last line up to one that opens more braces than it closes.
func (d *Document) openBrace(line int) (Position, bool) {
	for i := min(line, len(d.lines)) - 1; i >= max(line-4, 0); i-- {
		text, _, _ := strings.Cut(d.lines[i], " #")
		if strings.Count(text, "{") > strings.Count(text, "}") {
			return Position{i + 1, len([]rune(text[:strings.LastIndexByte(text, '{')])) + 1}, true
		}
	}
	return Position{}, false
}

// indent counts the spaces at the start of a line.
func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// indentBefore returns the indentation of the line above one. For an entry of a list it is
// that of the first key.
func (d *Document) indentBefore(line int) (n int, ok bool) {
	for i := min(line, len(d.lines)) - 2; i >= 0; i-- {
		text := strings.TrimLeft(d.lines[i], " ")
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		n = indent(d.lines[i])
		for rest, entry := strings.CutPrefix(text, "- "); entry; rest, entry = strings.CutPrefix(rest, "- ") {
			n += 2
		}
		return n, true
	}
	return 0, false
}
