package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits on the text of a configuration, checked before it is parsed.
const (
	maxFile    = 1 << 20  // bytes
	maxLines   = 20000    // the parser is quadratic in the number of keys
	maxLine    = 64 << 10 // bytes
	maxNesting = 32
)

// LoadAgent reads and checks an agent's configuration. A failure to read the
// file is returned as it is; mistakes in it are an *Errors.
func LoadAgent(path string) (*Agent, error) { return load(path, ParseAgent) }

// LoadEvaluator reads and checks an evaluator's configuration.
func LoadEvaluator(path string) (*Evaluator, error) { return load(path, ParseEvaluator) }

// LoadKeyHolder reads and checks a key holder's configuration.
func LoadKeyHolder(path string) (*KeyHolder, error) { return load(path, ParseKeyHolder) }

// ParseAgent checks the text of an agent's configuration. name is used in
// errors, and its directory for relative paths. Mistakes are an *Errors.
func ParseAgent(name string, data []byte) (*Agent, error) {
	a := new(Agent)
	if err := parse(name, data, a, &a.origin); err != nil {
		return nil, err
	}
	return a, nil
}

// ParseEvaluator is ParseAgent for an evaluator.
func ParseEvaluator(name string, data []byte) (*Evaluator, error) {
	e := new(Evaluator)
	if err := parse(name, data, e, &e.origin); err != nil {
		return nil, err
	}
	return e, nil
}

// ParseKeyHolder is ParseAgent for a key holder.
func ParseKeyHolder(name string, data []byte) (*KeyHolder, error) {
	k := new(KeyHolder)
	if err := parse(name, data, k, &k.origin); err != nil {
		return nil, err
	}
	return k, nil
}

// role is what the three configurations have in common.
type role interface {
	SetDefaults()
	check(c *checker)
}

// Check reports what Parse would report of this configuration, all at once. It
// is for one that was built in code; call SetDefaults first.
func (a *Agent) Check() error { return check(a, a.doc, nil, nil) }

// Check is Agent.Check for an evaluator.
func (e *Evaluator) Check() error { return check(e, e.doc, nil, nil) }

// Check is Agent.Check for a key holder.
func (k *KeyHolder) Check() error { return check(k, k.doc, nil, nil) }

func check(r role, doc *document, found []*Error, bad []string) error {
	c := &checker{doc: doc, bad: bad, errs: found}
	r.check(c)
	doc.mask(c.errs)
	return (&Errors{List: c.errs}).Err()
}

func load[T any](path string, parse func(string, []byte) (*T, error)) (*T, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("cannot read the configuration as user %d: %w; it holds no secrets: chmod 644 %s", os.Geteuid(), err, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the configuration: %w; give the path of the file", err)
		}
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return parse(path, data)
}

// ControlSocket is control.socket of a file that need not be a good configuration: a
// service that runs with an earlier one is asked there. It is empty where the file does
// not name one or is no YAML.
func ControlSocket(path string) string {
	socket := ""
	_, _ = load(path, func(name string, data []byte) (*Control, error) {
		var found struct {
			Control Control `yaml:"control"`
		}
		_, d, body, err := tree(name, data)
		if err != nil {
			return nil, err
		}
		d.structure(body, reflect.ValueOf(&found).Elem(), "")
		socket = found.Control.Socket
		return nil, nil
	})
	return socket
}

// parse decodes data into r, remembers the text in o and checks everything.
func parse(name string, data []byte, r role, o *origin) error {
	doc, d, body, err := tree(name, data)
	o.doc = doc
	if err != nil {
		return err
	}
	d.structure(body, reflect.ValueOf(r).Elem(), "")
	if e := ofAnother(doc, r); e != nil {
		return &Errors{List: []*Error{e}}
	}
	r.SetDefaults()
	return check(r, doc, d.errs, d.bad)
}

// marks are keys that only one role's file has at its top.
var marks = []struct {
	keys        [2]string
	role, check string
}{
	{[2]string{"device", "device"}, "an agent", "hencedge agent check"},
	{[2]string{"devices", "key_sets"}, "an evaluator", "hencedge evaluator check"},
	{[2]string{"evaluators", "key_set"}, "a key holder", "hencedge keyholder check"},
}

// ofAnother reports that a file is that of another role, instead of all that then does
// not fit: it has both marks of the other, and none of its own.
func ofAnother(doc *document, r role) *Error {
	own := 0
	switch r.(type) {
	case *Evaluator:
		own = 1
	case *KeyHolder:
		own = 2
	}
	has := func(key string) bool { _, ok := doc.keys[key]; return ok }
	if has(marks[own].keys[0]) || has(marks[own].keys[1]) {
		return nil
	}
	for _, m := range marks {
		if key := m.keys[0]; has(key) && has(m.keys[1]) {
			return doc.errorAt(doc.keys[key], key, fmt.Sprintf("this is the file of %s, and that of %s belongs here", m.role, marks[own].role),
				"give the right file, or look at this one with `"+m.check+"`")
		}
	}
	return nil
}

// tree parses data as far as the top of its only document.
func tree(name string, data []byte) (*document, *decoder, ast.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	doc := newDocument(name, data)
	one := func(e *Error) error { return &Errors{List: []*Error{e}} }
	if e := screen(doc, data); e != nil {
		return doc, nil, nil, one(e)
	}
	file, err := parseTree(data)
	if err != nil {
		return doc, nil, nil, one(syntaxError(doc, err))
	}
	d := &decoder{doc: doc}
	body := d.body(file)
	if body == nil {
		return doc, nil, nil, one(doc.errorAt(position{1, 1}, "", "the file is empty", "start from an example in docs/configuration.md"))
	}
	doc.at[""] = nodePosition(body)
	return doc, d, body, nil
}

// body is the content of the only document of the file, or nil.
func (d *decoder) body(file *ast.File) ast.Node {
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
			d.report(part.Body, "", "a second document in one file", "keep one; remove \"---\" and what follows, or put it into a file of its own")
			break
		}
		body = part.Body
	}
	return body
}

// screen refuses text that is not worth parsing, or that nests so deeply that
// parsing it costs too much.
func screen(doc *document, data []byte) *Error {
	if len(data) > maxFile {
		return doc.errorAt(position{1, 1}, "", fmt.Sprintf("the file is larger than %d bytes", maxFile), "split it, or check that it is the right file")
	}
	if len(doc.lines) > maxLines {
		return doc.errorAt(position{maxLines + 1, 1}, "", fmt.Sprintf("the file has more than %d lines", maxLines), "split it, or check that it is the right file")
	}
	flow := 0
	for i, line := range doc.lines {
		at := func(col int, cause, remedy string) *Error {
			return doc.errorAt(position{i + 1, col + 1}, "", cause, remedy)
		}
		if len(line) > maxLine {
			return at(0, fmt.Sprintf("the line is longer than %d bytes", maxLine), "break it into several lines, or check that it is the right file")
		}
		if !utf8.ValidString(line) {
			return at(0, "the line is not valid UTF-8", "save the file as UTF-8")
		}
		if j := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); j >= 0 {
			return at(utf8.RuneCountInString(line[:j]), fmt.Sprintf("the control character %U", []rune(line[j:])[0]), "remove it; an editor that shows invisible characters helps")
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if strings.HasPrefix(line[indent:], "\t") && strings.TrimSpace(line) != "" && flow <= 0 {
			return at(indent, "a tab in the indentation", "indent with spaces")
		}
		if strings.Count(line, "- ")+strings.Count(line, "? ")+strings.Count(line, "!") > 8*maxNesting ||
			nested(line) > maxNesting || indent > 8*maxNesting {
			return at(indent, fmt.Sprintf("nested more than %d levels deep", maxNesting), "write fewer levels")
		}
		flow += strings.Count(line, "[") + strings.Count(line, "{") - strings.Count(line, "]") - strings.Count(line, "}")
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
