package yamlx

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits on the text of a configuration, checked before it is parsed.
const (
	MaxFile    = 1 << 20  // bytes
	maxLines   = 20000    // the parser is quadratic in the number of keys
	maxLine    = 64 << 10 // bytes
	maxNesting = 32
)

// Parse parses data as far as the top of its only document. The decoder that it returns
// fills structs from it. Mistakes are an *Errors.
func Parse(name string, data []byte, o Options) (*Decoder, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	doc := newDocument(name, data)
	if e := screen(doc, data); e != nil {
		return nil, &Errors{List: []*Error{e}}
	}
	file, err := parseTree(data)
	if err != nil {
		return nil, &Errors{List: []*Error{syntaxError(doc, err)}}
	}
	d := &Decoder{Doc: doc, options: o}
	if d.body = d.only(file); d.body == nil {
		e := doc.ErrorAt(Position{1, 1}, "", "the file is empty", "start from an example in docs/configuration.md")
		return nil, &Errors{List: []*Error{e}}
	}
	doc.at[""] = nodePosition(d.body)
	return d, nil
}

// Decode fills the struct that v points to.
func (d *Decoder) Decode(v any) { d.structure(d.body, reflect.ValueOf(v).Elem(), "") }

// only returns the content of the only document of the file, or nil.
func (d *Decoder) only(file *ast.File) ast.Node {
	var body ast.Node
	for _, part := range file.Docs {
		if part == nil || part.Body == nil {
			continue
		}
		switch part.Body.(type) {
		case *ast.NullNode, *ast.CommentGroupNode, *ast.DirectiveNode:
			continue
		}
		if body != nil {
			d.report(part.Body, "", "a second document in one file",
				"keep one; remove \"---\" and what follows, or put it into a file of its own")
			break
		}
		body = part.Body
	}
	return body
}

// screen refuses text that cannot be a configuration, or that nests too deeply to be parsed
// at a reasonable cost.
func screen(doc *Document, data []byte) *Error {
	if len(data) > MaxFile {
		return doc.ErrorAt(Position{1, 1}, "", fmt.Sprintf("the file is larger than %d bytes", MaxFile),
			"split it, or check that it is the right file")
	}
	if len(doc.lines) > maxLines {
		return doc.ErrorAt(Position{maxLines + 1, 1}, "", fmt.Sprintf("the file has more than %d lines", maxLines),
			"split it, or check that it is the right file")
	}
	flow := 0
	for i, line := range doc.lines {
		at := func(col int, cause, remedy string) *Error {
			return doc.ErrorAt(Position{i + 1, col + 1}, "", cause, remedy)
		}
		if len(line) > maxLine {
			return at(0, fmt.Sprintf("the line is longer than %d bytes", maxLine),
				"break it into several lines, or check that it is the right file")
		}
		if !utf8.ValidString(line) {
			return at(0, "the line is not valid UTF-8", "save the file as UTF-8")
		}
		if j := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); j >= 0 {
			return at(utf8.RuneCountInString(line[:j]), fmt.Sprintf("the control character %U", []rune(line[j:])[0]),
				"remove it; an editor that shows invisible characters helps")
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if strings.HasPrefix(line[indent:], "\t") && strings.TrimSpace(line) != "" && flow <= 0 {
			return at(indent, "a tab in the indentation", "indent with spaces")
		}
		if strings.Count(line, "- ")+strings.Count(line, "? ")+strings.Count(line, "!") > 8*maxNesting ||
			nested(line) > maxNesting || indent > 8*maxNesting {
			return at(indent, fmt.Sprintf("nested more than %d levels deep", maxNesting), "write fewer levels")
		}
		flow += strings.Count(line, "[") + strings.Count(line, "{") - strings.Count(line, "]") - strings.Count(line,
			"}")
		flow = max(flow, 0)
		if flow > maxNesting {
			return at(indent, fmt.Sprintf("more than %d brackets are open", maxNesting), "close the brackets")
		}
	}
	return nil
}

// nested counts the deepest open brackets within one line.
func nested(line string) int {
	depth, deepest := 0, 0
	for _, c := range []byte(line) {
		switch c {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	return deepest
}

var errParser = errors.New("the file cannot be parsed")

// parseTree parses YAML. Repeated keys are let through so that all can be
// reported. A panic of the parser becomes an error.
func parseTree(data []byte) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, errParser
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}
