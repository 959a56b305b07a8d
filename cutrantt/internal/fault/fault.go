// Package fault puts single faults into sources, to show that tests find them. A
// fault names a file, a function in it and what it changes there, found as tokens:
// neither how a line is wrapped or commented nor what stands in another function
// matters. Only tests import it.
package fault

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/scanner"

	"github.com/hencedge/hencedge/internal/testenv"
)

// A Fault is one deliberate fault. In is the function, kernel, type, macro, variable
// or constant of File in which it lies; it is empty for assembly. The tokens of Old
// occur there exactly once; New takes their place.
type Fault struct{ What, File, In, Old, New string }

func (f Fault) String() string { return f.File + ": " + f.What }

// Wanted returns the expression that selects faults by their "file: what":
// HENCEDGE_MUTATE, where 1 selects all. It skips the test where that is not set.
func Wanted(t testing.TB) *regexp.Regexp {
	t.Helper()
	selected := os.Getenv("HENCEDGE_MUTATE")
	switch selected {
	case "":
		testenv.Missing(t, "mutate", "HENCEDGE_MUTATE is not set")
	case "1":
		selected = "."
	}
	wanted, err := regexp.Compile(selected)
	if err != nil {
		t.Fatal(err)
	}
	return wanted
}

// CheckList fails unless every fault has its own name and finds its place in the
// sources below dir.
func CheckList(t testing.TB, dir string, faults []Fault) {
	t.Helper()
	names := make(map[string]bool)
	for _, f := range faults {
		source, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.File)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Apply(source); err != nil {
			t.Error(err)
		}
		if names[f.What] {
			t.Errorf("%s: named twice", f)
		}
		names[f.What] = true
	}
}

// Apply returns source with the fault in it.
func (f Fault) Apply(source []byte) ([]byte, error) {
	old := tokens(f.Old)
	if len(old) == 0 || slices.EqualFunc(old, tokens(f.New), sameText) {
		return nil, fmt.Errorf("%s: changes nothing", f)
	}
	parts, err := f.parts(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	var from, to int
	places := make(map[int]bool) // a part may lie in another one
	for _, p := range parts {
		in := tokens(string(source[p.from:p.to]))
		for i := range len(in) - len(old) + 1 {
			if slices.EqualFunc(in[i:i+len(old)], old, sameText) {
				from, to = p.from+in[i].from, p.from+in[i+len(old)-1].to
				places[from] = true
			}
		}
	}
	if len(places) != 1 {
		return nil, fmt.Errorf("%s: %q has %d places with %q, not one", f, f.In, len(places), f.Old)
	}
	return slices.Concat(source[:from], []byte(f.New), source[to:]), nil
}

// A part is a range of offsets.
type part struct{ from, to int }

// parts returns the declarations that f.In names. Methods of different types and
// overloads may share a name.
func (f Fault) parts(source []byte) (parts []part, err error) {
	switch {
	case f.In == "" && strings.HasSuffix(f.File, ".s"):
		return []part{{0, len(source)}}, nil
	case strings.HasSuffix(f.File, ".go"):
		if parts, err = partsGo(source, f.In); err != nil {
			return nil, err
		}
	default:
		parts = partsC(source, f.In)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("declares no %q", f.In)
	}
	return parts, nil
}

// partsGo returns the top-level declarations of name in Go.
func partsGo(source []byte, name string) (parts []part, err error) {
	set := gotoken.NewFileSet()
	file, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(node ast.Node, names ...*ast.Ident) {
		if slices.ContainsFunc(names, func(n *ast.Ident) bool { return n.Name == name }) {
			parts = append(parts, part{set.Position(node.Pos()).Offset, set.Position(node.End()).Offset})
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d, d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					add(s, s.Names...)
				case *ast.TypeSpec:
					add(s, s.Name)
				}
			}
		}
	}
	return parts, nil
}

// partsC returns the functions, kernels, structures and macros of CUDA that name
// names. A kernel's name is the last argument of KERNEL.
func partsC(source []byte, name string) (parts []part) {
	all := tokens(string(source))
	is := func(i int, text string) bool { return i >= 0 && i < len(all) && all[i].text == text }
	for i, t := range all {
		body := len(all) // where its opening brace has to be
		switch {
		case t.text == name && is(i-1, "define"):
			parts = append(parts, part{t.from, lineEnd(source, t.to)})
		case t.text == name && is(i-1, "struct"):
			for body = i + 1; body < len(all) && !is(body, "{") && !is(body, ";"); body++ {
			}
		case is(i+1, "("):
			end := closing(all, i+1)
			if t.text == name || t.text == "KERNEL" && is(end-1, name) {
				for body = end + 1; is(body, "const"); body++ {
				}
			}
		}
		if end := closing(all, body); is(body, "{") && end < len(all) {
			parts = append(parts, part{t.from, all[end].to})
		}
	}
	return parts
}

// lineEnd returns the end of the line at offset at, with the lines that continue it.
func lineEnd(source []byte, at int) int {
	for ; at < len(source); at++ {
		if source[at] == '\n' && source[at-1] != '\\' {
			break
		}
	}
	return at
}

// closing returns the index of the bracket that closes the one at i, and the number
// of tokens where none does.
func closing(all []token, i int) int {
	depth := 0
	for j := i; j < len(all); j++ {
		switch all[j].text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return j
			}
		}
	}
	return len(all)
}

type token struct {
	text     string
	from, to int
}

func sameText(a, b token) bool { return a.text == b.text }

// tokens splits Go, CUDA or assembly. White space and comments are no tokens.
func tokens(source string) (list []token) {
	var s scanner.Scanner
	s.Init(strings.NewReader(source))
	s.Error = func(*scanner.Scanner, string) {} // 08 and the like still come as one token
	for s.Scan() != scanner.EOF {
		list = append(list, token{s.TokenText(), s.Position.Offset, s.Position.Offset + len(s.TokenText())})
	}
	return list
}
