package program

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// Limits of a program. They bound the time and memory of a compilation.
const (
	MaxSource   = 256 << 10 // bytes of the expression: 32768 weights fit
	MaxNesting  = 64        // open brackets at any place
	MaxNodes    = 1 << 17   // nodes of the syntax tree
	MaxTreeDeep = 1 << 10   // depth of the syntax tree: operators in one chain
	MaxPower    = 64        // largest exponent
	MaxDegree   = 63        // largest degree of a polynomial
	MaxTerms    = 512       // terms of one sum
	MaxGraph    = 2048      // operations after lowering
	MaxSteps    = 4096      // operations on ciphertexts
	MaxLag      = 64        // how many windows back a program may look
	MaxInputs   = 64        // ciphertexts that a program takes
)

// source is the text of a program with what error messages need.
type source struct {
	program string
	text    string
	runes   []rune
	extents map[ast.Node]extent
}

func (s *source) fail(kind error, from, to int, hint, format string, args ...any) *Error {
	return &Error{Program: s.program, Expr: s.text, From: from, To: to, Kind: kind,
		Message: fmt.Sprintf(format, args...), Hint: hint}
}

// languageHint helps with what is no part of the language.
const languageHint = "a program has numbers, inputs, + - * / ^, comparisons, let, and the functions of docs/programs.md"

// parse checks the limits that the parser does not and gives the syntax tree.
func parse(name, text string) (*source, ast.Node, error) {
	if len(text) > MaxSource {
		s := &source{program: name}
		return nil, nil, s.fail(ErrSize, 0, 0, "split the program",
			"the expression has %d bytes, at most %d are allowed", len(text),
			MaxSource)
	}
	if !utf8.ValidString(text) {
		s := &source{program: name}
		return nil, nil, s.fail(ErrSyntax, 0, 0, "save the file as UTF-8", "the expression is not valid UTF-8 text")
	}
	s := &source{program: name, text: text, runes: []rune(text), extents: map[ast.Node]extent{}}
	depth := 0
	for i, r := range s.runes {
		switch r {
		case '(', '[', '{':
			if depth++; depth > MaxNesting {
				return nil, nil, s.fail(ErrSize, i, i+1, "leave out brackets, or name parts with let",
					"brackets are nested more than %d deep", MaxNesting)
			}
		case ')', ']', '}':
			depth--
		}
	}
	tree, err := parseTree(text)
	if err != nil {
		var fe *file.Error
		if errors.As(err, &fe) {
			from := max(min(fe.From, len(s.runes)-1), 0)
			message, hint := tokens(fe.Message, depth > 0)
			return nil, nil, s.fail(ErrSyntax, from, min(max(fe.To, from+1), max(len(s.runes), 1)), hint, "%s", message)
		}
		return nil, nil, s.fail(ErrSyntax, 0, 0, languageHint, "%v", err)
	}
	return s, tree, nil
}

// unexpected is what the parser says of a token that does not fit.
var unexpected = regexp.MustCompile(`^unexpected token (\w+)\("(.*)"\)$`)

// tokens returns the parser's message about tokens in the words of the language.
func tokens(message string, open bool) (said, hint string) {
	m := unexpected.FindStringSubmatch(message)
	switch {
	case strings.Contains(message, "token EOF") && open:
		return "the expression ends too early", "close the bracket"
	case strings.Contains(message, "token EOF"):
		return "the expression ends too early", "write what is missing after this"
	case m == nil:
		return message, languageHint
	case m[2] == "#":
		hint = "comments are // and /* */"
	case m[1] == "Identifier" || m[1] == "Number":
		hint = "an operator or a bracket is missing before it"
	default:
		hint = languageHint
	}
	return fmt.Sprintf("`%s` is not expected here", m[2]), hint
}

// parseTree runs the parser. The parser is not ours: a panic in it becomes an
// error instead of ending the process.
func parseTree(text string) (node ast.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			node, err = nil, fmt.Errorf("the expression cannot be parsed: %v", r)
		}
	}()
	config := conf.CreateNew()
	config.MaxNodes = MaxNodes
	config.DisableIfOperator = true
	for name := range functions {
		config.Functions[name] = &builtin.Function{Name: name}
	}
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		return nil, err
	}
	if tree.Node == nil {
		return nil, errors.New("the expression is empty")
	}
	return tree.Node, nil
}

// span returns the part of the text that a syntax tree covers, with the closing
// bracket of calls and lists.
func (s *source) span(n ast.Node) (from, to int) {
	w := s.cover(n, 0)
	if w.from >= w.to {
		return 0, 0
	}
	return s.balance(w.from, w.to)
}

// extent is a range of rune offsets; empty where from >= to.
type extent struct{ from, to int }

// cover returns the smallest extent around all tokens below n. Every node is visited
// once in the life of s.
func (s *source) cover(n ast.Node, depth int) extent {
	if n == nil || depth > MaxTreeDeep {
		return extent{len(s.runes), 0}
	}
	if e, ok := s.extents[n]; ok {
		return e
	}
	e := extent{len(s.runes), 0}
	if loc := n.Location(); loc.To > loc.From {
		e = extent{loc.From, loc.To}
	}
	for _, c := range children(n) {
		k := s.cover(c, depth+1)
		e = extent{min(e.from, k.from), max(e.to, k.to)}
	}
	s.extents[n] = e
	return e
}

// balance extends [from, to) until its brackets match.
func (s *source) balance(from, to int) (int, int) {
	from, to = max(from, 0), min(to, len(s.runes))
	open, missing := 0, 0
	for _, r := range s.runes[from:to] {
		switch r {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			if open--; open < 0 {
				open, missing = 0, missing+1
			}
		}
	}
	for ; missing > 0 && from > 0; from-- {
		switch s.runes[from-1] {
		case '(', '[', '{':
			missing--
		case ')', ']', '}':
			missing++
		}
	}
	for ; open > 0 && to < len(s.runes); to++ {
		switch s.runes[to] {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		}
	}
	return from, to
}

// children returns the operands of the kinds of nodes that the language has.
func children(n ast.Node) []ast.Node {
	switch t := n.(type) {
	case *ast.UnaryNode:
		return []ast.Node{t.Node}
	case *ast.BinaryNode:
		return []ast.Node{t.Left, t.Right}
	case *ast.CallNode:
		return append([]ast.Node{t.Callee}, t.Arguments...)
	case *ast.BuiltinNode:
		return t.Arguments
	case *ast.ArrayNode:
		return t.Nodes
	case *ast.ConditionalNode:
		return []ast.Node{t.Cond, t.Exp1, t.Exp2}
	case *ast.VariableDeclaratorNode:
		return []ast.Node{t.Value, t.Expr}
	case *ast.MemberNode:
		return []ast.Node{t.Node, t.Property}
	case *ast.SliceNode:
		return []ast.Node{t.Node, t.From, t.To}
	case *ast.ChainNode:
		return []ast.Node{t.Node}
	case *ast.SequenceNode:
		return t.Nodes
	case *ast.PredicateNode:
		return []ast.Node{t.Node}
	}
	return nil
}

// Unused lists those of the names that an expression does not mention, sorted. Of an
// expression that cannot be parsed, which Compile refuses, it says nothing.
func Unused(expr string, names []string) []string {
	_, tree, err := parse("", expr)
	if err != nil {
		return nil
	}
	m := mentioned{}
	ast.Walk(&tree, m)
	out := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return m[name] })
	slices.Sort(out)
	return out
}

// mentioned are the identifiers of an expression.
type mentioned map[string]bool

// Visit is ast.Visitor's.
func (m mentioned) Visit(n *ast.Node) {
	if id, ok := (*n).(*ast.IdentifierNode); ok {
		m[id.Value] = true
	}
}
